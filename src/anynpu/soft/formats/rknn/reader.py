"""Compiled `.rknn` files: from bytes to a `CompiledModel`, whatever the bytes are.

The frame round the body is `anynpu.rknn.model_file`'s. Two kinds of container are known:

- version 6 (RK3562, RK3566, RK3568, RK3576, RK3588): the body is one FlatBuffer, and data sections
  in it that its root table lists; versions 1 to 4, of toolkits before 1.6, are like it but for the
  tasks, which their nodes list;
- version 0x1004 (RV1103, RV1106): a header of lengths, then the tasks, the commands, constants and
  weights one after another, then the FlatBuffer.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from ....errors import ModelError
from ....rknn.model_file import HEADER, Frame, read_frame
from .flatbuffer import Buffer, TableReader
from .model import CompiledModel, Generation, Graph, MemorySizes, TensorKind
from .slots import EARLY, MICRO, STANDARD, Slots
from .soft_file import ENCRYPTED_MAGIC, SOFT_IDENTIFIER
from .tables import Placement, read_graph

STANDARD_CONTAINER = 6
EARLY_CONTAINERS = range(1, 5)
MICRO_CONTAINER = 0x1004
_FORMAT = 6
_EARLY_FORMAT = 1
_IDENTIFIER = b"RKNN"
_MICRO_HEADER = struct.Struct("<7I")
_MICRO_DATA = 0x80  # where the tasks are
_MOST_GRAPHS = 512
_MOST_INTERNAL_BYTES = 1 << 32
_DYNAMIC = "dynamic_shape"


def read_model(data: bytes | memoryview) -> CompiledModel:
    """The description of a compiled file; its sections are views of `data`.

    Raises `ModelError` that names the file offset for a truncated or damaged file, and names what
    it is for an encrypted file, a soft one, and versions that aren't known.
    """
    if data[: len(ENCRYPTED_MAGIC)] == ENCRYPTED_MAGIC:
        raise ModelError(
            "this is an encrypted .rknn file; only a board's runtime can read it. Export it again "
            "without export_encrypted_rknn_model"
        )
    frame = read_frame(data)
    body = memoryview(data)[frame.body_offset : frame.body_offset + frame.body_size]
    if bytes(body[4:8]) == SOFT_IDENTIFIER:
        raise ModelError("this is a soft .rknn file: it carries an ONNX file, nothing compiled")
    if frame.version == STANDARD_CONTAINER:
        return _read_standard(body, STANDARD, frame)
    if frame.version in EARLY_CONTAINERS:
        return _read_standard(body, EARLY, frame)
    if frame.version == MICRO_CONTAINER:
        return _read_micro(body, len(data))
    older = " (of an old toolkit: convert the model anew)" if frame.version < 6 else ""
    raise ModelError(
        f"the .rknn file has container version {frame.version:#x} at offset 8{older}; known are "
        f"{EARLY_CONTAINERS[0]} to {EARLY_CONTAINERS[-1]}, {STANDARD_CONTAINER} and "
        f"{MICRO_CONTAINER:#x}"
    )


def _read_standard(body: memoryview, slots: Slots, frame: Frame) -> CompiledModel:
    _check_identifier(body, frame.body_offset)
    root = Buffer(body, frame.body_offset).root()
    sections = tuple(entry.bytes(0) for entry in root.tables(_sections_slot(slots)))
    placement = Placement(sections or (memoryview(b""),))
    memory = root.table(slots.root.memory or 0)
    sizes = MemorySizes(*(memory.u64(slot) for slot in range(3))) if memory is not None else None
    return _describe(root, slots, frame.version, placement, sizes)


def _read_micro(body: memoryview, file_size: int) -> CompiledModel:
    if len(body) < _MICRO_DATA - HEADER.size:
        raise ModelError(f"truncated .rknn file: {file_size} bytes, no lengths at {HEADER.size}")
    lengths = _MICRO_HEADER.unpack_from(body)
    description, tasks, task_count, commands, internal, weights, extra = lengths
    parts = [memoryview(b"")]
    position = _MICRO_DATA - HEADER.size
    for size in (tasks, commands, extra, weights, description):
        if position + size > len(body):
            raise ModelError(
                f"truncated .rknn file: the lengths at offset {HEADER.size} announce {size} bytes "
                f"at {HEADER.size + position}, the file's body ends at {HEADER.size + len(body)}"
            )
        parts.append(body[position : position + size])
        position += size
    *sections, tables = parts
    if task_count * 40 > tasks:
        raise ModelError(
            f"damaged .rknn file: offset {HEADER.size + 8} announces {task_count} tasks in "
            f"{tasks} bytes"
        )
    sections[1] = sections[1][: task_count * 40]
    by_kind = {
        TensorKind.TASKS: 1,
        TensorKind.COMMANDS: 2,
        TensorKind.COMPILER_CONSTANT: 3,
        TensorKind.WEIGHT: 4,
        TensorKind.OPERAND: 4,
    }
    origin = HEADER.size + position - description
    _check_identifier(tables, origin)
    root = Buffer(tables, origin).root()
    # Constants that NPU tasks alone need; what recurrent networks need lies after their weights.
    past_end = {TensorKind.COMPILER_CONSTANT: 4}
    placement = Placement(tuple(sections), by_kind, past_end)
    return _describe(root, MICRO, MICRO_CONTAINER, placement, MemorySizes(weights, internal, extra))


def _describe(
    root: TableReader,
    slots: Slots,
    container: int,
    placement: Placement,
    memory: MemorySizes | None,
) -> CompiledModel:
    at = slots.root
    known_format = _EARLY_FORMAT if slots is EARLY else _FORMAT
    if root.u32(at.format) != known_format:
        raise ModelError(
            f"the .rknn file has format version {root.u32(at.format)} at offset "
            f"{root.file_offset()}; known is {known_format}"
        )
    compiler = root.text(at.compiler)
    generation = _generation(root.text(at.generation))
    graphs = tuple(
        read_graph(t, slots, placement, generation.atom) for t in _graph_tables(root, slots)
    )
    memory = _sizes_of(graphs) if memory is None else memory
    _check_memory(graphs, memory, root.file_offset())
    toolkit = re.match(r"[0-9]+(\.[0-9]+)*", compiler)
    batch = root.text(at.batch) if at.batch is not None else ""
    return CompiledModel(
        container=container,
        format=known_format,
        generation=generation,
        target=_target(root.text(at.target), generation),
        toolkit=toolkit.group() if toolkit else "",
        compiler=compiler,
        framework=root.text(at.framework),
        custom_string=root.text(at.custom_string) if at.custom_string is not None else "",
        batch=max(1, int(batch)) if re.fullmatch(r"[0-9]{1,6}", batch) else 1,
        is_dynamic=at.shape_mode is not None and root.text(at.shape_mode) == _DYNAMIC,
        graphs=graphs,
        memory=memory,
        sections=placement.sections,
    )


def _graph_tables(root: TableReader, slots: Slots) -> list[TableReader]:
    tables = root.tables(slots.root.graphs)
    if not 1 <= len(tables) <= _MOST_GRAPHS:
        raise ModelError(
            f"damaged .rknn file: offset {root.file_offset()}: {len(tables)} graphs, "
            f"1 to {_MOST_GRAPHS} are possible"
        )
    return tables


def _check_memory(graphs: tuple[Graph, ...], memory: MemorySizes, where: int) -> None:
    if memory.internal > _MOST_INTERNAL_BYTES:
        raise ModelError(
            f"damaged .rknn file: offset {where}: {memory.internal} bytes of internal memory"
        )
    for graph in graphs:
        for index in (*graph.inputs, *graph.outputs):
            tensor = graph.tensors[index]
            if tensor.offset + tensor.size > memory.internal:
                raise ModelError(
                    f"damaged .rknn file: offset {where}: tensor {tensor.name!r} ends at "
                    f"{tensor.offset + tensor.size} in {memory.internal} bytes of internal memory"
                )


def _sizes_of(graphs: Sequence[Graph]) -> MemorySizes:
    """What the tensors need, where the file doesn't say it."""
    tensors = [tensor for graph in graphs for tensor in graph.tensors]
    weights = sum(t.size for t in tensors if t.kind in (TensorKind.WEIGHT, TensorKind.OPERAND))
    internal = max((t.offset + t.size for t in tensors if t.kind.is_internal), default=0)
    return MemorySizes(weights, internal, 0)


def _target(named: str, generation: Generation) -> str:
    """The chip; the first toolkits call every one rk3566, so that the NPU decides."""
    if named == "rk3566" and generation is Generation.V2:
        return "rk3588"
    return named


def _generation(word: str) -> Generation:
    try:
        return Generation(word)
    except ValueError:
        raise ModelError(f"the .rknn file is for an unknown NPU: {word[:40]!r}") from None


def _check_identifier(tables: memoryview, origin: int) -> None:
    if bytes(tables[4:8]) != _IDENTIFIER:
        raise ModelError(
            f"the .rknn file's body has {bytes(tables[4:8])!r} at offset {origin + 4}, "
            f"not {_IDENTIFIER!r}"
        )


def _sections_slot(slots: Slots) -> int:
    assert slots.root.sections is not None, "the standard container lists its sections"
    return slots.root.sections
