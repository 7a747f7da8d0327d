"""Powers of real values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..refusal import Unknown
from ..rounding import to_halves
from .quantized import F16, ONE, U8, check_broadcast, types
from .shader import Shader
from .task import Array, ShaderTask

_F32 = np.float32
_PROGRAMS: Mapping[tuple[np.dtype[np.generic], ...], str] = {
    (F16, U8, F16): "6ccbda73d81c3aa9",
    (U8, F16, F16): "4608a9373a23a43f",
    (F16, F16, F16): "8e11dff56d197ae4",
}


def tensor_pow(shader: Shader) -> ShaderTask:
    """A to the power of b, both made real by a scale and a constant, to float16.

    The power of a negative number is negative where b, cut to a whole number, is odd; that of 0 is
    negative infinity where b is 0 or less. Neither zero is negative.
    """
    a, b, output = shader.images(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    if not shader.program or _PROGRAMS.get(kinds) != shader.program:
        raise Unknown(f"powers of {kinds[0]} by {kinds[1]} to {kinds[2]} in this form")
    shader.expect({0xF0: ONE, 0xF4: 0})
    scale_a, constant_a = shader.real(0xE0), shader.real(0xE4)
    scale_b, constant_b = shader.real(0xE8), shader.real(0xEC)

    def power(x: Array, y: Array) -> Array:
        base = x.astype(_F32) * scale_a + constant_a
        exponent = y.astype(_F32) * scale_b + constant_b
        magnitude = np.exp2(np.log2(np.abs(base)) * exponent)
        is_odd = np.trunc(exponent) % 2 != 0
        signed = np.where((base < 0) & is_odd, -magnitude, magnitude)
        halves = to_halves(np.where((base == 0) & (exponent <= 0), -_F32(np.inf), signed))
        result: Array = halves + np.float16(0)
        return result

    return ShaderTask((a, b), output, power)
