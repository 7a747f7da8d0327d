"""A program's memory objects as the NPU sees them: addresses of 32 bits, shared bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ..engines.rknpu.addresses import AddressSpace
from ..engines.rknpu.command_stream import TaskState
from ..engines.rknpu.elements import Address
from ..engines.rknpu.memory import MemoryMap, Strided


@dataclass(frozen=True)
class MemoryObject:
    """Memory of a program: `size` bytes at `address`, as `data`, which goes on after them.

    Hardware reads whole groups of channels; after an object it finds zeros.
    """

    address: int
    size: int
    data: NDArray[np.uint8]


class ObjectAddresses(AddressSpace):
    """Address registers hold the addresses themselves; `used` are the handles of objects found."""

    def __init__(self, objects: Mapping[int, MemoryObject]) -> None:
        self._places = sorted(
            (found.address, found.size, handle) for handle, found in objects.items()
        )
        self._starts = [address for address, _, _ in self._places]
        self.used: set[int] = set()

    def place(self, address: int) -> Address:
        """Where an address is; raises `LookupError` where no object has it."""
        place = bisect_right(self._starts, address) - 1
        if place >= 0:
            start, size, handle = self._places[place]
            if address < start + size:
                self.used.add(handle)
                return Address(handle, address - start)
        raise LookupError(f"no memory of the program has the address {address:#x}")

    def find(self, register: int, state: TaskState) -> Address:
        address = state.words.get(register)
        if address is None:
            raise LookupError("the address was never written")
        return self.place(address)


class Constants:
    """Bytes that decoding took for constant, and what they were then."""

    def __init__(self) -> None:
        self._read: list[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = []

    def taken(self, shared: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """A copy of bytes in an object, which are to stay."""
        copy: NDArray[np.uint8] = shared.copy()
        self._read.append((shared, copy))
        return copy

    def are_unchanged(self) -> bool:
        """Whether all of them still are what they were."""
        return all(np.array_equal(now, then) for now, then in self._read)


class ObjectMap(MemoryMap):
    """What tasks may use of the objects; what they read of them as constants is noted."""

    def __init__(
        self, objects: Mapping[int, MemoryObject], written: frozenset[int], constants: Constants
    ) -> None:
        super().__init__(0, {handle: found.data for handle, found in objects.items()}, written)
        self._objects = objects
        self._constants = constants

    def constant(self, view: Strided) -> NDArray[np.uint8]:
        """A copy of the bytes."""
        return self._constants.taken(super().constant(view))

    def _reach(self, section: int, low: int, high: int) -> None:
        found = self._objects[section]
        if low < 0 or high > found.data.size:
            raise ModelError(
                f"bytes {low} to {high} of the memory at {found.address:#x} are used, which has "
                f"{found.size}"
            )
