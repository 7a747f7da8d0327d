"""Where commands read and write: spaces, circular buffers, and views of their bytes.

An address is a byte of a space. All spaces that change lie in one array, a context's own; a blob of
coefficients lies where the file has it. What is touched is always told by a `Window`: the decoder
gives it to `MemoryMap.check`, whoever reads or writes gives it to `Memory`, which checks it again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...formats.nbg.model import Executable, Nbg, Source
from .places import Places
from .refusal import Refusal, Unknown

_ALIGNMENT = 256
"""Bytes at whose multiples spaces begin; a driver allocates no smaller pieces."""

VIP_SRAM_SIZE = 512 << 10
"""Bytes of on-chip memory that all chips have; files say how much of it they use otherwise."""

_LARGEST = (1 << 31) - 1
_MOST = 1 << 22
"""Bytes of a window that has some of them several times, which takes no room in its space."""

_TITLES = {
    Source.INPUT: "network input",
    Source.OUTPUT: "network output",
    Source.POOL: "the memory pool",
    Source.COEFFICIENTS: "coefficient blob",
    Source.CONSTANTS: "constant",
    Source.VIP_SRAM: "the VIP SRAM",
}
_SINGLE = (Source.POOL, Source.VIP_SRAM)
_SAME = {Source.POOL_TOO: Source.POOL, Source.CONSTANTS_WRITTEN: Source.CONSTANTS}


class Space(NamedTuple):
    """A memory of its own: what it is, and the number among those of its kind."""

    source: Source
    number: int = 0

    def __str__(self) -> str:
        title = _TITLES[self.source]
        return title if self.source in _SINGLE else f"{title} {self.number}"


@lru_cache(maxsize=256)
def space_of(source: int, index: int) -> Space:
    """The space that a patch names; raises `Unknown` for a source that isn't known."""
    try:
        known = Source(source)
    except ValueError:
        raise Unknown(f"an address in memory of kind {source} has no known meaning") from None
    known = _SAME.get(known, known)
    if known not in _TITLES:
        raise Unknown(f"an address in memory of kind {source} has no known meaning")
    return Space(known, 0 if known in _SINGLE else index)


@dataclass(frozen=True, slots=True)
class Circle:
    """A circular buffer: addresses from `end` on are `size` bytes lower, as often as need be."""

    end: int
    size: int


