"""Convolutions, fully connected layers and products of matrices, of float16.

Sums are float32: a program multiplies some values at a time, whose sum it cuts to float32, and
adds that to what it has so far. Values that aren't normal are zeros. A dense convolution is two
operations: windows become rows, and rows are multiplied by kernels; a transposed one puts zeros
between pixels first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..refusal import Unknown
from ..rounding import (
    cut_to_bfloat16,
    cut_to_float,
    from_bfloat16,
    normal_halves,
    to_bfloat16,
    to_halves,
)
from .coefficients import make_coefficients
from .forms import RowProducts, Windows
from .quantized import BF16, F16, F32, limited_halves, types
from .shader import Image, Shader
from .task import Array, Function, ShaderTask

_F32 = np.float32
_MOST = 1 << 12
"""Of sizes, steps and borders of windows; larger ones weren't seen, and are taken for others."""

_AT_ONCE = 8
"""Products that are summed before they are cut to float32."""

_LONG = 32
"""Those of a fully connected layer, as four of eight."""

_FOUR = 4
"""Those of a product of two tensors, unless the second one is transposed."""

_THREE_ROWS = {0x60: 0x111111, 0x64: 0x111000, 0x68: 0x20100, 0x6C: 0x201}
"""What programs of windows of three rows and pixels, which say neither, take of what they read."""

_ONE_PIXEL_ON = 0x77654321
"""How programs of windows of a single row move what they read, from one window to the next."""


def windows_as_rows(shader: Shader) -> ShaderTask:
    """Each window of an image as a row: channel after channel, row after row."""
    source, output = shader.images(0x00, 0x20)
    if types(source, output) not in ((F16, F16), (BF16, BF16)):
        raise Unknown(f"windows of {source.dtype} as rows of {output.dtype}")
    planes, height, width = source.shape
    taps, columns = shader.whole(0x40), shader.whole(0x44)
    steps = shader.whole(0x4C), shader.whole(0x48)
    top, left = shader.whole(0x54), shader.whole(0x50)
    kernel_height, kernel_width = _window(shader, taps)
    if max(*steps, top, left, kernel_height, kernel_width, columns) > _MOST or 0 in (*steps, taps):
        raise Unknown(f"windows of {kernel_height} x {kernel_width} pixels, {steps} apart")
    _, rows, length = output.shape
    if output.shape[0] != 1 or length != planes * taps or not columns or rows % columns:
        raise Unknown(f"windows of {source.shape} as rows of {output.shape}")
    count = rows // columns
    reach = (count - 1) * steps[0] + kernel_height, (columns - 1) * steps[1] + kernel_width
    bottom, right = max(reach[0] - top - height, 0), max(reach[1] - left - width, 0)
    if bottom >= kernel_height + steps[0] or right >= kernel_width + steps[1]:
        raise Unknown("windows beyond the image")

    form = Windows((kernel_height, kernel_width), steps, (top, left), columns)
    return ShaderTask((source,), output, windows_of(form, source.shape, count), form=form)


def windows_of(form: Windows, shape: tuple[int, int, int], count: int) -> Function:
    """Windows of an image, (planes, rows, pixels), in `count` rows of them, as rows of values."""
    (top, left), columns = form.before, form.columns
    reach = [
        (number - 1) * step + size
        for number, step, size in zip((count, columns), form.steps, form.size, strict=True)
    ]
    bottom, right = max(reach[0] - top - shape[1], 0), max(reach[1] - left - shape[2], 0)

    def function(values: Array) -> Array:
        padded = np.pad(values, ((0, 0), (top, bottom), (left, right)))
        views = np.lib.stride_tricks.sliding_window_view(padded, form.size, axis=(1, 2))
        seen = views[:, : reach[0] : form.steps[0], : reach[1] : form.steps[1]]
        ordered = seen[:, :count, :columns].transpose(1, 2, 0, 3, 4)
        result: Array = ordered.reshape(1, count * columns, -1)
        return result

    return function


