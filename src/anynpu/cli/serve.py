"""`anynpu serve`: models for other programs, by the Open Inference Protocol."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from . import device, extras
from .help import HelpFormatter

if TYPE_CHECKING:
    from ..serving.server import Server
    from ..serving.settings import ServeSettings

_EPILOG = """\
examples:
  anynpu serve yolov8n.rknn
  anynpu serve detector=yolov8n.rknn reader=rec.rknn --log text
  anynpu serve --config server.toml
  anynpu serve yolov8n.rknn --http 0.0.0.0:8000 --grpc 0.0.0.0:8001 --token-file tokens
  anynpu serve yolov8n.rknn --zmq tcp://127.0.0.1:5555      # for Frigate
"""


def add_parser(commands: Any) -> None:
    """Declare the command; the options are the settings'."""
    from ..serving.settings import option_fields

    parser = commands.add_parser(
        "serve",
        description="Serve models to other programs by the Open Inference Protocol v2, which "
        "KServe's, Triton's and others' clients speak: REST, gRPC and shared memory. Requests "
        "name a model by its file's stem, or as NAME=PATH says.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="a file, or NAME=PATH")
    parser.add_argument("--config", metavar="FILE", help="a TOML file with these options")
    device.add_arguments(parser)
    for entry in option_fields():
        flag = f"--{entry.name.replace('_', '-')}"
        text = entry.metadata["help"]
        if isinstance(entry.default, bool):
            parser.add_argument(flag, action="store_true", default=None, help=text)
        else:
            shown = f"{text} (default: {entry.default})" if entry.default != "" else text
            parser.add_argument(
                flag,
                type=type(entry.default),
                metavar=entry.metadata["metavar"],
                help=shown.replace("%", "%%"),
            )
    parser.set_defaults(run=run, needs=("serve",))


def run(options: argparse.Namespace) -> int:
    """Serve until a signal; 0, or 1 where a device hung to the end."""
    extras.require("serve")
    settings = settings_of(options)
    device.apply(options)
    from ..serving.allocation import keep_freed_memory
    from ..serving.server import serve

    keep_freed_memory()
    if not asyncio.run(serve(settings, _say)):
        print("anynpu: a device doesn't end what it was given; it is left", file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)  # an orderly end would wait for the device
    return 0


def settings_of(options: argparse.Namespace) -> ServeSettings:
    """The settings of a TOML file and the arguments, which are above it."""
    from ..serving.settings import ServeSettings, named_model, option_fields, read_toml

    values = read_toml(options.config) if options.config else {}
    for entry in option_fields():
        given = getattr(options, entry.name)
        if given is not None:
            values[entry.name] = given
    library = {"library": options.library} if options.library else {}
    named = tuple(named_model(text, library) for text in options.models)
    values["models"] = (*values.get("models", ()), *named)
    return ServeSettings(**values)


def _say(server: Server) -> None:
    """What is served, and where: once it is."""
    for name, served in server.models.served.items():
        opened = served.current
        if opened is not None and not opened.has_open_sizes:
            print(f"{name}: {device.device_of(opened.session)}")
        else:
            print(f"{name}: {served.settings.path}")
    print("serving on", ", ".join(server.addresses.values()), flush=True)
