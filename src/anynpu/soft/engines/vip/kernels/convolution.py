"""The NN core's convolutions by the C kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .....native import steps
from .....native.memory import address_of
from .. import structures
from ..coefficients import quads_of
from ..memory import MemoryMap
from ..reference.table import look_up
from ..rounding import LONG_ADDER, SHORT_ADDER, Reals, small
from ..structures import KERNELS, LANES, PIXELS, QUAD, TILE, Addition
from ..tasks import Convolution, Sums, Table
from . import native
from .arguments import Arguments
from .parts import PartsPlan, split
from .plan import Plan, fits_circle, is_apart, planes_in, rounded_up, units_of
from .stream import Program

_MOST_SUM = 1 << 31
_MOST_FLOAT = 1 << 24
"""Whole numbers that float32 holds, all of them."""
_BEYOND = 512
"""Larger than any byte: results from there on are the largest one, whatever they are."""
_MOST_OPERAND = 1 << 60
"""So large a number, and its inverse, have products with others of that kind in float32."""
_CUT_TO_NOTHING = 2.0**-100
"""As in native/vip.c."""
_LEAST_SCALE = 2.0**-60
"""What is less isn't cut to significant bits (`rounding.cut`)."""
_SHARES = 2
"""Units of work for each thread, at least."""
_LARGEST_BYTE = 255
_HALF = 0.5
_SLACK = 8 << 10
"""Bytes for the ends of rows, which vectors go beyond."""
_LINE_END = 64
"""As in native/vip.c."""
_CACHE = 192 << 10
"""Bytes of packed rows that a thread works on at a time."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Kernels as the C kernel multiplies them; the tiles of a layer share them."""

    stored: NDArray[np.uint8] | NDArray[np.int16]
    zero_points: NDArray[np.int16]
    bias: NDArray[np.int32]
    quads_bias: NDArray[np.int32]
    scale: NDArray[np.float64]
    negative: NDArray[np.float64] | None
    fits_float: bool


@dataclass(frozen=True, slots=True)
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

    __slots__ = (
        "_operands",
        "_program",
        "_shape",
        "_taps",
        "_task",
        "_threads",
        "_weights",
    )
    kernel = "convolution"

    def __init__(
        self,
        task: Convolution,
        weights: Weights,
        operands: NDArray[np.float32],
        shape: Shape,
        threads: int,
        program: Program | None,
    ) -> None:
        self._program = program
        self._task, self._weights, self._shape, self._threads = task, weights, shape, threads
        self._taps = _taps(task.sums, task.stride, shape)
        self._operands = operands
        self.scratch = shape.scratch

    def bind(self, arguments: Arguments) -> steps.Entry:
        task, weights, shape = self._task, self._weights, self._shape
        sums, pooling = task.sums, task.pooling
        second = task.addition or task.product
        height, width = _before_pooling(task)
        low, high = (max(limit, 0.0) if task.has_relu else limit for limit in (task.low, task.high))
        call = structures.Convolution(
            source=planes_in(sums.source, arguments),
            target=planes_in(task.target, arguments),
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
            weights=arguments.constant(weights.stored),
            weight_zero_points=arguments.constant(weights.zero_points),
            taps=arguments.constant(self._taps),
            tap_count=self._taps.size,
            bias=arguments.constant(weights.bias),
            quads_bias=arguments.constant(weights.quads_bias),
            scale=arguments.constant(weights.scale),
            negative=None if weights.negative is None else arguments.constant(weights.negative),
            low=low,
            high=high,
            has_relu=task.has_relu,
            fits_float=weights.fits_float and self._program is None and task.table is None,
            least=_byte(task, low),
            most=_byte(task, high),
            zero_point=task.zero_point,
            output_flip=128 if task.is_signed else 0,
            shuffled_rows=task.shuffle[0],
            shuffled_pixels=task.shuffle[1],
            rows=shape.rows,
            row_blocks=shape.row_blocks,
            kernel_blocks=shape.kernel_blocks,
            packed_rows=shape.packed_rows,
            packed_width=shape.packed_width,
            table=None if task.table is None else _value_table(task.table, arguments),
            program=None if self._program is None else self._program.bind(arguments),
        )
        if pooling is not None:
            call.pool_size, call.pool_stride = pooling.size, pooling.stride
            call.pool_top, call.pool_left = pooling.top, pooling.left
        if second is not None:
            call.second = planes_in(second.source, arguments)
            call.operands, call.constant = arguments.constant(self._operands), second.constant
            call.addition = Addition.PRODUCT if task.product else _adder(task)
        units = shape.row_blocks * shape.kernel_parts
        return steps.Entry(
            native.address("anynpu_vip_convolution"),
            arguments.put(call),
            units,
            units_of(units, self._threads),
        )


