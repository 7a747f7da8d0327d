"""Access to a file's bytes that lie inside it, and what the tables of all versions share."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ....viplite.abi import BufferFormat, QuantizeFormat
from ....viplite.formats import DTYPES, size_of
from .model import Layer, Operation, OperationKind, Section, Tensor

LAYER = struct.Struct("<64sIII")
OPERATION = struct.Struct("<IIIIIIII")
_OPERATION_SIZES = (24, 28, 32)
_LARGEST = 2**31 - 1
_NO_LAYER = (0xFFFF, 0xFFFFFFFF)
_FORMATS = frozenset(BufferFormat)
_SETTING_UP = (OperationKind.INITIALISATION, OperationKind.FINAL)


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

    def bytes_of(self, section: Section | None) -> NDArray[np.uint8]:
        """A section's bytes in place, none for one that isn't there."""
        if section is None:
            return np.empty(0, np.uint8)
        return np.frombuffer(self.data, np.uint8, section.size, section.offset)


def text(raw: bytes) -> str:
    """A name as the file holds it, up to its first zero byte."""
    return raw.partition(b"\0")[0].decode("utf-8", "replace")


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
    """The operation table; each operation belongs to one of the layers, or begins them all."""
    operations = []
    for offset in entries(section, count, _OPERATION_SIZES):
        entry = view.unpack("<6I", offset, "an operation's entry")
        kind, index, layer, state, first, patches = entry
        if kind in _SETTING_UP and layer in _NO_LAYER:
            operations.append(Operation(kind, index, None, state, range(first, first + patches)))
            continue
        if layer >= layers:
            raise ModelError(
                f"damaged .nb file: the operation at offset {offset} belongs to layer {layer} of "
                f"{layers}"
            )
        operations.append(Operation(kind, index, layer, state, range(first, first + patches)))
    return tuple(operations)


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
