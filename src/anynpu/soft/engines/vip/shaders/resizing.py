"""Images of other sizes."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from ..rounding import cut, numbers_of_halves, to_halves
from .quantized import F16, U8, reals_of, to_bytes, types
from .shader import Shader
from .task import Array, ShaderTask

_F32 = np.float32


_MIXES = {
    "6aded2e8195f9cef": (2, True),
    "39caa00c68b0ad63": (4, True),
    "4b29f5f5bbf2fab7": (2, False),
}
"""Programs that mix four pixels by weights of their own: how many times an image grows, and whether
by the centres of pixels or by their left edges.
"""


_NEAREST = ("0a7cefd83240e77e", "4dafb4605933c7b0")
"""Programs that take a pixel for each, by how many times smaller the image is."""


_NEAREST_HALVES = "37c04c697723aab9"
"""As `_NEAREST`, of float16; the ratios are in other registers."""

_EVERY_SECOND = "270ae7c3f9298343"
"""The program that takes every second pixel of every second row of float16."""

_REPEATED_HALVES, _PIXELS_AT_ONCE = "fdc82fe4f900d5a7", 8
"""The program that repeats pixels of float16, and how many of a row it does at a time."""

_MIXED_HALVES, _SMALLER_HALVES = "411a1c4e0f55f761", "a98ed0fd834d6c4f"
"""Programs that mix four pixels of float16, the second one where the image gets smaller."""

_DOUBLED_HALVES, _HALF_BITS = "831881ea2e1b11e8", 11
"""As those, by weights of its own: twice as large, pixels by their left edges. What lies between
two pixels of a row is cut to the significant bits of float16.
"""


def tensor_scale(shader: Shader) -> ShaderTask:
    """Pixels repeated, or mixed of four by the weights of a table."""
    of_halves = _OF_HALVES.get(shader.program)
    if of_halves is not None:
        return of_halves(shader)
    if shader.program in _NEAREST:
        return _nearest(shader, U8, shader.real(0x64), shader.real(0x60))
    if shader.program in _MIXES:
        return _mixed(shader, *_MIXES[shader.program])
    if shader.has(0x60):
        return _bilinear(shader)
    source, output = shader.images(0x00, 0x20)
    planes, height, width = source.shape
    rows, pixels = output.shape[1:]
    if source.dtype != output.dtype or source.dtype not in (U8, F16):
        raise Unknown(f"an image of {source.dtype} made {output.dtype}")
    if output.shape[0] != planes or rows % height or pixels % width:
        raise Unknown(f"an image of {source.shape} made one of {output.shape}")
    repeats = rows // height, pixels // width
    counted = _PIXELS_AT_ONCE if shader.program == _REPEATED_HALVES else planes
    if repeats != (2, 2) or shader.whole(0x40) != counted:
        raise Unknown(f"pixels repeated {repeats[0]} and {repeats[1]} times")

    def function(values: Array) -> Array:
        result: Array = values.repeat(repeats[0], 1).repeat(repeats[1], 2)
        return result

    return ShaderTask((source,), output, function)


def _nearest(
    shader: Shader, kind: np.dtype[np.generic], rows_ratio: np.float32, pixels_ratio: np.float32
) -> ShaderTask:
    """A pixel for each, by how many times smaller the image is."""
    source, output = shader.images_of(0x00, 0x20)
    if types(source, output) != (kind, kind) or output.shape[0] != source.shape[0]:
        raise Unknown(f"{source.shape} {source.dtype} made {output.shape} {output.dtype}")
    rows, pixels = (
        _taken(count, size, ratio, _F32(0))
        for count, size, ratio in zip(
            output.shape[1:], source.shape[1:], (rows_ratio, pixels_ratio), strict=True
        )
    )
    return ShaderTask((source,), output, lambda values: values[:, rows[:, None], pixels])


def _every_second(shader: Shader) -> ShaderTask:
    source, output = shader.images(0x00, 0x20)
    planes, rows, pixels = output.shape
    if types(source, output) != (F16, F16) or source.shape != (planes, 2 * rows, 2 * pixels):
        raise Unknown(f"{source.shape} {source.dtype} made {output.shape} {output.dtype}")
    return ShaderTask((source,), output, lambda values: values[:, ::2, ::2])


def resize_nearest(shader: Shader) -> ShaderTask:
    """A pixel for each, by how many times smaller the image is: with a half, the nearest one."""
    source, output = shader.images(0x00, 0x20)
    kinds = types(source, output)
    if kinds not in ((U8, U8), (F16, F16)) or output.shape[0] != source.shape[0]:
        raise Unknown(f"{source.shape} {source.dtype} made {output.shape} {output.dtype}")
    shader.expect({0x40: 1, 0x44: 0, 0x48: 0})
    half = shader.real(0x4C)
    ratios = shader.real(0x54), shader.real(0x50)
    rows, pixels = (
        _taken(count, size, ratio, half)
        for count, size, ratio in zip(output.shape[1:], source.shape[1:], ratios, strict=True)
    )
    return ShaderTask((source,), output, lambda values: values[:, rows[:, None], pixels])


_DOUBLED_BYTES = "152304e1d5874b04"
"""The program, of files of 1.x, that doubles bytes by the centres of pixels."""


def resize_bilinear(shader: Shader) -> ShaderTask:
    """Pixels doubled, each mixed of four; what is beyond the image is its edge."""
    source, output = shader.images(0x00, 0x20)
    planes, rows, pixels = source.shape
    if types(source, output) != (U8, U8) or shader.program != _DOUBLED_BYTES:
        raise Unknown(f"an image of {source.dtype} made {output.dtype} in this form")
    if output.shape != (planes, 2 * rows, 2 * pixels):
        raise Unknown(f"an image of {source.shape} made one of {output.shape}")
    shader.expect({0x40: 0, 0x44: 1, 0x48: output.shape[1]})

    def function(values: Array) -> Array:
        wide = np.pad(values.astype(np.int64), ((0, 0), (1, 1), (1, 1)), mode="edge")
        lines = np.stack([3 * wide[:, 1:-1] + wide[:, :-2], 3 * wide[:, 1:-1] + wide[:, 2:]], 2)
        tall = lines.reshape(planes, 2 * rows, pixels + 2)
        inner = 3 * tall[..., 1:-1]
        sums = np.stack([inner + tall[..., :-2], inner + tall[..., 2:]], 3)
        return to_bytes(sums.reshape(output.shape) / 16)

    return ShaderTask((source,), output, function)


def _taken(count: int, size: int, ratio: np.float32, more: np.float32) -> Array:
    """Which row, or pixel, each one is taken from."""
    if not (np.isfinite([ratio, more]).all() and ratio > 0):
        raise Unknown(f"an image {ratio} times as small")
    places = np.floor(np.arange(count, dtype=_F32) * ratio + more).astype(np.intp)
    result: Array = np.clip(places, 0, size - 1)
    return result


def _mixed_by_registers(shader: Shader) -> ShaderTask:
    first = 0x50 if shader.program == _SMALLER_HALVES else 0x40
    offset = shader.real(first)
    ratios = shader.real(first + 8), shader.real(first + 4)
    if offset not in (0, 0.5) or not np.isfinite(ratios).all() or min(ratios) <= 0:
        raise Unknown(f"an image {ratios[1]} and {ratios[0]} times as small, from {offset}")
    return _mixed_halves(shader, ratios, offset)


def _doubled_halves(shader: Shader) -> ShaderTask:
    source, output = shader.images(0x00, 0x20)
    planes, rows, pixels = source.shape
    if types(source, output) != (F16, F16) or output.shape != (planes, 2 * rows, 2 * pixels):
        raise Unknown(f"{source.shape} {source.dtype} made {output.shape} {output.dtype}")

    @np.errstate(invalid="ignore")
    def function(values: Array) -> Array:
        real = numbers_of_halves(values)
        right, lower = _next(real, 2), _next(real, 1)
        mixed = np.empty(output.shape)
        mixed[:, ::2, ::2] = real
        mixed[:, ::2, 1::2] = cut((real + right) / 2, _HALF_BITS)
        mixed[:, 1::2, ::2] = (real + lower) / 2
        mixed[:, 1::2, 1::2] = (real + right + lower + _next(lower, 2)) / 4
        return to_halves(mixed)

    return ShaderTask((source,), output, function)


def _next(values: Array, axis: int) -> Array:
    """The neighbour behind each value; the last one is its own."""
    size = values.shape[axis]
    result: Array = values.take(np.minimum(np.arange(size) + 1, size - 1), axis)
    return result


def _nearest_halves(shader: Shader) -> ShaderTask:
    return _nearest(shader, F16, shader.real(0x44), shader.real(0x40))


def _mixed_halves(
    shader: Shader, ratios: tuple[np.float32, np.float32], offset: np.float32
) -> ShaderTask:
    """Pixels of float16 mixed along rows, then between them, in float32."""
    source, output = shader.images(0x00, 0x20)
    sizes = tuple(zip(output.shape[1:], source.shape[1:], ratios, strict=True))
    if types(source, output) != (F16, F16) or output.shape[0] != source.shape[0]:
        raise Unknown(f"{source.shape} {source.dtype} made {output.shape} {output.dtype}")
    (top, bottom, down), (left, right, across) = (
        _places(count, size, ratio, offset) for count, size, ratio in sizes
    )

    @np.errstate(invalid="ignore", over="ignore")
    def function(values: Array) -> Array:
        real = reals_of(values)
        rows = real[:, :, left] + (real[:, :, right] - real[:, :, left]) * across
        upper, lower = rows[:, top], rows[:, bottom]
        return to_halves(upper + (lower - upper) * down[:, None])

    return ShaderTask((source,), output, function)


def _places(
    count: int, size: int, ratio: np.float32, offset: np.float32
) -> tuple[Array, Array, Array]:
    """Each place's two neighbours, and how near it is to the second."""
    places = (np.arange(count, dtype=_F32) + offset) * ratio - offset
    first = np.floor(places)
    near, far = (np.clip(first + more, 0, size - 1).astype(np.intp) for more in (0, 1))
    return near, far, places - first