def _window(shader: Shader, taps: int) -> tuple[int, int]:
    """A window's rows and pixels."""
    if all(
        shader.has(place) and shader.whole(place) == _THREE_ROWS[place] for place in _THREE_ROWS
    ):
        size = 3, 3
    elif shader.has(0x80) and shader.whole(0x80) == _ONE_PIXEL_ON and shader.whole(0x48) == 1:
        size = 1, taps
    elif shader.has(0x5C):
        size = shader.whole(0x5C), shader.whole(0x58)
    else:
        raise Unknown("windows as rows in this form")
    if size[0] * size[1] != taps:
        raise Unknown(f"windows of {size} pixels, {taps} together")
    return size


def product_of_rows(shader: Shader) -> ShaderTask:
    """Rows by kernels, each of which gives a row of the output; and a bias."""
    rows, kernels, bias, output = shader.images(0x00, 0x20, 0x40, 0x70)
    if rows.dtype == BF16:
        return _rows_of_bfloat16(shader)
    weights, constants = _coefficients((rows, kernels, bias, output))
    _, count, length = rows.shape
    if rows.shape[0] != 1 or weights.shape[1] != length:
        raise Unknown(f"products of {rows.shape} and {weights.shape}")
    if output.shape != (1, weights.shape[0], count):
        raise Unknown(f"products of {rows.shape} and {weights.shape} as {output.shape}")
    if not length <= shader.whole(0x64) < length + _AT_ONCE:
        raise Unknown(f"sums of {shader.whole(0x64)} of {length} products")
    cuts = _cuts(shader, 0x68)
    form = RowProducts(weights, constants, 1, cuts, by_kernel=True)
    return ShaderTask((rows,), output, function_of(form), products=count * weights.size, form=form)


def function_of(form: RowProducts) -> Function:
    """Rows, (1, rows, values), by kernels."""
    wide = normal_halves(form.weights)
    together = form.together * _AT_ONCE if form.together > 1 else 0

    def function(values: Array) -> Array:
        rows = normal_halves(values[0])
        if form.by_kernel:
            total = _summed(wide, rows, form.bias[:, None], _AT_ONCE, together)
        else:
            total = _summed(rows, wide, form.bias, _AT_ONCE, together)
        return _stored(total, form.cuts)[None]

    return function


_ROWS_OF_BFLOAT16 = "84a7fc30ecacaeac"


def _rows_of_bfloat16(shader: Shader) -> ShaderTask:
    """The same of bfloat16: sums of four products are rounded; results are cut to bfloat16."""
    rows, kernels, bias, output = shader.images(0x00, 0x20, 0x40, 0x70)
    weights, constants = kernels.constant, bias.constant
    if types(rows, kernels, bias, output) != (BF16, BF16, F32, BF16):
        raise Unknown(f"products of {rows.dtype} and {kernels.dtype} to {output.dtype}")
    if shader.program != _ROWS_OF_BFLOAT16 or weights is None or constants is None:
        raise Unknown("products of bfloat16 in this form")
    _, count, length = rows.shape
    number = kernels.shape[1]
    if (rows.shape[0], kernels.shape, bias.shape) != (1, (1, number, length), (1, 1, number)):
        raise Unknown(f"products of {rows.shape} and {kernels.shape}")
    if output.shape != (1, number, count):
        raise Unknown(f"products of {rows.shape} and {kernels.shape} as {output.shape}")
    shader.expect({0x60: 0, 0x64: 1})
    if not 0 <= shader.whole(0x68) - length < _AT_ONCE:
        raise Unknown(f"sums of {shader.whole(0x68)} of {length} products")
    wide = from_bfloat16(weights[0]).astype(np.float64)

    def function(values: Array) -> Array:
        real = from_bfloat16(values[0]).astype(np.float64)
        total = np.repeat(constants[0, 0][:, None], count, axis=1)
        for first in range(0, length, _FOUR):
            part = slice(first, first + _FOUR)
            total += (wide[:, part] @ real[:, part].T).astype(_F32)
        return cut_to_bfloat16(total)[None]

    return ShaderTask((rows,), output, function, products=count * weights.size)


