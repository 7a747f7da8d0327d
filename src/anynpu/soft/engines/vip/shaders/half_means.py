"""Means of float16 over windows and planes.

Sums are float32: some values at a time, whose sum is cut, added to what is there. Values that
aren't normal are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..refusal import Unknown
from ..rounding import (
    Reals,
    cut_to_bfloat16,
    cut_to_float,
    cut_to_half,
    from_bfloat16,
    normal_halves,
    to_halves,
    whole_sum,
)
from .quantized import BF16, F16, F32, types
from .shader import Image, Shader
from .task import Array, ShaderTask

_F32 = np.float32
_LARGEST = 255
"""Pixels of a window, and from one to the next; those that were seen have twenty at most."""

_OF_TWO, _OF_THREE = "eabfd99385fd3b36", "581b070bda2bb42c"
"""Programs of means over two rows and pixels side by side, and over three that overlap."""

_OF_ONE_FACTOR = ("d9d500123a6a463d", "38ee6ba1dc97f117")
"""Those of means over windows inside the image, and of windows of which all pixels count."""

_LONG_PLANES = "af46c2a2a3817013"
"""That of means of planes, 32 pixels at a time."""

_SIXTEEN, _THIRTY_TWO, _FOUR_OF_THEM = 16, 32, 64
_EIGHT = 8

_PLAIN, _PADDED = 0x30, 0x50
"""The output's register of programs without a table of factors, and with one."""


def mean_of_halves(shader: Shader) -> ShaderTask:
    """Means over windows, or whole planes, of float16; or planes of bfloat16."""
    if shader.has_operand(_PADDED):
        return _over_windows(shader)
    return _BY_PROGRAM.get(shader.program, _over_planes)(shader)


_OF_BFLOAT16, _LANES = "601398ed241329d4", 4
"""The program of means of planes of bfloat16, and how many sums it makes of each at once."""


