"""Softmax over pixels of a row, or over rows."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from ..rounding import to_halves
from .quantized import F16, U8, check_same, to_bytes, types
from .shader import Shader
from .task import Array, ShaderTask


def softmax(shader: Shader) -> ShaderTask:
    """Powers of two of the differences to the maximum, in steps that a scale gives."""
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    kinds = types(source, output)
    if kinds not in ((U8, F16), (F16, F16), (U8, U8)):
        raise Unknown(f"softmax of {kinds[0]} to {kinds[1]}")
    length = shader.whole(0x40)
    over_pixels = shader.whole(0x44) < 1 << 24
    scale = shader.real(0x48 if over_pixels else 0x44)
    axis = 2 if over_pixels else 1
    if length != source.shape[axis]:
        raise Unknown(f"softmax of {length} of {source.shape[axis]} values")
    factor, zero = np.float32(1), np.float32(0)
    if kinds[1] == U8:
        factor = shader.real(0x130 if over_pixels else 0x48)
        zero = shader.real(0x134 if over_pixels else 0x4C)

    def function(values: Array) -> Array:
        real = values.astype(np.float32)
        powers = np.exp2((real - real.max(axis, keepdims=True)) * scale)
        shares = powers / np.add.accumulate(powers, axis).take([-1], axis)
        if kinds[1] == U8:
            return to_bytes(shares * factor + zero)
        halves: Array = to_halves(shares)
        return halves

    return ShaderTask((source,), output, function)