def _mixed(shader: Shader, times: int, by_centres: bool) -> ShaderTask:
    """Bytes of images that are a whole number of times as large, rounded once."""
    source, output = shader.images(0x00, 0x20)
    planes, height, width = source.shape
    if types(source, output) != (U8, U8) or output.shape != (planes, height * times, width * times):
        raise Unknown(f"{source.shape} {source.dtype} made {output.shape} {output.dtype}")
    if by_centres:
        shader.expect({0x40: height * times})
    top, bottom, down = _between(height, times, by_centres)
    left, right, across = _between(width, times, by_centres)
    scale = _F32(1 / (2 * times) ** 2)

    def function(values: Array) -> Array:
        whole = values.astype(np.int32)
        rows = whole[:, top] * (2 * times - down)[:, None] + whole[:, bottom] * down[:, None]
        mixed = rows[:, :, left] * (2 * times - across) + rows[:, :, right] * across
        return to_bytes(mixed.astype(_F32) * scale)

    return ShaderTask((source,), output, function)


def _between(size: int, times: int, by_centres: bool) -> tuple[Array, Array, Array]:
    """Each place's two neighbours, and how near it is to the second in parts of 2 `times`."""
    parts = 2 * np.arange(size * times) + (1 - times if by_centres else 0)
    first = parts // (2 * times)
    last = size - 1
    return np.clip(first, 0, last), np.clip(first + 1, 0, last), parts - first * 2 * times


