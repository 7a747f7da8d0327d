"""Softmax over pixels of a row, or over rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..refusal import Unknown
from ..rounding import to_halves, whole_sum
from .forms import SoftmaxRows
from .quantized import F16, ONE, U8, check_same, to_bytes, types
from .shader import Image, Shader
from .task import Array, Function, ShaderTask, by_rows

_LOG_OF_ROWS = "4fc379906351d456"
_LOG_OF_HALVES = "186825dbb853d878"
"""That of pixels of float16."""
_NATURAL = 0x3F317218
"""The natural logarithm of 2."""


def log_softmax(shader: Shader) -> ShaderTask:
    """Differences to the maximum of bytes over rows, less the logarithm of their powers' sum."""
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    if types(source, output) == (F16, F16) and shader.program == _LOG_OF_HALVES:
        return _log_of_halves(shader, source, output)
    if types(source, output) != (U8, F16) or shader.program != _LOG_OF_ROWS:
        raise Unknown(f"logarithms of softmax of {source.dtype} to {output.dtype} in this form")
    shader.expect({0x40: source.shape[1], 0x48: _NATURAL})
    to_binary, to_natural, scale = shader.real(0x44), shader.real(0x48), shader.real(0x4C)

    def function(values: Array) -> Array:
        real = values.astype(np.float32)
        less = real - real.max(1, keepdims=True)
        powers = np.exp2(less * to_binary)
        total = np.add.accumulate(powers, 1)[:, -1:]
        halves: Array = to_halves(less * scale - np.log2(total) * to_natural)
        return halves

    return ShaderTask((source,), output, function)


def _log_of_halves(shader: Shader, source: Image, output: Image) -> ShaderTask:
    """The same of float16 over pixels, four powers at a time."""
    pixels = source.shape[2]
    whole = pixels - pixels % _AT_ONCE
    shader.expect({0x40: pixels, 0x44: whole, 0x4C: pixels - whole, 0xD0: _NATURAL, 0xD4: ONE})
    to_binary, to_natural = shader.real(0x48), shader.real(0xD0)

    def function(values: Array) -> Array:
        real = values.astype(np.float32)
        less = real - real.max(2, keepdims=True)
        powers = np.exp2((less * to_binary).astype(np.float64)).astype(np.float32)
        total = np.add.accumulate(_sums_of_four(powers), 2)[..., -1:]
        return to_halves(less - np.log2(total) * to_natural)

    return ShaderTask((source,), output, function)


def softmax(shader: Shader) -> ShaderTask:
    """Powers of two of the differences to the maximum, in steps that a scale gives."""
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    kinds = types(source, output)
    if shader.program == _OF_PAIRS and kinds == (U8, F16):
        return _of_pairs(shader, source, output)
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

    if kinds[0] == U8 and over_pixels:
        form = SoftmaxRows(powers_of(scale), factor, zero, is_half=kinds[1] == F16)
        return ShaderTask((source,), output, shares_of(form), form=form)

    def function(values: Array) -> Array:
        real = values.astype(np.float32)
        most = real.max(axis, keepdims=True)
        less = _difference(real, most) if kinds[0] == F16 else real - most
        powers = np.exp2((less * scale).astype(np.float64)).astype(np.float32)
        parts = _sums_of_four(powers) if over_pixels else powers
        total = np.add.accumulate(parts, axis).take([-1], axis)
        shares = powers * (np.float32(1) / total)
        if kinds[1] == U8:
            return to_bytes(shares * factor + zero)
        halves: Array = to_halves(shares)
        return halves

    return ShaderTask((source,), output, by_rows(function) if over_pixels else function)


def powers_of(scale: np.float32) -> NDArray[np.float32]:
    """Those of two, by each difference of a byte to a greater one times a scale; (256)."""
    differences = -np.arange(256, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.exp2((differences * scale).astype(np.float64)).astype(np.float32)


def shares_of(form: SoftmaxRows) -> Function:
    """What the form says, of rows of bytes."""

    @by_rows
    def function(values: Array) -> Array:
        powers = form.powers[values.max(2, keepdims=True) - values]
        total = np.add.accumulate(_sums_of_four(powers), 2)[..., -1:]
        shares = powers * (np.float32(1) / total)
        if form.is_half:
            halves: Array = to_halves(shares)
            return halves
        return to_bytes(shares * form.factor + form.constant)

    return function


def _difference(values: Array, most: Array) -> Array:
    """Float16 less their greatest, both multiplied by whole numbers."""
    return whole_sum(np.stack(np.broadcast_arrays(values, -most), -1).astype(np.float64))


_OF_PAIRS = "83c9b4d898e0a56e"
"""The program of two classes that lie side by side, pair after pair in one row."""


def _of_pairs(shader: Shader, source: Image, output: Image) -> ShaderTask:
    shader.expect({0x48: ONE, 0x4C: 0})
    scale = shader.real(0x40)
    if source.shape[2] % 2:
        raise Unknown(f"softmax of pairs of {source.shape[2]} pixels")

    def function(values: Array) -> Array:
        pairs = values.astype(np.float32).reshape(*values.shape[:2], -1, 2)
        exponents = (pairs - pairs.max(3, keepdims=True)) * scale
        powers = np.exp2(exponents.astype(np.float64)).astype(np.float32)
        shares = powers * (np.float32(1) / powers.sum(3, keepdims=True))
        return to_halves(shares).reshape(values.shape)

    return ShaderTask((source,), output, function)


def _sums_of_four(powers: Array) -> Array:
    """Sums of four pixels each, rounded once, as float32; there is nothing beyond a row's end."""
    planes, rows, pixels = powers.shape
    padded = np.zeros((planes, rows, -(-pixels // _AT_ONCE), _AT_ONCE))
    padded.reshape(planes, rows, -1)[..., :pixels] = powers
    result: Array = padded.sum(3).astype(np.float32)
    return result


_AT_ONCE = 4
"""Pixels whose powers one instruction of a shader adds."""
