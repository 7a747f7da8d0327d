"""Sums, products and quotients of two tensors; the larger of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..refusal import Unknown
from ..rounding import to_halves
from .forms import ByteProducts
from .quantized import F16, ONE, U8, check_broadcast, check_same, reals_of, to_bytes, types
from .shader import Image, Shader
from .task import Array, Function, ShaderTask, by_rows, copy_of

_F32 = np.float32
_LARGEST_BYTE = 255


_OF_PLANES = ("c53f10cffad6a79e", "fcd2f3fb8335f032")
"""The programs of sums of float16 whose operands have several planes."""

_OF_ROWS = "41e4e1f48d8534ed"
"""That of operands of one plane."""


def tensor_add(shader: Shader) -> ShaderTask:
    """A * scale + b * scale + zero point; uint8 operands lose their zero point first.

    A difference has a negative scale.
    """
    a, b, output = shader.images(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    if kinds == (F16, F16, F16):
        return _sum_of_halves(shader, (a, b), output)
    if kinds == (F16, F16, U8):
        scale_a, own_a, own_b = shader.real(0x64), 0, 0
        if shader.program in _OF_PLANES:
            zero, scale_b = shader.real(0x68), shader.real(0x6C)
        elif shader.program in ("", _OF_ROWS):
            zero, scale_b = shader.real(0x60), shader.real(0x68)
        else:
            raise Unknown("a sum of float16 in this form")
    elif kinds in ((U8, F16, U8), (U8, U8, U8), (F16, U8, U8)):
        is_flat = not _is_real_scale(shader)
        scale_a = shader.real(0x64)
        if is_flat:
            zero, scale_b, own_a = shader.real(0x60), shader.real(0x68), shader.signed(0x70)
        else:
            own_a, zero, scale_b = shader.signed(0x60), shader.real(0x68), shader.real(0x6C)
        own_b = shader.signed(0x100 if is_flat else 0xF0) if kinds[1] == U8 else 0
    else:
        raise Unknown(f"a sum of {kinds[0]} and {kinds[1]} to {kinds[2]}")
    if max(abs(own_a), abs(own_b)) > _LARGEST_BYTE:
        raise Unknown(f"a sum of operands with the zero points {own_a} and {own_b}")

    def total(x: Array, y: Array) -> Array:
        first = (reals_of(x) - _F32(own_a)) * scale_a
        return to_bytes(first + (reals_of(y) - _F32(own_b)) * scale_b + zero)

    return ShaderTask((a, b), output, by_rows(total))


_SUMS_OF_HALVES, _SUMS_OF_PLANES_OF_HALVES = "713adc8e96266b02", "44c3400e98f8a125"
_SIGNS: Mapping[int, np.float32] = {0x55555555: _F32(1), 0x99999999: _F32(-1)}
"""What a pair of float16 is summed by: the second one as it is, or its negative."""


def _sum_of_halves(shader: Shader, operands: tuple[Image, Image], output: Image) -> ShaderTask:
    if shader.program == _SUMS_OF_HALVES and shader.whole(0x60) in _SIGNS:
        sign = _SIGNS[shader.whole(0x60)]
    elif shader.program == _SUMS_OF_PLANES_OF_HALVES:
        shader.expect({0x60: 0, 0x64: ONE, 0x68: 0, 0x6C: ONE})
        sign = _F32(1)
    else:
        raise Unknown("a sum of float16 in this form")
    return _of_halves(operands, output, lambda x, y: x + y * sign)


def _of_halves(
    operands: tuple[Image, Image], output: Image, function: Callable[[Array, Array], Array]
) -> ShaderTask:
    """A function of two float16, in float32."""

    def rounded(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return to_halves(function(reals_of(x), reals_of(y)))

    return ShaderTask(operands, output, rounded)


def _is_real_scale(shader: Shader) -> bool:
    """Whether the second scale stands where programs of planes have it, beside the zero point.

    Programs of rows have the output's zero point first.
    """
    return shader.has(0x6C)


def tensor_mul(shader: Shader) -> ShaderTask:
    """(a - zero point) * (b - zero point) * scale + zero point."""
    if not shader.has(0x80):
        return _copy(shader)
    a, b, output = shader.images(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    if kinds == (F16, F16, F16) and shader.program in _PRODUCTS_OF_HALVES:
        shader.expect({0x80: 0, 0x84: 0, 0xE0: ONE, 0xE4: 0})
        return _of_halves((a, b), output, np.multiply)
    if kinds != (U8, U8, U8):
        raise Unknown(f"a product of {kinds[0]} and {kinds[1]} to {kinds[2]}")
    zero_b, zero_a = shader.whole(0x80) >> 16, shader.whole(0x84) & 0xFFFF
    scale, constant = shader.real(0xE0), shader.real(0xE4)

    form = ByteProducts((zero_a, zero_b), scale, constant)
    return ShaderTask((a, b), output, products_of(form), form=form)


def products_of(form: ByteProducts) -> Function:
    """What the form says, of two operands."""
    zero, other = form.zero_points

    @by_rows
    def product(x: Array, y: Array) -> Array:
        left, right = x.astype(np.int32), y.astype(np.int32)
        cross = left * right - left * other - right * zero
        return to_bytes(cross.astype(_F32) * form.scale + form.constant)

    return product


_PRODUCTS_OF_HALVES = ("bdf62f09c8ec4701", "2f10cc449c1d2f4a")
"""Programs of operands of one plane, and of several."""

_REPEATED_EDGES = "6b2cc1a825b38071"
"""The program that puts an image into a larger one, whose border is the edge's pixels."""


