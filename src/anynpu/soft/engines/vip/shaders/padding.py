"""Images with a border."""

from __future__ import annotations

import numpy as np

from ..refusal import Unknown
from .quantized import F16, U8, types
from .shader import Image, Shader
from .task import Array, ShaderTask

_MIRRORED, _EDGE, _CONSTANT = "845bb8831456c73b", "045118e9b312f808", "19f612a9aa32a1d3"
_MIRRORED_HALVES, _EDGE_OF_HALVES = "38c4f4c5ce5a2b26", "002373291d48f510"
_CONSTANT_OF_ONE_PLANE, _CONSTANT_OF_HALVES = "d608143b49012545", "bbf9b3f9ce3df133"
_PIXELS_TO_ROWS = "1895362c4a9ab5cb"
"""Programs; the layer's name is the same for all of them."""

_HALF, _SHIFTED_BY_15 = 0x8000, 0x260F
"""A factor of 1 with 15 fraction bits."""

_BYTE, _EACH_BYTE, _EACH_HALF = 0xFF, 0x01010101, 0x00010001


def padding(shader: Shader) -> ShaderTask:
    """Bytes, or float16, with a border: of the mirror image, of the edge, or of one value."""
    if shader.program == _CONSTANT:
        return _with_constant(shader)
    if shader.program in (_CONSTANT_OF_ONE_PLANE, _CONSTANT_OF_HALVES):
        return _plane_with_constant(shader)
    if shader.program == _PIXELS_TO_ROWS:
        return _pixels_to_rows(shader)
    if shader.program not in (_MIRRORED, _EDGE, _MIRRORED_HALVES, _EDGE_OF_HALVES):
        raise Unknown("an image with a border in this form")
    is_mirrored = shader.program in (_MIRRORED, _MIRRORED_HALVES)
    source, output = shader.images(0x00, 0x20)
    planes, rows, pixels = source.shape
    if is_mirrored:
        left, top, front = shader.whole(0x40), shader.whole(0x44), shader.whole(0x48)
        shader.expect({0x4C: pixels - 1, 0x50: rows - 1, 0x54: planes - 1})
    else:
        left, top, front = shader.whole(0x44), shader.whole(0x48), shader.whole(0x4C)
        shader.expect({0x40: output.shape[0], 0x50: 0, 0x54: planes})
    places = [
        _places(size, begin, count, is_mirrored=is_mirrored)
        for size, begin, count in zip(source.shape, (front, top, left), output.shape, strict=True)
    ]
    dtype = U8 if shader.program in (_MIRRORED, _EDGE) else F16
    if types(source, output) != (dtype, dtype):
        raise Unknown(f"{source.shape} {source.dtype} with a border as {output.shape}")

    def function(values: Array) -> Array:
        return values[np.ix_(*places)]

    return ShaderTask((source,), output, function)


def _places(size: int, begin: int, count: int, is_mirrored: bool) -> Array:
    """Which row, or pixel, stands at each place of one with a border."""
    end = count - size - begin
    if end < 0 or (is_mirrored and max(begin, end) >= size):
        raise Unknown(f"a border of {begin} and {end} beside {size}")
    places = np.arange(-begin, size + end)
    if is_mirrored:
        places = np.abs(places)
        places = np.minimum(places, 2 * (size - 1) - places)
    result: Array = np.clip(places, 0, size - 1)
    return result


def _pixels_to_rows(shader: Shader) -> ShaderTask:
    """A row's pixels, each of which becomes a row of itself."""
    source, output = shader.images(0x00, 0x20)
    count = source.shape[2]
    if types(source, output) != (U8, U8) or source.shape[:2] != (1, 1):
        raise Unknown(f"{source.shape} {source.dtype} with a border as {output.dtype}")
    if output.shape[:2] != (1, count):
        raise Unknown(f"{source.shape} with a border as {output.shape}")
    shader.expect({0x40: _HALF, 0x44: 0, 0x6C: _SHIFTED_BY_15, 0xAC: _SHIFTED_BY_15})
    return ShaderTask(
        (source,),
        output,
        lambda values: np.broadcast_to(values.reshape(1, count, 1), output.shape),
    )


def _plane_with_constant(shader: Shader) -> ShaderTask:
    """A border of one byte around a single plane; or of one float16 around each."""
    source, output = shader.images(0x00, 0x20)
    left, top = shader.whole(0x40), shader.whole(0x44)
    is_half = shader.program == _CONSTANT_OF_HALVES
    _check_inside(source, output, (0, top, left), F16 if is_half else U8)
    if output.shape[0] != source.shape[0] or (source.shape[0] != 1 and not is_half):
        raise Unknown(f"{source.shape[0]} planes with others around them in this form")
    border = shader.whole(0x60) & 0xFFFF if is_half else shader.whole(0x50) & _BYTE
    word = border * (_EACH_HALF if is_half else _EACH_BYTE)
    shader.expect({(0x60 if is_half else 0x50) + 4 * number: word for number in range(4)})
    _, rows, pixels = source.shape
    value = np.array(border, np.uint16).view(np.float16) if is_half else np.uint8(border)

    def function(values: Array) -> Array:
        padded = np.full(output.shape, value, source.dtype)
        padded[:, top : top + rows, left : left + pixels] = values
        return padded

    return ShaderTask((source,), output, function)


def _with_constant(shader: Shader) -> ShaderTask:
    """A border of one byte, in front of and behind planes as well."""
    source, output = shader.images(0x00, 0x30)
    planes, rows, pixels = source.shape
    starts = shader.whole(0x28), shader.whole(0x64), shader.whole(0x60)
    _check_inside(source, output, starts)
    border = shader.whole(0x50)
    words = [shader.whole(0x50 + 4 * word) for word in range(4)]
    if shader.whole(0x24) != output.shape[0] or shader.whole(0x2C) != planes:
        raise Unknown(f"{planes} planes with others around them in this form")
    if words != [border & 255 | (border & 255) << 8 | (border & 0xFFFF) << 16] * 4:
        raise Unknown("a border of several bytes")

    def function(values: Array) -> Array:
        padded = np.full(output.shape, border & 255, np.uint8)
        front, top, left = starts
        padded[front : front + planes, top : top + rows, left : left + pixels] = values
        return padded

    return ShaderTask((source,), output, function)


def _check_inside(
    source: Image,
    output: Image,
    starts: tuple[int, int, int],
    dtype: np.dtype[np.generic] = U8,
) -> None:
    if types(source, output) != (dtype, dtype):
        raise Unknown(f"a border of {source.dtype} as {output.dtype}")
    for size, start, count in zip(source.shape, starts, output.shape, strict=True):
        if start + size > count:
            raise Unknown(f"{source.shape} at {starts} of {output.shape}")
