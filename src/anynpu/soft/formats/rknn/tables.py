"""From a compiled file's tables to the description; what both variants of the schema share."""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from ....errors import ModelError
from .attributes import has_options, read_document, read_options
from .flatbuffer import TableReader
from .listed_tasks import read_listed
from .model import (
    EDGES,
    Device,
    ElementType,
    Graph,
    InputNormalization,
    Node,
    Relocation,
    Task,
    Tensor,
    TensorKind,
    TensorLayout,
)
from .slots import Slots

_TASK = struct.Struct("<8IQ")
_COMMAND_BYTES = 8
_RK3576_LISTS = 3
_LONGEST_SHAPE = 4096
_MOST_PICTURE_CHANNELS = 4
_MOST_ELEMENTS = 1 << 40

Enumerated = TypeVar("Enumerated", bound=enum.Enum)


@dataclass(frozen=True)
class Placement:
    """Where constants are: the section of a tensor and the offset in it, by the tensor's kind.

    Those of `by_kind` that end past the end of their section lie in the one that `past_end` has.
    """

    sections: tuple[memoryview, ...]
    by_kind: dict[TensorKind, int] | None = None
    past_end: dict[TensorKind, int] = field(default_factory=dict)

    def section(self, kind: TensorKind, named: int, end: int, where: int) -> int:
        section = self.by_kind.get(kind, 0) if self.by_kind is not None else named
        if kind in self.past_end and end > len(self.sections[section]):
            section = self.past_end[kind]
        if not 0 <= section < len(self.sections):
            raise ModelError(
                f"damaged .rknn file: offset {where}: data section {section} of "
                f"{len(self.sections)}"
            )
        return section