@dataclass(frozen=True, slots=True)
class Window:
    """An array of bytes in a space, `strides` apart; it may go round a circular buffer."""

    space: Space
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    circle: Circle | None = None

    @property
    def extent(self) -> tuple[int, int]:
        """The first byte and the one past the last, as if there were no circle."""
        low = high = self.offset
        for size, stride in zip(self.shape, self.strides, strict=True):
            if not size:
                return self.offset, self.offset
            if stride > 0:
                high += (size - 1) * stride
            else:
                low += (size - 1) * stride
        return low, high + 1

    @property
    def wraps(self) -> bool:
        """Whether some byte lies past the end of the circular buffer."""
        return self.circle is not None and self.extent[1] > self.circle.end

    def pieces(self) -> Iterator[tuple[tuple[slice, ...], Window]]:
        """Parts that don't wrap, in the order of elements: where each lies in the array, and it."""
        if not self.wraps:
            yield (), Window(self.space, self.offset, self.shape, self.strides)
            return
        yield from self._pieces(0, self.offset, ())

    def _pieces(
        self, axis: int, offset: int, place: tuple[slice, ...]
    ) -> Iterator[tuple[tuple[slice, ...], Window]]:
        """The same of what has the places `place` on the axes before, and begins at `offset`."""
        circle, stride = self.circle, self.strides[axis]
        assert circle is not None, "it wraps"
        shape, strides = self.shape[axis + 1 :], self.strides[axis + 1 :]
        low, high = Window(self.space, offset, shape, strides).extent
        begins = np.arange(self.shape[axis], dtype=np.int64) * stride
        first = np.maximum(0, (low + begins - circle.end) // circle.size + 1)
        last = np.maximum(0, (high - 1 + begins - circle.end) // circle.size + 1)
        # Those that go as often round as the one before belong to its piece.
        changes = np.flatnonzero((first[1:] != first[:-1]) | (last[1:] != first[1:])) + 1
        bounds = [0, *changes.tolist(), self.shape[axis]]
        for start, end in pairwise(bounds):
            begin = offset + start * stride
            if first[start] == last[start]:
                yield (
                    (*place, slice(start, end)),
                    Window(
                        self.space,
                        begin - int(first[start]) * circle.size,
                        (1,) * axis + (end - start, *shape),
                        (0,) * axis + (stride, *strides),
                    ),
                )
            else:
                for number in range(start, end):
                    here = (*place, slice(number, number + 1))
                    yield from self._pieces(axis + 1, offset + number * stride, here)

    def offsets(self) -> NDArray[np.int64]:
        """Each element's byte in the space."""
        offsets = np.full(self.shape, self.offset, np.int64)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            steps = np.arange(size, dtype=np.int64) * stride
            offsets += steps.reshape((-1,) + (1,) * (len(self.shape) - axis - 1))
        return wrapped(offsets, self.circle)


@dataclass(frozen=True, eq=False)
class Scattered:
    """Values of `item` bytes in a space, each at a byte of its own; circles are resolved."""

    space: Space
    places: Places
    item: int

    @property
    def extent(self) -> tuple[int, int]:
        """The first byte and the one past the last."""
        if not self.places.size:
            return 0, 0
        low, high = self.places.extent
        return low, high + self.item

    @property
    def is_solid(self) -> bool:
        """Whether there is a byte of a value everywhere from the first to the last."""
        low, high = self.extent
        return self.places.size * self.item == high - low and self.places.are_apart(self.item)


def wrapped(offsets: NDArray[np.int64], circle: Circle | None) -> NDArray[np.int64]:
    """Addresses where a circular buffer has them."""
    if circle is None or not offsets.size or (highest := int(offsets.max())) < circle.end:
        return offsets
    if highest < circle.end + circle.size:
        once: NDArray[np.int64] = offsets - (offsets >= circle.end) * np.int64(circle.size)
        return once
    rounds = np.maximum(0, (offsets - circle.end) // circle.size + 1)
    inside: NDArray[np.int64] = offsets - rounds * circle.size
    return inside


class MemoryMap:
    """Which spaces a file has, and where each of them begins in a context's array.

    `blobs` are the coefficients, which nobody writes. `size` is what a context's array takes.
    Raises `Refusal` for a space of 2 GiB and more: kernels have places in 32 bits.
    """

    def __init__(self, model: Nbg, executable: Executable) -> None:
        self.blobs = executable.coefficients
        self.constants = executable.constants
        self._places: dict[Space, tuple[int, int]] = {}
        self._given: tuple[int, NDArray[np.uint8]] | None = None
        self.size = 0
        sizes = [
            *((Space(Source.INPUT, i), tensor.size) for i, tensor in enumerate(model.inputs)),
            *((Space(Source.OUTPUT, i), tensor.size) for i, tensor in enumerate(model.outputs)),
            *((Space(Source.CONSTANTS, i), data.size) for i, data in enumerate(self.constants)),
            (Space(Source.VIP_SRAM), max(model.vip_sram_size, VIP_SRAM_SIZE)),
            (Space(Source.POOL), model.memory_pool_size),
        ]
        for space, size in sizes:
            if size > _LARGEST:
                raise Refusal(f"{space} of {size} bytes is larger than {_LARGEST}")
            self._places[space] = self.size, size
            self.size += -(-size // _ALIGNMENT) * _ALIGNMENT

    def spaces(self) -> Iterator[tuple[Space, int]]:
        """All spaces that change, and how many bytes each has."""
        for space, (_, size) in self._places.items():
            yield space, size

    def place(self, space: Space) -> tuple[int, int]:
        """Where a space begins in a context's array, and how many bytes it has."""
        try:
            return self._places[space]
        except KeyError:
            raise Unknown(f"there is no {space} that an address could point into") from None

    def blob(self, space: Space) -> NDArray[np.uint8]:
        """The bytes of a blob of coefficients."""
        if space.source is not Source.COEFFICIENTS or not 0 <= space.number < len(self.blobs):
            raise Unknown(f"{space} isn't one of the file's {len(self.blobs)} coefficient blobs")
        return self.blobs[space.number]

    def check(self, window: Window | Scattered) -> None:
        """Raise `Unknown` if a window leaves the space that it lies in, or has it many times."""
        _, size = self.place(window.space)
        check_extent(window, size)
        if isinstance(window, Window) and (count := math.prod(window.shape)) > max(size, _MOST):
            raise Unknown(f"{count} bytes of {window.space} are used, which has {size}")

    def without_file(self) -> MemoryMap:
        """The same without a byte of the file, which may then go: constants are copied, as one."""
        kept = copy(self)
        kept.blobs = kept.constants = ()
        kept._given = self._joined_constants()
        return kept

    def _joined_constants(self) -> tuple[int, NDArray[np.uint8]]:
        """Where constants begin in a context's array, and all bytes from there to their end."""
        places = [
            place for space, place in self._places.items() if space.source is Source.CONSTANTS
        ]
        start = places[0][0] if places else 0
        joined = np.zeros(places[-1][0] + places[-1][1] - start if places else 0, np.uint8)
        for (first, size), data in zip(places, self.constants, strict=True):
            joined[first - start : first - start + size] = data
        return start, joined

    def new(self) -> NDArray[np.uint8]:
        """A context's array, with the file's constants in it."""
        array = np.zeros(self.size, np.uint8)
        start, given = self._given or self._joined_constants()
        array[start : start + given.size] = given
        return array


def check_extent(window: Window | Scattered, size: int) -> None:
    """Raise `Unknown` if a window leaves its space of a given number of bytes."""
    low, high = window.extent
    if isinstance(window, Window) and window.circle is not None and high > window.circle.end:
        circle = window.circle
        low, high = min(low, circle.end - circle.size), circle.end
        if circle.size <= 0:
            raise Unknown(f"a circular buffer of {circle.size} bytes in {window.space}")
    if low < 0 or high > size:
        raise Unknown(f"bytes {low} to {high} of {window.space} are used, which has {size}")


class Memory:
    """One context's bytes. One thread at a time.

    `queues` are what a stream processor's program leaves for the next command, by register.
    """

    def __init__(self, layout: MemoryMap, array: NDArray[np.uint8] | None = None) -> None:
        self.layout = layout
        self.array = layout.new() if array is None else array
        self.queues: dict[int, NDArray[np.float32]] = {}
        self._queue_values: NDArray[np.float32] | None = None

    def space(self, space: Space) -> NDArray[np.uint8]:
        """A space's bytes, in place."""
        start, size = self.layout.place(space)
        return self.array[start : start + size]

    def read(self, window: Window) -> NDArray[np.uint8]:
        """The bytes of a window: a view that isn't to be written to, or a copy."""
        content = self.space(window.space)
        check_extent(window, content.size)
        if 0 in window.shape:
            return np.empty(window.shape, np.uint8)
        if window.wraps:
            taken = np.empty(window.shape, np.uint8)
            for place, piece in window.pieces():
                taken[place] = self.read(piece)
            return taken
        view: NDArray[np.uint8] = np.lib.stride_tricks.as_strided(
            content[window.offset :], window.shape, window.strides, writeable=False
        )
        return view

    def write(self, window: Window, values: NDArray[np.uint8]) -> None:
        """Store the bytes of a window, in its order where places are the same."""
        content = self.space(window.space)
        check_extent(window, content.size)
        if window.wraps:
            # Values of fewer axes stand for all.
            whole = np.broadcast_to(values, window.shape)
            for place, piece in window.pieces():
                self.write(piece, whole[place])
        elif 0 not in window.shape:
            view = np.lib.stride_tricks.as_strided(
                content[window.offset :], window.shape, window.strides
            )
            view[...] = values

    def scatter(self, target: Scattered, values: NDArray[np.uint8]) -> None:
        """Store (values, bytes of one), in their order where places are the same."""
        content = self.space(target.space)
        check_extent(target, content.size)
        places = target.places.numbers()
        for byte in range(target.item):
            content[places + byte] = values[:, byte]

    def queue_values(self, size: int) -> NDArray[np.float32]:
        """What kernels have in the place of `queues`: the same array each time, of that size."""
        if self._queue_values is None or self._queue_values.size < size:
            self._queue_values = np.zeros(size, np.float32)
        return self._queue_values
