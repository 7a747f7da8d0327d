"""`anynpu soft`: the soft NPU's shared libraries for programs in other languages."""

from __future__ import annotations

import argparse
import os
from typing import Any

from .. import soc as socs
from ..errors import AnynpuError
from . import soft_driver

_SEARCH_PATH = "LD_LIBRARY_PATH"
_AUDITORS = "LD_AUDIT"
"""What glibc's loader asks where a library lies, in rtld-audit(7): also for absolute paths."""


def add_parser(commands: Any) -> None:
    """Declare the command and its subcommands."""
    parser = commands.add_parser(
        "soft",
        description="The soft NPU as the vendors' shared libraries, for programs in C and others.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    library = actions.add_parser(
        "lib",
        help="print the folder that holds librknnrt.so, or libVIPlite.so and its like",
        description="Print the folder that holds the soft NPU under the names of the vendor's "
        "libraries for the chip; it is made where it isn't there yet. The path stays valid for "
        "this environment.",
    )
    _add_soc(library)
    library.set_defaults(run=_print_folder)
    program = actions.add_parser(
        "run",
        help="run a program on the soft NPU",
        description="Run a program with the soft NPU's folder first in the loader's search path. "
        "A program that names the vendor's library by an absolute path, such as "
        "/usr/lib/librknnrt.so, gets the soft NPU as well, where the C library is glibc.",
    )
    _add_soc(program)
    program.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM ARGUMENTS")
    program.set_defaults(run=_run_program)
    soft_driver.add_parser(actions)


def _add_soc(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--soc",
        help="the chip to simulate (default: the Rockchip that a model is for); one of "
        f"Allwinner's is needed for VIPLite: {', '.join(socs.VIP_SOCS)}",
    )


def _chip(options: argparse.Namespace) -> socs.Soc | socs.VipSoc | None:
    return socs.find_any(options.soc) if options.soc else None


def _print_folder(options: argparse.Namespace) -> int:
    from ..soft.cabi.build import library_folder

    print(library_folder(_chip(options)))
    return 0


def _run_program(options: argparse.Namespace) -> int:
    command = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not command:
        raise AnynpuError("name the program: anynpu soft run -- PROGRAM ARGUMENTS")
    from ..soft.cabi.build import libraries

    library = libraries(_chip(options))[0]
    first = {_SEARCH_PATH: str(library.parent), _AUDITORS: str(library)}
    searched = {name: _before(path, os.environ.get(name)) for name, path in first.items()}
    try:
        os.execvpe(command[0], command, {**os.environ, **searched})
    except OSError as error:
        raise AnynpuError(f"{command[0]}: {error.strerror}") from None


def _before(path: str, others: str | None) -> str:
    """A list of paths as the loader takes it, with `path` first."""
    return f"{path}:{others}" if others else path