def convolution(shader: Shader) -> ShaderTask:
    """One of the two operations of a convolution; or bytes that become coefficients."""
    if shader.has_operand(0x70):
        return product_of_rows(shader)
    (source,) = shader.images_of(0x00)
    return windows_as_rows(shader) if source.dtype in (F16, BF16) else make_coefficients(shader)


def transposed_convolution(shader: Shader) -> ShaderTask:
    """One of the three operations of a transposed convolution."""
    if shader.has_operand(0x70) or shader.has(0x54):
        return convolution(shader)
    source, output = shader.images(0x00, 0x20)
    steps = shader.whole(0x44), shader.whole(0x40)
    planes, height, width = source.shape
    if types(source, output) != (F16, F16) or not all(0 < step <= _MOST for step in steps):
        raise Unknown(f"pixels of {source.dtype} put {steps} apart")
    shader.expect({0x48: width, 0x4C: height, 0x50: 0})
    _, rows, pixels = output.shape
    inside = (height - 1) * steps[0] < rows, (width - 1) * steps[1] < pixels
    if output.shape[0] != planes or not all(inside):
        raise Unknown(f"pixels of {source.shape} put {steps} apart in {output.shape}")

    def function(values: Array) -> Array:
        apart = np.zeros(output.shape, np.float16)
        apart[:, : height * steps[0] : steps[0], : width * steps[1] : steps[1]] = values
        return apart

    return ShaderTask((source,), output, function)


def fully_connected(shader: Shader) -> ShaderTask:
    """A row of the input by each kernel, and a bias, if there is one."""
    if not shader.has_operand(0x70):
        return _without_bias(shader)
    source, kernels, bias, output = shader.images(0x00, 0x20, 0x40, 0x70)
    if types(source, kernels, bias, output) == (BF16, BF16, F32, BF16):
        return _of_bfloat16(shader)
    weights, constants = _coefficients((source, kernels, bias, output))
    return _rows_by_kernels(shader, source, output, weights, constants, (0x64, 0x60))


_OF_BFLOAT16 = "f0c36e8cbe855aaf"


def _of_bfloat16(shader: Shader) -> ShaderTask:
    """The same of bfloat16: four sums of four products are rounded, and so is their sum."""
    source, kernels, bias, output = shader.images(0x00, 0x20, 0x40, 0x70)
    weights, constants = kernels.constant, bias.constant
    planes, rows, length = source.shape
    if shader.program != _OF_BFLOAT16 or weights is None or constants is None:
        raise Unknown("products of bfloat16 in this form")
    count = kernels.shape[1]
    if kernels.shape != (1, count, length) or bias.shape != (1, 1, count) or planes != 1:
        raise Unknown(f"products of {source.shape} and {kernels.shape}")
    if output.shape != (1, rows, count) or not 0 <= shader.whole(0x64) - length < _LONG:
        raise Unknown(f"sums of {shader.whole(0x64)} of {length} products")
    shader.expect({0x60: 0})
    wide = from_bfloat16(weights[0]).astype(np.float64)

    def function(values: Array) -> Array:
        real = from_bfloat16(values[0]).astype(np.float64)
        total = np.broadcast_to(constants[0, 0], (rows, count)).copy()
        for first in range(0, length, 4 * _FOUR):
            parts = [
                (real[:, part : part + _FOUR] @ wide[:, part : part + _FOUR].T).astype(_F32)
                for part in range(first, min(first + 4 * _FOUR, length), _FOUR)
            ]
            total += np.sum(parts, 0, dtype=np.float64).astype(_F32)
        return to_bfloat16(total)[None]

    return ShaderTask((source,), output, function, products=rows * weights.size)


def _without_bias(shader: Shader) -> ShaderTask:
    source, kernels, output = shader.images(0x00, 0x20, 0x50)
    if types(source, kernels, output) != (F16, F16, F16) or kernels.constant is None:
        raise Unknown(f"products of {source.dtype} and {kernels.dtype} to {output.dtype}")
    if kernels.shape[0] != 1:
        raise Unknown(f"kernels of {kernels.shape}")
    weights = kernels.constant[0]
    zeros = np.zeros(weights.shape[0], _F32)
    return _rows_by_kernels(shader, source, output, weights, zeros, (0x44, 0x40))


