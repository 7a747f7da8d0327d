"""The NN core's convolutions by the C kernel."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .....native import steps
from .....native.memory import address_of
from .. import structures
from ..memory import Memory, MemoryMap
from ..planes import Planes
from ..structures import KERNELS, PIXELS, Addition
from ..tasks import Convolution, Sums
from . import native
from .plan import Plan, fits_circle, is_apart, units_of

_MOST_SUM = 1 << 31
_CACHE = 192 << 10
"""Bytes of packed rows that a thread works on at a time."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Kernels as the C kernel multiplies them; the tiles of a layer share them."""

    pairs: NDArray[np.int32]
    bias: NDArray[np.int32]
    scale: NDArray[np.float64]
    negative: NDArray[np.float64] | None


@dataclass(frozen=True)
class Shape:
    """How a unit's rows lie in a thread's own space."""

    rows: int
    row_blocks: int
    kernel_blocks: int
    kernel_parts: int
    packed_rows: int
    packed_width: int
    scratch: int


class ConvolutionPlan(Plan):
    """A convolution as one call."""

    def __init__(self, task: Convolution, weights: Weights, shape: Shape, threads: int) -> None:
        self._task, self._weights, self._shape, self._threads = task, weights, shape, threads
        self._taps = _taps(task.sums, task.stride, shape)
        self.scratch = shape.scratch

    def bind(self, memory: Memory) -> tuple[steps.Entry, object]:
        task, weights, shape = self._task, self._weights, self._shape
        sums, pooling = task.sums, task.pooling
        second = task.addition or task.product
        height, width = _before_pooling(task)
        call = structures.Convolution(
            source=_planes(sums.source, memory),
            target=_planes(task.target, memory),
            channels=sums.source.channels,
            height=sums.source.height,
            width=sums.source.width,
            border=(sums.border ^ (128 if sums.is_signed else 0)) - 128,
            flip=128 if sums.is_signed else 0,
            top=sums.top,
            left=sums.left,
            kernel_height=sums.kernel_height,
            kernel_width=sums.kernel_width,
            stride=task.stride,
            out_channels=sums.channels,
            out_height=height,
            out_width=width,
            final_height=_final(task)[0],
            final_width=_final(task)[1],
            is_depthwise=sums.is_depthwise,
            weights=address_of(weights.pairs),
            taps=address_of(self._taps),
            tap_count=self._taps.size,
            bias=address_of(weights.bias),
            scale=address_of(weights.scale),
            negative=None if weights.negative is None else address_of(weights.negative),
            low=max(task.low, 0.0) if task.has_relu else task.low,
            high=max(task.high, 0.0) if task.has_relu else task.high,
            zero_point=task.zero_point,
            output_flip=128 if task.is_signed else 0,
            shuffles_depth=task.shuffles_depth,
            rows=shape.rows,
            row_blocks=shape.row_blocks,
            kernel_blocks=shape.kernel_blocks,
            packed_rows=shape.packed_rows,
            packed_width=shape.packed_width,
        )
        if pooling is not None:
            call.pool_size, call.pool_stride = pooling.size, pooling.stride
            call.pool_top, call.pool_left = pooling.top, pooling.left
        if second is not None:
            call.second = _planes(second.source, memory)
            call.second_scale, call.constant = second.scale, second.constant
            call.addition = Addition.PRODUCT if task.product else _adder(task)
        units = shape.row_blocks * shape.kernel_parts
        entry = steps.Entry(
            native.address("anynpu_vip_convolution"),
            ctypes.addressof(call),
            units,
            units_of(units, self._threads),
        )
        return entry, (call, weights, self._taps)


def _adder(task: Convolution) -> int:
    return Addition.SHORT_SUM if task.has_short_sums else Addition.LONG_SUM


def _planes(planes: Planes, memory: Memory) -> structures.Planes:
    return structures.Planes(
        base=memory.pointer(planes.space),
        offset=planes.offset,
        plane=planes.plane,
        row=planes.row,
        group=planes.group,
        end=planes.circle.end if planes.circle else 0,
        size=planes.circle.size if planes.circle else 0,
    )


