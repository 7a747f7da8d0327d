"""Sums, products and quotients of two tensors; the larger of two."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from .quantized import F16, U8, check_broadcast, check_same, to_bytes, types
from .shader import Shader
from .task import Array, ShaderTask

_F32 = np.float32


def tensor_add(shader: Shader) -> ShaderTask:
    """A * scale + b * scale + zero point; uint8 operands lose their zero point first."""
    a, b, output = shader.images(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    if kinds == (F16, F16, U8):
        zero, scale_a, scale_b = shader.real(0x60), shader.real(0x64), shader.real(0x68)

        def of_halves(x: Array, y: Array) -> Array:
            return to_bytes(x.astype(_F32) * scale_a + y.astype(_F32) * scale_b + zero)

        return ShaderTask((a, b), output, of_halves)
    if kinds == (U8, F16, U8):
        own, scale_a = shader.signed(0x60), shader.real(0x64)
        zero, scale_b = shader.real(0x68), shader.real(0x6C)

        def of_byte_and_half(x: Array, y: Array) -> Array:
            first = (x.astype(_F32) - _F32(own)) * scale_a
            return to_bytes(first + y.astype(_F32) * scale_b + zero)

        return ShaderTask((a, b), output, of_byte_and_half)
    raise Unknown(f"a sum of {kinds[0]} and {kinds[1]} to {kinds[2]}")


def tensor_mul(shader: Shader) -> ShaderTask:
    """(a - zero point) * (b - zero point) * scale + zero point."""
    if not shader.has(0x80):
        return _copy(shader)
    a, b, output = shader.images(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    if kinds != (U8, U8, U8):
        raise Unknown(f"a product of {kinds[0]} and {kinds[1]} to {kinds[2]}")
    zero_b, zero_a = shader.whole(0x80) >> 16, shader.whole(0x84) & 0xFFFF
    scale, constant = shader.real(0xE0), shader.real(0xE4)

    def product(x: Array, y: Array) -> Array:
        left, right = x.astype(np.int32), y.astype(np.int32)
        cross = left * right - left * zero_b - right * zero_a
        return to_bytes(cross.astype(_F32) * scale + constant)

    return ShaderTask((a, b), output, product)


def _copy(shader: Shader) -> ShaderTask:
    """A factor that is put elsewhere, where its place is needed for the product."""
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    if types(source, output) != (U8, U8):
        raise Unknown(f"a factor of {source.dtype} put elsewhere as {output.dtype}")
    shader.expect({0x40: 0, 0x44: 0})
    return ShaderTask((source,), output, lambda values: values)


_DIVISION = "b237209fdb59b659"
"""The program of a quotient of bytes, which is known for divisors whose zero point is 0."""

_ONE = np.float32(1).tobytes()


def tensor_div(shader: Shader) -> ShaderTask:
    """(a - zero point) * scale / b * scale + zero point; nothing by nothing is nothing."""
    a, b, output = shader.images_of(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    if kinds != (U8, U8, U8) or shader.program != _DIVISION:
        raise Unknown(f"a quotient of {kinds[0]} and {kinds[1]} to {kinds[2]} in this form")
    if shader.has(0x74) or shader.constant(0x60)[:4].tobytes() != _ONE:
        raise Unknown("a quotient in a form that isn't known")
    scale_a, scale, zero = shader.real(0x64), shader.real(0x68), shader.real(0x6C)
    own = shader.signed(0x70)

    def quotient(x: Array, y: Array) -> Array:
        dividend = (x.astype(_F32) - _F32(own)) * scale_a
        with np.errstate(divide="ignore", invalid="ignore"):
            real = dividend / y.astype(_F32) * scale + zero
        return to_bytes(np.where(np.isnan(real), 0, real))

    return ShaderTask((a, b), output, quotient)


def maximum(shader: Shader) -> ShaderTask:
    """The larger of two, each brought to the output's steps by a multiplier of 15 fraction bits."""
    a, b, output = shader.images(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    if types(a, b, output) != (U8, U8, U8):
        raise Unknown("a maximum of other values than bytes")
    factors = (shader.signed(0x60), shader.signed(0x64)), (shader.signed(0x70), shader.signed(0x74))
    shifts = shader.whole(0x9C) & 63, shader.whole(0x11C) & 63
    if not all(0 < shift < 32 for shift in shifts):
        raise Unknown(f"a maximum of values shifted by {shifts[0]} and {shifts[1]} bits")
    larger = np.maximum if "maximum" in shader.name else np.minimum

    def rescaled(x: Array, number: int) -> Array:
        factor, constant = factors[number]
        half = 1 << shifts[number] - 1
        whole = x.astype(np.int64) * factor + constant + half >> shifts[number]
        result: Array = np.clip(whole, 0, 255)
        return result

    def function(x: Array, y: Array) -> Array:
        result: Array = larger(rescaled(x, 0), rescaled(y, 1))
        return result

    return ShaderTask((a, b), output, function)