def _rows_by_kernels(
    shader: Shader,
    source: Image,
    output: Image,
    weights: Array,
    constants: NDArray[np.float32],
    registers: tuple[int, int],
) -> ShaderTask:
    """Rows by all kernels; `registers` have the length and whether negative results are cut."""
    planes, rows, length = source.shape
    if planes != 1 or weights.shape[1] != length or output.shape != (1, rows, weights.shape[0]):
        raise Unknown(f"products of {source.shape} and {weights.shape} as {output.shape}")
    count = shader.whole(registers[0])
    if not 0 <= count - length < _LONG + _LONG // 2:
        raise Unknown(f"sums of {count} of {length} products")
    cuts = _cuts(shader, registers[1])
    form = RowProducts(weights, constants, _LONG // _AT_ONCE, cuts, by_kernel=False)
    return ShaderTask((source,), output, function_of(form), products=rows * weights.size, form=form)


class _Alone(NamedTuple):
    """Where a program of convolutions channel by channel has its constants.

    `at_once` are taps of a row that it multiplies at a time.
    """

    steps: tuple[int, int]
    relu: int
    at_once: int
    known: Mapping[int, int]


_OF_3 = {0x64: 3, 0x68: 3}
_ALONE: Mapping[str, _Alone] = {
    "c5faca371abed5c1": _Alone((0x6C, 0x78), 0x7C, 3, _OF_3 | {0x6C: 1, 0x78: 1}),
    "7e906fd05ad28510": _Alone((0x6C, 0x78), 0x7C, 3, _OF_3 | {0x6C: 2, 0x78: 2}),
    "fc617190a1d6ca4c": _Alone((0x78, 0x7C), 0xA0, 4, {0x6C: 1}),
}
"""Programs of convolutions channel by channel."""


def depthwise_convolution(shader: Shader) -> ShaderTask:
    """Each channel by its own kernel, or by several; some of a row at a time."""
    source, kernels, bias, output = shader.images(0x00, 0x20, 0x40, 0x80)
    weights, constants = _coefficients((source, kernels, bias, output))
    form = _ALONE.get(shader.program)
    if form is None:
        raise Unknown("a convolution channel by channel in this form")
    shader.expect(form.known)
    times, width, height = (shader.whole(register) for register in (0x60, 0x64, 0x68))
    left, top = shader.whole(0x70), shader.whole(0x74)
    steps = shader.whole(form.steps[0]), shader.whole(form.steps[1])
    channels, rows, pixels = output.shape
    if (channels, height * width) != weights.shape or source.shape[0] * times != channels:
        raise Unknown(f"kernels of {weights.shape} for {source.shape} to {output.shape}")
    if max(*steps, left, top, height, width) > _MOST or 0 in steps:
        raise Unknown(f"windows of {height} x {width} pixels, {steps} apart")
    cuts = _cuts(shader, form.relu)
    reach = (rows - 1) * steps[0] + height, (pixels - 1) * steps[1] + width
    bottom = max(reach[0] - top - source.shape[1], 0)
    right = max(reach[1] - left - source.shape[2], 0)
    if bottom >= height + steps[0] or right >= width + steps[1]:
        raise Unknown("windows beyond the image")
    taps = normal_halves(weights).reshape(channels, height, width)

    def function(values: Array) -> Array:
        wide = np.repeat(normal_halves(values), times, axis=0)
        padded = np.pad(wide, ((0, 0), (top, bottom), (left, right)))
        total = np.empty(output.shape, _F32)
        total[:] = constants[:, None, None]
        for y in range(height):
            line = padded[:, y : y + (rows - 1) * steps[0] + 1 : steps[0]]
            seen = np.lib.stride_tricks.sliding_window_view(line, width, axis=2)
            seen = seen[:, :, : (pixels - 1) * steps[1] + 1 : steps[1]]
            for first in range(0, width, form.at_once):
                part = slice(first, first + form.at_once)
                sums = np.einsum("cyxk,ck->cyx", seen[..., part], taps[:, y, part])
                total += cut_to_float(sums)
        return limited_halves(np.maximum(total, 0) if cuts else total)

    products = rows * pixels * weights.size
    return ShaderTask((source,), output, function, products=products)


def _coefficients(images: tuple[Image, Image, Image, Image]) -> tuple[Array, NDArray[np.float32]]:
    """The kernels as rows, and what is added to each; of an operation's operands."""
    source, kernels, bias, output = images
    if types(*images) != (F16, F16, F32, F16) or kernels.constant is None or bias.constant is None:
        raise Unknown(f"products of {source.dtype} and {kernels.dtype} to {output.dtype}")
    if kernels.shape[0] != 1 or bias.shape != (1, 1, kernels.shape[1]):
        raise Unknown(f"kernels of {kernels.shape} with a bias of {bias.shape}")
    return kernels.constant[0], bias.constant[0, 0]


def _cuts(shader: Shader, register: int) -> bool:
    """Whether negative results become zero."""
    value = shader.whole(register)
    if value not in (0, 1):
        raise Unknown(f"shader {shader.name!r} in a form that isn't known: {value:#x}")
    return value == 1


def _stored(total: NDArray[np.float32], cuts: bool) -> NDArray[np.float16]:
    """Sums as float16, of which one stands for all that are no number."""
    halves = to_halves(np.maximum(total, 0) if cuts else total)
    halves[np.isnan(halves)] = np.nan
    return halves


def _summed(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    start: NDArray[np.float32] | np.float32,
    at_once: int,
    together: int = 0,
) -> NDArray[np.float32]:
    """Sums of products of rows (a, values) and rows (b, values), as (a, b) of float32.

    The sum of `at_once` products is cut; with `together` such sums, of so many values, are summed
    and rounded before they are added to what is there.
    """
    total = np.empty((left.shape[0], right.shape[0]), _F32)
    total[:] = start
    step = together or at_once
    for first in range(0, left.shape[1], step):
        parts = [
            cut_to_float(left[:, part : part + at_once] @ right[:, part : part + at_once].T)
            for part in range(first, min(first + step, left.shape[1]), at_once)
        ]
        if len(parts) > 1:
            total += np.sum(parts, 0, dtype=np.float64).astype(_F32)
        else:
            total += parts[0]
    return total


def product_of_tensors(shader: Shader) -> ShaderTask:
    """Matrices by matrices; one of them may be the same for all planes."""
    left, right, output = shader.images(0x00, 0x20, 0x40)
    if types(left, right, output) != (F16, F16, F16):
        raise Unknown(f"a product of {left.dtype} and {right.dtype} to {output.dtype} in this form")
    planes, rows, pixels = output.shape
    depth, is_turned = left.shape[2], bool(shader.whole(0x64))
    shader.expect({0x60: 0, 0x64: is_turned, 0x68: rows, 0x6C: depth, 0x70: pixels})
    shader.expect({0x74: left.shape[0] == 1, 0x78: right.shape[0] == 1})
    form = (pixels, depth) if is_turned else (depth, pixels)
    sizes = left.shape[0] in (1, planes), right.shape[0] in (1, planes)
    if not all(sizes) or left.shape[1:] != (rows, depth) or right.shape[1:] != form:
        raise Unknown(f"a product of {left.shape} and {right.shape} to {output.shape}")
    at_once = _AT_ONCE if is_turned else _FOUR

    def function(first: Array, second: Array) -> Array:
        turned = second if is_turned else second.swapaxes(1, 2)
        wide = normal_halves(first), normal_halves(turned)
        each = [np.broadcast_to(values, (planes, *values.shape[1:])) for values in wide]
        sums = [_summed(a, b, _F32(0), at_once) for a, b in zip(*each, strict=True)]
        return np.stack([to_halves(plane) for plane in sums])

    count = planes * rows * pixels * depth
    return ShaderTask((left, right), output, function, products=count)