def read_graph(table: TableReader, slots: Slots, placement: Placement, atom: int) -> Graph:
    """One graph with all that it points to inside its bounds; raises `ModelError` otherwise.

    `atom` is what one pixel takes in a channel block of the chip, in bytes.
    """
    at = slots.graph
    tensors = tuple(
        with_rows(_read_tensor(index, entry, slots, placement), atom)
        for index, entry in enumerate(table.tables(at.tensors))
    )
    nodes = tuple(
        _read_node(index, entry, slots, len(tensors))
        for index, entry in enumerate(table.tables(at.nodes))
    )
    where = table.file_offset()
    if slots.task is not None and slots.node.tasks is not None:
        listed = [entry.tables(slots.node.tasks) for entry in table.tables(at.nodes)]
        commands, tasks, relocations = read_listed(listed, slots.task, tensors, placement.sections)
    else:
        commands = _whole(tensors, TensorKind.COMMANDS, placement, _COMMAND_BYTES, where)
        records = _whole(tensors, TensorKind.TASKS, placement, _TASK.size, where)
        tasks = _read_tasks(records, len(nodes), len(commands) // _COMMAND_BYTES, where)
        relocations = _read_relocations(table, at.relocations, commands)
    bounds = table.integers(at.task_bounds) if at.task_bounds is not None else ()
    inputs = _indices(table.integers(at.inputs), len(tensors), "tensors", where)
    normalizations = tuple(_read_normalization(t) for t in table.tables(at.normalizations))
    if len(normalizations) != len(inputs):
        raise ModelError(
            f"damaged .rknn file: offset {where}: {len(inputs)} inputs, "
            f"{len(normalizations)} normalisations"
        )
    return Graph(
        tensors=tensors,
        nodes=nodes,
        inputs=inputs,
        outputs=_indices(table.integers(at.outputs), len(tensors), "tensors", where),
        normalizations=normalizations,
        relocations=MappingProxyType(relocations),
        commands=commands,
        tasks=tasks,
        task_bounds=_task_bounds(bounds, len(tasks), where),
    )


def known(
    kind: type[Enumerated], by_code: dict[int, Enumerated], code: int, where: int
) -> Enumerated:
    """The member for a code; an unknown code is named in a `ModelError`."""
    try:
        return by_code[code]
    except KeyError:
        raise ModelError(
            f"the .rknn file has an unknown {kind.__name__} {code} at offset {where}"
        ) from None


def _read_tensor(index: int, table: TableReader, slots: Slots, placement: Placement) -> Tensor:
    at = slots.tensor
    where = table.file_offset()
    kind = known(TensorKind, _KINDS, table.u8(at.kind), where)
    named = table.u32(at.section) if at.section is not None else 0
    size, offset = table.u32(at.size), table.u32(at.offset)
    tensor = Tensor(
        index=index,
        name=table.text(at.name),
        element=known(ElementType, _ELEMENTS, table.u8(at.element), where),
        layout=known(TensorLayout, _LAYOUTS, table.u8(at.layout), where),
        kind=kind,
        native_shape=_shape(table.integers(at.native_shape), where),
        shape=_shape(table.integers(at.shape), where),
        scale=table.floats(at.scale),
        zero_point=table.integers(at.zero_point),
        minimum=table.floats(at.minimum) if at.minimum is not None else (),
        maximum=table.floats(at.maximum) if at.maximum is not None else (),
        size=size,
        offset=offset,
        section=placement.section(kind, named, offset + size, where),
    )
    if tensor.section and tensor.offset > len(placement.sections[tensor.section]):
        raise ModelError(
            f"damaged .rknn file: offset {where}: tensor {tensor.name!r} at {tensor.offset} in a "
            f"section of {len(placement.sections[tensor.section])} bytes"
        )
    # A constant of zeros alone has a scale of zero.
    if not all(0 < s < math.inf or (s == 0 and not kind.is_internal) for s in tensor.scale):
        raise ModelError(f"damaged .rknn file: offset {where}: scale of {tensor.name!r}")
    return tensor


def with_rows(tensor: Tensor, atom: int) -> Tensor:
    """The tensor, with the distance of its rows where it is a picture.

    The graph's input of 1 to 4 channels has no lanes without one. Its rows are filled up to as
    many pixels as an atom has bytes, or elements of two bytes.
    """
    shape, channels = tensor.native_shape, math.prod(tensor.shape[1:2])
    is_blocked = tensor.layout is TensorLayout.BLOCKED and len(shape) == 5
    if tensor.kind is not TensorKind.INPUT or not is_blocked or tensor.element.dtype is None:
        return tensor
    size = tensor.element.dtype.size_of(1)
    _, blocks, _, width, lanes = shape
    if blocks != 1 or lanes != channels or lanes > _MOST_PICTURE_CHANNELS or lanes * size == atom:
        return tensor
    pixels = atom // size
    return replace(tensor, row=-(-width // pixels) * pixels * lanes * size)


def _read_node(index: int, table: TableReader, slots: Slots, tensors: int) -> Node:
    at = slots.node
    where = table.file_offset()
    op_type = table.text(at.op_type)
    union, options = table.u8(at.options_kind), table.table(at.options)
    # At the graph's edges there is something else in that place.
    document = memoryview(b"") if op_type in EDGES else table.bytes(at.attributes)
    return Node(
        index=index,
        op_type=op_type,
        name=table.text(at.name),
        device=known(Device, _DEVICES, table.u8(at.device), where),
        inputs=_indices(table.integers(at.inputs), tensors, "tensors", where, lowest=-1),
        outputs=_indices(table.integers(at.outputs), tensors, "tensors", where, lowest=-1),
        attributes=MappingProxyType(dict(read_document(document, where))),
        options=MappingProxyType(dict(read_options(union, options))),
        task_counts=table.integers(at.task_counts) if at.task_counts is not None else (),
        has_options=has_options(union, options),
    )


def _read_normalization(table: TableReader) -> InputNormalization:
    normalization = InputNormalization(table.floats(0), table.floats(1), table.integers(2))
    numbers = (*normalization.mean, *normalization.std)
    if not all(map(math.isfinite, numbers)) or 0.0 in normalization.std:
        raise ModelError(f"damaged .rknn file: offset {table.file_offset()}: mean or std")
    return normalization


def _read_tasks(records: memoryview, nodes: int, commands: int, where: int) -> tuple[Task, ...]:
    tasks = []
    for index, record in enumerate(_TASK.iter_unpack(records)):
        flags, node, enable_mask, _, _, _, count, _, start = record
        if node >= nodes or start % _COMMAND_BYTES or start // _COMMAND_BYTES + count > commands:
            raise ModelError(
                f"damaged .rknn file: task {index} of the graph at offset {where}: node {node} of "
                f"{nodes}, {count} commands from byte {start} of {commands * _COMMAND_BYTES}"
            )
        tasks.append(Task(index, node, enable_mask, flags, start // _COMMAND_BYTES, count))
    return tuple(tasks)


def _read_relocations(
    table: TableReader, slot: int | None, commands: memoryview
) -> dict[int, Relocation]:
    relocations: dict[int, Relocation] = {}
    for entry in table.tables(slot) if slot is not None else ():
        buffer = entry.text(0)
        for addend, word in entry.pairs(1):
            if (word + 1) * _COMMAND_BYTES > len(commands):
                raise ModelError(
                    f"damaged .rknn file: offset {entry.file_offset()}: {buffer!r} is wanted in "
                    f"command {word} of {len(commands) // _COMMAND_BYTES}"
                )
            relocations[word] = Relocation(buffer, addend)
    return relocations


def _task_bounds(bounds: Sequence[int], tasks: int, where: int) -> tuple[int, int, int]:
    """Where the lists for one, two and three cores end.

    RK3588 has the ends after three zeros. RK3576 has the starts of the lists for its first core,
    for its second core and for both; only the first is kept.
    """
    if len(bounds) == _RK3576_LISTS:
        one = two = three = bounds[1] or tasks
    else:
        one, two = (bounds[3], bounds[4]) if len(bounds) > 4 and bounds[3] else (tasks, tasks)
        three = tasks
    if not 0 <= one <= two <= three <= tasks:
        raise ModelError(
            f"damaged .rknn file: offset {where}: lists of {one} and {two} in {tasks} tasks"
        )
    return one, two, three


def _whole(
    tensors: Sequence[Tensor], kind: TensorKind, placement: Placement, unit: int, where: int
) -> memoryview:
    """The section of the one tensor of a kind, which has `unit` bytes an entry."""
    found = [tensor for tensor in tensors if tensor.kind is kind]
    if len(found) > 1:
        raise ModelError(f"damaged .rknn file: offset {where}: {len(found)} tensors of {kind.name}")
    if not found:
        return memoryview(b"")
    data = placement.sections[found[0].section]
    if len(data) % unit:
        raise ModelError(
            f"damaged .rknn file: offset {where}: {kind.name} of {len(data)} bytes, not a "
            f"multiple of {unit}"
        )
    return data


def _indices(
    values: Sequence[int], count: int, what: str, where: int, lowest: int = 0
) -> tuple[int, ...]:
    for value in values:
        if not lowest <= value < count:
            raise ModelError(f"damaged .rknn file: offset {where}: {what} {value} of {count}")
    return tuple(values)


def _shape(values: Sequence[int], where: int) -> tuple[int, ...]:
    if (
        len(values) > _LONGEST_SHAPE
        or any(value < 0 for value in values)
        or math.prod(values[:8]) > _MOST_ELEMENTS
    ):
        raise ModelError(f"damaged .rknn file: offset {where}: a shape {tuple(values)[:8]}")
    return tuple(values)


_KINDS = {member.value: member for member in TensorKind}
_LAYOUTS = {member.value: member for member in TensorLayout}
_ELEMENTS = {member.code: member for member in ElementType}
_DEVICES = {member.value: member for member in Device}
