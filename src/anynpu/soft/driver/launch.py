"""Run a program with the driver's library loaded into it, and the engine as its NPU."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import LibraryError
from . import architecture, build
from .board import Board
from .faults import for_driver

_PREFIX = "ANYNPU_DRIVER_"
_SEARCH_PATH = "LD_LIBRARY_PATH"
_UCLIBC = b"libc.so.0\0"


@dataclass(frozen=True)
class Settings:
    """How a program finds its board.

    `library` is the vendor's runtime, or a folder with it, None for what the program finds by
    itself. `sysroot` has the program's C library and others, None for the cross compiler's.
    `faults` are rules as `anynpu.soft.driver.faults` has them. `log` gets a line for each request
    to the kernel: a path, or - for the standard error stream. `socket` is where the engine
    listens, None for an NPU that finishes every job and computes nothing. `environment` is added
    to the program's.
    """

    board: Board
    library: Path | None = None
    sysroot: Path | None = None
    faults: str = ""
    log: str | None = None
    socket: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class Launch:
    """A program that can be run any number of times; `close` removes the files made for it.

    Raises `LibraryError` where the driver's library can't be built for the program, where nothing
    runs it here, and for a library of another architecture.
    """

    def __init__(self, program: Path, settings: Settings) -> None:
        self.architecture = architecture.of_file(program)
        self._settings = settings
        self._program = program
        self._emulation = self._emulate()
        self._preload = build.driver(self.architecture)
        self._folder = tempfile.TemporaryDirectory(prefix="anynpu-board-")
        try:
            self._root = Path(self._folder.name) / "root"
            settings.board.write_files(self._root)
            self._libraries = self._find_libraries()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files that stand for the board's."""
        self._folder.cleanup()

    def command(
        self, arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> list[str]:
        """What to execute: the program itself, or QEMU with it; `variables` are for the program."""
        whole = [str(self._program), *arguments]
        if not self._emulation:
            return whole
        # QEMU itself must not load what is for the program.
        given = {**self._variables(), **(variables or {})}
        options = [part for name, value in given.items() for part in ("-E", f"{name}={value}")]
        return [*self._emulation, *options, *whole]

    def environment(self, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment for that command."""
        own = {} if self._emulation else {**self._variables(), **(variables or {})}
        return {**os.environ, **own}

    def start(self, arguments: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start it on this process's own streams."""
        return subprocess.Popen(self.command(arguments), env=self.environment())

    def run(
        self,
        arguments: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end; its two streams are one, in the order of what was written."""
        return subprocess.run(
            self.command(arguments, variables),
            env=self.environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=timeout,
        )

    def _emulate(self) -> list[str]:
        command = self.architecture.emulation()
        if not command:
            return []
        root = self._settings.sysroot or self.architecture.libraries
        if root is None:
            raise LibraryError(
                f"{self._program} is for {self.architecture.name}, whose C library isn't here; "
                f"name a folder that has it with --sysroot, or install the compiler's, for "
                f"example with `apt install {self.architecture.package}`"
            )
        return [*command, "-L", str(root)]

    def _variables(self) -> dict[str, str]:
        settings = self._settings
        own = {**settings.board.environment(), "ROOT": str(self._root)}
        if settings.faults:
            own["FAULTS"] = for_driver(settings.faults)
        if settings.log:
            own["LOG"] = settings.log
        if settings.socket:
            own["SOCKET"] = str(settings.socket)
        variables = {f"{_PREFIX}{name}": value for name, value in own.items()}
        variables["LD_PRELOAD"] = str(self._preload)
        given = settings.environment.get(_SEARCH_PATH) or os.environ.get(_SEARCH_PATH)
        if folders := [*map(str, self._libraries), *([given] if given else [])]:
            variables[_SEARCH_PATH] = ":".join(folders)
        return {**settings.environment, **variables}

    def _find_libraries(self) -> list[Path]:
        """Folders in which the program finds the vendor's library, and what that one needs."""
        library = self._settings.library
        if library is None:
            return []
        if library.is_dir():
            return [library.resolve()]
        found = architecture.of_file(library)
        if found is not self.architecture:
            raise LibraryError(
                f"{library} is for {found.name}, but {self._program} for {self.architecture.name}"
            )
        folder = Path(self._folder.name) / "library"
        folder.mkdir()
        (folder / f"{self._settings.board.soc.library}.so").symlink_to(library.resolve())
        # The small chips' library is linked to uClibc, programs for test machines are to glibc.
        if _UCLIBC in library.read_bytes():
            (folder / _UCLIBC.rstrip(b"\0").decode()).symlink_to(build.uclibc(self.architecture))
        return [folder]


def find_program(name: str) -> Path:
    """The file that a shell would run; raises `LibraryError` where there is none."""
    found = shutil.which(name)
    if found is None and Path(name).is_file():
        # It needs no permission to be executed: QEMU reads it.
        found = name
    if found is None:
        raise LibraryError(f"{name}: no such program")
    return Path(found)


def wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a program, hand it the signals that this process gets; its status as a shell's."""
    handed = (signal.SIGTERM, signal.SIGHUP)
    before = {
        number: signal.signal(number, lambda n, _: process.send_signal(n)) for number in handed
    }
    # A terminal sends it to the program as well.
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        status = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status
