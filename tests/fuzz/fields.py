"""Where a compiled `.rknn` file has its numbers: what a damage is aimed at.

The places are found by reading the file once while noting where the reader looks, and from the
description that it makes: commands, tasks, relocations.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from unittest.mock import patch

import numpy as np

from anynpu.rknn.model_file import HEADER
from anynpu.soft.formats.rknn.flatbuffer import Buffer, TableReader
from anynpu.soft.formats.rknn.model import CompiledModel
from anynpu.soft.formats.rknn.reader import MICRO_CONTAINER, read_model

_COMMAND_BYTES = 8
_TASK_FIELDS = ((4, 4), (8, 4), (24, 4), (32, 8))
"""Place and width of node, enable mask, count and first byte in a task's 40 bytes."""
_TASK_BYTES = 40


class Kind(enum.Enum):
    """What a number is for."""

    VALUE = "a command's value"
    REGISTER = "a command's register"
    TASK = "a field of a task"
    RELOCATION = "an addend or a command's number"
    SCALAR = "a table's number"
    VECTOR = "a vector's number"
    REFERENCE = "an offset or a length"


@dataclass(frozen=True)
class Field:
    """`width` bytes at `place`, little endian; `register` is the register that a value is for."""

    kind: Kind
    place: int
    width: int
    register: int = 0


@dataclass(frozen=True)
class Target:
    """A sound file and its fields by kind, values by their register as well."""

    name: str
    data: bytes
    fields: dict[Kind, tuple[Field, ...]]
    registers: dict[int, tuple[Field, ...]]

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that it has fields of."""
        return tuple(self.fields)

    @cached_property
    def register_numbers(self) -> tuple[int, ...]:
        """The registers that its commands write."""
        return tuple(self.registers)

    @classmethod
    def of(cls, name: str, data: bytes) -> Target:
        """Find a file's fields; it must be one that the reader takes."""
        found = list(_all_fields(data))
        kinds = {kind: tuple(f for f in found if f.kind is kind) for kind in Kind}
        values = kinds[Kind.VALUE]
        numbers = sorted({field.register for field in values})
        return cls(
            name,
            data,
            {kind: fields for kind, fields in kinds.items() if fields},
            {number: tuple(f for f in values if f.register == number) for number in numbers},
        )


def _all_fields(data: bytes) -> Iterator[Field]:
    model, tables = _read_watched(data)
    yield from tables
    whole = np.frombuffer(data, np.uint8)
    for graph in model.graphs:
        yield from _commands(graph.commands, _offset(whole, graph.commands))
    yield from _tasks(model, whole)
    if model.container == MICRO_CONTAINER:
        yield from (Field(Kind.REFERENCE, HEADER.size + 4 * i, 4) for i in range(7))


def _commands(commands: memoryview, start: int) -> Iterator[Field]:
    for number, (word,) in enumerate(struct.iter_unpack("<Q", commands)):
        place = start + _COMMAND_BYTES * number
        yield Field(Kind.VALUE, place + 2, 4, word & 0xFFFF)
        yield Field(Kind.REGISTER, place, 2)


def _tasks(model: CompiledModel, whole: np.ndarray) -> Iterator[Field]:
    from anynpu.soft.formats.rknn.model import TensorKind

    for graph in model.graphs:
        for tensor in graph.tensors:
            if tensor.kind is TensorKind.TASKS:
                section = model.sections[tensor.section]
                start = _offset(whole, section)
                for number in range(len(section) // _TASK_BYTES):
                    for place, width in _TASK_FIELDS:
                        yield Field(Kind.TASK, start + _TASK_BYTES * number + place, width)


def _offset(whole: np.ndarray, part: memoryview) -> int:
    if not len(part):
        return 0
    return int(np.frombuffer(part, np.uint8).ctypes.data - whole.ctypes.data)


def _read_watched(data: bytes) -> tuple[CompiledModel, list[Field]]:
    """The file's description, and every number that the tables' reader looked at."""
    found: dict[int, Field] = {}
    number, numbers, pairs = Buffer.number, TableReader._numbers, TableReader.pairs

    def watched_number(self: Buffer, kind: type, position: int) -> int:
        width: int = kind.bytewidth  # type: ignore[attr-defined]
        what = Kind.REFERENCE if kind.__name__.endswith("OffsetTFlags") else Kind.SCALAR
        found[self.origin + position] = Field(what, self.origin + position, width)
        return number(self, kind, position)

    def note(self: TableReader, kind: Kind, slot: int, width: int) -> None:
        start, count = self._vector(slot, width)
        for place in range(
            self._buffer.origin + start, self._buffer.origin + start + width * count, 4
        ):
            found[place] = Field(kind, place, 4)

    def watched_numbers(self: TableReader, slot: int, code: str) -> tuple[int, ...]:
        note(self, Kind.VECTOR, slot, 4)
        return numbers(self, slot, code)

    def watched_pairs(self: TableReader, slot: int) -> list[tuple[int, int]]:
        note(self, Kind.RELOCATION, slot, 8)
        return pairs(self, slot)

    with (
        patch.object(Buffer, "number", watched_number),
        patch.object(TableReader, "_numbers", watched_numbers),
        patch.object(TableReader, "pairs", watched_pairs),
    ):
        model = read_model(data)
    return model, sorted(found.values(), key=lambda field: field.place)


def apply(data: bytes, edits: Sequence[tuple[Field, int]]) -> bytes:
    """The file with other numbers in some fields."""
    changed = bytearray(data)
    for field, value in edits:
        mask = (1 << 8 * field.width) - 1
        changed[field.place : field.place + field.width] = (value & mask).to_bytes(
            field.width, "little"
        )
    return bytes(changed)


def current(data: bytes, field: Field) -> int:
    """What a field holds."""
    return int.from_bytes(data[field.place : field.place + field.width], "little")
