"""The convolution: an exact integer sum, or one in float32.

How wide the hardware adds floats, and in which order, is not known. Here sums are float32, begin
with zero and add one product after the other, each rounded to float32 first: the kernel's places
row by row, and in each the channels in their order. Products of two float16 are exact in float32,
so that fusing the multiplication and the addition changes nothing for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..layout import weight_view
from ..memory import Memory
from ..rounding import shifted
from ..tasks import Convolution, Image, InputConversion, OffsetPlace
from ..weights import unpack_weights, widen
from .dpu import operand_values
from .features import read_features, read_image
from .weights import effective_weights

_EXACT = 1 << 24
"""Whole numbers up to here are exact in float32, and so are sums that stay below."""

_LARGEST_INPUT = 128
_LARGEST_MATRIX = 1 << 24
"""Elements that are laid out for one matrix product."""

_SUMS_AT_ONCE = 1 << 15
"""float32 sums that stay in the cache while products are added."""


def convolve(memory: Memory, convolution: Convolution) -> NDArray[Any]:
    """The accumulators (K, H, W): int64, or float32 for float elements."""
    padded = _padded_input(memory, convolution)
    weights = _weights(memory, convolution)
    is_float = convolution.source.element.is_float
    kind = np.float32 if is_float or _is_exact(weights, convolution) else np.float64
    padded, weights = padded.astype(kind, copy=False), weights.astype(kind, copy=False)
    if convolution.weights.layout.is_depthwise:
        sums = _depthwise(padded, weights, convolution)
    elif is_float:
        sums = _one_by_one(padded, weights, convolution)
    else:
        sums = _dense(padded, weights, convolution)
    if is_float:
        return sums
    return shifted(sums.astype(np.int64), convolution.truncate, convolution.truncate_ties)


def _weights(memory: Memory, convolution: Convolution) -> NDArray[np.float32]:
    stored = convolution.weights
    if stored.is_constant:
        values = stored.values
    else:
        values = unpack_weights(memory.view(weight_view(stored)), stored.layout)
    offset = convolution.weight_offset
    offsets = None if offset is None else operand_values(memory, offset, is_float=False)
    return effective_weights(convolution, values, offsets)


def _is_exact(weights: NDArray[np.float32], convolution: Convolution) -> bool:
    """Whether no sum of products, in any order, leaves the whole numbers of float32."""
    axes = (1, 2) if convolution.weights.layout.is_depthwise else (1, 2, 3)
    largest = max(_LARGEST_INPUT, abs(convolution.padding_value))
    return bool(np.abs(weights).sum(axes, dtype=np.float64).max() * largest < _EXACT)


def _padded_input(memory: Memory, convolution: Convolution) -> NDArray[np.float32]:
    """The input as float32 (C, H, W), with zeros between pixels and padding on all sides."""
    source = convolution.source
    if isinstance(source, Image):
        values = widen(read_image(memory, source), source.element)
    else:
        values = widen(read_features(memory, source), source.element)
    # What lies after the valid channels is arbitrary, and may be NaN.
    values[convolution.valid_channels :] = 0
    if convolution.conversion:
        values = convert_input(values, convolution.conversion)
    values = spread(values, convolution.inserted, convolution.padding_value)
    channels, height, width = values.shape
    top, left = convolution.padding
    layout = convolution.weights.layout
    rows = reach(convolution.height, layout.height, convolution.stride[0], convolution.dilation[0])
    columns = reach(convolution.width, layout.width, convolution.stride[1], convolution.dilation[1])
    shape = (channels, max(rows, height + top), max(columns, width + left))
    padded = np.full(shape, convolution.padding_value, np.float32)
    padded[:, top : top + height, left : left + width] = values
    return padded


def reach(outputs: int, kernel: int, stride: int, dilation: int) -> int:
    """How many inputs a row of outputs looks at."""
    return (outputs - 1) * stride + (kernel - 1) * dilation + 1


def convert_input(values: NDArray[np.float32], how: InputConversion) -> NDArray[np.float32]:
    """Bytes (C, ...) as floats from -128 to 127 to what is multiplied, int8 as well."""
    result = np.empty_like(values)
    for lane in range(4):
        channel = values[lane::4].astype(np.int64)
        if how.is_unsigned:
            channel &= 0xFF
        offset, scale, shift = how.offsets[lane], how.scales[lane], how.shifts[lane]
        match how.place:
            case OffsetPlace.BEFORE_SCALE:
                converted = shifted((channel + offset) * scale, shift, how.ties)
            case OffsetPlace.BEFORE_SHIFT:
                converted = shifted(channel * scale + offset, shift, how.ties)
            case OffsetPlace.AFTER_SHIFT:
                converted = shifted(channel * scale, shift, how.ties) + offset
        result[lane::4] = np.clip(converted, -128, 127)
    return result


def spread(values: NDArray[Any], inserted: tuple[int, int], between: float | bool) -> NDArray[Any]:
    """Values (C, H, W) with so many rows and columns of another one between them."""
    rows, columns = inserted
    if not (rows or columns):
        return values
    channels, height, width = values.shape
    shape = (channels, (height - 1) * (rows + 1) + 1, (width - 1) * (columns + 1) + 1)
    result = np.full(shape, between, values.dtype)
    result[:, :: rows + 1, :: columns + 1] = values
    return result


def window(padded: NDArray[Any], convolution: Convolution, row: int, column: int) -> NDArray[Any]:
    """What one weight of the kernels sees: (C, H, W) of the output's size."""
    (step_y, step_x), (apart_y, apart_x) = convolution.stride, convolution.dilation
    first = padded[:, row * apart_y :, column * apart_x :]
    channel, line, pixel = first.strides
    seen: NDArray[Any] = np.lib.stride_tricks.as_strided(
        first,
        (len(first), convolution.height, convolution.width),
        (channel, line * step_y, pixel * step_x),
        writeable=False,
    )
    return seen