def _byte(task: Convolution, limit: float) -> int:
    """A limit of results as a byte. Rounding never changes an order, so limits may be rounded."""
    zero_point = task.zero_point
    return round(min(max(limit, -zero_point), 255 - zero_point)) + zero_point


def _operands(task: Convolution) -> NDArray[np.float32] | None:
    """What each byte of the second operand adds or multiplies; None if float32 can't hold it."""
    content = np.arange(256, dtype=np.float64)
    if task.product is not None:
        operands = content + task.product.constant
    elif task.addition is None:
        operands = np.zeros(0)
    else:
        operands = _terms(task, content * task.addition.scale)
    if (np.abs(operands) >= _MOST_OPERAND).any():
        return None
    held = operands.astype(np.float32)
    return held if (held == operands).all() else None


def _terms(task: Convolution, operands: Reals) -> Reals:
    """Operands as small floats that float32 holds, with what says that something was cut."""
    kept = small(operands, SHORT_ADDER if task.has_short_sums else LONG_ADDER)
    bits = kept.values.astype(np.float32).view(np.uint32)
    floats: Reals = (bits | kept.are_cut).view(np.float32).astype(np.float64)
    return np.where((kept.values == 0) & kept.are_cut, _CUT_TO_NOTHING, floats)


def _adder(task: Convolution) -> int:
    return Addition.SHORT_SUM if task.has_short_sums else Addition.LONG_SUM


