"""Where values lie in a space, one by one, in little memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .interning import Interned


@Interned
def _held(content: bytes) -> NDArray[np.int32]:
    return np.frombuffer(content, np.int32)


def _numbers(values: NDArray[np.int64] | NDArray[np.int32]) -> NDArray[np.int32]:
    """Numbers of 32 bits, not to be written to: equal ones of many tiles are one array."""
    return _held(values.astype(np.int32).tobytes())


def _by_memory(count: int, sizes: Sequence[int]) -> list[int]:
    """Those sizes of blocks of which there are whole ones, and which save three quarters."""
    kept = {
        size: taken
        for size in sizes
        if size > 0 and not count % size and 4 * (taken := count // size + size) <= count
    }
    return sorted(kept, key=lambda size: kept[size])


def _pattern(flat: NDArray[np.int64] | NDArray[np.int32]) -> int:
    """The size of blocks at whose ends alone numbers take another step than the first one."""
    steps = np.diff(flat)
    ends = np.flatnonzero(steps != steps[0]) + 1 if steps.size else steps
    return int(np.gcd.reduce(ends, initial=flat.size))


_SHORTEST_RUN = 4
"""Numbers that are worth a loop of their own."""


class Turn(NamedTuple):
    """What becomes of numbers from `end` on: they are `size` less, once."""

    end: int
    size: int


@dataclass(frozen=True, eq=False)
class Places:
    """A number for each value: value `i` has `offset + blocks[i // size] + inside[i % size]`.

    `size` is the length of `inside`; both arrays are int32, and so is each sum. Values that follow
    one another in planes and rows have blocks that are alike, so that a table of every number isn't
    kept. With a `turn`, what a number becomes is what counts. What is known of them is kept for
    all that are `shifted`.
    """

    blocks: NDArray[np.int32]
    inside: NDArray[np.int32]
    offset: int = 0
    turn: Turn | None = None
    _known: dict[int, bool] = field(default_factory=dict, repr=False)
    _extent: list[tuple[int, int]] = field(default_factory=list, repr=False)

    @classmethod
    def of(cls, numbers: NDArray[np.int64] | NDArray[np.int32], *sizes: int) -> Places:
        """Numbers of 32 bits in blocks of one of the sizes, in what takes least memory.

        They are one block where no size makes all blocks alike, or saves three quarters.
        """
        flat = numbers.ravel()
        # Small blocks save little, and take a kernel long.
        for size in _by_memory(flat.size, sizes):
            if (alike := cls._of_blocks(flat, size)) is not None:
                return alike
        for size in _by_memory(flat.size, (_pattern(flat),)):
            if (alike := cls._of_blocks(flat, size)) is not None:
                return alike
        return cls(np.zeros(1, np.int32), _numbers(flat))

    @classmethod
    def of_planes(cls, numbers: NDArray[np.int64] | NDArray[np.int32], size: int) -> Places:
        """The same in blocks of that size where they are alike, else in one."""
        flat = numbers.ravel()
        alike = cls._of_blocks(flat, size)
        return cls(np.zeros(1, np.int32), _numbers(flat)) if alike is None else alike

    @classmethod
    def _of_blocks(cls, flat: NDArray[np.int64] | NDArray[np.int32], size: int) -> Places | None:
        """The numbers in blocks of a size; None where these aren't alike."""
        rows = flat.reshape(-1, size)
        steps = rows[0] - rows[0, 0]
        # The last row alone tells most sizes apart, without a look at the others.
        if (rows[-1] - rows[-1, 0] == steps).all() and (rows - rows[:, :1] == steps).all():
            return cls(_numbers(rows[:, 0]), _numbers(steps))
        return None

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.blocks.size * self.inside.size

    @property
    def extent(self) -> tuple[int, int]:
        """The least number and the largest one; raises `ValueError` where there is no value."""
        if not self._extent:
            self._extent.append(self._ends())
        low, high = self._extent[0]
        return self.offset + low, self.offset + high

    def _ends(self) -> tuple[int, int]:
        """The same without the offset."""
        if self.turn is not None:
            numbers = self.numbers()
            return int(numbers.min()) - self.offset, int(numbers.max()) - self.offset
        return (
            int(self.blocks.min()) + int(self.inside.min()),
            int(self.blocks.max()) + int(self.inside.max()),
        )

    def numbers(self) -> NDArray[np.int32]:
        """Each value's number: a new array."""
        every: NDArray[np.int32] = (self.blocks + np.int32(self.offset))[:, None] + self.inside
        if self.turn is not None:
            every -= (every >= self.turn.end) * np.int32(self.turn.size)
        return every.ravel()

    def shifted(self, by: int) -> Places:
        """Each number and `by`, on the same arrays."""
        turn = None if self.turn is None else Turn(self.turn.end + by, self.turn.size)
        offset = self.offset + by
        return Places(self.blocks, self.inside, offset, turn, self._known, self._extent)

    def turned(self, end: int, size: int) -> Places | None:
        """The same in a circular buffer, on the same arrays; None for more than one round."""
        if self.turn is not None or self.extent[1] >= end + size:
            return None
        return Places(self.blocks, self.inside, self.offset, Turn(end, size))

    @property
    def run(self) -> tuple[int, int]:
        """How many numbers of a block follow one another in the same steps, and the step.

        A block is whole runs of them.
        """
        if self.inside.size < _SHORTEST_RUN:
            return 1, 0
        size = _pattern(self.inside)
        return (size, int(self.inside[1] - self.inside[0])) if size >= _SHORTEST_RUN else (1, 0)

    def are_apart(self, item: int) -> bool:
        """Whether no byte of `item` bytes from each number on is another number's."""
        if item not in self._known:
            low, high = self.extent
            marks = np.zeros(high - low + item, np.bool_)
            numbers = self.numbers() - np.int32(low)
            for byte in range(item):
                marks[numbers + np.int32(byte)] = True
            self._known[item] = int(np.count_nonzero(marks)) == self.size * item
        return self._known[item]