def _of_bfloat16(shader: Shader) -> ShaderTask:
    """Planes, which are rows here: every fourth pixel is summed, then the four sums."""
    source, output = shader.images(0x00, _PLAIN)
    planes, rows, pixels = source.shape
    if types(source, output) != (BF16, BF16) or output.shape != (1, rows, 1) or planes != 1:
        raise Unknown(f"means of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    count, factor = shader.whole(0x24), shader.real(0x28)
    if not 0 <= count - pixels < _FOUR_OF_THEM:
        raise Unknown(f"means over {count} of {pixels} pixels")

    def function(values: Array) -> Array:
        padded = np.zeros((rows, -(-pixels // _EIGHT) * _EIGHT), _F32)
        padded[:, :pixels] = from_bfloat16(values[0])
        pairs = padded.reshape(rows, -1, 2, _LANES)
        lanes = np.add.accumulate(pairs[:, :, 0] + pairs[:, :, 1], 1)[:, -1]
        total = lanes.sum(1, dtype=np.float64).astype(_F32)
        return cut_to_bfloat16(total * factor)[None, :, None]

    return ShaderTask((source,), output, function)


def _over_planes(shader: Shader) -> ShaderTask:
    """Planes, which are rows here: four sums of sixteen pixels are rounded together."""
    source, output = shader.images(0x00, _PLAIN)
    planes, rows, pixels = source.shape
    if types(source, output) != (F16, F16) or output.shape != (planes, rows, 1) or planes != 1:
        raise Unknown(f"means of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    factor = shader.real(0x24) if shader.has(0x24) else _F32(0)
    if factor != _F32(1) / _F32(pixels):
        raise Unknown(f"means over {pixels} pixels by a factor of {factor}")
    blocks = -(-pixels // _FOUR_OF_THEM)

    def function(values: Array) -> Array:
        padded = np.zeros((rows, blocks * _FOUR_OF_THEM))
        padded[:, :pixels] = normal_halves(values[0])
        sums = cut_to_float(padded.reshape(rows, blocks, -1, _SIXTEEN).sum(-1))
        parts = sums.sum(-1, dtype=np.float64).astype(_F32)
        total = np.add.accumulate(parts, 1)[:, -1:]
        return to_halves(total * factor)[None]

    return ShaderTask((source,), output, function)


def _over_long_planes(shader: Shader) -> ShaderTask:
    """Planes, which are rows here, 32 pixels at a time; the factor is the file's own."""
    source, output = shader.images(0x00, _PLAIN)
    if types(source, output) != (F16, F16):
        raise Unknown(f"means of {source.dtype} to {output.dtype}")
    return mean_of_rows(source, output, shader.whole(0x24), shader.real(0x28), _F32(0))


def mean_of_rows(
    source: Image, output: Image, count: int, scale: np.float32, constant: np.float32
) -> ShaderTask:
    """Sums of rows of float16, to each of which two sums of sixteen pixels are added at a time.

    `count` is how many pixels are counted, those beyond a row's end with them.
    """
    planes, rows, pixels = source.shape
    if output.shape != (planes, rows, 1) or planes != 1 or not 0 <= count - pixels < _THIRTY_TWO:
        raise Unknown(f"means of {source.shape} float16 to {output.shape}, {count}")

    def function(values: Array) -> Array:
        padded = np.zeros((rows, -(-pixels // _THIRTY_TWO) * _THIRTY_TWO))
        padded[:, :pixels] = normal_halves(values[0])
        parts = cut_to_float(padded.reshape(rows, -1, 2, _SIXTEEN).sum(-1)).astype(np.float64)
        total = np.zeros(rows, _F32)
        for part in parts.sum(-1).T:
            total = (total + part).astype(_F32)
        return to_halves(total * scale + constant)[None, :, None]

    return ShaderTask((source,), output, function)


def _over_two(shader: Shader) -> ShaderTask:
    """Four pixels, whose mean is exact until it is cut to float16."""
    source, output = shader.images(0x00, _PLAIN)
    planes, rows, pixels = output.shape
    if types(source, output) != (F16, F16) or source.shape != (planes, 2 * rows, 2 * pixels):
        raise Unknown(f"means of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    shader.expect({0x20: source.shape[1]})

    def function(values: Array) -> Array:
        windows = normal_halves(values).reshape(planes, rows, 2, pixels, 2)
        return cut_to_half(windows.sum((2, 4)) / 4)

    return ShaderTask((source,), output, function)


def _over_three(shader: Shader) -> ShaderTask:
    """Three rows and pixels, of which one is beyond the image."""
    source, output = shader.images(0x00, _PLAIN)
    rows = output.shape[1]
    if types(source, output) != (F16, F16) or source.shape != output.shape:
        raise Unknown(f"means of {source.shape} {source.dtype} to {output.shape} {output.dtype}")
    shader.expect({0x20: rows, 0x24: 1, 0x28: 1})
    factor = shader.real(0x2C)

    def function(values: Array) -> Array:
        padded = np.pad(normal_halves(values), ((0, 0), (1, 1), (1, 1)))
        lines = whole_sum(np.stack([padded[..., :-2], padded[..., 1:-1], padded[..., 2:]], -1))
        above, middle, below = lines[:, :-2], lines[:, 1:-1], lines[:, 2:]
        total = above + (middle + below)
        # Two rows of results share the sum of the two rows of pixels between them.
        total[:, 1::2] = ((above + middle) + below)[:, 1::2]
        return to_halves(total * factor)

    return ShaderTask((source,), output, function)


def _over_windows(shader: Shader) -> ShaderTask:
    """Any windows, by a factor for each place: that knows how many pixels there are."""
    source, factors, output = shader.images(0x00, 0x20, _PADDED)
    if types(source, factors, output) != (F16, F32, F16):
        raise Unknown(f"means of {source.dtype} to {output.dtype}")
    rows, pixels = output.shape[1:]
    if factors.shape[:2] != (1, rows) or factors.shape[2] < pixels:
        raise Unknown(f"factors of {factors.shape} for means of {output.shape}")
    left, top, width, height = (shader.whole(register) for register in range(0x70, 0x80, 4))
    shader.expect({0x40: source.shape[1], 0x4C: width % _EIGHT})
    steps = shader.whole(0x48), shader.whole(0x44)
    sums = _sums(source, output, (height, width), steps, (top, left))

    def function(values: Array, factor: Array) -> Array:
        return to_halves(sums(values) * factor[..., :pixels])

    return ShaderTask((source, factors), output, function)


def _without_factors(shader: Shader) -> ShaderTask:
    """Windows of as many pixels each."""
    source, output = shader.images(0x00, _PLAIN)
    if types(source, output) != (F16, F16):
        raise Unknown(f"means of {source.dtype} to {output.dtype}")
    left, top, width, height = (shader.whole(register) for register in range(0x50, 0x60, 4))
    whole = width - width % _EIGHT
    shader.expect({0x20: source.shape[1], 0x2C: width % _EIGHT, 0x60: whole, 0x64: 0})
    steps = shader.whole(0x28), shader.whole(0x24)
    sums = _sums(source, output, (height, width), steps, (top, left))
    factor = shader.real(0x68)
    return ShaderTask((source,), output, lambda values: to_halves(sums(values) * factor))


def _sums(
    source: Image,
    output: Image,
    size: tuple[int, int],
    steps: tuple[int, int],
    start: tuple[int, int],
) -> Callable[[Array], NDArray[np.float32]]:
    """What makes windows' sums, each (rows, pixels); what is beyond the image is zero."""
    (height, width), (top, left) = size, start
    planes, rows, pixels = output.shape
    if max(*size, *steps) > _LARGEST or 0 in (*size, *steps) or source.shape[0] != planes:
        raise Unknown(f"means over {size} pixels, {steps} apart")
    reach = (rows - 1) * steps[0] + height, (pixels - 1) * steps[1] + width
    bottom, right = reach[0] - source.shape[1] - top, reach[1] - source.shape[2] - left
    if not (0 <= top < height and 0 <= left < width and bottom < height and right < width):
        raise Unknown("means over windows beyond the image")

    def sums(values: Array) -> NDArray[np.float32]:
        beyond = (0, 0), (top, max(bottom, 0)), (left, max(right, 0))
        padded: Reals = np.pad(normal_halves(values), beyond)
        views = np.lib.stride_tricks.sliding_window_view(padded, size, axis=(1, 2))
        seen = views[:, : reach[0] : steps[0], : reach[1] : steps[1]][:, :rows, :pixels]
        total = np.zeros(output.shape, _F32)
        for y in range(height):
            for first in range(0, width, _EIGHT):
                total += cut_to_float(seen[..., y, first : first + _EIGHT].sum(-1))
        return total

    return sums


_BY_PROGRAM: Mapping[str, Callable[[Shader], ShaderTask]] = {
    _OF_BFLOAT16: _of_bfloat16,
    _OF_TWO: _over_two,
    _OF_THREE: _over_three,
    _LONG_PLANES: _over_long_planes,
    **dict.fromkeys(_OF_ONE_FACTOR, _without_factors),
}
"""Who knows a program; others are those of planes."""
