"""Weights and per-channel operands: the order in which the hardware streams them, and out of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .elements import Address, Element


@dataclass(frozen=True)
class WeightLayout:
    """How kernels lie in memory: blocks of `kernel_group` kernels, of `channel_group` channels.

    Within a block: height, width, kernel, channel. `channels` counts those that are stored, which
    may be more than are used. Depthwise weights are groups of `channel_group` channels, within
    them height, width, channel; `kernels` is 1. Where `with_zero_points` isn't 0, so
    many depthwise weights have as many zero points after them, and sums of both count. Where
    `row_bytes` isn't 0, a kernel's row has so many: pixels side by side, and padding.
    """

    element: Element
    kernels: int
    channels: int
    height: int
    width: int
    kernel_group: int
    channel_group: int
    is_depthwise: bool
    with_zero_points: int = 0
    row_bytes: int = 0

    @property
    def bytes(self) -> int:
        if self.row_bytes:
            return self.kernels * self.height * self.row_bytes
        count = self.kernels * self.channels * self.height * self.width * self.element.size
        return 2 * count if self.with_zero_points else count


@dataclass(frozen=True, eq=False)
class Weights:
    """Kernels (K, C, KH, KW), or (C, KH, KW) if depthwise, of whole numbers or floats in float32.

    `data` are the bytes of constant ones; those that another task computes are None here and are
    read from `address` for each run.
    """

    address: Address
    layout: WeightLayout
    data: NDArray[np.uint8] | None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @cached_property
    def values(self) -> NDArray[np.float32]:
        """Constant kernels, unpacked when they are first asked for."""
        assert self.data is not None, "only constant weights have values"
        values = unpack_weights(self.data, self.layout)
        values.flags.writeable = False
        return values


@dataclass(frozen=True)
class OperandBlock:
    """Per-channel operands of a stage, as its DMA reads them.

    Bits of `use` select the parts: 0 "add" (int32 or float32), 1 "weight_offset" (int16),
    2 "multiply" (int16 or float16). With more than one part, each group of `group` channels has its
    parts one after another.
    """

    use: int
    channels: int
    is_float: bool
    group: int

    @property
    def parts(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        return _parts(self.use, self.is_float)

    @property
    def groups(self) -> int:
        return -(-self.channels // self.group)

    @property
    def bytes(self) -> int:
        lane_bytes = sum(kind.itemsize for _, kind in self.parts)
        if len(self.parts) == 1:
            return self.channels * lane_bytes
        return self.groups * self.group * lane_bytes


@lru_cache(maxsize=16)
def _parts(use: int, is_float: bool) -> tuple[tuple[str, np.dtype[Any]], ...]:
    wide, narrow = (np.float32, np.float16) if is_float else (np.int32, np.int16)
    parts = (("add", wide), ("weight_offset", np.int16), ("multiply", narrow))
    return tuple((name, np.dtype(kind)) for bit, (name, kind) in enumerate(parts) if use >> bit & 1)


@dataclass(frozen=True)
class StoredOperand:
    """One part of an operand block that another task computes: read for each run."""

    address: Address
    block: OperandBlock
    part: str


Operand = int | float | NDArray[Any] | StoredOperand
"""A number for all channels, an array (C, 1, 1), or where to find that."""


def widen(values: NDArray[Any], element: Element) -> NDArray[np.float32]:
    """Elements as stored to float32; uint16 carries bfloat16."""
    if element is Element.BFLOAT16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def unpack_weights(data: NDArray[np.uint8], layout: WeightLayout) -> NDArray[np.float32]:
    """The bytes of all kernels to float32 (K, C, KH, KW), or (C, KH, KW) if depthwise."""
    stored = np.ascontiguousarray(data).view(layout.element.dtype)
    if layout.with_zero_points:
        pairs = stored.reshape(-1, 2, layout.with_zero_points).astype(np.float32)
        # Kernels of one positive value have the zero point 128, which the byte holds as -128.
        zero_points = np.where(pairs[:, 1] == -128, np.float32(128), pairs[:, 1])
        return arrange_kernels((pairs[:, 0] + zero_points).reshape(-1), layout)
    return widen(arrange_kernels(stored, layout), layout.element)


def arrange_kernels(values: NDArray[Any], layout: WeightLayout) -> NDArray[Any]:
    """Values in the order of memory to (K, C, KH, KW), or (C, KH, KW) if depthwise; a copy."""
    if layout.row_bytes:
        return _rows(values, layout)
    return _depthwise(values, layout) if layout.is_depthwise else _dense(values, layout)


def _depthwise(values: NDArray[Any], layout: WeightLayout) -> NDArray[Any]:
    height, width = layout.height, layout.width
    result = np.empty((layout.channels, height, width), values.dtype)
    place = 0
    for first in range(0, layout.channels, layout.channel_group):
        count = min(layout.channel_group, layout.channels - first)
        block = values[place : place + height * width * count].reshape(height, width, count)
        result[first : first + count] = block.transpose(2, 0, 1)
        place += block.size
    return result


def _rows(values: NDArray[Any], layout: WeightLayout) -> NDArray[Any]:
    height, width, channels = layout.height, layout.width, layout.channels
    stride = layout.row_bytes // layout.element.size
    result = np.empty((layout.kernels, channels, height, width), values.dtype)
    for first in range(0, layout.kernels, layout.kernel_group):
        kernels = min(layout.kernel_group, layout.kernels - first)
        place = first * height * stride
        rows = values[place : place + height * kernels * stride].reshape(height, kernels, stride)
        pixels = rows[..., : width * channels].reshape(height, kernels, width, channels)
        result[first : first + kernels] = pixels.transpose(1, 3, 0, 2)
    return result


def _dense(values: NDArray[Any], layout: WeightLayout) -> NDArray[Any]:
    height, width, channels = layout.height, layout.width, layout.channels
    result = np.empty((layout.kernels, channels, height, width), values.dtype)
    place = 0
    for kernel, groups, kernels in _groups(layout.kernels, layout.kernel_group):
        size = groups * kernels * channels * height * width
        blocks = values[place : place + size].reshape(groups, -1)
        rows = result[kernel : kernel + groups * kernels]
        rows = rows.reshape(groups, kernels, channels, height, width)
        place, column = place + size, 0
        for channel, parts, some in _groups(channels, layout.channel_group):
            count = parts * some * kernels * height * width
            block = blocks[:, column : column + count].reshape(
                groups, parts, height, width, kernels, some
            )
            target = rows[:, :, channel : channel + parts * some].reshape(
                groups, kernels, parts, some, height, width
            )
            target[...] = block.transpose(0, 4, 1, 5, 2, 3)
            column += count
    return result


def _groups(count: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Whole groups of things, and what is left: the first thing, how many groups, how large."""
    whole = count // size
    if whole:
        yield 0, whole, size
    if count % size:
        yield whole * size, 1, count % size


def unpack_operands(data: NDArray[np.uint8], block: OperandBlock) -> dict[str, NDArray[Any]]:
    """Each part as (C, 1, 1): int64, or float32 for a float block."""
    kind = np.float32 if block.is_float else np.int64
    if len(block.parts) == 1:
        name, stored = block.parts[0]
        return {name: np.ascontiguousarray(data).view(stored).astype(kind)[:, None, None]}
    grouped = data.reshape(block.groups, -1)
    result = {}
    place = 0
    for name, stored in block.parts:
        size = block.group * stored.itemsize
        lanes = np.ascontiguousarray(grouped[:, place : place + size]).view(stored).reshape(-1)
        result[name] = lanes[: block.channels].astype(kind)[:, None, None]
        place += size
    return result