def _before_pooling(task: Convolution) -> tuple[int, int]:
    """Rows and pixels of sums that are used."""
    return -(-task.sums.height // task.stride), -(-task.sums.width // task.stride)


def _final(task: Convolution) -> tuple[int, int]:
    rows, pixels = task.shuffle
    return task.target.height // rows, task.target.width // pixels


def plan_convolution(
    layout: MemoryMap,
    task: Convolution,
    threads: int,
    known: dict[object, Weights | None],
    program: Program | None = None,
) -> Plan | None:
    """A plan, or None where the kernel doesn't do the same for certain.

    A `program` makes bytes of the sums instead of what the task says.
    """
    kernels = task.sums.kernels
    if kernels is None or not kernels.parts:
        return _plan_of_whole(layout, task, threads, known, program)
    if not is_apart(layout, task):
        return None
    parts = split(task)
    if parts is None:
        # Its channels lie side by side otherwise than its kernels are parted.
        whole = replace(task, sums=replace(task.sums, kernels=kernels.joined()))
        return _plan_of_whole(layout, whole, threads, known, program)
    plans = [_plan_of_whole(layout, part, threads, known, program) for part in parts]
    made = [plan for plan in plans if plan is not None]
    return PartsPlan(made, threads) if len(made) == len(plans) else None


def _plan_of_whole(
    layout: MemoryMap,
    task: Convolution,
    threads: int,
    known: dict[object, Weights | None],
    program: Program | None,
) -> ConvolutionPlan | None:
    if not _is_simple(task) or not _fits(task) or not is_apart(layout, task):
        return None
    sums = task.sums
    key = (
        sums.kernels, sums.bias, task.scale, task.negative_scale, sums.channels,
    )  # fmt: skip
    if key not in known:
        known[key] = _weights(task)
    weights, operands = known[key], _operands(task)
    if weights is None or operands is None:
        return None
    if task.addition is not None and not _has_small_terms(task, weights):
        return None
    return ConvolutionPlan(task, weights, operands, _shape(task, threads), threads, program)


def _has_small_terms(task: Convolution, weights: Weights) -> bool:
    """Whether the kernel's sums of small floats can hold a convolution and the constant."""
    assert task.addition is not None
    largest = max(_MOST_SUM * float(weights.scale.max()), abs(task.addition.constant))
    return largest < _MOST_OPERAND


def _has_falling_slope(task: Convolution) -> bool:
    """Whether a channel's values get larger where its negative sums get less."""
    slopes = None if task.sums.kernels is None else task.sums.kernels.negative_scales
    return slopes is not None and bool((slopes < 0).any())


def _limits_sums(task: Convolution) -> bool:
    """Whether limits of sums, rather than of results, change a byte."""
    slopes = None if task.sums.kernels is None else task.sums.kernels.negative_scales
    if task.limits_values or slopes is None:
        return False
    # Where a slope is negative the upper limit isn't one of results.
    if _has_falling_slope(task) and task.high < _LARGEST_BYTE - task.zero_point:
        return True
    return bool((task.low * slopes[slopes > 0] > -task.zero_point - 1).any())


def _has_limit_between_bytes(task: Convolution) -> bool:
    """Whether a limit's byte depends on what float32 holds of a product beyond it."""
    return task.addition is None and _HALF in (task.low % 1, task.high % 1)


def _is_simple(task: Convolution) -> bool:
    """Whether the kernel has this combination of what follows sums."""
    has_second = task.addition is not None or task.product is not None
    has_slope = task.negative_scale is not None
    if task.is_half or task.is_wide or task.cuts_sum or not _is_plain_table(task):
        return False
    if _has_limit_between_bytes(task) or _limits_sums(task):
        return False
    if task.addition is not None and task.addition.is_subtracted:
        return False
    has_other = has_second or task.shuffles_depth or _has_falling_slope(task)
    if task.pooling is not None and has_other:
        return False
    if task.shuffles_depth and task.target.group > 1:
        return False
    return task.stride in (1, 2) and not (has_second and (task.shuffles_depth or has_slope))


def _is_plain_table(task: Convolution) -> bool:
    """Whether a table, if any, is one behind coefficients, and no scaled sum is too small."""
    if task.table is None:
        return True
    return task.table.slopes is not None and task.scale >= _LEAST_SCALE


def _value_table(table: Table, arguments: Arguments) -> int:
    """Where a table is as C has it; `plan_convolution` has seen that it has slopes."""
    assert table.slopes is not None, "other tables have no plan"
    positive, negative, zero = table.slopes
    made = structures.ValueTable(
        values=arguments.constant(table.values),
        is_signed=table.is_signed,
        exponents=table.exponents,
        middle=float(look_up(table, np.zeros(1))[0]),
        positive=positive,
        negative=negative,
        zero=zero,
    )
    return arguments.constant_structures(made)


def _has_results(task: Convolution) -> bool:
    channels = task.sums.source.channels, task.sums.channels
    return 0 not in (*channels, *_before_pooling(task), *_final(task))


def _fits(task: Convolution) -> bool:
    """Whether there is something to compute, from rows that the kernel can go along."""
    second = task.addition or task.product
    return (
        _has_results(task)
        and fits_circle(task.sums.source)
        and fits_circle(task.target, whole_rows=task.shuffles_depth)
        and (second is None or fits_circle(second.source))
    )


def _weights(task: Convolution) -> Weights | None:
    """The kernels as they are multiplied; None where a sum may leave 32 bits."""
    sums = task.sums
    kernels = sums.kernels
    channels = sums.channels
    if kernels is None:
        zero_points = np.zeros(channels, np.int16)
        bias = np.full(channels, sums.bias, np.int32)
        largest = np.full(channels, 128, np.int64)
    else:
        zero_points = kernels.zero_points
        bias = kernels.bias.astype(np.int32, copy=False)
        largest = kernels.largest_sums(_MOST_SUM // 2)
    largest = largest + np.abs(bias.astype(np.int64))
    if (largest >= _MOST_SUM).any():
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
    padding = (0, -channels % LANES)
    zero_points, bias = np.pad(zero_points, padding), np.pad(bias, padding)
    stored = _stored(sums)
    return Weights(
        stored,
        zero_points,
        bias,
        bias if sums.is_depthwise else _quads_bias(channels, stored, zero_points, bias),
        np.pad(scale, padding),
        None if negative is None else np.pad(negative, padding),
        all(_fits_float(largest, factor) for factor in (scale, negative) if factor is not None),
    )


def _stored(sums: Sums) -> NDArray[Any]:
    """Weights as they are multiplied: of bytes in quads, or as numbers of 16 bits in lanes."""
    kernels = sums.kernels
    if kernels is None:
        ones = np.ones((sums.channels, 1, 1, 1), np.int16)
        zeros = np.zeros(sums.channels, np.int16)
        return _lanes(ones) if sums.is_depthwise else quads_of(ones.astype(np.uint8), zeros)
    assert kernels.stored.dtype == np.uint8, "tasks with int16 weights have no plan"
    return _lanes(kernels.weights) if sums.is_depthwise else kernels.stored


def _quads_bias(
    kernels: int,
    stored: NDArray[np.uint8],
    zero_points: NDArray[np.int16],
    bias: NDArray[np.int32],
) -> NDArray[np.int32]:
    """What sums begin with where bytes of the image are 128 too large, modulo 2^32."""
    blocks = math.ceil(kernels / KERNELS)
    quads = stored.size // (blocks * KERNELS * QUAD)
    sums = np.zeros(bias.size, np.int32)
    native.call("anynpu_vip_sum_weights", address_of(stored), blocks, quads, address_of(sums))
    weights = sums + QUAD * quads * (128 - zero_points.astype(np.int64))
    return (bias - 128 * weights).astype(np.int32)


def _lanes(weights: NDArray[np.int16]) -> NDArray[np.int16]:
    """Depthwise kernels (channels, 1, rows, pixels) as native/vip_depthwise.h has them."""
    channels, _, height, width = weights.shape
    blocks = math.ceil(channels / LANES)
    padded = np.zeros((blocks * LANES, height, width + width % 2), np.int16)
    padded[:channels, :, :width] = weights[:, 0]
    pairs = padded.reshape(blocks, LANES, height, -1, 2).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(pairs)


def _fits_float(largest: NDArray[np.int64], scale: NDArray[np.float64]) -> bool:
    """Whether float32 holds scales, and sums that aren't beyond any byte when scaled."""
    is_beyond = (scale * _MOST_FLOAT >= _BEYOND) | (scale == 0)
    is_held = scale.astype(np.float32) == scale
    return bool((is_held & (is_beyond | (largest < _MOST_FLOAT))).all())


def _is_pointwise(sums: Sums, stride: int) -> bool:
    """Whether each pixel is for itself: the image is packed in tiles, as in native/vip.c."""
    return sums.kernel_height * sums.kernel_width == 1 and stride == 1


def _taps(sums: Sums, stride: int, shape: Shape) -> NDArray[np.int32]:
    """Where each pair of a dense kernel is in the packed image."""
    if sums.is_depthwise:
        return np.zeros(0, np.int32)
    pairs = np.arange(math.ceil(sums.source.channels / 2))[:, None, None]
    if _is_pointwise(sums, stride):
        return (TILE * pairs).astype(np.int32).ravel()
    y = np.arange(sums.kernel_height)[:, None]
    x = np.arange(sums.kernel_width)
    rows = (pairs * shape.packed_rows + y) * stride + x % stride
    taps: NDArray[np.int32] = (rows * shape.packed_width + x // stride).astype(np.int32).ravel()
    return taps


def _shape(task: Convolution, threads: int) -> Shape:
    """Units of work, and a thread's space for the form of the kernel that needs most."""
    sums, stride = task.sums, task.stride
    height, width = _before_pooling(task)
    final_height, final_width = _final(task)
    taps = sums.kernel_height * sums.kernel_width
    if sums.is_depthwise:
        line = width + (math.ceil(sums.kernel_width / 2) - 1) * 2 // stride
        pixels = stride * (line - 1) + 2
        pitch = rounded_up(width, PIXELS)
        # Pairs, the image that they are made of, lanes side by side and before that.
        per_row, groups = LANES * (4 * line + 2 * pixels), math.ceil(sums.channels / LANES)
        weight_bytes = 0
    else:
        pairs = math.ceil(sums.source.channels / 2)
        pitch = rounded_up(width, PIXELS)
        line = pitch + (sums.kernel_width - 1) // stride
        per_row = 4 * line * stride * pairs
        groups = math.ceil(sums.channels / KERNELS)
        weight_bytes = 2 * KERNELS * groups * taps * pairs
    fitting = max(1, _CACHE // per_row)
    rows = max(1, (fitting - sums.kernel_height) // stride + 1)
    if task.pooling is not None:
        rows = max(1, (rows - task.pooling.size) // task.pooling.stride + 1)
    rows = min(rows, final_height)
    # Units share rows where the packed image is larger than the weights, kernels otherwise.
    if not sums.is_depthwise and weight_bytes < per_row * height * stride:
        rows = min(rows, math.ceil(final_height / (_SHARES * threads)))
    if rows < final_height:
        rows = _even(final_height, math.ceil(final_height / rows), threads)
    row_blocks = math.ceil(final_height / rows)
    kernel_blocks = groups
    if row_blocks < _SHARES * threads:
        shares, unit = (4, 1) if sums.is_depthwise else (_SHARES, 2)
        units = math.ceil(groups / unit)
        parts = min(units, math.ceil(shares * threads / row_blocks))
        kernel_blocks = unit * _even(units, parts, threads // row_blocks)
    sum_rows = rows
    if task.pooling is not None:
        sum_rows = min((rows - 1) * task.pooling.stride + task.pooling.size, height)
    packed_rows = (sum_rows - 1) * stride + sums.kernel_height
    scratch = packed_rows * per_row + _SLACK
    if not sums.is_depthwise:
        scratch += 4 * 2 * KERNELS * taps * (pairs + 1)
        if _is_pointwise(sums, stride):
            scratch += 4 * TILE * pairs
    # What is computed together: sums of kernels and under windows, with a place for each vector,
    # results, and what is before a maximum or beside an addition.
    together = LANES if sums.is_depthwise else 2 * KERNELS
    vectors = sum_rows * pitch + 2 * PIXELS
    result = max(rows, sum_rows) * rounded_up(max(pitch, final_width), 2 * PIXELS) + _LINE_END
    scratch += 4 * (together + 2) * vectors + (2 * together + 2) * result + together * _LINE_END
    # A row as bytes and quads, or all rows where they are one.
    flat = line * packed_rows if taps == 1 else 0
    scratch += 2 * 4 * QUAD * (max(line * stride, flat, final_width) + 2 * PIXELS + _LINE_END)
    unit = kernel_blocks * (LANES if sums.is_depthwise else 1)
    return Shape(
        rows, row_blocks, unit, math.ceil(groups / kernel_blocks), packed_rows, line,
        scratch,
    )  # fmt: skip


def _even(total: int, parts: int, threads: int) -> int:
    """The size of units that threads take in turn, of which there are `parts` or some more.

    The thread that has most of the `total` has as little as can be.
    """

    def longest(unit: int) -> int:
        rounds, others = divmod(math.ceil(total / unit) - 1, threads)
        return rounds * unit + (unit if others else total - (rounds * threads) * unit)

    if threads < 2:
        return math.ceil(total / parts)
    sizes = {
        math.ceil(total / count) for count in range(parts, min(parts + 2 * threads, total) + 1)
    }
    return min(sizes, key=lambda size: (longest(size), -size))
