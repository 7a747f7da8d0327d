"""The `.nb` file (a network binary graph): its tensors, layers, operations and sections.

All integers are little endian; an index of dimensions counts from the innermost. Versions 1.x are
laid out as the open NBG parser of TIM-VX has them, with what newer files add; 2.x as files of the
newest toolkit show it (`v2`). What the operations' commands mean is the matter of whoever runs
them. A soft `.nb` (`writer`) is a 1.x file that carries an ONNX file in a section of its own.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ....errors import ModelError
from ....viplite.abi import BufferFormat, QuantizeFormat
from ....viplite.formats import DTYPES, size_of

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
    "hardware initialisation", "ICD table", "ICD", "PPU parameters",
)  # fmt: skip
SOFT_SECTION = 67
"""The number of the pair, the last one of a file whose fixed part has 920 bytes, that is ours."""

SOFT_IDENTIFIER = b"ANPU"
SOFT_FRAME = struct.Struct("<4s4xQ")
"""What a soft file's section begins with: the identifier and the ONNX file's length."""

TENSOR = struct.Struct("<I6IIIIifi64s")
LAYER = struct.Struct("<64sIII")
OPERATION = struct.Struct("<IIIIIIII")
INITIALISATION = 0xFFFF
"""The type of the operation that comes before all layers."""

SHAPES_OF_SIX = 0x1000B
"""The first version whose tensors have room for six dimensions."""
_OLDEST = 0x10008
_NEWEST = 0x100FF
_OPERATION_SIZES = (24, 28, 32)
_PAIR = struct.Struct("<II")
_MOST_SECTIONS = 256
_LARGEST = 2**31 - 1
_NO_LAYER = (0xFFFF, 0xFFFFFFFF)
_FORMATS = frozenset(BufferFormat)


@dataclass(frozen=True)
class Tensor:
    """An input or output.

    `dims` are innermost first; `format` and `quantization` are numbers of `vip_buffer_format_e` and
    `vip_buffer_quantize_format_e`. `fixed_point_pos` counts where the quantisation is dynamic fixed
    point (a real value is q / 2 ** fixed_point_pos), `scale` and `zero_point` where it is affine.
    """

    name: str
    dims: tuple[int, ...]
    format: int
    quantization: int
    fixed_point_pos: int = 0
    scale: float = 1.0
    zero_point: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes outermost first, as arrays have them."""
        return self.dims[::-1]

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def size(self) -> int:
        """Bytes; buffers have no padding."""
        return size_of(self.shape, DTYPES[BufferFormat(self.format)])


@dataclass(frozen=True)
class Layer:
    """A layer; `operations` is the count that the file gives, which splitting may exceed."""

    name: str
    id: int
    operations: int
    uid: int


@dataclass(frozen=True)
class Operation:
    """What the hardware executes in one go.

    `kind` is 1 for the shader, 2 for the convolution core, 3 for the tensor processor, 6 for the
    SP, `INITIALISATION` for what comes before; `index` is the number among those of its kind.
    `layer` is the layer's number, None for the initialisation.
    """

    kind: int
    index: int
    layer: int | None


@dataclass(frozen=True)
class Section:
    """A part of the file; `number` is its place in the table (1.x) or its type (2.x)."""

    number: int
    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Nbg:
    """What a file says of itself.

    `target` is the number of the NPU that the file is for. `memory_pool_size` is what intermediate
    tensors take in memory, `vip_sram_size` what they take on the chip. `onnx` is the ONNX file
    inside a soft file, None in a compiled one.
    """

    name: str
    version: int
    target: int
    size: int
    cores: int
    memory_pool_size: int
    vip_sram_size: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    operations: tuple[Operation, ...]
    sections: tuple[Section, ...]
    onnx: bytes | None = field(default=None, repr=False)


