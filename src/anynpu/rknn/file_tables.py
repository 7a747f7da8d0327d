"""The few tables of a `.rknn` file that are looked at above the C API.

A compiled file's body is a FlatBuffer of a schema that isn't published; what is known of it is
known from files. Whatever doesn't look as expected raises ValueError, LookupError or struct.error:
who asks does without.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

from .model_file import HEADER, MAGIC

GRAPHS, SECTIONS = 2, 20
"""Slots of the root table; the small container has no sections."""

_BODY = HEADER.size
_IDENTIFIERS = slice(_BODY + 4, _BODY + 8)
_COMPILED, SOFT_IDENTIFIER = b"RKNN", b"ANPU"
_SMALL_CONTAINER = 0x1004
_SMALL_DATA = 0x80
_SMALL_HEADER = struct.Struct("<7I")
_SOFT_SIZE = struct.Struct("<Q")
_SOFT_ONNX = _BODY + 16
_MOST_TABLES = 1 << 16


def mapped(path: Path) -> bytes:
    """A file's bytes, of which only those that are looked at are read; for as long as that takes.

    Raises ValueError for an empty file, OSError for one that can't be read.
    """
    with path.open("rb") as file:
        found: bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # type: ignore[assignment]
        return found


def is_soft(data: bytes) -> bool:
    """Whether it is a soft `.rknn` file, which a board refuses."""
    return data[: len(MAGIC)] == MAGIC and data[_IDENTIFIERS] == SOFT_IDENTIFIER


def onnx_of(data: bytes) -> bytes | None:
    """The ONNX file that the bytes are, or hold in a soft file; None for compiled ones."""
    if data[: len(MAGIC)] != MAGIC:
        return data
    if not is_soft(data):
        return None
    (size,) = _SOFT_SIZE.unpack_from(data, _BODY + 8)
    return data[_SOFT_ONNX : _SOFT_ONNX + size]


def is_small(data: bytes) -> bool:
    """Whether a compiled file is for RV1103 or RV1106, which have a container of their own."""
    _, _, version, _ = HEADER.unpack_from(data)
    return bool(version == _SMALL_CONTAINER)


def of_file(data: bytes) -> memoryview:
    """The FlatBuffer in a compiled file."""
    if is_small(data):
        lengths = _SMALL_HEADER.unpack_from(data, _BODY)
        description, tasks, _, commands, _, weights, extra = lengths
        start = _SMALL_DATA + tasks + commands + extra + weights
        return memoryview(data)[start : start + description]
    if data[_IDENTIFIERS] != _COMPILED:
        raise ValueError("an unknown container")
    return memoryview(data)[_BODY:]


def root(data: memoryview) -> int:
    """Where the root table is."""
    return _number(data, 0)


def elements(data: memoryview, table: int, slot: int) -> list[int]:
    """Where the tables of a vector are."""
    start, count = vector(data, table, slot)
    if count > _MOST_TABLES:
        raise ValueError("too many tables")
    places = range(start, start + 4 * count, 4)
    return [place + _number(data, place) for place in places]


def numbers(data: memoryview, table: int, slot: int, code: str) -> tuple[Any, ...]:
    """A vector of numbers of four bytes; `code` is one of struct's."""
    start, count = vector(data, table, slot)
    if count > len(data):
        raise ValueError("too many numbers")
    return struct.unpack_from(f"<{count}{code}", data, start)


def vector(data: memoryview, table: int, slot: int) -> tuple[int, int]:
    """(where a vector's elements begin, how many there are)."""
    fields = table - _number(data, table, "i")
    place = 4 + 2 * slot
    offset = _number(data, fields + place, "H") if place < _number(data, fields, "H") else 0
    if not offset:
        raise LookupError("the field is absent")
    position = table + offset
    start = position + _number(data, position)
    return start + 4, _number(data, start)


def _number(data: memoryview, position: int, code: str = "I") -> int:
    return int(struct.unpack_from(f"<{code}", data, position)[0])
