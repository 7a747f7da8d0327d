"""Bytes or float16 whose negative values have a slope."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from ..rounding import cut, cut_to_half, normal_halves, to_halves
from .quantized import F16, U8, check_broadcast, check_same, to_bytes, types
from .shader import Shader
from .task import Array, ShaderTask

_OF_ROWS, _OF_HALVES = "b5c21e0931bded26", "ac50cb3a3e7b3fe9"
"""The programs whose slopes are one a row, which is a network's plane: of bytes, of float16."""

_F32 = np.float32
_LARGEST_BYTE, _HALF_BITS = 255, 11
"""Steps are cut to the significant bits of float16."""


def slopes(shader: Shader) -> ShaderTask:
    """Bytes in steps of the output, cut to float16; negative ones times their row's slope."""
    if shader.program == _OF_HALVES:
        return _slopes_of_halves(shader)
    source, factors, output = shader.images(0x00, 0x20, 0x40)
    check_same(output, source)
    planes, rows, _ = source.shape
    if types(source, factors, output) != (U8, F16, U8) or shader.program != _OF_ROWS:
        raise Unknown(f"slopes of {source.dtype} to {output.dtype} in this form")
    if planes != 1 or factors.shape != (1, 1, rows):
        raise Unknown(f"slopes of {factors.shape} for {source.shape}")
    own, zero = shader.whole(0x60), shader.whole(0x130)
    multiplier, shift = shader.whole(0x90) & 0xFFFF, shader.whole(0x8C) & 63
    if max(own, zero) > _LARGEST_BYTE or shift >= 32:
        raise Unknown(f"slopes of bytes with the zero points {own} and {zero}")
    unit = multiplier * 2.0**-shift

    def function(values: Array, each: Array) -> Array:
        steps = cut((values.astype(np.float64) - own) * unit, _HALF_BITS).astype(_F32)
        factor = np.where(steps >= 0, _F32(1), each.astype(_F32).reshape(1, rows, 1))
        return to_bytes(np.rint(steps * factor) + zero)

    return ShaderTask((source, factors), output, function)


def slopes_of_reals(shader: Shader) -> ShaderTask:
    """Bytes as real numbers; negative ones times a slope, which may be one of a row."""
    source, factors, output = shader.images(0x00, 0x20, 0x40)
    check_same(output, source)
    check_broadcast(output, factors)
    if types(source, factors, output) != (U8, F16, F16):
        raise Unknown(f"slopes of {source.dtype} to {output.dtype} in this form")
    own, scale, constant = shader.whole(0x60), shader.real(0x64), shader.real(0x68)

    def function(values: Array, each: Array) -> Array:
        real = (values.astype(_F32) - _F32(own)) * scale
        negative = each.astype(_F32) * np.minimum(real, 0)
        return to_halves(negative + np.maximum(real, 0) + constant)

    return ShaderTask((source, factors), output, function)


def _slopes_of_halves(shader: Shader) -> ShaderTask:
    """Negative float16 by the slope of their row, which is a plane of a network, cut to float16."""
    source, slopes, output = shader.images(0x00, 0x20, 0x40)
    check_same(output, source)
    planes, rows, _ = source.shape
    if types(source, slopes, output) != (F16, F16, F16) or shader.program != _OF_HALVES:
        raise Unknown(f"slopes of {slopes.dtype} for {source.dtype} in this form")
    if planes != 1 or slopes.shape != (1, 1, rows):
        raise Unknown(f"slopes of {slopes.shape} for {source.shape}")

    def function(values: Array, factors: Array) -> Array:
        products = normal_halves(values) * normal_halves(factors[0, 0])[:, None]
        result: Array = np.where(values < 0, cut_to_half(products), values).astype(np.float16)
        return result

    return ShaderTask((source, slopes), output, function)
