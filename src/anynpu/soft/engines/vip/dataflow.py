"""Whose results each operation reads, by the bytes of memory that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...formats.nbg.model import Source
from .memory import MemoryMap, Scattered, Space, Window
from .tasks import Task
from .written import at, put

_NOBODY = 0


@dataclass(frozen=True)
class Dataflow:
    """Who wrote what is read: tasks by their place, network inputs as -1, -2 and so on.

    `reads` has an entry for each task, `outputs` one for each network output. Constants and
    coefficients, which nobody writes, aren't in it.
    """

    reads: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]


def dataflow(layout: MemoryMap, tasks: Sequence[Task]) -> Dataflow:
    """Follow tasks in their order: the last writer of each byte is who gave it."""
    spaces = list(layout.spaces())
    inputs = [space for space, _ in spaces if space.source is Source.INPUT]
    writers = {
        space: np.full(
            size, space.number + 1 if space.source is Source.INPUT else _NOBODY, np.int32
        )
        for space, size in spaces
    }
    first = len(inputs) + 1
    reads = []
    for number, task in enumerate(tasks):
        reads.append(_sources(writers, task.reads(), first))
        for target in task.writes():
            put(writers[target.space], target, number + first)
    outputs = [
        _named(writers[space], first) for space, _ in spaces if space.source is Source.OUTPUT
    ]
    return Dataflow(tuple(reads), tuple(outputs))


def _sources(
    writers: dict[Space, NDArray[np.int32]], windows: Iterable[Window | Scattered], first: int
) -> tuple[int, ...]:
    found: set[int] = set()
    for window in windows:
        if isinstance(window, Window):
            found.update(_named(at(writers[window.space], window), first))
    return tuple(sorted(found))


def _named(writers: NDArray[np.int32], first: int) -> tuple[int, ...]:
    """Counted, not sorted: a picture has millions of bytes and a network thousands of tasks."""
    there = np.flatnonzero(np.bincount(writers.ravel()))
    return tuple(
        number - first if number >= first else -number
        for number in there.tolist()
        if number != _NOBODY
    )