def _depthwise(
    padded: NDArray[Any], weights: NDArray[Any], convolution: Convolution
) -> NDArray[Any]:
    sums = np.zeros(convolution.shape, padded.dtype)
    for row in range(weights.shape[1]):
        for column in range(weights.shape[2]):
            seen = window(padded, convolution, row, column)
            sums += seen * weights[:, row, column, None, None]
    return sums


def _dense(padded: NDArray[Any], weights: NDArray[Any], convolution: Convolution) -> NDArray[Any]:
    kernels, _, height, width = weights.shape
    matrix = weights.reshape(kernels, -1)
    sums = np.empty((kernels, convolution.height, convolution.width), padded.dtype)
    rows = max(1, _LARGEST_MATRIX // (matrix.shape[1] * convolution.width))
    for first in range(0, convolution.height, rows):
        part = slice(first, first + rows)
        seen = [
            window(padded, convolution, row, column)[:, part]
            for row in range(height)
            for column in range(width)
        ]
        columns = np.stack(seen, axis=1)
        product = matrix @ columns.reshape(matrix.shape[1], -1)
        sums[:, part] = product.reshape(kernels, -1, convolution.width)
    return sums


def _one_by_one(
    padded: NDArray[Any], weights: NDArray[Any], convolution: Convolution
) -> NDArray[np.float32]:
    """Dense sums of floats, which depend on the order."""
    kernels, channels, height, width = weights.shape
    sums = np.zeros((kernels, convolution.height, convolution.width), np.float32)
    rows = max(1, _SUMS_AT_ONCE // (kernels * convolution.width))
    product = np.empty_like(sums[:, :rows])
    for first in range(0, convolution.height, rows):
        part = slice(first, first + rows)
        total = sums[:, part]
        own = product[:, : total.shape[1]]
        for row in range(height):
            for column in range(width):
                seen = window(padded, convolution, row, column)[:, part]
                for channel in range(channels):
                    factor = weights[:, channel, row, column, None, None]
                    np.multiply(factor, seen[channel], out=own)
                    np.add(total, own, out=total)
    return sums
