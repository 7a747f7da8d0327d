"""Functions of one value."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from ..rounding import to_halves
from .quantized import F16, U8, check_same, types
from .shader import Image, Shader
from .task import Array, ShaderTask

_F32 = np.float32
_SOFTPLUS = {0x40: 0x3FB8AA3B, 0x44: 0x3F317218}
"""The constants that only softplus takes both of: the binary logarithm of e, and its inverse."""


_SQUARE_ROOT = "eed8909c256a8ddf"
"""The program for float16 values; nothing but the code tells it from other functions."""

_EXPONENTIAL = "3e84838794139bc1"
"""That of bytes to float16."""

_LARGEST_HALF = np.float16(65504)


def activation(shader: Shader) -> ShaderTask:
    """A function of each value; the layer's name is the same for all of them.

    Softplus of bytes is told by its constants, others by their programs.
    """
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    if types(source, output) == (F16, F16) and shader.program == _SQUARE_ROOT:
        return ShaderTask((source,), output, _square_root)
    if types(source, output) == (U8, F16) and shader.program == _EXPONENTIAL:
        return _exponential(shader, source, output)
    if types(source, output) != (U8, F16):
        raise Unknown(f"an activation of {source.dtype} to {output.dtype}")
    shader.expect(_SOFTPLUS)
    to_binary, to_natural = shader.real(0x40), shader.real(0x44)
    scale, constant = shader.real(0x48), shader.real(0x4C)

    def function(values: Array) -> Array:
        real = values.astype(_F32) * scale + constant
        grown = np.log2(_F32(1) + np.exp2(real * to_binary))
        result: Array = (grown * to_natural).astype(np.float16)
        return result

    return ShaderTask((source,), output, function)


def _exponential(shader: Shader, source: Image, output: Image) -> ShaderTask:
    to_binary, scale, constant = shader.real(0x40), shader.real(0x44), shader.real(0x48)
    if shader.real(0x4C) != 1:
        raise Unknown("powers with a factor")

    def function(values: Array) -> Array:
        real = values.astype(_F32) * scale + constant
        result: Array = to_halves(np.exp2(real * to_binary))
        return result

    return ShaderTask((source,), output, function)


def _square_root(values: Array) -> Array:
    """Roots of float16; what has none is the least float16."""
    with np.errstate(invalid="ignore"):
        roots = np.sqrt(values.astype(_F32))
    result: Array = np.where(np.isnan(roots), -_LARGEST_HALF, roots.astype(np.float16))
    return result
