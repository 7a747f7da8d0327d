"""Comparisons of two tensors, and what is chosen by their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..refusal import Unknown
from .arithmetic import rescaled
from .quantized import F16, TRUTH, U8, check_broadcast, types
from .shader import Shader
from .task import Array, ShaderTask

_COMPARISONS: Mapping[str, tuple[np.dtype[np.generic], Callable[[Array, Array], Array]]] = {
    "569736b632da58a2": (F16, np.equal),
    "93b24b535630a1d5": (F16, np.greater),
    "32a14b758c5672cf": (F16, np.greater_equal),
    "0f8856dbde88b7d1": (F16, np.less),
    "2a86e41adb80b63d": (U8, np.greater),
}
"""By the program; the layer's name is the same for all of them."""


def comparison(shader: Shader) -> ShaderTask:
    """Real values compared, each by its own scale and constant, to truth values."""
    a, b, output = shader.images(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    kind, compare = _COMPARISONS.get(shader.program, (None, np.equal))
    if kinds != (kind, kind, TRUTH):
        raise Unknown(f"{kinds[0]} and {kinds[1]} compared, to {kinds[2]}, in this form")
    scale_a, scale_b = shader.real(0xE0), shader.real(0xE8)
    constant_a, constant_b = shader.real(0xE4), shader.real(0xEC)

    def function(x: Array, y: Array) -> Array:
        left = x.astype(np.float32) * scale_a + constant_a
        right = y.astype(np.float32) * scale_b + constant_b
        return compare(left, right).astype(TRUTH)

    return ShaderTask((a, b), output, function)


_CHOICES: Mapping[str, tuple[np.dtype[np.generic], tuple[int, int], tuple[int, int]]] = {
    "33c287acfd0b4c52": (U8, (0x80, 0x90), (0xBC, 0xFC)),
    "2c4d676c1a1dde7b": (F16, (0x80, 0x80), (0xAC, 0xAC)),
}
"""By the program: the operands' type, and where their multipliers and shifts are."""


_LARGEST_BYTE = 255


def _cut(values: Array | np.uint8, factor: int, constant: int, shift: int) -> Array:
    """Bytes in steps of the output, cut, not rounded: what is less than 0 keeps its lower byte."""
    whole = np.asarray(values).astype(np.int64) * factor + constant
    result: Array = whole >> shift
    return result


def choice(shader: Shader) -> ShaderTask:
    """The first of two where a truth value is true, else the second; in steps of the output."""
    chosen, a, b, output = shader.images(0x00, 0x20, 0x40, 0x60)
    check_broadcast(output, chosen, a, b)
    kind, multipliers, places = _CHOICES.get(shader.program, (None, (0, 0), (0, 0)))
    if types(chosen, a, b, output) != (TRUTH, kind, kind, U8):
        raise Unknown(f"a choice of {a.dtype} and {b.dtype} to {output.dtype} in this form")
    forms = [
        (shader.whole(register), shader.signed(register + 4), shader.whole(place) & 63)
        for register, place in zip(multipliers, places, strict=True)
    ]
    if not all(0 < shift < 32 for _, _, shift in forms):
        raise Unknown(f"a choice of values shifted by {forms[0][2]} and {forms[1][2]} bits")
    if kind == U8 and any(_cut(np.uint8(255), *form) > _LARGEST_BYTE for form in forms):
        raise Unknown("a choice of values beyond the output's range")

    def function(truth: Array, x: Array, y: Array) -> Array:
        brought = rescaled if kind == F16 else _cut
        first, second = (brought(values, *form) for values, form in zip((x, y), forms, strict=True))
        result: Array = np.where(truth, first, second).astype(np.int64).astype(np.uint8)
        return result

    return ShaderTask((chosen, a, b), output, function)
