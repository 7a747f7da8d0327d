"""Where tasks read and write: internal memory and the file's data sections, as strided views.

What is touched is always told by a `Strided`: the decoder gives it to `MemoryMap.check`, whoever
reads or writes gives it to `Memory`, which checks it again against the array that it is about to
touch. `layout` makes them, each from one description and in one function, so that both see the same
bytes. There is no other way to a byte of a model's memory. Kernels in C get `Memory.pointer`'s
addresses with the strides and counts of the same `Strided`, and touch nothing beside it: not even
vectors reach over its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ....native.memory import address_of
from ...mapping import Extent
from .elements import Address

INTERNAL = 0
"""The section number of internal memory."""

SLACK = 1 << 20
"""Bytes that hardware may touch after internal memory: it moves whole groups of channels."""

_TAIL = 4096
"""Bytes that it may read after a constant; they count as zero."""


_NOTHING: NDArray[np.uint8] = np.empty(0, np.uint8)


@dataclass(frozen=True)
class Strided:
    """An array of bytes in memory: `strides` are bytes and may be negative."""

    address: Address
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @cached_property
    def extent(self) -> tuple[int, int]:
        """The first byte and the one after the last, relative to the section's start."""
        low = high = self.address.offset
        if 0 in self.shape:
            return low, high
        for count, stride in zip(self.shape, self.strides, strict=True):
            reach = (count - 1) * stride
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high + 1


def extent_of(data: NDArray[np.uint8]) -> Extent:
    """The addresses of bytes side by side."""
    address = address_of(data)
    return address, address + data.size


def span(address: Address, count: int) -> Strided:
    """`count` bytes side by side."""
    return Strided(address, (count,), (1,))


class MemoryMap:
    """What addresses a model's tasks may use; finds out how much internal memory they need.

    `sections` are the file's data sections by number, as byte arrays that aren't copied unless a
    task reads past their end. Tasks write those in `written`: every context has its own copy.
    """

    def __init__(
        self,
        internal_bytes: int,
        sections: Mapping[int, NDArray[np.uint8]],
        written: frozenset[int] = frozenset(),
    ) -> None:
        self._internal_bytes = internal_bytes
        self.written = written
        self.needed_bytes = internal_bytes
        self._sections = dict(sections)

    @property
    def sections(self) -> Mapping[int, NDArray[np.uint8]]:
        return self._sections

    def check(self, view: Strided, writes: bool = False) -> None:
        """Raise `ModelError` if a view leaves the memory it lies in."""
        low, high = view.extent
        section = view.address.section
        if section == INTERNAL:
            if low < 0 or high > self._internal_bytes + SLACK:
                raise ModelError(
                    f"bytes {low} to {high} of internal memory are used, which has "
                    f"{self._internal_bytes}"
                )
            self.needed_bytes = max(self.needed_bytes, high)
            return
        if writes and section not in self.written:
            raise ModelError(f"data section {section} is written, which is constant")
        self._reach(section, low, high)

    def is_constant(self, section: int) -> bool:
        """Whether no task writes there."""
        return section != INTERNAL and section not in self.written

    def constant(self, view: Strided) -> NDArray[np.uint8]:
        """The bytes of a constant that lie side by side, in place."""
        low, high = view.extent
        self._reach(view.address.section, low, high)
        return self._sections[view.address.section][low:high]

    def _reach(self, section: int, low: int, high: int) -> None:
        data = self._sections.get(section)
        size = 0 if data is None else data.size
        if data is None or low < 0 or high > size + _TAIL:
            raise ModelError(
                f"bytes {low} to {high} of data section {section} are read, which has {size}"
            )
        if high > size:
            self._sections[section] = np.concatenate([data, np.zeros(_TAIL, np.uint8)])


class Memory:
    """One context's internal memory together with the constants.

    The sections in `written` are copied, or with `in_place` written where they are; other sections
    are only read. One thread at a time.
    Raises `ModelError` for a view that leaves the array it lies in, or that writes to a constant:
    `MemoryMap.check` refuses such tasks when a model is loaded, so this is the second lock.
    """

    def __init__(
        self,
        internal: NDArray[np.uint8],
        sections: Mapping[int, NDArray[np.uint8]],
        written: frozenset[int] = frozenset(),
        *,
        in_place: bool = False,
    ) -> None:
        own = {} if in_place else {number: sections[number].copy() for number in written}
        self._arrays = {**sections, **own, INTERNAL: internal}
        self._written = written | {INTERNAL}
        self.constants: set[Extent] = set()
        """The addresses of what was asked for and is only read."""

    def view(self, view: Strided, writeable: bool = False) -> NDArray[np.uint8]:
        """The bytes of a view, in place."""
        array = self._holding(view, writeable)
        result: NDArray[Any] = np.lib.stride_tricks.as_strided(
            array[view.address.offset :], view.shape, view.strides, writeable=writeable
        )
        return result

    def pointer(self, first: Strided, *others: Strided, writeable: bool = False) -> int:
        """The address of the first view's first element, for C, which touches these views alone."""
        for view in others:
            self._holding(view, writeable)
        return address_of(self._holding(first, writeable)) + first.address.offset

    def constant(self, data: NDArray[np.uint8]) -> int:
        """The address, for C, of bytes that `MemoryMap.constant` gave."""
        extent = extent_of(data)
        self.constants.add(extent)
        return extent[0]

    def _holding(self, view: Strided, writes: bool) -> NDArray[np.uint8]:
        """The array that holds all bytes of a view."""
        section = view.address.section
        array: NDArray[np.uint8] = self._arrays.get(section, _NOTHING)
        low, high = view.extent
        if low < 0 or high > array.size:
            raise ModelError(f"bytes {low} to {high} of section {section} of {array.size} bytes")
        if section not in self._written:
            if writes:
                raise ModelError(f"data section {section} is written, which is constant")
            base = address_of(array)
            self.constants.add((base + low, base + high))
        return array
