"""Maxima and means over windows."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from .forms import WindowSums
from .half_means import mean_of_halves
from .quantized import BF16, F16, F32, ONE, U8, to_bytes, types
from .reduction import sums_of_windows
from .shader import Shader
from .task import Array, ShaderTask

_LARGEST = 255
"""Pixels of a window, and from one to the next; those that were seen have thirteen at most."""

_SIDE_BY_SIDE = {"aea3e5379d9da178", "c958702dfe51a18f"}
"""Programs of means over windows that fill the image. V853 has its own, here and below."""

_PADDED_OUTPUT = 0x50
"""The output's register of the programs whose rows of factors are longer than the image's."""

_THREE_BY_THREE = {"238964a7a7f4555c", "c7a1df617dee356f"}
"""Programs of means over three rows and pixels, with one of each beyond the image."""

_OF_ROWS = {"d203a0fdc201fb5c", "197eadd78a424c95"}
"""Programs of means of whole rows, which are planes of a network."""

_HALF_A_STEP = 0.5

_AT_ONCE, _SECOND_VECTOR = 64, 48
"""Pixels that a round of it sums, and which of them it counts by; beyond a row are zeros."""

_INSIDE, _WINDOWS = "bbf0005029104f32", "925c6edcace8bc51"
"""The programs of maxima of windows inside the image, and of ones that aren't square."""

_FLOOR = np.iinfo(np.int16).min


def max_pooling(shader: Shader) -> ShaderTask:
    """The largest of windows; what lies beyond the image counts for nothing."""
    if shader.program == _INSIDE:
        return _maximum_inside(shader)
    if shader.program == _WINDOWS:
        return _maximum_around(shader)
    source, output = shader.images(0x00, 0x20)
    kinds = types(source, output)
    left, top = shader.whole(0x40), shader.whole(0x44)
    if kinds == (U8, U8) and not shader.has(0x58):
        height, width, steps = 2 * left + 1, 2 * left + 1, (1, 1)
        if shader.whole(0x48) != source.shape[2] or top != left:
            raise Unknown("maxima of bytes in this form")
    elif kinds == (F16, F16):
        width, height = shader.whole(0x54), shader.whole(0x58)
        steps = shader.whole(0x4C), shader.whole(0x48)
    else:
        raise Unknown(f"maxima of {kinds[0]} to {kinds[1]}")
    planes, rows, pixels = output.shape
    if max(width, height, *steps) > _LARGEST or 0 in (width, height, *steps):
        raise Unknown(f"maxima over {height} x {width} pixels, {steps} apart")
    if source.shape[0] != planes or top >= height or left >= width:
        raise Unknown(f"maxima over {height} x {width} pixels, {steps} apart")
    reach = (rows - 1) * steps[0] + height, (pixels - 1) * steps[1] + width
    bottom, right = reach[0] - source.shape[1] - top, reach[1] - source.shape[2] - left
    if bottom >= height or right >= width:
        raise Unknown("maxima over windows beyond the image")

    def function(values: Array) -> Array:
        beyond = ((0, 0), (top, max(bottom, 0)), (left, max(right, 0)))
        least = -np.inf if values.dtype == np.float16 else _FLOOR
        wide = np.float32 if values.dtype == np.float16 else np.int16
        padded = np.pad(values.astype(wide), beyond, constant_values=least)
        views = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))
        largest = views[:, : reach[0] : steps[0], : reach[1] : steps[1]][:, :rows, :pixels]
        result: Array = largest.max((-1, -2)).astype(values.dtype)
        return result

    return ShaderTask((source,), output, function)


