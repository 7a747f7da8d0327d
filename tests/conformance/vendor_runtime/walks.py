"""Walks through the API on both libraries, and what each call answered.

The walker (walk/*.c) is built twice: for the vendor's library, on a board whose NPU is our engine,
and for the soft NPU, on this machine. A call that ends the process is left out of the next walk,
and how it ended is its answer.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from anynpu import soc
from anynpu.native.compiler import find_compiler
from anynpu.rknn import header
from anynpu.soft.cabi.build import library_folder

from .board import VendorBoard, compile_program

_SOURCES = Path(__file__).with_name("walk")
_SMALL_SOURCES = ("initialise.c", "walk.c")
_OPTIONS = ("-std=gnu11", "-Wall", "-Wextra")
LOG_LEVEL = "1"
"""Errors and warnings."""

_SECONDS = 300.0
_MOST_ENDS = 200
_LOG = re.compile(r"^([EWID]) RKNN: \[[^\]]*\] ?(.*)$")
_NOISE = (
    "not match with rknn runtime",  # the file's toolkit is newer than the runtime
    "deprecated next version",
)


@dataclass(frozen=True)
class Answer:
    """What one call gave.

    `value` is the code as a text, the signal that ended the process, or "hangs"; `notes` are what
    the walker saw afterwards; `log` is what the library wrote meanwhile, each line with its level
    first.
    """

    label: str
    value: str
    notes: tuple[str, ...] = ()
    log: tuple[str, ...] = ()

    @property
    def levels(self) -> str:
        """The levels of what was logged: E, W, both or nothing."""
        return "".join(sorted({line[0] for line in self.log if line[1:2] == " "} & {"E", "W"}))


class Side(Protocol):
    """One of the libraries."""

    def walk(
        self, section: str, models: Sequence[Path], left_out: Iterable[int]
    ) -> tuple[str, int | None]:
        """What a walk printed, and its status; None where its time was over."""


@dataclass
class _Call:
    number: int
    label: str
    value: str | None = None
    notes: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)


@dataclass
class _Walk:
    """What one model's part of a walk printed."""

    model: str
    calls: list[_Call] = field(default_factory=list)


def answers(side: Side, section: str, models: Sequence[Path]) -> dict[str, list[Answer]]:
    """Walk a section with each model, as often as calls end the process; by the models' names.

    Raises RuntimeError where something else ends it.
    """
    ends: dict[int, _Call] = {}
    while True:
        text, status = side.walk(section, models, ends)
        walks = _read(text)
        if status == 0:
            return {Path(walk.model).stem: _numbered(walk.calls, ends) for walk in walks}
        calls = [call for walk in walks for call in walk.calls]
        last = calls[-1] if calls else None
        if last is None or last.value is not None or last.number in ends or len(ends) > _MOST_ENDS:
            raise RuntimeError(f"a walk through {section} ended with {status}:\n{text[-2000:]}")
        last.value = _ending(status)
        ends[last.number] = last


def _ending(status: int | None) -> str:
    if status is None:
        return "hangs"
    return signal.Signals(-status).name if status < 0 else f"exit {status}"


def _read(text: str) -> list[_Walk]:
    walks: list[_Walk] = []
    call = _Call(-1, "")
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "@model":
            walks.append(_Walk(rest))
            call = _Call(-1, "")
        elif kind == "@call":
            number, _, label = rest.partition(" ")
            call = _Call(int(number), label)
            walks[-1].calls.append(call)
        elif kind == "@answer":
            call.value = rest
        elif kind == "@note":
            call.notes.append(rest)
        elif line and kind != "@end" and not any(noise in line for noise in _NOISE):
            match = _LOG.match(line)
            call.log.append(f"{match[1]} {match[2]}" if match else line)
    return walks


def _numbered(calls: Sequence[_Call], ends: Mapping[int, _Call]) -> list[Answer]:
    """The answers; a label that was used before gets a number."""
    found: list[Answer] = []
    seen: dict[str, int] = {}
    for call in calls:
        ended = ends.get(call.number, call)
        count = seen[call.label] = seen.get(call.label, 0) + 1
        label = f"{call.label} ({count})" if count > 1 else call.label
        found.append(Answer(label, ended.value or "", tuple(call.notes), tuple(ended.log)))
    return found


class VendorSide:
    """The vendor's library."""

    def __init__(self, board: VendorBoard, folder: Path) -> None:
        self._folder = folder
        sources, options = _parts(board.library.stem)
        output = folder / f"walk-{board.library.stem}"
        self._launch = board.launch(compile_program(sources, output, board, options))

    def walk(
        self, section: str, models: Sequence[Path], left_out: Iterable[int]
    ) -> tuple[str, int | None]:
        command = self._launch.command(_arguments(section, models, left_out))
        return _run(command, self._launch.environment(), self._folder)


class SoftSide:
    """The soft NPU."""

    def __init__(self, chip: str, folder: Path) -> None:
        self._folder = folder
        found = soc.find(chip)
        libraries = library_folder(found)
        self._environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
        self._program = folder / f"walk-soft-{chip}"
        (folder / "rknn_api.h").write_text(header.text())
        sources, options = _parts(found.library)
        files = ["-I", str(folder), "-o", str(self._program), *map(str, sources)]
        link = ["-L", str(libraries), f"-l{found.library.removeprefix('lib')}"]
        subprocess.run([*find_compiler(), *options, *files, *link], check=True)

    def walk(
        self, section: str, models: Sequence[Path], left_out: Iterable[int]
    ) -> tuple[str, int | None]:
        command = [str(self._program), *_arguments(section, models, left_out)]
        return _run(command, self._environment, self._folder)


def _parts(library: str) -> tuple[list[Path], tuple[str, ...]]:
    """The walker's files and the compiler's options for a library; the small one has a section."""
    if library == "librknnmrt":
        return [_SOURCES / name for name in _SMALL_SOURCES], (*_OPTIONS, "-DSMALL_RUNTIME")
    return sorted(_SOURCES.glob("*.c")), _OPTIONS


def _arguments(section: str, models: Sequence[Path], left_out: Iterable[int]) -> list[str]:
    return [section, ",".join(map(str, left_out)), *(str(model.resolve()) for model in models)]


def _run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> tuple[str, int | None]:
    """What a program wrote, both streams in their order, and its status."""
    with tempfile.TemporaryDirectory(dir=folder) as current:
        try:
            done = subprocess.run(
                command,
                cwd=current,
                env={**environment, "RKNN_LOG_LEVEL": LOG_LEVEL},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired as expired:
            return (expired.stdout or b"").decode("latin-1"), None
    return done.stdout.decode("latin-1"), done.returncode