def _before_pooling(task: Convolution) -> tuple[int, int]:
    """Rows and pixels of sums that are used."""
    return -(-task.sums.height // task.stride), -(-task.sums.width // task.stride)


def _final(task: Convolution) -> tuple[int, int]:
    factor = task.shuffles_depth or 1
    return task.target.height // factor, task.target.width // factor


def plan_convolution(
    layout: MemoryMap, task: Convolution, threads: int, known: dict[object, Weights | None]
) -> ConvolutionPlan | None:
    """A plan, or None where the kernel doesn't do the same for certain."""
    if not _is_simple(task) or not _fits(task) or not is_apart(layout, task):
        return None
    sums = task.sums
    key = (
        id(sums.kernels), sums.bias, task.scale, task.negative_scale, sums.channels,
    )  # fmt: skip
    if key not in known:
        known[key] = _weights(task)
    weights = known[key]
    if weights is None:
        return None
    return ConvolutionPlan(task, weights, _shape(task, threads), threads)


def _is_simple(task: Convolution) -> bool:
    """Whether the kernel has this combination of what follows sums."""
    has_second = task.addition is not None or task.product is not None
    has_slope = task.negative_scale is not None
    if task.is_half or task.is_wide or task.table is not None:
        return False
    if task.pooling is not None and (has_second or task.shuffles_depth):
        return False
    if task.shuffles_depth and task.target.group > 1:
        return False
    return task.stride in (1, 2) and not (has_second and (task.shuffles_depth or has_slope))


def _fits(task: Convolution) -> bool:
    second = task.addition or task.product
    return (
        fits_circle(task.sums.source)
        and fits_circle(task.target, whole_rows=bool(task.shuffles_depth))
        and (second is None or fits_circle(second.source))
    )


def _weights(task: Convolution) -> Weights | None:
    """The kernels in pairs; None where a sum may leave 32 bits."""
    sums = task.sums
    kernels = sums.kernels
    channels = sums.channels
    if kernels is None:
        weights = np.ones((channels, 1, 1, 1), np.int16)
        bias = np.full(channels, sums.bias, np.int32)
    else:
        weights, bias = kernels.weights, kernels.bias.astype(np.int32, copy=False)
    largest = np.abs(weights.reshape(channels, -1).astype(np.int64)).sum(1) * 128
    if (largest + np.abs(bias.astype(np.int64)) >= _MOST_SUM).any():
        return None
    scale = np.full(channels, task.scale)
    negative = None
    if task.negative_scale is not None:
        negative = np.full(channels, task.negative_scale)
    if kernels is not None and kernels.scales is not None:
        scale = kernels.scales.astype(np.float64)
        if negative is not None and kernels.negative_scales is not None:
            negative = kernels.negative_scales.astype(np.float64)
    if not (scale > 0).all() or (negative is not None and not (negative >= 0).all()):
        return None
    pairs = _depthwise_pairs(weights) if sums.is_depthwise else _dense_pairs(weights)
    padding = (0, -channels % KERNELS)
    return Weights(
        pairs,
        np.pad(bias, padding),
        np.pad(scale, padding),
        None if negative is None else np.pad(negative, padding),
    )


def _dense_pairs(weights: NDArray[np.int16]) -> NDArray[np.int32]:
    """[block of kernels][pair of channels][row][pixel][kernel], both of a pair in 32 bits."""
    channels, depth, height, width = weights.shape
    blocks, pairs = math.ceil(channels / KERNELS), math.ceil(depth / 2)
    padded = np.zeros((blocks * KERNELS, pairs * 2, height, width), np.int16)
    padded[:channels, :depth] = weights
    split = padded.reshape(blocks, KERNELS, pairs, 2, height, width)
    ordered = np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3))
    return ordered.view(np.int32).reshape(-1)


def _depthwise_pairs(weights: NDArray[np.int16]) -> NDArray[np.int32]:
    """[channel][row][pair of pixels]."""
    channels, _, height, width = weights.shape
    padded = np.zeros((channels, height, width + width % 2), np.int16)
    padded[:, :, :width] = weights[:, 0]
    return padded.view(np.int32).reshape(-1)


def _taps(sums: Sums, stride: int, shape: Shape) -> NDArray[np.int32]:
    """Where each pair of a dense kernel is in the packed image."""
    if sums.is_depthwise:
        return np.zeros(0, np.int32)
    pairs = np.arange(math.ceil(sums.source.channels / 2))[:, None, None]
    y = np.arange(sums.kernel_height)[:, None]
    x = np.arange(sums.kernel_width)
    rows = (pairs * shape.packed_rows + y) * stride + x % stride
    taps: NDArray[np.int32] = (rows * shape.packed_width + x // stride).astype(np.int32).ravel()
    return taps


def _shape(task: Convolution, threads: int) -> Shape:
    sums, stride = task.sums, task.stride
    height, width = _before_pooling(task)
    final_height, _ = _final(task)
    if sums.is_depthwise:
        line = _up(width, 2 * PIXELS) * stride + _up(sums.kernel_width, 2) + 2 * PIXELS
        per_row, pitch, groups = 2 * line, _up(width, 2 * PIXELS), sums.channels
    else:
        pitch = _up(width, PIXELS)
        line = pitch + (sums.kernel_width - 1) // stride
        per_row = 4 * line * stride * math.ceil(sums.source.channels / 2)
        groups = math.ceil(sums.channels / KERNELS)
    fitting = max(1, _CACHE // per_row)
    rows = max(1, (fitting - sums.kernel_height) // stride + 1)
    if task.pooling is not None:
        rows = max(1, (rows - task.pooling.size) // task.pooling.stride + 1)
    rows = min(rows, final_height)
    row_blocks = math.ceil(final_height / rows)
    # Few blocks of rows are shared by kernels, so that all threads have work.
    parts = 1 if row_blocks >= 3 * threads else min(groups, 4 * threads)
    kernel_blocks = math.ceil(groups / parts)
    sum_rows = rows
    if task.pooling is not None:
        sum_rows = min((rows - 1) * task.pooling.stride + task.pooling.size, height)
    packed_rows = (sum_rows - 1) * stride + sums.kernel_height
    scratch = packed_rows * per_row + 4 * KERNELS * sum_rows * pitch + 8 * sum_rows * pitch
    scratch += 4 * line * stride + sum_rows * pitch + _up(task.target.width, 64) + 4096
    return Shape(
        rows, row_blocks, kernel_blocks, math.ceil(groups / kernel_blocks), packed_rows, line,
        scratch,
    )  # fmt: skip


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
