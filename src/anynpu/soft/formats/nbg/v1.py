"""Versions 1.x of the `.nb` file: where its tables lie.

All integers are little endian. The layout is that of the open NBG parser of TIM-VX, with what newer
files add. A soft `.nb` (`writer`) is such a file that carries an ONNX file in a section of its own.
"""

from __future__ import annotations

import struct

from ....errors import ModelError
from .executable import Parts, read_executable
from .model import COMMAND_WORDS, Nbg, Section, Tensor
from .view import View, checked_tensor, entries, read_layers, read_operations, text

MAGIC = b"VPMN"
NAME_LENGTH = 64
MAX_DIMS = 6
HEADER = struct.Struct("<4sII64sIIII")
"""Magic, version, target, name, and how many layers, operations, inputs and outputs."""

FEATURES_SIZE = 256
CORE_COUNT_OFFSET = HEADER.size + 8
MEMORY_POOL_OFFSET = HEADER.size + FEATURES_SIZE
MEMORY = struct.Struct("<I20xI")
"""The memory pool's size and, behind its alignment and base and the AXI SRAM's, the VIP SRAM's."""

SECTIONS_OFFSET = MEMORY_POOL_OFFSET + MEMORY.size
NAMED_SECTIONS = (
    "inputs", "outputs", "layers", "operations", "LCD table", "LCD", "NN operations",
    "TP operations", "shader operations", "patches", "layer parameters", "software operations",
    "hardware initialisation", "ICD table", "ICD", "PPU parameters", "extension 16",
    "extension 17", "shader programs", "constants", "states", "extension 21", "coefficient table",
    "coefficients", "shader program table", "constant table", "state table",
)  # fmt: skip
SOFT_SECTION = 67
"""The number of the pair, the last one of a file whose fixed part has 920 bytes, that is ours."""

SOFT_IDENTIFIER = b"ANPU"
SOFT_FRAME = struct.Struct("<4s4xQ")
"""What a soft file's section begins with: the identifier and the ONNX file's length."""

TENSOR = struct.Struct("<I6IIIIifi64s")
SHAPES_OF_SIX = 0x1000B
"""The first version whose tensors have room for six dimensions."""
_OLDEST = 0x10008
_NEWEST = 0x100FF
_PAIR = struct.Struct("<II")
_MOST_SECTIONS = 256
_SHORT_COMMAND = 128
"""Bytes of an NN command of chips whose features have no other size."""


def is_version(version: int) -> bool:
    """Whether files of this version are laid out as is known."""
    return _OLDEST <= version <= _NEWEST


def read_v1(view: View, version: int) -> Nbg:
    header = view.unpack(HEADER, 0, "the header")
    _, _, target, name, layer_count, operation_count, input_count, output_count = header
    (cores,) = view.unpack("<H", CORE_COUNT_OFFSET, "the feature database")
    pool, sram = view.unpack(MEMORY, MEMORY_POOL_OFFSET, "the memory pool")
    sections = _sections(view)
    table = {section.number: section for section in sections}
    inputs = _tensors(view, table.get(0), input_count, version)
    outputs = _tensors(view, table.get(1), output_count, version)
    layers = read_layers(view, table.get(2), layer_count)
    operations = read_operations(view, table.get(3), operation_count, len(layers))
    onnx = _onnx_inside(view, table.get(SOFT_SECTION))
    executable = None
    if onnx is None:
        (features,) = view.unpack("<I", HEADER.size, "the feature database")
        command_bytes = _SHORT_COMMAND if features >> 2 & 3 == 0 else 4 * COMMAND_WORDS
        executable = read_executable(view, version, _parts(table), operations, command_bytes)
    return Nbg(
        name=text(name),
        version=version,
        target=target,
        size=len(view.data),
        cores=cores,
        memory_pool_size=pool,
        vip_sram_size=sram,
        inputs=inputs,
        outputs=outputs,
        layers=layers,
        operations=operations,
        sections=sections,
        onnx=onnx,
        executable=executable,
    )


def _parts(table: dict[int, Section]) -> Parts:
    """Newer files have coefficients and register loads apart, older ones in one place."""
    one_place = table.get(4), table.get(5)
    return Parts(
        nn=table.get(6),
        tp=table.get(7),
        patches=table.get(9),
        coefficients=(table[22], table.get(23)) if 22 in table else one_place,
        constants=(table.get(25), table.get(19)),
        states=(table[26], table.get(20)) if 26 in table else one_place,
        shaders=table.get(8) if 24 in table else None,
        programs=(table.get(24), table.get(18)),
    )


def _sections(view: View) -> tuple[Section, ...]:
    """The parts that aren't empty; the table ends where the first of them begins."""
    found = []
    end = SECTIONS_OFFSET + _MOST_SECTIONS * _PAIR.size
    number, position = 0, SECTIONS_OFFSET
    while position + _PAIR.size <= end:
        offset, size = view.unpack(_PAIR, position, "the table of sections")
        name = NAMED_SECTIONS[number] if number < len(NAMED_SECTIONS) else f"extension {number}"
        if number == SOFT_SECTION and size:
            name = "ONNX"
        if size:
            view.need(offset, size, f"section {name!r}, which offset {position} announces,")
            if offset < position + _PAIR.size:
                raise ModelError(
                    f"damaged .nb file: offset {position} puts section {name!r} at {offset}, "
                    f"inside the header"
                )
            found.append(Section(number, name, offset, size))
            end = min(end, offset)
        number, position = number + 1, position + _PAIR.size
    return tuple(found)


def _tensors(view: View, section: Section | None, count: int, version: int) -> tuple[Tensor, ...]:
    dims = MAX_DIMS if version >= SHAPES_OF_SIX else 4
    layout = struct.Struct(f"<I{dims}IIIIifi64s")
    return tuple(
        _tensor(view, layout, offset, dims) for offset in entries(section, count, (layout.size,))
    )


def _tensor(view: View, layout: struct.Struct, offset: int, most: int) -> Tensor:
    fields = view.unpack(layout, offset, "a tensor's entry")
    count, sizes, (fmt, _, quantization, position, scale, zero_point, name) = (
        fields[0], fields[1 : 1 + most], fields[1 + most :],
    )  # fmt: skip
    return checked_tensor(
        offset, text(name), (count, sizes), fmt, quantization, position, scale, zero_point
    )


def _onnx_inside(view: View, section: Section | None) -> bytes | None:
    if section is None or section.size < SOFT_FRAME.size:
        return None
    identifier, size = view.unpack(SOFT_FRAME, section.offset, "the ONNX section")
    if identifier != SOFT_IDENTIFIER:
        return None
    start = section.offset + SOFT_FRAME.size
    if size != section.size - SOFT_FRAME.size:
        raise ModelError(
            f"damaged soft .nb file: offset {section.offset + 8} announces an ONNX file of {size} "
            f"bytes, the section holds {section.size - SOFT_FRAME.size}"
        )
    return view.data[start : start + size]
