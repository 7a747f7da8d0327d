"""Where the tensor processor's nested counters put values, one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Loops:
    """Nested counters, the innermost first, each with the bytes that a step of it adds.

    A counter that reaches its count (0: never) begins anew and counts the next one on. At the end
    of a tile's row (`resets[0]`) and of a tile (`resets[1]`, `resets[2]`) the first two, three and
    four begin anew, if one of them isn't at its beginning, and count the next one on.
    """

    counts: tuple[int, ...]
    increments: tuple[int, ...]
    resets: tuple[bool, bool, bool]


class Tile(NamedTuple):
    """A part of a plane."""

    y: int
    x: int
    height: int
    width: int


@dataclass(frozen=True)
class Tiles(Sequence[Tile]):
    """The tiles of a plane of (rows, pixels), row by row: `size` of one, `steps` to the next.

    Each is cut to the plane. They are made when they are asked for.
    """

    plane: tuple[int, int]
    size: tuple[int, int]
    steps: tuple[int, int]

    def _along(self, axis: int) -> tuple[range, list[int]]:
        """Where tiles begin along an axis, and how long each is."""
        whole, size = self.plane[axis], self.size[axis]
        starts = range(0, whole, self.steps[axis])
        return starts, [min(size, whole - start) for start in starts]

    def __len__(self) -> int:
        return len(self._along(0)[0]) * len(self._along(1)[0])

    def __iter__(self) -> Iterator[Tile]:
        (rows, heights), (pixels, widths) = self._along(0), self._along(1)
        for y, height in zip(rows, heights, strict=True):
            for x, width in zip(pixels, widths, strict=True):
                yield Tile(y, x, height, width)

    @overload
    def __getitem__(self, number: int) -> Tile: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Tile]: ...

    def __getitem__(self, number: int | slice) -> Tile | Sequence[Tile]:
        return list(self)[number]

    @property
    def values(self) -> int:
        """How many values all tiles have."""
        return sum(self._along(0)[1]) * sum(self._along(1)[1])

    @property
    def sizes(self) -> set[tuple[int, int]]:
        """The (rows, pixels) that tiles have."""
        return {(h, w) for h in set(self._along(0)[1]) for w in set(self._along(1)[1])}

    def order(self) -> NDArray[np.int64]:
        """Which value of the plane comes next, tile by tile."""
        (rows, heights), (pixels, widths) = self._along(0), self._along(1)
        inner = np.arange(max(heights)), np.arange(max(widths))
        y = np.array(rows)[:, None, None, None] + inner[0][:, None]
        x = np.array(pixels)[:, None, None] + inner[1]
        values: NDArray[np.int64] = y * self.plane[1] + x
        if len(self.sizes) == 1:
            return values.ravel()
        is_there = (inner[0] < np.array(heights)[:, None])[:, None, :, None] & (
            inner[1] < np.array(widths)[:, None]
        )[:, None]
        return values[is_there]


def places(loops: Loops, tiles: Sequence[Tile], planes: int) -> NDArray[np.int64]:
    """The offset of each value, tile by tile, plane by plane."""
    if any(loops.resets):
        return _by_rows(loops, tiles, planes)
    if isinstance(tiles, Tiles):
        total = planes * tiles.values
    else:
        total = planes * sum(tile.height * tile.width for tile in tiles)
    return _offsets(loops, [0] * len(loops.counts), total)


def _free(loops: Loops) -> int:
    """The first counter without an end: those above it never move by themselves."""
    return next(number for number, count in enumerate(loops.counts) if not count)


def _offsets(loops: Loops, start: Sequence[int], total: int) -> NDArray[np.int64]:
    """Offsets of a given number of values, the counters being at `start` for the first."""
    free = _free(loops)
    index = np.arange(total, dtype=np.int64)
    index += _joined(loops, start, free)
    offsets = np.full(total, sum(map(_product, start[free + 1 :], loops.increments[free + 1 :])))
    for number in range(free):
        count = loops.counts[number]
        offsets += index % count * loops.increments[number]
        index //= count
    offsets += index * loops.increments[free]
    return offsets


def _product(a: int, b: int) -> int:
    return a * b


def _joined(loops: Loops, counters: Sequence[int], free: int) -> int:
    """Counters up to the one without an end as one number."""
    joined = counters[free]
    for number in reversed(range(free)):
        joined = joined * loops.counts[number] + counters[number]
    return joined


def _advance(loops: Loops, counters: list[int], steps: int, first: int = 0) -> None:
    """Count on, from a counter upwards."""
    for number in range(first, len(counters)):
        steps += counters[number]
        count = loops.counts[number]
        if not count:
            counters[number] = steps
            return
        steps, counters[number] = divmod(steps, count)
        if not steps:
            return


def _by_rows(loops: Loops, tiles: Sequence[Tile], planes: int) -> NDArray[np.int64]:
    counters = [0] * len(loops.counts)
    first = _plane(loops, tiles, counters)
    if planes == 1:
        return first
    moved = next((number for number, value in enumerate(counters) if value), None)
    if moved is not None and counters[moved] == 1 and not any(counters[moved + 1 :]):
        # Each plane begins where the one before did, but for a counter and those above it.
        above = Loops(loops.counts[moved:], loops.increments[moved:], loops.resets)
        begins = _offsets(above, [0] * len(above.counts), planes)
        return (begins[:, None] + first).ravel()
    return np.concatenate([first, *(_plane(loops, tiles, counters) for _ in range(planes - 1))])


def _plane(loops: Loops, tiles: Sequence[Tile], counters: list[int]) -> NDArray[np.int64]:
    """A plane's offsets; the counters go on."""
    starts: list[int] = []
    widths: list[int] = []
    odd: list[tuple[int, list[int]]] = []
    # A row that begins with the first two counters at zero and doesn't leave them is a pattern.
    room = math.prod(loops.counts[:2]) if all(loops.counts[:2]) else math.inf
    for tile in tiles:
        for row in range(tile.height):
            if counters[0] or counters[1] or tile.width > room:
                odd.append((len(starts), counters.copy()))
            starts.append(sum(map(_product, counters, loops.increments)))
            widths.append(tile.width)
            _advance(loops, counters, tile.width)
            _end_row(loops, counters, is_last=row == tile.height - 1)
    pattern = _offsets(loops, [0] * len(counters), max(widths))
    return _rows(loops, starts, widths, odd, pattern)


def _end_row(loops: Loops, counters: list[int], *, is_last: bool) -> None:
    for number, resets in enumerate(loops.resets):
        if number and not is_last:
            return
        if resets and any(counters[: number + 2]):
            counters[: number + 2] = [0] * (number + 2)
            _advance(loops, counters, 1, number + 2)


def _rows(
    loops: Loops,
    starts: Sequence[int],
    widths: Sequence[int],
    odd: Sequence[tuple[int, list[int]]],
    pattern: NDArray[np.int64],
) -> NDArray[np.int64]:
    if len(set(widths)) == 1 and not odd:
        return (np.array(starts, np.int64)[:, None] + pattern).ravel()
    special = dict(odd)
    parts = [
        _offsets(loops, special[number], width) if number in special else pattern[:width] + start
        for number, (start, width) in enumerate(zip(starts, widths, strict=True))
    ]
    return np.concatenate(parts)
