"""Writes small compiled `.rknn` files, for tests of the reader.

A file is a tree of tables: `Table({slot: value})`. The values say their FlatBuffer types by what
they are: `U8`, `U32` and `U64` are scalars, str is a string, bytes a vector of bytes, a tuple of
int or float a vector of 32-bit numbers, `Pairs` one of structures, a list a vector of tables.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import bson
import flatbuffers

from anynpu.rknn.model_file import HEADER, MAGIC
from anynpu.soft.formats.rknn.model import Generation, TensorKind, TensorLayout
from anynpu.soft.formats.rknn.slots import EARLY, MICRO, STANDARD, Slots

_SUMMARY = {"target_platform": ["rk3588"], "version": "2.3.2"}
COMPILER = "2.3.2(compiler version: 2.3.2 (test))"


class U8(int):
    """A scalar of 8 bits."""


class U32(int):
    """A scalar of 32 bits."""


class U64(int):
    """A scalar of 64 bits."""


class Structures(tuple[bytes, ...]):
    """A vector of structures of one size, as bytes."""


class Pairs(tuple[tuple[int, int], ...]):
    """A vector of structures of two 32-bit integers."""


@dataclass(frozen=True)
class Table:
    """A table's fields by slot; None is an absent one."""

    fields: dict[int | None, Any] = field(default_factory=dict)


def command(register: int, value: int) -> int:
    """A 64-bit register write."""
    return value << 16 | register


def frame(body: bytes, container: int = 6, summary: Mapping[str, Any] | None = None) -> bytes:
    """A file round a body."""
    text = json.dumps(_SUMMARY if summary is None else summary).encode()
    header = HEADER.pack(MAGIC, 0, container, len(body))
    return header + body + struct.pack("<Q", len(text)) + text


def standard_file(**changes: Any) -> bytes:
    """A file of container 6: an input, a convolution of one task, an output.

    `changes` replace fields of the root table by their names in `RootSlots`.
    """
    commands = [command(0x100C, 0x10), command(0x1070, 0x40), command(0x4020, 0), 0]
    task = struct.pack("<8IQ", 1, 1, 0x1D, 0x300, 0x1FFFF, 0, 3, 0, 0)
    sections = [b"", b"".join(struct.pack("<Q", word) for word in commands), task, bytes(range(64))]
    return frame(_tables(_root(STANDARD, a_graph(STANDARD), changes, sections), b"RKNN"))


def micro_file(**changes: Any) -> bytes:
    """A file of container 0x1004 with the same graph."""
    commands = b"".join(struct.pack("<Q", command(0x4020, 0)) for _ in range(4))
    task = struct.pack("<8IQ", 1, 1, 0x1D, 0x300, 0x1FFFF, 0, 3, 0, 0)
    weights = bytes(range(64))
    tables = _tables(_root(MICRO, a_graph(MICRO), changes, ()), b"RKNN")
    lengths = struct.pack("<7I", len(tables), 64, 1, len(commands), 512, len(weights), 0)
    body = lengths.ljust(64, b"\0") + task.ljust(64, b"\0") + commands + weights + tables
    return frame(body, 0x1004)


def early_command(register: int, value: int) -> bytes:
    """A register write as files of containers before 6 have it."""
    return struct.pack("<Q", value << 32 | register << 16)


ADDRESS = struct.Struct("<2I2Q")


def early_file(container: int = 2, **changes: Any) -> bytes:
    """A file of a container before 6 with the same graph; its convolution uses a table.

    The tensors after those of the graph have commands: of the table, of the task, of one for two
    cores.
    """
    graph = a_graph(EARLY)
    tables = b"".join(early_command(0x4100 + 4 * n, n) for n in range(2))
    single = b"".join(
        early_command(register, value)
        for register, value in ((0x100C, 0x10), (0x1070, 0), (0x4020, 0))
    )
    graph.fields[EARLY.graph.tensors].extend(
        tensor(EARLY, "", kind, element=U8(13), section=U32(section))
        for kind, section in ((TensorKind.TABLE, 4), (TensorKind.TASK_COMMANDS, 5))
    )
    addresses = Structures((ADDRESS.pack(0x1070, 1, 0x40, 0), ADDRESS.pack(0x4020, 2, 0, 0)))
    at = EARLY.task
    assert at is not None
    tasks = [
        Table(
            {
                at.commands: U32(7),
                at.table: U32(6),
                at.enable_mask: U32(0x1D),
                at.addresses: addresses,
                at.cores: U32(cores),
            }
        )
        for cores in (1, 1, 2)
    ]
    graph.fields[EARLY.graph.nodes][1].fields[EARLY.node.tasks] = tasks
    sections = [b"", b"", b"", bytes(range(64)), tables, single]
    body = _tables(_root(EARLY, graph, {"format": U32(1), **changes}, sections), b"RKNN")
    data = frame(body, container)
    return data[:24] + data[64:] if container == 1 else data


def tensor(slots: Slots, name: str, kind: TensorKind, **fields: Any) -> Table:
    """A tensor's table; `fields` by their names in `TensorSlots`."""
    at = vars(slots.tensor)
    values: dict[str, Any] = {"name": name, "kind": U8(kind.value), "element": U8(3)}
    values |= {"native_shape": (), "shape": (), "scale": (), "zero_point": (), **fields}
    return Table({at[key]: value for key, value in values.items() if at.get(key) is not None})


def node(slots: Slots, op_type: str, name: str, **fields: Any) -> Table:
    """A node's table; `fields` by their names in `NodeSlots`."""
    at = vars(slots.node)
    values = {"op_type": op_type, "name": name, "inputs": (), "outputs": (), **fields}
    return Table({at[key]: value for key, value in values.items() if at[key] is not None})


