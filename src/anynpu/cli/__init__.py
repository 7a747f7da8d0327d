"""The `anynpu` command; each subcommand is a module here with `add_parser` and `run`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .._version import __version__
from ..errors import AnynpuError
from . import build, cache, demo, inspect, soft

_COMMANDS = (build, inspect, demo, soft, cache)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit status: 0, 1 for a failure, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="anynpu", description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=f"anynpu {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
    except (AnynpuError, OSError) as error:
        print(f"anynpu: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        extra = getattr(options, "extra", "demo")
        print(f"anynpu: {error}; `pip install 'anynpu[{extra}]'` brings it", file=sys.stderr)
        return 1
    return status
