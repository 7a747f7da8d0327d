"""A program's memory objects as the NPU sees them: addresses of 32 bits, shared bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ..engines.rk3588.addresses import AddressSpace
from ..engines.rk3588.elements import Address
from ..engines.rk3588.machine import TaskState
from ..engines.rk3588.memory import MemoryMap


@dataclass(frozen=True)
class MemoryObject:
    """Memory of a program: `size` bytes at `address`, as `data`, which goes on behind them.

    Hardware reads whole groups of channels; behind an object it finds zeros.
    """

    address: int
    size: int
    data: NDArray[np.uint8]


class ObjectAddresses(AddressSpace):
    """Address registers hold the addresses themselves."""

    def __init__(self, objects: Mapping[int, MemoryObject]) -> None:
        self._places = sorted(
            (found.address, found.size, handle) for handle, found in objects.items()
        )
        self._starts = [address for address, _, _ in self._places]

    def place(self, address: int) -> Address:
        """Where an address is; raises `LookupError` where no object has it."""
        place = bisect_right(self._starts, address) - 1
        if place >= 0:
            start, size, handle = self._places[place]
            if address < start + size:
                return Address(handle, address - start)
        raise LookupError(f"no memory of the program has the address {address:#x}")

    def find(self, register: int, state: TaskState) -> Address:
        address = state.words.get(register)
        if address is None:
            raise LookupError("the address was never written")
        return self.place(address)


class ObjectMap(MemoryMap):
    """What tasks may use of the objects, and what was read of them when tasks were decoded."""

    def __init__(self, objects: Mapping[int, MemoryObject], written: frozenset[int]) -> None:
        super().__init__(0, {handle: found.data for handle, found in objects.items()}, written)
        self._objects = objects
        self._read: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []

    def constant(self, address: Address, count: int) -> NDArray[np.uint8]:
        """A copy of `count` bytes, which `is_unchanged` compares with what is there then."""
        found = super().constant(address, count)
        copy = found.copy()
        self._read.append((found, copy))
        return copy

    def _reach(self, section: int, low: int, high: int) -> None:
        found = self._objects[section]
        if low < 0 or high > found.data.size:
            raise ModelError(
                f"bytes {low} to {high} of the memory at {found.address:#x} are used, which has "
                f"{found.size}"
            )

    def is_unchanged(self) -> bool:
        """Whether all that decoding took for constant still is what it was."""
        return all(np.array_equal(now, then) for now, then in self._read)
