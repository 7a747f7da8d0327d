"""Sums, means and maxima over pixels or rows."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from ..rounding import to_halves
from .quantized import F16, U8, to_bytes, types
from .shader import Shader
from .task import Array, ShaderTask

_F32 = np.float32


def sum_of_pixels(shader: Shader) -> ShaderTask:
    """The sum of each row's or column's bytes, times a scale, and a constant: a sum or a mean."""
    source, output = shader.images(0x00, 0x20)
    kinds = types(source, output)
    planes, rows, pixels = source.shape
    axes = {(planes, rows, 1): 2, (planes, 1, pixels): 1}
    if kinds not in ((U8, U8), (U8, F16)) or output.shape not in axes:
        raise Unknown(f"sums of {source.shape} {kinds[0]} to {output.shape} {kinds[1]}")
    axis = axes[output.shape]
    count = shader.whole(0x40)
    if count < pixels if axis == 2 else count != rows:
        raise Unknown(f"sums of {count} of {source.shape[axis]} values")
    scale, constant = shader.real(0x44), shader.real(0x48)

    def function(values: Array) -> Array:
        total = values.sum(axis, keepdims=True, dtype=np.int64)
        real = total.astype(_F32) * scale + constant
        return to_bytes(real) if kinds[1] == U8 else to_halves(real)

    return ShaderTask((source,), output, function)


def maximum_of_rows(shader: Shader) -> ShaderTask:
    """The largest of each column's bytes as a real number."""
    source, output = shader.images(0x00, 0x20)
    planes, rows, pixels = source.shape
    if types(source, output) != (U8, F16) or output.shape != (planes, 1, pixels):
        raise Unknown(f"maxima of {source.shape} to {output.shape}")
    if shader.whole(0x40) != 1 or shader.whole(0x44) != rows:
        raise Unknown(f"maxima of {shader.whole(0x44)} of {rows} rows")
    scale, zero = shader.real(0x48), shader.real(0x4C)

    def function(values: Array) -> Array:
        largest = values.max(1, keepdims=True).astype(_F32)
        result: Array = ((largest - zero) * scale).astype(np.float16)
        return result

    return ShaderTask((source,), output, function)


def place_of_maximum(shader: Shader) -> ShaderTask:
    """The number of the row that has a column's largest byte, the first of several."""
    source, output = shader.images(0x00, 0x20)
    planes, rows, pixels = source.shape
    kinds = types(source, output)
    if kinds[0] != U8 or kinds[1] != np.int16 or output.shape != (planes, 1, pixels):
        raise Unknown(f"places of maxima of {source.shape} {kinds[0]} to {output.shape} {kinds[1]}")
    if shader.whole(0x50) != rows - 1:
        raise Unknown(f"a maximum of {shader.whole(0x50) + 1} of {rows} rows")

    def function(values: Array) -> Array:
        places: Array = values.argmax(1)[:, None].astype(np.int16)
        return places

    return ShaderTask((source,), output, function)