def _maximum_inside(shader: Shader) -> ShaderTask:
    """The largest byte of windows that don't leave the image."""
    source, output = shader.images(0x00, 0x20)
    planes, rows, pixels = output.shape
    if types(source, output) != (U8, U8) or source.shape[0] != planes:
        raise Unknown(f"maxima of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    shader.expect({0x40: 0, 0x44: 0, 0x50: ONE, 0x54: 0})
    size = shader.whole(0xC4), shader.whole(0xC0)
    steps = shader.whole(0x4C), shader.whole(0x48)
    if max(*size, *steps) > _LARGEST or 0 in (*size, *steps):
        raise Unknown(f"maxima over {size} pixels, {steps} apart")
    reach = (rows - 1) * steps[0] + size[0], (pixels - 1) * steps[1] + size[1]
    if reach[0] > source.shape[1] or reach[1] > source.shape[2]:
        raise Unknown("maxima over windows beyond the image")

    def function(values: Array) -> Array:
        views = np.lib.stride_tricks.sliding_window_view(values, size, axis=(1, 2))
        seen = views[:, : reach[0] : steps[0], : reach[1] : steps[1]][:, :rows, :pixels]
        result: Array = seen.max((-1, -2))
        return result

    return ShaderTask((source,), output, function)


def _maximum_around(shader: Shader) -> ShaderTask:
    """The largest of the bytes that are so many rows and pixels away at the most."""
    source, output = shader.images(0x00, 0x20)
    if types(source, output) != (U8, U8) or source.shape != output.shape:
        raise Unknown(f"maxima of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    left, top = shader.whole(0x40), shader.whole(0x44)
    shader.expect({0x48: 1, 0x4C: 1})
    if max(left, top) > _LARGEST:
        raise Unknown(f"maxima over {top} rows and {left} pixels more on each side")

    def function(values: Array) -> Array:
        padded = np.pad(values, ((0, 0), (top, top), (left, left)))
        size = 2 * top + 1, 2 * left + 1
        views = np.lib.stride_tricks.sliding_window_view(padded, size, axis=(1, 2))
        result: Array = views.max((-1, -2))
        return result

    return ShaderTask((source,), output, function)


def average_pooling(shader: Shader) -> ShaderTask:
    """Sums of bytes over windows, by a factor for each place: that knows how many there are.

    Windows that fill the image side by side have no table of factors.
    """
    (source,) = shader.images_of(0x00)
    if source.dtype in (BF16, F16):
        return mean_of_halves(shader)
    if shader.program in _SIDE_BY_SIDE:
        return _average_side_by_side(shader)
    if shader.program in _OF_ROWS:
        return _average_of_rows(shader)
    if shader.program in _THREE_BY_THREE:
        return _average_of_three(shader)
    if not shader.has(0x7C):
        raise Unknown("means in this form")
    is_padded = shader.has_operand(_PADDED_OUTPUT)
    source, factors, output = shader.images(0x00, 0x20, _PADDED_OUTPUT if is_padded else 0x40)
    if types(source, factors, output) != (U8, F32, U8):
        raise Unknown(f"means of {source.dtype} to {output.dtype}")
    left, top = shader.whole(0x70), shader.whole(0x74)
    width, height, stride = shader.whole(0x78), shader.whole(0x7C), shader.whole(0x44)
    own, zero = shader.whole(0x90), shader.real(0x84)
    # V853 has half a step in the zero point, and cuts.
    is_cut = not is_padded or zero % 1 == _HALF_A_STEP
    if max(width, height, stride) > _LARGEST or min(width, height, stride) < 1:
        raise Unknown(f"means over {height} x {width} pixels, {stride} apart")
    planes, rows, pixels = output.shape
    if factors.shape[:2] != (1, rows) or factors.shape[2] < pixels or source.shape[0] != planes:
        raise Unknown(f"factors of {factors.shape} for means of {output.shape}")
    bottom = (rows - 1) * stride + height - source.shape[1] - top
    right = (pixels - 1) * stride + width - source.shape[2] - left
    if not (0 <= top < height and 0 <= left < width and bottom < height and right < width):
        raise Unknown("means over windows beyond the image")

    def function(values: Array, factor: Array) -> Array:
        beyond = ((0, 0), (top, max(bottom, 0)), (left, max(right, 0)))
        padded = np.pad(values.astype(np.int64) - own, beyond)
        views = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))
        seen = views[:, : rows * stride : stride, : pixels * stride : stride]
        total = seen.sum((-1, -2)).astype(np.float32)
        real = total * factor[..., :pixels] + zero
        return to_bytes(np.floor(real) if is_cut else real)

    return ShaderTask((source, factors), output, function)


def _average_of_three(shader: Shader) -> ShaderTask:
    source, factors, output = shader.images(0x00, 0x20, _PADDED_OUTPUT)
    if types(source, factors, output) != (U8, F32, U8) or output.shape != source.shape:
        raise Unknown(f"means of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    _, rows, pixels = source.shape
    shader.expect({0x40: rows, 0x44: 1, 0x48: 1})
    if factors.shape[:2] != (1, rows) or factors.shape[2] < pixels:
        raise Unknown(f"factors of {factors.shape} for means of {output.shape}")
    own, zero = shader.whole(0x70), shader.real(0x4C)

    def function(values: Array, factor: Array) -> Array:
        padded = np.pad(values.astype(np.int64) - own, ((0, 0), (1, 1), (1, 1)))
        views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        real = views.sum((-1, -2)).astype(np.float32) * factor[..., :pixels] + zero
        return to_bytes(np.floor(real))

    return ShaderTask((source, factors), output, function)


def _average_of_rows(shader: Shader) -> ShaderTask:
    source, output = shader.images(0x00, 0x30)
    planes, rows, pixels = source.shape
    if types(source, output) != (U8, U8) or output.shape != (planes, rows, 1):
        raise Unknown(f"means of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    read = _AT_ONCE * (1 + max(-(-(shader.whole(0x24) - _SECOND_VECTOR) // _AT_ONCE), 0))
    if planes != 1 or read < pixels:
        raise Unknown(f"means of {read} of {pixels} pixels in {planes} planes")
    shader.expect({0x100: 0, 0x110: 0, 0x118: _SECOND_VECTOR // 3, 0x11C: _SECOND_VECTOR})
    scale, constant = shader.real(0x28), shader.real(0x2C)
    factor, zero = shader.real(0xF0), shader.real(0xF4)

    def function(values: Array) -> Array:
        total = values.sum(2, keepdims=True, dtype=np.int64).astype(np.float32)
        return to_bytes((total * scale - constant) * factor + zero)

    return ShaderTask((source,), output, function)


def _average_side_by_side(shader: Shader) -> ShaderTask:
    source, output = shader.images(0x00, 0x30)
    if types(source, output) != (U8, U8):
        raise Unknown(f"means of {source.dtype} to {output.dtype}")
    width, height = shader.whole(0x50), shader.whole(0x54)
    planes, rows, pixels = output.shape
    if source.shape != (planes, rows * height, pixels * width) or not width or not height:
        raise Unknown(f"means over {height} x {width} pixels of {source.shape} to {output.shape}")
    steps = {0x58: 0, 0x5C: 0, 0x60: width, 0x64: width, 0x68: height}
    shader.expect(steps | {0x20: source.shape[1]})
    own, scale, zero = shader.signed(0x24), shader.real(0x28), shader.real(0x2C)

    form = WindowSums((height, width), -own * height * width, scale, zero)
    return ShaderTask((source,), output, sums_of_windows(form), form=form)
