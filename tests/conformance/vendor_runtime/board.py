"""Programs on a board with the vendor's library: C programs, and Python with this package."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu import soc
from anynpu.rknn import header
from anynpu.soft.driver import Board, Launch, Server, Settings, architecture

from . import sysroot, vendor

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).with_name("programs")
_GENERATED = {"rknn_api.h": header.text}
_PYTHON_PACKAGES = ("usr/lib/python3/dist-packages",)


@dataclass(frozen=True)
class Outcome:
    """What a function did on the board.

    `values` is what it returned, by name. `error` is the exception that it raised, as
    "Type: message", or empty. `log` is what the library and others wrote, line by line. `status`
    is the process's: negative where a signal ended it.
    """

    values: Mapping[str, NDArray[Any]]
    error: str
    log: tuple[str, ...]
    status: int

    @property
    def complaints(self) -> list[str]:
        """The library's lines about errors."""
        return [line for line in self.log if line.startswith("E RKNN")]

    def text(self, name: str) -> str:
        """A value that is no number."""
        return str(self.values[name])


class VendorBoard:
    """A board of a chip with the vendor's library, and our engine as the NPU.

    `computes` False leaves memory as it is. `machine` is what uname says of the processor: a
    kernel of 64 bits says aarch64 to programs of 32 as well. `environment` is for all programs.
    As a context manager it ends the engine.
    """

    def __init__(
        self,
        chip: str = "rk3588",
        *,
        computes: bool = True,
        machine: str | None = None,
        driver: tuple[int, int, int] = (0, 9, 8),
        faults: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        vendor.check_tools()
        found = soc.find(chip)
        self.library = vendor.library(f"{found.library}.so")
        self.reports: list[str] = []
        self._board = Board(found, driver, machine=machine)
        self._faults = faults
        self._environment = dict(environment or {})
        self._stack = ExitStack()
        self._socket: Path | None = None
        if computes:
            server = Server(self._board.soc, report=self._note)
            self._socket = self._stack.enter_context(server).path

    def __enter__(self) -> VendorBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def launch(
        self,
        program: Path,
        root: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Launch:
        """A program that can be run; it is closed with the board."""
        settings = Settings(
            self._board,
            self.library,
            root,
            self._faults,
            socket=self._socket,
            environment={**self._environment, **(environment or {})},
        )
        return self._stack.enter_context(Launch(program, settings))

    def _note(self, line: str, is_problem: bool) -> None:
        if is_problem:
            self.reports.append(line)


class BoardPython:
    """This package in a 32-bit Python on a board.

    `call` runs a function of a module in a process of its own; the module imports NumPy and anynpu
    and nothing that the board lacks. `close` ends the process that waits for calls.
    """

    def __init__(self, board: VendorBoard, cache: Path) -> None:
        interpreter = sysroot.python()
        root = sysroot.SYSROOT
        path = [REPOSITORY / "src", REPOSITORY, *(root / name for name in _PYTHON_PACKAGES)]
        self._process: subprocess.Popen[bytes] | None = None
        self._launch = board.launch(
            interpreter,
            root,
            {
                "PYTHONHOME": str(root / "usr"),
                "PYTHONPATH": ":".join(map(str, path)),
                "PYTHONDONTWRITEBYTECODE": "",
                "PYTHONPYCACHEPREFIX": str(root / "pycache"),
                "LD_LIBRARY_PATH": ":".join(map(str, sysroot.library_folders())),
                "ANYNPU_RKNN_LIBRARY": str(board.library),
                "ANYNPU_DEVICE": "board",
                "ANYNPU_CACHE": str(cache),
                "CC": architecture.find("armhf").compiler()[0],
            },
        )

    def close(self) -> None:
        """End the process."""
        if self._process and self._process.stdin and self._process.stdout:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()
        self._process = None

    def call(
        self,
        function: Callable[..., Mapping[str, Any]],
        *arguments: Any,
        environment: Mapping[str, str] | None = None,
        seconds: float = 300,
    ) -> Outcome:
        """What a function gives for arguments that JSON can say; paths become texts.

        `environment` is what the child's is besides, before it loads the library.
        """
        with tempfile.TemporaryDirectory() as folder:
            output, log = Path(folder) / "values.npz", Path(folder) / "log"
            call = {
                "module": function.__module__,
                "function": function.__qualname__,
                "arguments": [str(a) if isinstance(a, Path) else a for a in arguments],
                "environment": dict(environment or {}),
                "seconds": seconds,
                "values": str(output),
                "log": str(log),
            }
            status = self._ask(json.dumps(call))
            text = log.read_bytes().decode("utf-8", "replace") if log.is_file() else ""
            lines = tuple(text.splitlines())
            if not output.is_file():
                return Outcome({}, f"the process ended with {status}", lines, status)
            with np.load(output) as values:
                found = dict(values)
        error = str(found.pop("!", ""))
        return Outcome(found, error, lines, status)

    def _ask(self, line: str) -> int:
        if self._process is None:
            command = self._launch.command(["-m", f"{__package__}.call"])
            self._process = subprocess.Popen(
                command,
                env=self._launch.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            self._process = None
            raise RuntimeError(f"the board's Python ended with {process.wait()}")
        return int(answer)


def compile_program(
    sources: Path | Sequence[Path],
    output: Path,
    board: VendorBoard,
    options: Sequence[str] = ("-std=gnu11", "-Wall", "-Wextra"),
) -> Path:
    """A program of ours for the board, linked to the vendor's library; C++ by its suffix."""
    sources = [sources] if isinstance(sources, Path) else sources
    compiler = architecture.find("armhf").compiler()
    if any(source.suffix != ".c" for source in sources):
        compiler = [compiler[0].replace("gcc", "g++"), *compiler[1:]]
    for name, text in _GENERATED.items():
        (output.parent / name).write_text(text())
    files = ["-I", str(output.parent), "-o", str(output), *map(str, sources), str(board.library)]
    # What the library needs besides is found when it runs.
    link = ["-Wl,--allow-shlib-undefined", "-lpthread"]
    subprocess.run([*compiler, *options, *files, *link], check=True)
    return output
