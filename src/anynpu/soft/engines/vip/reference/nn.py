"""What the NN core does, in real numbers that are exact: sums of bytes, and 24 bits of a scale."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory
from ..planes import Planes
from ..refusal import Refusal
from ..rounding import (
    LONG_ADDER,
    SHORT_ADDER,
    TABLE_BITS,
    Reals,
    cut,
    fused_sum,
    to_halves,
)
from ..tasks import (
    BlockTranspose,
    Convolution,
    HalfValues,
    MaxPooling,
    Second,
    Sums,
)
from .compute import compute
from .table import look_up

_SIGN = 128
"""Bytes less 128 are the whole numbers of both types: uint8 by subtraction, int8 by its top bit."""

_SIGN_BIT = np.uint8(_SIGN)
_LONG = 4
"""Bytes of a float32."""


def sums_of(task: Sums, memory: Memory) -> Reals:
    """The sums of products as (channels, rows, pixels), with the bias."""
    image = _padded(task, memory)
    height, width = task.height, task.width
    if task.kernels is None:
        return image[:, :height, :width] + task.bias
    total = np.zeros((task.channels, height, width))
    weights = task.kernels.weights.astype(np.float64)
    for y in range(task.kernel_height):
        for x in range(task.kernel_width):
            seen = image[:, y : y + height, x : x + width]
            taps = weights[:, :, y, x]
            if task.is_depthwise:
                total += taps[:, :, None] * seen
            else:
                total += (taps @ seen.reshape(seen.shape[0], -1)).reshape(total.shape)
    return total + task.kernels.bias[:, None, None]


def _padded(task: Sums, memory: Memory) -> Reals:
    """The image as whole numbers less 128, with the border that the kernels see."""
    pixels_bytes = task.source.read(memory)
    values: NDArray[np.uint8] | NDArray[np.int16] = pixels_bytes[..., 0]
    border = task.border
    if task.is_wide:
        values = np.ascontiguousarray(pixels_bytes).view(np.int16)[..., 0]
    elif task.is_signed:
        values, border = values ^ _SIGN_BIT, border ^ _SIGN
    channels, height, width = values.shape
    rows = max(task.height + task.kernel_height - 1, task.top + height)
    pixels = max(task.width + task.kernel_width - 1, task.left + width)
    image = np.full((channels, rows, pixels), border - _SIGN, np.float64)
    place = image[:, task.top : task.top + height, task.left : task.left + width]
    np.subtract(values, _SIGN, out=place, dtype=np.float64)
    return image


def scaled(task: Convolution, sums: Reals) -> Reals:
    """Sums in steps of the result; negative ones may have a slope of their own."""
    kernels = task.sums.kernels
    scales: float | Reals = task.scale
    negative: float | Reals | None = task.negative_scale
    if kernels is not None and kernels.scales is not None:
        scales = kernels.scales.astype(np.float64)[:, None, None]
        if negative is not None and kernels.negative_scales is not None:
            negative = kernels.negative_scales.astype(np.float64)[:, None, None]
    values: Reals = sums * scales
    if negative is not None:
        # Where each channel has a slope, the lower limit is one of sums, the upper one of those
        # that aren't negative.
        own, high = (
            (sums, math.inf) if task.limits_values else (np.maximum(sums, task.low), task.high)
        )
        values = np.where(values < 0, own * negative, np.minimum(values, high))
    return values


def pooled(values: Reals, pooling: MaxPooling) -> Reals:
    """The maximum over windows of (channels, rows, pixels)."""
    beyond = ((0, 0), (pooling.top, pooling.bottom), (pooling.left, pooling.right))
    padded = np.pad(values, beyond, constant_values=-np.inf)
    size = pooling.size
    views = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))
    result: Reals = views[:, :: pooling.stride, :: pooling.stride].max(axis=(-1, -2))
    return result


@compute.register
def _(task: Convolution, memory: Memory) -> None:
    sums = sums_of(task.sums, memory)
    has_slope = task.negative_scale is not None
    # A maximum is one of sums where negative ones have a slope, which may turn their order.
    if has_slope:
        sums = _pooled(task, sums)
    products = values = scaled(task, sums)
    if task.table is not None:
        values = look_up(task.table, cut(values, TABLE_BITS))
    if task.has_relu:
        products = values = np.maximum(values, 0)
    if task.limits_values:
        values = np.clip(values, task.low, task.high)
    if task.table is None and task.product is None:
        values = _remembering(products, values)
    if not has_slope:
        values = _pooled(task, values)
    if task.addition is not None:
        values = _added(task, task.addition, values, memory)
        if task.cuts_sum:
            values = np.maximum(values, 0)
    if task.product is not None:
        values = values * (_whole(task.product.source, memory) + task.product.constant)
        values = values.astype(np.float32).astype(np.float64)
    store(task, values, memory)


def _pooled(task: Convolution, values: Reals) -> Reals:
    """Every so many rows and pixels, and the maximum of windows of those."""
    values = values[:, :: task.stride, :: task.stride]
    return values if task.pooling is None else pooled(values, task.pooling)


def _remembering(products: Reals, values: Reals) -> Reals:
    """Values within limits; of a product that float32 doesn't hold, the next float64 beyond its.

    That something was cut is known behind limits, too: a half goes away from zero.
    """
    is_cut = (products.astype(np.float32) != products) & (products != values)
    return np.where(is_cut, np.nextafter(values, np.copysign(np.inf, values)), values)


def _whole(planes: Planes, memory: Memory) -> Reals:
    """An operand's bytes, or whole numbers of 16 bits."""
    content = planes.read(memory)
    if planes.item == 2:
        return np.ascontiguousarray(content).view(np.int16)[..., 0].astype(np.float64)
    return content[..., 0].astype(np.float64)