class View:
    """A file's bytes; whatever is read lies inside, or it is a `ModelError`."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def need(self, offset: int, size: int, what: str) -> None:
        """Make sure that a part is there."""
        if offset + size > len(self.data):
            raise ModelError(
                f"truncated .nb file: {what} takes {size} bytes at offset {offset}, the file has "
                f"{len(self.data)}"
            )

    def unpack(self, form: str | struct.Struct, offset: int, what: str) -> tuple[Any, ...]:
        layout = form if isinstance(form, struct.Struct) else struct.Struct(form)
        self.need(offset, layout.size, what)
        return layout.unpack_from(self.data, offset)


def text(raw: bytes) -> str:
    """A name as the file holds it, up to its first zero byte."""
    return raw.partition(b"\0")[0].decode("utf-8", "replace")


# ---------------------------------------------------------------------------------- version 1.x


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
        onnx=_onnx_inside(view, table.get(SOFT_SECTION)),
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


def checked_tensor(
    offset: int,
    name: str,
    dims: tuple[int, Sequence[int]],
    fmt: int,
    quantization: int,
    position: int,
    scale: float,
    zero_point: int,
) -> Tensor:
    """The tensor of an entry at `offset`, if it makes sense; `dims` is (how many, sizes)."""

    def damaged(what: str) -> ModelError:
        return ModelError(f"damaged .nb file: tensor {name!r} at offset {offset} has {what}")

    count, sizes = dims
    if not 0 < count <= len(sizes):
        raise damaged(f"{count} dimensions, not 1 to {len(sizes)}")
    if fmt not in _FORMATS:
        raise damaged(f"the format {fmt}, which is unknown")
    kept = tuple(sizes[:count])
    if min(kept) < 1 or size_of(kept[::-1], DTYPES[BufferFormat(fmt)]) > _LARGEST:
        raise damaged(f"the sizes {kept}")
    if quantization == QuantizeFormat.TF_ASYMM:
        if not (math.isfinite(scale) and scale > 0):
            raise damaged(f"the scale {scale}")
        return Tensor(name, kept, fmt, quantization, 0, scale, zero_point)
    if quantization == QuantizeFormat.DYNAMIC_FIXED_POINT:
        if not -64 <= position <= 64:
            raise damaged(f"the fixed-point position {position}")
        return Tensor(name, kept, fmt, quantization, position)
    if quantization:
        raise damaged(f"the quantisation {quantization}, which is unknown")
    return Tensor(name, kept, fmt, quantization)


# ------------------------------------------------------------------------ what both versions share


def entries(section: Section | None, count: int, sizes: Sequence[int]) -> range:
    """The offsets of a table's entries, one of whose `sizes` must fill the section exactly."""
    if section is None:
        if count:
            raise ModelError(
                f"damaged .nb file: it counts {count} entries of a table that is empty"
            )
        return range(0)
    for size in sizes:
        if section.size == count * size:
            return range(section.offset, section.offset + section.size, size)
    raise ModelError(
        f"damaged .nb file: section {section.name!r} at offset {section.offset} has {section.size} "
        f"bytes, which are not {count} entries of {' or '.join(map(str, sizes))}"
    )


def read_layers(view: View, section: Section | None, count: int) -> tuple[Layer, ...]:
    """The layer table."""
    layers = []
    for offset in entries(section, count, (LAYER.size,)):
        name, number, operations, uid = view.unpack(LAYER, offset, "a layer's entry")
        layers.append(Layer(text(name), number, operations, uid))
    return tuple(layers)


def read_operations(
    view: View, section: Section | None, count: int, layers: int
) -> tuple[Operation, ...]:
    """The operation table; each operation belongs to one of so many layers, or begins them all."""
    operations = []
    for offset in entries(section, count, _OPERATION_SIZES):
        kind, index, layer = view.unpack("<III", offset, "an operation's entry")
        if kind == INITIALISATION and layer in _NO_LAYER:
            operations.append(Operation(kind, index, None))
            continue
        if layer >= layers:
            raise ModelError(
                f"damaged .nb file: the operation at offset {offset} belongs to layer {layer} of "
                f"{layers}"
            )
        operations.append(Operation(kind, index, layer))
    return tuple(operations)


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
