"""Images of other sizes."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from .quantized import F16, U8, to_bytes, types
from .shader import Shader
from .task import Array, ShaderTask

_F32 = np.float32


def tensor_scale(shader: Shader) -> ShaderTask:
    """Pixels repeated, or mixed of four by the weights of a table."""
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
    if repeats != (2, 2) or shader.whole(0x40) != planes:
        raise Unknown(f"pixels repeated {repeats[0]} and {repeats[1]} times")

    def function(values: Array) -> Array:
        result: Array = values.repeat(repeats[0], 1).repeat(repeats[1], 2)
        return result

    return ShaderTask((source,), output, function)


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
    if offset and any(ratio != np.rint(ratio) for ratio in ratios):
        raise Unknown(f"an image {ratios[0]} and {ratios[1]} times as small by centres of pixels")
    left = _first(pixels, width, ratios[0], offset)
    top = _first(rows, height, ratios[1], offset)
    right, bottom = np.minimum(left + 1, width - 1), np.minimum(top + 1, height - 1)
    is_plain = shader.whole(0x70) == _FIRST_OF_PLAIN
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


def _first(count: int, size: int, ratio: np.float32, offset: np.float32) -> Array:
    """The left, or upper, neighbour of each pixel."""
    places = (np.arange(count, dtype=_F32) + offset) * ratio - offset
    result: Array = np.clip(np.floor(places), 0, size - 1).astype(np.intp)
    return result