def _added(task: Convolution, second: Second, values: Reals, memory: Memory) -> Reals:
    operand = _whole(second.source, memory) * second.scale
    adder = SHORT_ADDER if task.has_short_sums else LONG_ADDER
    if second.is_subtracted:
        # The unit adds the operand to negative values, and turns the sum's sign.
        return -fused_sum(-values, operand, second.constant, adder)
    return fused_sum(values, operand, second.constant, adder)


def store(task: Convolution, values: Reals, memory: Memory) -> None:
    """Round (channels, rows, pixels) to bytes and write them."""
    if task.is_half:
        task.target.write(memory, half_bytes(values))
        return
    if task.shuffles_depth:
        _, height, width = values.shape
        rows, beside = task.shuffle
        pixels = values.reshape(-1, rows, beside, height, width)
        values = pixels.transpose(0, 3, 1, 4, 2).reshape(-1, height * rows, width * beside)
    if task.is_wide:
        task.target.write(memory, wide_bytes(values))
        return
    whole = whole_bytes(values, task.zero_point)
    if task.is_signed:
        whole ^= _SIGN_BIT
    task.target.write(memory, whole[..., None])


@compute.register
@np.errstate(invalid="ignore")  # What is no number stays none, whichever of them it is.
def _(task: HalfValues, memory: Memory) -> None:
    values = half_values(task.source, memory) * task.scale
    if task.source.item == _LONG:
        values = cut(values, TABLE_BITS)
    if task.table is not None:
        values = look_up(task.table, values)
    if task.pooling is not None:
        values = pooled(values, task.pooling)
    if task.slopes is not None:
        positive, negative = task.slopes.astype(np.float64).T[..., None, None]
        values = values * np.where(values < 0, negative, positive)
    if task.product is not None:
        values = values * half_values(task.product, memory)
    if task.is_wide:
        task.target.write(memory, wide_bytes(values))
    elif task.target.item == _LONG:
        task.target.write(memory, long_bytes(values))
    elif task.zero_point is None:
        task.target.write(memory, half_bytes(values))
    else:
        task.target.write(memory, whole_bytes(values, task.zero_point)[..., None])


def whole_bytes(values: Reals, zero_point: int) -> NDArray[np.uint8]:
    """Values rounded to uint8, halves to even numbers; raises `Refusal` for what is no number."""
    if np.isnan(values).any():
        raise Refusal("which byte stands for a float16 value that is no number isn't known")
    result: NDArray[np.uint8] = np.clip(np.rint(values) + zero_point, 0, 255).astype(np.uint8)
    return result


def wide_bytes(values: Reals) -> NDArray[np.uint8]:
    """Values rounded to int16, halves to even numbers; their bytes as one more axis."""
    limits = np.iinfo(np.int16)
    wide = np.clip(np.rint(values), limits.min, limits.max).astype(np.int16)
    result: NDArray[np.uint8] = np.ascontiguousarray(wide[..., None]).view(np.uint8)
    return result


def half_values(planes: Planes, memory: Memory) -> Reals:
    """A float16, or float32, tensor's values as (channels, rows, pixels)."""
    content = np.ascontiguousarray(planes.read(memory))
    dtype = np.float32 if planes.item == _LONG else np.float16
    return content.view(dtype)[..., 0].astype(np.float64)


def long_bytes(values: Reals) -> NDArray[np.uint8]:
    """Values as float32, (channels, rows, pixels, 4) bytes."""
    longs: NDArray[np.uint8] = values[..., None].astype(np.float32).view(np.uint8)
    return longs


def half_bytes(values: Reals) -> NDArray[np.uint8]:
    """Values as float16, (channels, rows, pixels, 2) bytes."""
    return to_halves(values[..., None]).view(np.uint8)


@compute.register
def _(task: BlockTranspose, memory: Memory) -> None:
    # Read as a whole first: both may lie in the same buffer.
    memory.write(task.target, memory.read(task.source).copy())
