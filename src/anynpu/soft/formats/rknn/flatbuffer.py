"""Tables of a FlatBuffer whose schema isn't published, read with every offset and count checked.

The `flatbuffers` package finds fields through their vtables; it trusts the file. `TableReader`
checks each place before the package reads there, and counts what it copies out of the file, so
that no file, whatever its bytes, makes it read elsewhere, loop or fill the memory.
"""

from __future__ import annotations

import struct
from typing import Any

from ....errors import ModelError

try:
    import flatbuffers.number_types as types
except ImportError as error:
    raise ModelError(
        f"compiled .rknn files need more: pip install 'anynpu[formats]' ({error})"
    ) from error

_OFFSET = 4  # bytes of an offset and of a vector's length
_VTABLE_HEADER = 4
_LARGEST_VTABLE = 1024
_LONGEST_STRING = 1 << 20
_PAIR = struct.Struct("<II")


class Budget:
    """How many bytes may still be copied out of a file.

    A sound file has each vector once; one that points to the same vector from many tables would
    otherwise grow without bound.
    """

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int, offset: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ModelError(f"damaged .rknn file: offset {offset} repeats parts without end")


class Buffer:
    """A FlatBuffer's bytes; `origin` is where in the file they begin, for messages."""

    def __init__(self, data: memoryview, origin: int) -> None:
        self.data = data
        self.origin = origin
        self.budget = Budget(4 * len(data) + (1 << 16))

    def root(self) -> TableReader:
        """The root table; `ModelError` where there is none."""
        self.check(0, _OFFSET, "the root table's offset")
        return TableReader(self, self.number(types.UOffsetTFlags, 0))

    def check(self, position: int, size: int, what: str) -> None:
        """That `size` bytes lie at `position`."""
        if position < 0 or size < 0 or position + size > len(self.data):
            raise self.error(position, f"{what} takes {size} bytes, beyond the end")

    def error(self, position: int, problem: str) -> ModelError:
        return ModelError(f"damaged .rknn file: offset {self.origin + position}: {problem}")

    def number(self, kind: type, position: int) -> int:
        return int(kind.packer_type.unpack_from(self.data, position)[0])  # type: ignore[attr-defined]


class TableReader:
    """One table; fields are told apart by their slot, the position in the schema.

    Each method gives the default for a field that is absent, and raises `ModelError` with the
    file offset for one that lies outside the buffer.
    """

    def __init__(self, buffer: Buffer, position: int) -> None:
        buffer.check(position, _OFFSET, "a table")
        self._buffer = buffer
        self.position = position
        buffer.budget.take(_OFFSET, buffer.origin + position)
        vtable = position - buffer.number(types.SOffsetTFlags, position)
        buffer.check(vtable, _VTABLE_HEADER, "a table's list of fields")
        size = buffer.number(types.VOffsetTFlags, vtable)
        if size < _VTABLE_HEADER or size % 2 or size > _LARGEST_VTABLE:
            raise buffer.error(vtable, f"a table's list of fields can't have {size} bytes")
        buffer.check(vtable, size, "a table's list of fields")
        self.slots = (size - _VTABLE_HEADER) // 2
        self._offsets = struct.unpack_from(f"<{self.slots}H", buffer.data, vtable + _VTABLE_HEADER)

    def has(self, slot: int) -> bool:
        return bool(self._offset(slot))

    def u8(self, slot: int, default: int = 0) -> int:
        return self._scalar(slot, types.Uint8Flags, default)

    def u32(self, slot: int, default: int = 0) -> int:
        return self._scalar(slot, types.Uint32Flags, default)

    def i32(self, slot: int, default: int = 0) -> int:
        return self._scalar(slot, types.Int32Flags, default)

    def f32(self, slot: int, default: float = 0.0) -> float:
        """A float; see `u8`."""
        position = self._field(slot, types.Float32Flags.bytewidth)
        if position is None:
            return default
        return float(struct.unpack_from("<f", self._buffer.data, position)[0])

    def u64(self, slot: int, default: int = 0) -> int:
        return self._scalar(slot, types.Uint64Flags, default)

    def text(self, slot: int) -> str:
        """A string, with a mark for bytes that aren't UTF-8."""
        data = self.bytes(slot, longest=_LONGEST_STRING)
        self._buffer.budget.take(len(data), self._buffer.origin + self.position)
        return str(data, "utf-8", "replace")

    def bytes(self, slot: int, longest: int | None = None) -> memoryview:
        """A vector of bytes, as a view."""
        start, count = self._vector(slot, 1)
        if longest is not None and count > longest:
            raise self._buffer.error(start - _OFFSET, f"{count} bytes of text")
        return self._buffer.data[start : start + count]

    def integers(self, slot: int, *, signed: bool = True) -> tuple[int, ...]:
        """A vector of 32-bit integers."""
        return self._numbers(slot, "i" if signed else "I")

    def floats(self, slot: int) -> tuple[float, ...]:
        """A vector of 32-bit floats."""
        return self._numbers(slot, "f")

    def pairs(self, slot: int) -> list[tuple[int, int]]:
        """A vector of structures of two unsigned 32-bit integers."""
        return self.structures(slot, _PAIR)

    def structures(self, slot: int, form: struct.Struct) -> list[Any]:
        """A vector of structures of a form, each as a tuple."""
        start, count = self._vector(slot, form.size)
        size = form.size * count
        self._buffer.budget.take(size, self._buffer.origin + start)
        return list(form.iter_unpack(self._buffer.data[start : start + size]))

    def table(self, slot: int) -> TableReader | None:
        """The table that a field points to, None where the field is absent."""
        position = self._field(slot, _OFFSET)
        if position is None:
            return None
        return TableReader(self._buffer, self._follow(position))

    def tables(self, slot: int) -> list[TableReader]:
        """A vector of tables."""
        start, count = self._vector(slot, _OFFSET)
        self._buffer.budget.take(_OFFSET * count, self._buffer.origin + start)
        places = range(start, start + _OFFSET * count, _OFFSET)
        return [TableReader(self._buffer, self._follow(place)) for place in places]

    def file_offset(self) -> int:
        """Where in the file this table is."""
        return self._buffer.origin + self.position

    def _numbers(self, slot: int, code: str) -> tuple[int, ...]:
        start, count = self._vector(slot, 4)
        self._buffer.budget.take(4 * count, self._buffer.origin + start)
        return struct.unpack_from(f"<{count}{code}", self._buffer.data, start)

    def _scalar(self, slot: int, kind: type, default: int) -> int:
        position = self._field(slot, kind.bytewidth)  # type: ignore[attr-defined]
        return default if position is None else self._buffer.number(kind, position)

    def _vector(self, slot: int, width: int) -> tuple[int, int]:
        """Where a vector's elements start and how many there are."""
        position = self._field(slot, _OFFSET)
        if position is None:
            return 0, 0
        place = self._follow(position)
        self._buffer.check(place, _OFFSET, "a vector's length")
        count = self._buffer.number(types.UOffsetTFlags, place)
        self._buffer.check(place + _OFFSET, count * width, f"a vector of {count} elements")
        return place + _OFFSET, count

    def _follow(self, position: int) -> int:
        return position + self._buffer.number(types.UOffsetTFlags, position)

    def _field(self, slot: int, width: int) -> int | None:
        offset = self._offset(slot)
        if not offset:
            return None
        position = self.position + offset
        self._buffer.check(position, width, f"field {slot} of a table")
        return position

    def _offset(self, slot: int) -> int:
        return self._offsets[slot] if slot < self.slots else 0