def _copy(shader: Shader) -> ShaderTask:
    """A factor that is put elsewhere, where its place is needed for the product."""
    source, output = shader.images(0x00, 0x20)
    if types(source, output) != (U8, U8):
        raise Unknown(f"a factor of {source.dtype} put elsewhere as {output.dtype}")
    if shader.program == _REPEATED_EDGES and source.shape != output.shape:
        if source.shape[0] != output.shape[0]:
            raise Unknown(f"{source.shape} repeated as {output.shape}")
        left, top = shader.whole(0x40), shader.whole(0x44)
        rows, pixels = (
            np.clip(np.arange(count) - start, 0, size - 1)
            for count, start, size in zip(
                output.shape[1:], (top, left), source.shape[1:], strict=True
            )
        )
        return ShaderTask((source,), output, lambda values: values[:, rows[:, None], pixels])
    check_same(output, source)
    shader.expect({0x40: 0, 0x44: 0})
    return copy_of(source, output)


_DIVISIONS: Mapping[tuple[np.dtype[np.generic], ...], str] = {
    (U8, U8, U8): "b237209fdb59b659",
    (U8, F16, U8): "0d5a66719fcfd930",
    (F16, U8, U8): "3805572481ba7915",
    (F16, F16, U8): "8b3be1174b8d7771",
    (F16, F16, F16): "5a91005c6e8cb3b3",
}
"""The programs of quotients, by the types of what they read and write."""

_LEAST_NORMAL = _F32(2.0**-14)
"""Of float16."""

_ONE = np.float32(1).tobytes()


def tensor_div(shader: Shader) -> ShaderTask:
    """(a - zero point) * scale / (b - zero point) * scale + zero point; 0 by 0 is 0."""
    a, b, output = shader.images_of(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    if not shader.program or _DIVISIONS.get(kinds) != shader.program:
        raise Unknown(f"a quotient of {kinds[0]} and {kinds[1]} to {kinds[2]} in this form")
    if shader.has(0x74) or shader.constant(0x60)[:4].tobytes() != _ONE:
        raise Unknown("a quotient in a form that isn't known")
    scale_a, scale, zero = shader.real(0x64), shader.real(0x68), shader.real(0x6C)
    own_a, own_b = shader.signed(0x70), shader.signed(0x100)

    def real_of(values: Array, own: int) -> Array:
        real = reals_of(values) - _F32(own)
        # Float16 that isn't normal is 0, which has no sign.
        result: Array = np.where(np.abs(real) < _LEAST_NORMAL, _F32(0), real)
        return result

    def quotient(x: Array, y: Array) -> Array:
        dividend, divisor = real_of(x, own_a) * scale_a, real_of(y, own_b)
        with np.errstate(divide="ignore", invalid="ignore"):
            real = dividend / divisor * scale + zero
        if kinds[2] == F16:
            return to_halves(np.where(np.isnan(real), -np.inf, real))
        return to_bytes(np.where(np.isnan(real), 0, real))

    return ShaderTask((a, b), output, quotient)


def rescaled(values: Array, factor: int, constant: int, shift: int) -> Array:
    """Bytes, or float16, in steps of uint8, by a multiplier of some fraction bits; float64."""
    if values.dtype == np.float16:
        real = np.rint(values.astype(np.float64) * factor / (1 << shift))
        scaled: Array = np.clip(real + constant / (1 << shift), 0, _LARGEST_BYTE)
        return scaled
    whole = values.astype(np.int64) * factor + constant
    result: Array = np.clip(np.rint(whole / (1 << shift)), 0, _LARGEST_BYTE)
    return result


def maximum(shader: Shader) -> ShaderTask:
    """The larger of two, each brought to the output's steps by a multiplier of 15 fraction bits."""
    a, b, output = shader.images(0x00, 0x20, 0x40)
    check_broadcast(output, a, b)
    kinds = types(a, b, output)
    larger = np.maximum if "maximum" in shader.name else np.minimum
    if kinds == (F16, F16, F16):
        return ShaderTask((a, b), output, larger)
    if kinds not in ((U8, U8, U8), (U8, F16, U8), (F16, F16, U8)):
        raise Unknown(f"a maximum of {kinds[0]} and {kinds[1]} to {kinds[2]}")
    factors = (shader.whole(0x60), shader.signed(0x64)), (shader.whole(0x70), shader.signed(0x74))
    shifts = shader.whole(0x9C) & 63, shader.whole(0xDC if kinds[1] == F16 else 0x11C) & 63
    if not all(0 < shift < 32 for shift in shifts):
        raise Unknown(f"a maximum of values shifted by {shifts[0]} and {shifts[1]} bits")

    def function(x: Array, y: Array) -> Array:
        first, second = rescaled(x, *factors[0], shifts[0]), rescaled(y, *factors[1], shifts[1])
        result: Array = larger(first, second).astype(np.uint8)
        return result

    return ShaderTask((a, b), output, function)