def _bilinear(shader: Shader) -> ShaderTask:
    source, output, weights = shader.images(0x00, 0x20, 0x40)
    planes, height, width = source.shape
    rows, pixels = output.shape[1:]
    if types(source, output, weights) != (U8, U8, F16):
        raise Unknown(f"an image of {source.dtype} made {output.dtype}")
    if weights.shape != (1, rows, 4 * pixels) or output.shape[0] != planes:
        raise Unknown(f"weights of {weights.shape} for an image of {output.shape}")
    offset = shader.real(0x60)
    ratios = shader.real(0x64), shader.real(0x68)
    if not np.isfinite([offset, *ratios]).all() or min(ratios) <= 0:
        raise Unknown(f"an image {ratios[0]} and {ratios[1]} times as small")
    is_plain = shader.whole(0x70) == _FIRST_OF_PLAIN
    is_known = max(ratios) <= 1 if is_plain else all(ratio == np.rint(ratio) for ratio in ratios)
    if offset and not is_known and not (ratios[0] == ratios[1] == 2):
        raise Unknown(f"an image {ratios[0]} and {ratios[1]} times as small by centres of pixels")
    offsets = _offsets_of_pixels(pixels, offset) if is_plain else offset
    left, right = _neighbours(pixels, width, ratios[0], offsets)
    top, bottom = _neighbours(rows, height, ratios[1], offset)
    if not is_plain:
        multiplier, addend = shader.signed(0x70), shader.signed(0x74)
        factor, constant = shader.real(0x78), shader.real(0x7C)
        unit = _F32(2.0 ** -(shader.whole(0x9C) & 63))

    def function(values: Array, table: Array) -> Array:
        w = table.reshape(rows, pixels, 4).astype(_F32)
        reals = values.astype(_F32)
        if not is_plain:
            whole = values.astype(np.int64) * multiplier + addend
            reals = (whole * unit).astype(np.float16).astype(_F32)
        upper, lower = reals[:, top], reals[:, bottom]
        mixed = upper[:, :, left] * w[..., 0] + upper[:, :, right] * w[..., 1]
        mixed += lower[:, :, left] * w[..., 2] + lower[:, :, right] * w[..., 3]
        return to_bytes(mixed if is_plain else mixed * factor + constant)

    return ShaderTask((source, weights), output, function)


_FIRST_OF_PLAIN = 0x33333333
"""What is in the place of a multiplier where input and output have the same quantisation."""


def _neighbours(
    count: int, size: int, ratio: np.float32, offset: Array | np.float32
) -> tuple[Array, Array]:
    """The left, or upper, neighbour of each pixel, and the other one; both within the image."""
    first = np.floor((np.arange(count, dtype=_F32) + offset) * ratio - offset)
    last = size - 1
    return np.clip(first, 0, last).astype(np.intp), np.clip(first + 1, 0, last).astype(np.intp)


_PIXELS_OF_THREAD, _THREADS = 4, 3


def _offsets_of_pixels(count: int, offset: np.float32) -> Array:
    """A pixel's centre for the first of three threads, which have four pixels each in turn.

    The others forget it and take neighbours as if pixels lay at their left edges, with weights for
    centres: so the emulator was seen to do in images of several widths and ratios.
    """
    threads = np.arange(count) // _PIXELS_OF_THREAD
    result: Array = np.where(threads % _THREADS == 0, offset, _F32(0))
    return result


_OF_HALVES = {
    _MIXED_HALVES: _mixed_by_registers,
    _SMALLER_HALVES: _mixed_by_registers,
    _DOUBLED_HALVES: _doubled_halves,
    _NEAREST_HALVES: _nearest_halves,
    _EVERY_SECOND: _every_second,
}