def a_graph(slots: Slots) -> Table:
    """The graph of `standard_file` and `micro_file`."""
    blocks: dict[str, Any] = {"layout": U8(TensorLayout.BLOCKED.value)}
    picture = {**blocks, "native_shape": (1, 1, 2, 2, 3), "shape": (1, 3, 2, 2), "size": U32(12)}
    blocks |= {"native_shape": (1, 1, 2, 2, 16), "shape": (1, 16, 2, 2), "size": U32(64)}
    opaque = {"element": U8(13)}
    tensors = [
        tensor(slots, "", TensorKind.PLACEHOLDER, element=U8(0)),
        tensor(slots, "x", TensorKind.INPUT, scale=(0.5,), zero_point=(-3,), **picture),
        tensor(
            slots, "y", TensorKind.OUTPUT, scale=(0.25,), zero_point=(4,), offset=U32(64), **blocks
        ),
        tensor(
            slots,
            "w",
            TensorKind.WEIGHT,
            layout=U8(TensorLayout.WEIGHT.value),
            native_shape=(1, 1, 1, 1, 4, 16),
            shape=(4, 16, 1, 1),
            size=U32(64),
            section=U32(3),
        ),
        tensor(slots, "regcmd", TensorKind.COMMANDS, section=U32(1), **opaque),
        tensor(slots, "task", TensorKind.TASKS, section=U32(2), **opaque),
    ]
    attributes = bson.encode({"strides": {"dtype": "is", "value": [1, 1]}})
    options = Table({0: "NOTSET", 1: (1, 1), 3: (1, 1), 4: (0, 0, 0, 0), 5: (1, 1)})
    nodes = [
        node(slots, "InputOperator", "InputOperator:x", outputs=(1,)),
        node(
            slots,
            "Conv",
            "Conv:conv0",
            device=U8(2),
            inputs=(1, 3, -1),
            outputs=(2,),
            options_kind=U8(1),
            options=options,
            attributes=attributes,
            task_counts=(1, 0, 0, 0, 0, 0),
        ),
        node(slots, "OutputOperator", "OutputOperator:y", inputs=(2,)),
    ]
    normalization = Table({0: (1.0, 2.0, 3.0, 1.0), 1: (4.0, 5.0, 6.0, 4.0), 2: (0, 1, 2, 3)})
    relocation = Table({0: "x", 1: Pairs(((0x40, 1),))})
    at = slots.graph
    fields: dict[int | None, Any] = {
        at.tensors: tensors,
        at.nodes: nodes,
        at.inputs: (1,),
        at.outputs: (2,),
        at.normalizations: [normalization],
        at.relocations: [relocation],
        at.task_bounds: (0, 0, 0, 1, 1),
    }
    return Table({slot: value for slot, value in fields.items() if slot is not None})


def _root(
    slots: Slots, graph: Table, changes: Mapping[str, Any], sections: Sequence[bytes]
) -> Table:
    is_standard = slots is not MICRO
    values: dict[str, Any] = {
        "format": U32(6),
        "generation": (Generation.V2 if is_standard else Generation.MICRO).value,
        "graphs": [graph],
        "compiler": COMPILER,
        "target": "rk3588" if is_standard else "rv1106",
        "framework": "ONNX",
        "custom_string": "mine",
        "batch": "0",
        "shape_mode": "static_shape",
        "memory": Table({0: U64(64), 1: U64(4096), 2: U64(0)}),
        "sections": [Table({0: data} if data else {}) for data in sections],
        **changes,
    }
    at = vars(slots.root)
    return Table({at[key]: value for key, value in values.items() if at[key] is not None})


def _tables(root: Table, identifier: bytes) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(_write(builder, root, {}), identifier)
    return bytes(builder.Output())


def _write(builder: flatbuffers.Builder, table: Table, written: dict[int, int]) -> int:
    """Write a table; one that is there already is pointed to once more."""
    if id(table) not in written:
        written[id(table)] = _write_anew(builder, table, written)
    return written[id(table)]


def _write_anew(builder: flatbuffers.Builder, table: Table, written: dict[int, int]) -> int:
    references = {
        slot: _reference(builder, value, written)
        for slot, value in table.fields.items()
        if not isinstance(value, U8 | U32 | U64 | None)
    }
    last = max((slot for slot in table.fields if slot is not None), default=-1)
    builder.StartObject(last + 1)
    for slot, value in table.fields.items():
        if isinstance(value, U8):
            builder.PrependUint8Slot(slot, value, 0)
        elif isinstance(value, U32):
            builder.PrependUint32Slot(slot, value, 0)
        elif isinstance(value, U64):
            builder.PrependUint64Slot(slot, value, 0)
        elif value is not None:
            builder.PrependUOffsetTRelativeSlot(slot, references[slot], 0)
    return int(builder.EndObject())


def _reference(builder: flatbuffers.Builder, value: Any, written: dict[int, int]) -> int:
    """Write what a field points to; returns where it is."""
    if isinstance(value, str):
        return int(builder.CreateString(value))
    if isinstance(value, bytes):
        return int(builder.CreateByteVector(value))
    if isinstance(value, Table):
        return _write(builder, value, written)
    if isinstance(value, list):
        offsets = [_write(builder, entry, written) for entry in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())
    if isinstance(value, Pairs):
        value = Structures(struct.pack("<2I", *pair) for pair in value)
    if isinstance(value, Structures):
        builder.StartVector(len(value[0]) if value else 1, len(value), 8)
        for byte in reversed(b"".join(value)):
            builder.PrependByte(byte)
        return int(builder.EndVector())
    builder.StartVector(4, len(value), 4)
    for number in reversed(value):
        if isinstance(number, float):
            builder.PrependFloat32(number)
        else:
            builder.PrependInt32(number)
    return int(builder.EndVector())
