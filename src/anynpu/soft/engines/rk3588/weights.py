"""Unpack weights and per-channel operands from the order that the hardware streams them in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tasks import Element, OperandBlock, WeightLayout


def widen(values: NDArray[Any], element: Element) -> NDArray[np.float32]:
    """Elements as stored to float32; uint16 carries bfloat16."""
    if element is Element.BFLOAT16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


def unpack_weights(data: NDArray[np.uint8], layout: WeightLayout) -> NDArray[np.float32]:
    """The bytes of all kernels to float32 (K, C, KH, KW), or (C, KH, KW) if depthwise."""
    stored = np.ascontiguousarray(data).view(layout.element.dtype)
    if layout.has_zero_points:
        pairs = stored.reshape(-1, 2).astype(np.float32)
        values = pairs[:, 0] + pairs[:, 1]
    else:
        values = widen(stored, layout.element)
    return _depthwise(values, layout) if layout.is_depthwise else _dense(values, layout)


def _depthwise(values: NDArray[np.float32], layout: WeightLayout) -> NDArray[np.float32]:
    height, width = layout.height, layout.width
    result = np.empty((layout.channels, height, width), np.float32)
    place = 0
    for first in range(0, layout.channels, layout.channel_group):
        count = min(layout.channel_group, layout.channels - first)
        block = values[place : place + height * width * count].reshape(height, width, count)
        result[first : first + count] = block.transpose(2, 0, 1)
        place += block.size
    return result


def _dense(values: NDArray[np.float32], layout: WeightLayout) -> NDArray[np.float32]:
    height, width = layout.height, layout.width
    result = np.empty((layout.kernels, layout.channels, height, width), np.float32)
    place = 0
    for kernel in range(0, layout.kernels, layout.kernel_group):
        kernels = min(layout.kernel_group, layout.kernels - kernel)
        for channel in range(0, layout.channels, layout.channel_group):
            channels = min(layout.channel_group, layout.channels - channel)
            block = values[place : place + height * width * kernels * channels]
            place += block.size
            result[kernel : kernel + kernels, channel : channel + channels] = block.reshape(
                height, width, kernels, channels
            ).transpose(2, 3, 0, 1)
    return result


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
