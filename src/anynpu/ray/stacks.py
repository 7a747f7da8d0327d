"""Frames in stacks, and results out of them: a call for each frame would cost more than the NPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..feeds import Feed

FEWEST, MOST = 8, 64
"""Frames in a stack, by their size."""
_BYTES = 4 * 2**20
"""What a stack has about, within these bounds."""


@dataclass(frozen=True)
class Stack:
    """The feeds of some frames after one another: each array has one axis more, the first.

    `arrays` is a dict, a list or an array, as the feeds are.
    """

    arrays: Any
    count: int

    def feeds(self) -> Iterator[Feed]:
        """The feeds, as views."""
        for place in range(self.count):
            if isinstance(self.arrays, Mapping):
                yield {name: array[place] for name, array in self.arrays.items()}
            elif isinstance(self.arrays, list):
                yield [array[place] for array in self.arrays]
            else:
                yield self.arrays[place]


def stacked(feeds: Iterable[Feed], size: int | None) -> Iterator[Stack]:
    """Stacks of `size` feeds, or by their size in bytes; the feeds are copied.

    Feeds of another kind, other shapes or dtypes than the one before begin a new stack.
    """
    pending: list[tuple[Any, list[NDArray[Any]]]] = []
    most = kind = None
    for feed in feeds:
        keys, arrays = _taken_apart(feed)
        found = (keys, tuple((array.shape, array.dtype) for array in arrays))
        if pending and (found != kind or len(pending) == most):
            yield _made(pending)
            pending = []
        if not pending:
            kind, most = found, size or _fitting(arrays)
        pending.append((keys, arrays))
    if pending:
        yield _made(pending)


def together(results: Sequence[Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
    """Several frames' results as one array for each output; a copy."""
    return [np.stack(arrays) for arrays in zip(*results, strict=True)]


def apart(arrays: Sequence[NDArray[Any]]) -> Iterator[list[NDArray[Any]]]:
    """What `together` joined, as arrays that nobody else has."""
    for place in range(len(arrays[0])):
        yield [np.array(array[place]) for array in arrays]


def _taken_apart(feed: Feed) -> tuple[Any, list[NDArray[Any]]]:
    """(what kind of feed it is, its arrays)."""
    if isinstance(feed, Mapping):
        return tuple(feed), [np.asarray(value) for value in feed.values()]
    if isinstance(feed, (list, tuple)) and any(isinstance(each, np.ndarray) for each in feed):
        return len(feed), [np.asarray(value) for value in feed]
    return None, [np.asarray(feed)]


def _made(pending: Sequence[tuple[Any, list[NDArray[Any]]]]) -> Stack:
    keys = pending[0][0]
    arrays = together([arrays for _, arrays in pending])
    if isinstance(keys, tuple):
        return Stack(dict(zip(keys, arrays, strict=True)), len(pending))
    return Stack(arrays[0] if keys is None else arrays, len(pending))


def _fitting(arrays: Sequence[NDArray[Any]]) -> int:
    size = max(sum(array.nbytes for array in arrays), 1)
    return min(max(_BYTES // size, FEWEST), MOST)
