"""Sums, means and maxima over pixels or rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..refusal import Unknown
from ..rounding import cut_to_half, normal_halves, to_halves, whole_sum
from .forms import WindowSums
from .half_means import mean_of_rows
from .quantized import F16, F32, I16, ONE, U8, reals_of, to_bytes, types
from .shader import Image, Shader
from .task import Array, Function, ShaderTask

_F32 = np.float32

_SUMS_OF_HALVES, _READ_AHEAD = "99f289961079cb35", 32
"""The program of sums of rows of float16, and how many pixels more than a row's it may count."""

_LANES = 8
"""Pixels that programs of products multiply at a time."""

_PLACES_OF_HALVES = "99df2fcba9697873"
"""The program of places of maxima of columns of float16."""

_PLACES_OF_PIXELS = "8e567e6e6119de46"
"""The program of places of maxima of rows."""


def sum_of_pixels(shader: Shader) -> ShaderTask:
    """The sum of each row's or column's bytes, times a scale, and a constant: a sum or a mean."""
    if shader.program in _LONG_SUMS:
        return _long_sum(shader, _LONG_SUMS[shader.program])
    source, output = shader.images(0x00, 0x20)
    kinds = types(source, output)
    planes, rows, pixels = source.shape
    if kinds == (F16, F16):
        return _of_halves(shader, source, output)
    axes = {(planes, rows, 1): 2, (planes, 1, pixels): 1}
    if kinds not in ((U8, U8), (U8, F16)) or output.shape not in axes:
        raise Unknown(f"sums of {source.shape} {kinds[0]} to {output.shape} {kinds[1]}")
    axis = axes[output.shape]
    count = shader.whole(0x40)
    if count < pixels if axis == 2 else count != rows:
        raise Unknown(f"sums of {count} of {source.shape[axis]} values")
    scale, constant = shader.real(0x44), shader.real(0x48)

    if kinds[1] == U8 and axis == 2:
        form = WindowSums((1, pixels), 0, scale, constant)
        return ShaderTask((source,), output, sums_of_windows(form), form=form)

    def function(values: Array) -> Array:
        total = values.sum(axis, keepdims=True, dtype=np.int64)
        real = total.astype(_F32) * scale + constant
        return to_bytes(real) if kinds[1] == U8 else to_halves(real)

    return ShaderTask((source,), output, function)


