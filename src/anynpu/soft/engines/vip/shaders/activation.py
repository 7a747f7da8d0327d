"""Functions of one value."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from .quantized import F16, U8, check_same, types
from .shader import Shader
from .task import Array, ShaderTask

_F32 = np.float32
_SOFTPLUS = {0x40: 0x3FB8AA3B, 0x44: 0x3F317218}
"""The constants that only softplus takes both of: the binary logarithm of e, and its inverse."""


def activation(shader: Shader) -> ShaderTask:
    """The softplus of bytes; the name is the same for all functions, the constants tell them."""
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
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
