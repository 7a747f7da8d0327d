"""`anynpu soft driver`: a board's program with the vendor's own library on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .. import soc as socs
from ..errors import AnynpuError

_DESCRIPTION = """\
Run a program of a board's on this machine, with the vendor's own library: the kernel's driver for
the NPU is simulated, and anynpu's engine computes what the library submits to it. A library that
is compiled at the first use is loaded into the program; programs for another processor run in
QEMU (qemu-user).
"""


def add_parser(actions: Any) -> None:
    """Declare the subcommand."""
    parser = actions.add_parser(
        "driver",
        help="run a board's program with the vendor's own library",
        description=_DESCRIPTION,
    )
    parser.add_argument(
        "--soc", default=socs.DEFAULT.name, help="the board's chip (default: %(default)s)"
    )
    parser.add_argument(
        "--library",
        type=Path,
        metavar="FILE",
        help="the vendor's librknnrt.so or librknnmrt.so, or a folder with it (default: what the "
        "program finds by itself)",
    )
    parser.add_argument(
        "--sysroot",
        type=Path,
        metavar="FOLDER",
        help="a folder with the C library and others for the program, such as a board's file "
        "system (default: the cross compiler's)",
    )
    parser.add_argument(
        "--driver-version",
        metavar="VERSION",
        help="the version of the kernel's driver (default: 0.9.8)",
    )
    parser.add_argument(
        "--hardware",
        type=lambda text: int(text, 0),
        metavar="WORD",
        help="the NPU's version word, such as 0x46495245 (default: the chip's, where it is known)",
    )
    parser.add_argument(
        "--machine",
        metavar="NAME",
        help="what uname says of the processor, such as aarch64 for a program of 32 bits on a "
        "kernel of 64 (default: what it says here)",
    )
    parser.add_argument(
        "--faults",
        default="",
        metavar="RULES",
        help="requests to the kernel that fail: REQUEST[@NUMBER[+]]=ERROR with commas between "
        "them, such as submit@3=ETIMEDOUT,create=ENOMEM",
    )
    parser.add_argument(
        "--log",
        metavar="FILE",
        help="write a line for each request to the kernel; - for the standard error stream",
    )
    parser.add_argument(
        "--jobs", action="store_true", help="tell on the standard error stream what is computed"
    )
    parser.add_argument(
        "--no-engine",
        action="store_true",
        help="finish jobs at once and compute nothing: outputs are what memory held",
    )
    parser.add_argument(
        "--reference", action="store_true", help="compute with the reference alone, slowly"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM ARGUMENTS")
    parser.set_defaults(run=run, extra="soft")


def run(options: argparse.Namespace) -> int:
    """Run the program; the status is the program's."""
    from contextlib import ExitStack

    from ..soft.driver import Board, Launch, Server, Settings
    from ..soft.driver.board import USUAL_DRIVER, driver_version
    from ..soft.driver.launch import find_program, wait

    command = options.program[1:] if options.program[:1] == ["--"] else options.program
    if not command:
        raise AnynpuError("name the program: anynpu soft driver -- PROGRAM ARGUMENTS")
    version = options.driver_version
    board = Board(
        socs.find(options.soc),
        driver_version(version) if version else USUAL_DRIVER,
        options.hardware,
        options.machine,
    )
    with ExitStack() as stack:
        socket = None
        if not options.no_engine:
            server = Server(
                board.soc,
                use_fast=not options.reference,
                report=_report if options.jobs else _report_problem,
            )
            socket = stack.enter_context(server).path
        settings = Settings(
            board, options.library, options.sysroot, options.faults, options.log, socket
        )
        launch = stack.enter_context(Launch(find_program(command[0]), settings))
        return wait(launch.start(command[1:]))


def _report(line: str, is_problem: bool) -> None:
    print(f"anynpu: {line}", file=sys.stderr, flush=True)


def _report_problem(line: str, is_problem: bool) -> None:
    if is_problem:
        _report(line, is_problem)