def sums_of_windows(form: WindowSums) -> Function:
    """What the form says, of planes of whole windows."""

    def function(values: Array) -> Array:
        planes, rows, pixels = values.shape
        height, width = form.size
        windows = values.reshape(planes, rows // height, height, pixels // width, width)
        total = windows.sum((2, 4), dtype=np.int64) + form.addend
        return to_bytes(total.astype(_F32) * form.scale + form.constant)

    return function


def _sum_of_halves(shader: Shader, source: Image, output: Image) -> ShaderTask:
    """Sums of whole rows of float16, in float32."""
    planes, rows, pixels = source.shape
    # Pixels are read so many at a time; those that a row lacks are none.
    if output.shape != (planes, rows, 1) or not 0 <= shader.whole(0x40) - pixels < _READ_AHEAD:
        raise Unknown(f"sums of {source.shape} float16 to {output.shape}, {shader.whole(0x40)}")

    @np.errstate(invalid="ignore")
    def function(values: Array) -> Array:
        return to_halves(values.sum(2, keepdims=True, dtype=np.float64).astype(_F32))

    return ShaderTask((source,), output, function)


def _mean_of_halves(shader: Shader, source: Image, output: Image) -> ShaderTask:
    """Means of whole rows of float16: two sums of sixteen pixels are added at a time."""
    count, scale, constant = shader.whole(0x40), shader.real(0x44), shader.real(0x48)
    return mean_of_rows(source, output, count, scale, constant)


def _check_columns(shader: Shader, source: Image, output: Image) -> None:
    planes, rows, pixels = source.shape
    if output.shape != (planes, 1, pixels) or shader.whole(0x40) != rows:
        raise Unknown(f"sums of {source.shape} float16 to {output.shape}, {shader.whole(0x40)}")


def _four_rows(values: Array) -> NDArray[np.float64]:
    """(planes, rows, pixels) float16 as (planes, groups of rows, pixels, rows of one)."""
    planes, rows, pixels = values.shape
    padded = np.zeros((planes, -(-rows // _ROWS_AT_ONCE) * _ROWS_AT_ONCE, pixels))
    padded[:, :rows] = normal_halves(values)
    groups = padded.reshape(planes, -1, _ROWS_AT_ONCE, pixels)
    result: NDArray[np.float64] = groups.swapaxes(2, 3)
    return result


def _mean_of_columns_of_halves(shader: Shader, source: Image, output: Image) -> ShaderTask:
    """Means of columns of float16, four rows at a time."""
    _check_columns(shader, source, output)
    scale, constant = shader.real(0x44), shader.real(0x48)

    def function(values: Array) -> Array:
        total = np.add.accumulate(whole_sum(_four_rows(values)), 1)[:, -1:]
        return to_halves(total * scale + constant)

    return ShaderTask((source,), output, function)


def _sum_of_columns_of_halves(shader: Shader, source: Image, output: Image) -> ShaderTask:
    """Sums of columns, four rows at a time, each cut to float16."""
    _check_columns(shader, source, output)

    def function(values: Array) -> Array:
        parts = cut_to_half(whole_sum(_four_rows(values)).astype(np.float64))
        total = np.zeros((output.shape[0], output.shape[2]))
        for number in range(parts.shape[1]):
            pair = np.stack([total, parts[:, number]], -1)
            total = cut_to_half(whole_sum(pair).astype(np.float64))
        return to_halves(total)[:, None]

    return ShaderTask((source,), output, function)


_ROWS_AT_ONCE = 4

_SUMS_OF_COLUMNS_OF_HALVES = ("31ceac93e05764d4",)
"""Programs of sums of columns of float16, of several planes."""


def _of_halves(shader: Shader, source: Image, output: Image) -> ShaderTask:
    """Sums or means of float16, of rows or columns."""
    if shader.program == _SUMS_OF_HALVES:
        return _sum_of_halves(shader, source, output)
    if shader.program in _SUMS_OF_COLUMNS_OF_HALVES:
        return _sum_of_columns_of_halves(shader, source, output)
    if shader.name != "ReduceMeanLayer" or not shader.program:
        raise Unknown(f"sums of {source.shape} float16 to {output.shape} in this form")
    if output.shape[2] == 1 < source.shape[2]:
        return _mean_of_halves(shader, source, output)
    return _mean_of_columns_of_halves(shader, source, output)


_LONG_SUMS = {"4761ae9f51089c01": 1, "88a61dac59ff85a9": 2}
"""Programs of sums of float16 to float32, and which axis they are over."""


_TO_LONG = ((F16, F32), (F32, F32))


def _long_sum(shader: Shader, axis: int) -> ShaderTask:
    """Sums of a column's or row's float16, as float32."""
    source, output = shader.images(0x00, 0x30)
    expected = tuple(1 if number == axis else size for number, size in enumerate(source.shape))
    if types(source, output) not in _TO_LONG or output.shape != expected:
        raise Unknown(f"sums of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    shader.expect({0x20: ONE, 0x24: source.shape[axis]})

    @np.errstate(invalid="ignore", over="ignore")
    def function(values: Array) -> Array:
        total = np.zeros(expected, _F32)
        for part in np.moveaxis(values.astype(_F32), axis, 0):
            total = total + part.reshape(expected)
        return total

    return ShaderTask((source,), output, function)


def extreme(shader: Shader) -> ShaderTask:
    """The largest, or least, of each row's or column's bytes as a real number."""
    source, output = shader.images(0x00, 0x20)
    _, rows, pixels = source.shape
    over_pixels = "_axis0_" in shader.name
    expected = _reduced(source, over_pixels)
    kinds = types(source, output)
    if kinds not in ((U8, F16), (F16, F16), (U8, U8)) or output.shape not in expected:
        raise Unknown(f"maxima of {source.shape} {kinds[0]} to {output.shape} {kinds[1]}")
    axis, count = (2, pixels) if over_pixels else (1, rows)
    if shader.whole(0x40) != 2 - axis or shader.whole(0x44) != count:
        raise Unknown(f"maxima of {shader.whole(0x44)} of {count} values")
    chosen = np.max if "reducemax" in shader.name else np.min
    if kinds[0] == F16:
        return ShaderTask(
            (source,), output, lambda values: chosen(values, axis=axis).reshape(output.shape)
        )
    if kinds[1] == U8:
        return _extreme_bytes(shader, chosen, axis, (source, output))
    scale, zero = shader.real(0x48), shader.real(0x4C)

    def function(values: Array) -> Array:
        found = chosen(values, axis=axis).astype(_F32)
        result: Array = ((found - zero) * scale).astype(np.float16)
        return result.reshape(output.shape)

    return ShaderTask((source,), output, function)


def _extreme_bytes(
    shader: Shader, chosen: Callable[..., Array], axis: int, images: tuple[Image, Image]
) -> ShaderTask:
    """The largest, or least, bytes as real numbers, and in steps of the output again."""
    source, output = images
    own = 0x110 if axis == 1 else 0xD0
    scale, zero = shader.real(0x48), shader.real(0x4C)
    own_scale, own_zero = shader.real(own), shader.real(own + 4)

    def function(values: Array) -> Array:
        real = (chosen(values, axis=axis).astype(_F32) - own_zero) * own_scale
        return to_bytes(real * scale + zero).reshape(output.shape)

    return ShaderTask((source,), output, function)


def _reduced(source: Image, over_pixels: bool) -> tuple[tuple[int, int, int], ...]:
    """How what is left of rows, or of columns, may lie: those of several planes as rows of one."""
    planes, rows, pixels = source.shape
    if over_pixels:
        return ((planes, 1, rows),)
    return (planes, 1, pixels), (1, planes, pixels)


def place_of_minimum(shader: Shader) -> ShaderTask:
    """The number of the row, or pixel, that has a column's, or row's, least byte: the first one."""
    source, output = shader.images(0x00, 0x20)
    over_pixels = "_axis0_" in shader.name
    kinds = types(source, output)
    if kinds not in ((U8, I16), (F16, I16)) or output.shape not in _reduced(source, over_pixels):
        raise Unknown(f"places of minima of {source.shape} to {output.shape}")
    axis = 2 if over_pixels else 1
    last = source.shape[axis] - (0 if over_pixels else 1)
    shader.expect({0x40: 2 - axis, 0x44: last})

    def function(values: Array) -> Array:
        places: Array = values.argmin(axis).astype(np.int16)
        return places.reshape(output.shape)

    return ShaderTask((source,), output, function)


def product(shader: Shader) -> ShaderTask:
    """The product of each row's or column's real numbers."""
    source, output = shader.images(0x00, 0x20)
    over_pixels = "_axis0_" in shader.name
    kinds = types(source, output)
    is_real = kinds == (F16, F16)
    expected = _reduced(source, over_pixels)
    if not (is_real or kinds == (U8, F16)) or output.shape not in expected:
        raise Unknown(f"products of {source.shape} {kinds[0]} to {output.shape} {kinds[1]}")
    axis = 2 if over_pixels else 1
    count = source.shape[axis]
    shader.expect({0x40: 2 - axis, 0x44: count - count % _LANES if over_pixels else count})
    scale, zero = (_F32(1), _F32(0)) if is_real else (shader.real(0x48), shader.real(0x4C))

    @np.errstate(invalid="ignore", over="ignore")
    def function(values: Array) -> Array:
        real = (reals_of(values) - zero) * scale
        total = np.ones(output.shape, _F32)
        for part in np.moveaxis(real, axis, 0):
            total = total * part.reshape(output.shape)
        return to_halves(total)

    return ShaderTask((source,), output, function)


def place_of_maximum(shader: Shader) -> ShaderTask:
    """The number of the row, or pixel, that has a column's, or row's, largest byte.

    It is the first of several. Columns of several planes become rows of one.
    """
    source, output = shader.images(0x00, 0x20)
    planes, rows, pixels = source.shape
    kinds = types(source, output)
    over_pixels = shader.program == _PLACES_OF_PIXELS
    expected = ((planes, 1, rows),) if over_pixels else ((planes, 1, pixels), (1, planes, pixels))
    is_half = kinds[0] == F16 and shader.program == _PLACES_OF_HALVES
    if not (kinds[0] == U8 or is_half) or kinds[1] != I16 or output.shape not in expected:
        raise Unknown(f"places of maxima of {source.shape} {kinds[0]} to {output.shape} {kinds[1]}")
    last = pixels if over_pixels else rows - 1
    if shader.whole(0x50) != last:
        raise Unknown(f"a maximum of {source.shape} in this form: {shader.whole(0x50)}")

    def function(values: Array) -> Array:
        places: Array = values.argmax(2 if over_pixels else 1).astype(np.int16)
        return places.reshape(output.shape)

    return ShaderTask((source,), output, function)
