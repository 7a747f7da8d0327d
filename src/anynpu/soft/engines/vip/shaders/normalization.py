"""Layer, instance and batch normalisation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..refusal import Unknown
from ..rounding import cut_to_float, normal_halves, to_halves
from .forms import LAYER_VECTOR as _VECTOR
from .forms import LayerRows, RowFactors
from .quantized import F16, F32, ONE, U8, check_same, limited_halves, reals_of, to_bytes, types
from .shader import Image, Shader
from .task import Array, Function, ShaderTask, by_rows

_F32 = np.float32


class _LayerRegisters(NamedTuple):
    """Where a program has the number of pixels, one over that, and what a variance has added."""

    pixels: int
    part: int
    epsilon: int


_LAYER, _OLD_LAYER = _LayerRegisters(0x80, 0x84, 0x88), _LayerRegisters(0x84, 0x88, 0x80)
_OLD_NAME = "layer_norm_axis0_U8_F32toU8_2D"


def layer_normalization(shader: Shader) -> ShaderTask:
    """Bytes of a row less their mean, over their deviation; a factor and a sum for each pixel."""
    source, bias, scale, output = shader.images(0x00, 0x20, 0x40, 0x60)
    check_same(output, source)
    if types(source, output) == (F16, F16):
        return _layer_of_halves(shader, (source, bias, scale), output)
    if types(source, bias, scale, output) != (U8, F32, F32, U8):
        raise Unknown(f"a layer's normalisation of {source.dtype} to {output.dtype}")
    pixels = source.shape[2]
    names = _OLD_LAYER if shader.name.endswith(_OLD_NAME) else _LAYER
    if shader.whole(names.pixels) != pixels or {bias.shape, scale.shape} != {(1, 1, pixels)}:
        raise Unknown(f"a layer's normalisation of {pixels} pixels in this form")
    part, epsilon, factor = (
        shader.real(names.part), shader.real(names.epsilon), shader.real(0x8C)
    )  # fmt: skip
    zero, own = shader.real(0x210), shader.whole(0x260) & 255
    form = LayerRows(own, part, epsilon, factor, zero)
    return ShaderTask((source, bias, scale), output, normalized_rows(form), form=form)


def normalized_rows(form: LayerRows) -> Function:
    """What the form says, of rows of bytes, their bias and their scales."""

    def function(values: Array, added: Array, scales: Array) -> Array:
        # A last vector goes on beyond the row's end, where the shader reads zero points.
        own, rest = form.own, -values.shape[2] % _VECTOR
        whole = values.astype(np.int64)
        total = (whole.sum(2, keepdims=True) + rest * own).astype(_F32)
        squares = ((whole * whole).sum(2, keepdims=True) + rest * own * own).astype(_F32)
        mean = total * form.part
        inverse = _inverse_root(squares * form.part - mean * mean + form.epsilon)
        normal = scales * inverse * (values.astype(_F32) - mean)
        # Zero points beyond the end can make a variance negative: such a row's bytes are zero.
        real = (normal + added) * form.factor + form.constant
        return to_bytes(np.nan_to_num(real, nan=0))

    return function


_LAYER_OF_HALVES = "2601e7e33ff7f8de"
"""The program for float16."""


def _layer_of_halves(
    shader: Shader, operands: tuple[Image, Image, Image], output: Image
) -> ShaderTask:
    """The same for float16, whose sums of eight pixels are cut, and those of squares."""
    source, bias, scale = operands
    pixels = source.shape[2]
    if types(bias, scale) != (F32, F32) or {bias.shape, scale.shape} != {(1, 1, pixels)}:
        raise Unknown(f"a layer's normalisation with factors of {scale.shape}")
    if shader.program != _LAYER_OF_HALVES:
        raise Unknown("a layer's normalisation of float16 in this form")
    shader.expect({0x80: pixels, 0x8C: ONE, 0x110: 0})
    part, epsilon = shader.real(0x84), shader.real(0x88)

    def function(values: Array, added: Array, scales: Array) -> Array:
        real = normal_halves(values)
        mean = _sum_of_eights(real) * part
        variance = _sum_of_eights(real * real) * part - mean * mean
        inverse = _inverse_root(variance + epsilon)
        return to_halves(scales * inverse * (real.astype(_F32) - mean) + added)

    return ShaderTask(operands, output, function)


def _sum_of_eights(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Sums of rows, eight pixels at a time; as (planes, rows, 1)."""
    planes, rows, pixels = values.shape
    padded = np.zeros((planes, rows, -(-pixels // _EIGHT) * _EIGHT))
    padded[..., :pixels] = values
    parts = cut_to_float(padded.reshape(planes, rows, -1, _EIGHT).sum(-1))
    result: NDArray[np.float32] = np.add.accumulate(parts, 2)[..., -1:]
    return result


_EIGHT = 8


def _inverse_root(values: Array) -> Array:
    """One over the root, rounded once, as float32; NaN of what is negative."""
    with np.errstate(invalid="ignore"):
        roots = np.sqrt(values.astype(np.float64))
    result: Array = (1 / roots).astype(_F32)
    return result


_WHOLE_LOOPS, _ANY_LENGTH = "7693b42bcda28c57", "0993fcad3e04dd65"
"""Programs of rows that are brought to the length of 1; the second takes what lies beyond a row's
end for zero points."""

_OF_COLUMNS = {"85eb263b3319b446": F16, "69d4875b0da58174": U8}
"""Those of columns, and of which type their results are."""

_PIXELS_OF_LOOP, _ROWS_OF_LOOP = 32, 4


def length_normalization(shader: Shader) -> ShaderTask:
    """Bytes of a row, or column, less their zero point, by the root of their squares' sum."""
    if shader.program == _LENGTH_OF_HALVES:
        return _length_of_halves(shader)
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    kind = _OF_COLUMNS.get(shader.program, F16)
    if types(source, output) != (U8, kind) or source.shape[0] != 1:
        raise Unknown(f"lengths of {source.shape} {source.dtype} to {output.dtype}")
    _, rows, pixels = source.shape
    scale, zero = _F32(1), _F32(0)
    if shader.program in _OF_COLUMNS:
        own, least, axis = shader.whole(0x50), shader.real(0x44), 1
        scale, zero = shader.real(0x48), shader.real(0x4C)
        shader.expect({0x40: rows, 0x54: rows * own * own})
        is_known = rows % _ROWS_OF_LOOP == 0
    elif shader.program in (_WHOLE_LOOPS, _ANY_LENGTH):
        own, least, axis = shader.whole(0xD0), shader.real(0x48), 2
        shader.expect({0x4C: ONE, 0xD4: 0, 0xB0: 0x20002 * own})
        read = -(-shader.whole(0x44) // _PIXELS_OF_LOOP) * _PIXELS_OF_LOOP
        is_known = read == pixels if shader.program == _WHOLE_LOOPS else read >= pixels
        is_known = is_known and shader.real(0x40) == _F32(read * own * own)
    else:
        raise Unknown("lengths in this form")
    if not is_known:
        raise Unknown(f"lengths of {rows} rows and {pixels} pixels in this form")

    def function(values: Array) -> Array:
        whole = values.astype(np.int64) - own
        squares = (whole * whole).sum(axis, keepdims=True).astype(_F32)
        inverse = _inverse_root(np.maximum(squares, least))
        real = whole.astype(_F32) * (inverse * scale) + zero
        return to_halves(real) if kind == F16 else to_bytes(real)

    return ShaderTask((source,), output, function)


def instance_sums(shader: Shader) -> ShaderTask:
    """Each channel's sum and sum of squares as real numbers: what the means are made of."""
    source, output = shader.images_of(0x00, 0x20)
    channels = _channels(source, output, shader.whole(0x44))
    if types(source, output) not in ((U8, F32), (F16, F32)):
        raise Unknown(f"sums of {source.dtype} to {output.dtype}")
    if shader.whole(0x48) != source.shape[2]:
        raise Unknown(f"sums of {shader.whole(0x48)} of {source.shape[2]} pixels")
    if source.dtype == F16:
        return _instance_sums_of_halves(shader, source, output)
    scale, own = shader.real(0xD8), shader.whole(0x100) & 255

    def function(values: Array) -> Array:
        whole = values.astype(np.int64).reshape(channels, -1) - own
        sums = np.zeros((1, channels, _SUMS), _F32)
        sums[..., 0] = whole.sum(1).astype(_F32) * scale
        sums[..., 1] = (whole * whole).sum(1).astype(_F32) * (scale * scale)
        return sums

    return ShaderTask((source,), output, function)


_INSTANCE_SUMS_OF_HALVES = "6a1ae690e9bef490"


def _instance_sums_of_halves(shader: Shader, source: Image, output: Image) -> ShaderTask:
    """The same of float16: each of sixteen threads sums eight pixels of every row."""
    channels, pixels = output.shape[1], source.shape[2]
    if shader.program != _INSTANCE_SUMS_OF_HALVES or pixels > _EIGHT * _THREADS:
        raise Unknown(f"sums of {source.shape} float16 in this form")

    def function(values: Array) -> Array:
        padded = np.zeros((channels, source.shape[1] // channels, _EIGHT * _THREADS))
        padded[..., :pixels] = normal_halves(values).reshape(channels, -1, pixels)
        sums = np.zeros((1, channels, _SUMS), _F32)
        for place, real in enumerate((padded, padded * padded)):
            parts = cut_to_float(real.reshape(channels, -1, _THREADS, _EIGHT).sum(-1))
            each = np.add.accumulate(parts, 1)[:, -1]
            fours = each.reshape(channels, -1, 4).sum(2, dtype=np.float64).astype(_F32)
            sums[0, :, place] = np.add.accumulate(fours, 1)[:, -1]
        return sums

    return ShaderTask((source,), output, function)


_THREADS = 16
_SUMS = 4
"""Real numbers that the three shaders pass on for each channel."""


def _channels(source: Image, sums: Image, height: int) -> int:
    """Channels of a given number of rows each, one after the other."""
    planes, rows, _ = source.shape
    channels = sums.shape[1]
    if planes != 1 or rows != channels * height or sums.shape != (1, channels, _SUMS):
        raise Unknown(f"{rows} rows, {height} of a channel, and {sums.shape} sums")
    return channels


def instance_means(shader: Shader) -> ShaderTask:
    """From a row's sums to a factor and a constant for its bytes."""
    sums, bias, scale, output = shader.images(0x00, 0x20, 0x40, 0x60)
    planes, rows, _ = sums.shape
    if types(sums, bias, scale, output) != (F32,) * 4 or output.shape != sums.shape:
        raise Unknown(f"means of {sums.shape} {sums.dtype} to {output.shape} {output.dtype}")
    if {bias.shape, scale.shape} != {(planes, rows, 1)}:
        raise Unknown(f"factors of {scale.shape} for {rows} rows")
    epsilon, relative = shader.real(0x80), shader.real(0x84)
    own, factor, zero = shader.real(0x88), shader.real(0x8C), shader.real(0x90)
    part = shader.real(0x94)

    def function(values: Array, added: Array, scales: Array) -> Array:
        mean = values[..., 0] * part
        variance = values[..., 1] * part - mean * mean
        inverse = _inverse_root(variance + epsilon)
        result = np.zeros(output.shape, _F32)
        result[..., 0] = scales[..., 0] * inverse * relative
        result[..., 1] = (added[..., 0] - scales[..., 0] * inverse * mean) * factor + zero
        result[..., 1] -= own * result[..., 0]
        return result

    return ShaderTask((sums, bias, scale), output, function)


def instance_normalization(shader: Shader) -> ShaderTask:
    """A channel's bytes by its factor, and its constant."""
    source, factors, output = shader.images(0x00, 0x20, 0x40)
    check_same(output, source)
    height = shader.whole(0x60)
    _channels(source, factors, height)
    is_real = types(source, factors, output) == (F16, F32, F16)
    if types(source, factors, output) != (U8, F32, U8) and not is_real:
        raise Unknown(f"an instance's normalisation of {source.dtype} to {output.dtype}")

    def function(values: Array, applied: Array) -> Array:
        rows = applied.repeat(height, 1)
        if is_real:
            return limited_halves(reals_of(values) * rows[..., :1] + rows[..., 1:2])
        return to_bytes(values.astype(_F32) * rows[..., :1] + rows[..., 1:2])

    return ShaderTask((source, factors), output, function)


def batch_normalization(shader: Shader) -> ShaderTask:
    """A factor and a sum for each row's bytes less their zero point."""
    source, scale, bias, output = shader.images(0x00, 0x20, 0x40, 0x60)
    check_same(output, source)
    planes, rows, _ = source.shape
    # Tables of float32, which the shader reads as halves of 16 bits.
    expected = np.dtype(np.int16), (1, 1, 2 * rows)
    if types(source, output) not in ((U8, U8), (F16, F16)) or planes != 1:
        raise Unknown(f"a batch's normalisation of {source.dtype} to {output.dtype}")
    if any((image.dtype, image.shape) != expected for image in (scale, bias)):
        raise Unknown(f"factors of {scale.shape} for {rows} rows")
    if source.dtype == F16:
        return _batch_of_halves(shader, (source, scale, bias), output)
    zero = shader.whole(0x80)

    form = RowFactors(zero)
    return ShaderTask((source, scale, bias), output, by_factors(form), form=form)


def by_factors(form: RowFactors) -> Function:
    """What the form says, of one plane of bytes, the factors and the constants."""

    @by_rows
    def normalized(values: Array, factor: Array, constant: Array) -> Array:
        return to_bytes((values.astype(_F32) - _F32(form.zero_point)) * factor + constant)

    def function(values: Array, scales: Array, added: Array) -> Array:
        return normalized(values, _reals(scales), _reals(added))

    return function


_BATCH_OF_HALVES = "e76e60d4a5dff624"
"""The program for float16."""


def _batch_of_halves(
    shader: Shader, operands: tuple[Image, Image, Image], output: Image
) -> ShaderTask:
    """The same for float16, which has no zero point."""
    if shader.program != _BATCH_OF_HALVES:
        raise Unknown("a batch's normalisation of float16 in this form")

    def function(values: Array, scales: Array, added: Array) -> Array:
        return limited_halves(reals_of(values) * _reals(scales) + _reals(added))

    return ShaderTask(operands, output, function)


def _reals(halves: Array) -> Array:
    """Float32 values, as (1, values, 1), of which an image has the halves."""
    result: Array = np.ascontiguousarray(halves.reshape(-1)).view(np.float32)[None, :, None]
    return result


_LENGTH_OF_HALVES = "180e9f1bed96732e"


def _length_of_halves(shader: Shader) -> ShaderTask:
    """Rows of float16 over their lengths: of squares, four sums of eight are rounded together."""
    source, output = shader.images(0x00, 0x20)
    check_same(output, source)
    pixels = source.shape[2]
    if types(source, output) != (F16, F16):
        raise Unknown(f"rows of {source.dtype} over their lengths in this form")
    count = shader.whole(0x44)
    if not 0 <= count - pixels < _FOUR_EIGHTS:
        raise Unknown(f"lengths of {count} of {pixels} pixels")
    shader.expect({0x4C: ONE})
    start, least = shader.real(0x40), shader.real(0x48)

    def function(values: Array) -> Array:
        real = normal_halves(values)
        planes, rows, _ = real.shape
        padded = np.zeros((planes, rows, -(-pixels // _FOUR_EIGHTS) * _FOUR_EIGHTS))
        padded[..., :pixels] = real * real
        parts = cut_to_float(padded.reshape(planes, rows, -1, 4, _EIGHT).sum(-1))
        fours = parts.sum(-1, dtype=np.float64).astype(_F32)
        total = np.add.accumulate(fours, 2)[..., -1:] + start
        return to_halves(real.astype(_F32) * _inverse_root(np.maximum(total, least)))

    return ShaderTask((source,), output, function)


_FOUR_EIGHTS = 32
