"""The `anynpu` command; each subcommand is a module here with `add_parser`.

Only the module of the command that is called is imported, so that `anynpu --help` is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from .._version import __version__
from .help import HelpFormatter

_DESCRIPTION = "Run, measure and look into models for NPUs: on a board, or on a simulated one."
_EPILOG = (
    "`anynpu COMMAND --help` explains a command, with examples. Exit status: 0, 1 for a failure or "
    "a check that failed, 2 for wrong usage. Without a board, models run on the soft NPU, a "
    "simulated chip; ANYNPU_DEVICE=board makes that an error."
)
_COMMANDS = {
    "inspect": "show what a .rknn, .nb or .onnx file holds",
    "run": "run a model once, on pictures or arrays",
    "bench": "measure latency and throughput, or estimate the chip's",
    "profile": "show how long each layer takes",
    "compare": "compare two models or two devices, output by output",
    "doctor": "check this machine: chip, driver, library, Python packages",
    "detect": "find things in pictures, videos and a camera's view",
    "classify": "tell what pictures show",
    "read": "read the text in pictures",
    "serve": "serve models to other programs: REST, gRPC, shared memory",
    "build": "prepare an ONNX model for the soft NPU",
    "soft": "use the soft NPU from programs in other languages",
    "demo": "read a page of text on a simulated NPU",
    "cache": "show or clear what anynpu keeps",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser(given).parse_args(given)
    from .failures import reported

    try:
        status: int = reported(options)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_pipe()
        return 0
    return status


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command that is called; of the others it has the names."""
    parser = argparse.ArgumentParser(
        prog="anynpu",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"anynpu {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    called = next((word for word in arguments if not word.startswith("-")), None)
    for name, purpose in _COMMANDS.items():
        if name == called:
            import_module(f".{name}", __name__).add_parser(commands)
        else:
            commands.add_parser(name, help=purpose)
    return parser


def _close_pipe() -> None:
    """Whoever read the output has read enough: the interpreter's last flush goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
