"""From address registers to places in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from .command_stream import TaskState
from .elements import Address


class AddressSpace(ABC):
    """How a file says where an address register points."""

    @abstractmethod
    def find(self, register: int, state: TaskState) -> Address:
        """The place; raises `LookupError` with the reason if there is none."""


class RelocatedAddresses(AddressSpace):
    """Each address is a named buffer's, plus a distance."""

    def __init__(self, buffers: Mapping[str, Address]) -> None:
        self._buffers = buffers

    def find(self, register: int, state: TaskState) -> Address:
        relocation = state.relocations.get(register)
        if relocation is None:
            raise LookupError("no relocation says which buffer the address belongs to")
        buffer = self._buffers.get(relocation.buffer)
        if buffer is None:
            raise LookupError(
                f"it points to the buffer {relocation.buffer!r}, which the file doesn't describe"
            )
        return Address(buffer.section, buffer.offset + relocation.addend)


class AbsoluteAddresses(AddressSpace):
    """Data sections lie one after another, and internal memory after them.

    `sections` are (number, bytes) in that order; the last one is open-ended.
    """

    def __init__(self, sections: Sequence[tuple[int, int]]) -> None:
        self._sections = sections

    def find(self, register: int, state: TaskState) -> Address:
        offset = state.words.get(register)
        if offset is None:
            raise LookupError("the address was never written")
        *inner, (last, _) = self._sections
        for section, size in inner:
            if offset < size:
                return Address(section, offset)
            offset -= size
        return Address(last, offset)
