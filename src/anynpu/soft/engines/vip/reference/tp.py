"""What the tensor processor does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory
from ..refusal import Refusal
from ..rounding import (
    TABLE_BITS,
    Reals,
    from_bfloat16,
    half_away,
    nearest,
    to_bfloat16,
    to_halves,
)
from ..tasks import FullyConnected, HalfFullyConnected, Move, Normalization, Table
from .compute import compute
from .nn import half_bytes, half_values, wide_bytes
from .table import look_up

_SIGN_BIT = np.uint8(128)
_LARGEST_HALF = 65504.0


@compute.register
@np.errstate(invalid="ignore")  # What is no number stays none, whichever of them it is.
def _(task: Move, memory: Memory) -> None:
    values = _seen(task, _loaded(task, memory))
    if task.pooling is not None:
        values = _maximum(task, task.pooling, values)
    if not task.input_is_float:
        values = values - task.input_zero_point
    if task.normalization is not None and task.table is not None:
        values = _normalized(task.normalization, task.table, values)
    elif task.table is not None:
        values = nearest(look_up(task.table, values), TABLE_BITS)
    if task.scale is not None:
        values = values * task.scale
    ordered = values.reshape(values.shape[0], -1)[:, task.order.numbers()].ravel()
    memory.scatter(task.target, _stored(task, ordered))


def _loaded(task: Move, memory: Memory) -> Reals:
    if task.input_is_float:
        return half_values(task.source, memory)
    content = task.source.read(memory)
    if task.is_wide:
        wide = np.ascontiguousarray(content).view(np.int16)[..., 0]
        return wide.astype(np.float64) * task.input_scale
    content = content[..., 0]
    return (content ^ _SIGN_BIT if task.input_flips else content).astype(np.float64)


def _seen(task: Move, image: Reals) -> Reals:
    """The window's values, and those beyond the image."""
    left, top, right, bottom = task.window
    rows, pixels = np.arange(top, bottom + 1), np.arange(left, right + 1)
    inside_y, inside_x = task.nearest_pixels()
    seen: Reals = image[:, inside_y[:, None], inside_x]
    if task.border is not None:
        is_beyond = (rows != inside_y)[:, None] | (pixels != inside_x)
        seen[:, is_beyond] = task.border
        around = (task.planes_before, task.planes_after), (0, 0), (0, 0)
        seen = np.pad(seen, around, constant_values=task.border)
    return seen


def _maximum(task: Move, size: tuple[int, int], values: Reals) -> Reals:
    steps = task.pooling_steps
    views = np.lib.stride_tricks.sliding_window_view(values, size, axis=(1, 2))
    result: Reals = views[:, :: steps[0], :: steps[1]].max(axis=(-1, -2))
    return result


def _normalized(normalization: Normalization, table: Table, values: Reals) -> Reals:
    """Values in the middle of windows; factors and products have sixteen significant bits."""
    size = normalization.height, normalization.width
    squares = (values * normalization.scale) ** 2
    sums = np.lib.stride_tricks.sliding_window_view(squares, size, axis=(1, 2)).sum((-1, -2))
    factors = nearest(look_up(table, nearest(sums, TABLE_BITS)), TABLE_BITS)
    top, left = size[0] // 2, size[1] // 2
    _, rows, pixels = factors.shape
    return nearest(values[:, top : top + rows, left : left + pixels] * factors, TABLE_BITS)


def moved_bytes(values: Reals, zero_point: int) -> NDArray[np.uint8]:
    """Products as bytes: they and their sums with the zero point have sixteen significant bits.

    Halves go to even bytes.
    """
    whole = np.rint(nearest(nearest(values, TABLE_BITS) + zero_point, TABLE_BITS))
    return np.clip(whole, 0, 255).astype(np.uint8)


def _stored(task: Move, values: Reals) -> NDArray[np.uint8]:
    if task.output_is_float:
        return half_bytes(_within_halves(task, values))
    if task.is_wide:
        return wide_bytes(values)
    if np.isnan(values).any():
        raise Refusal("which byte stands for a float16 value that is no number isn't known")
    whole = moved_bytes(values, task.output_zero_point)
    return (whole ^ _SIGN_BIT if task.output_flips else whole)[:, None]


def _within_halves(task: Move, values: Reals) -> Reals:
    """What was computed has sixteen significant bits, and is the largest float16 where it would be
    more; copies stay as they are.
    """
    if task.table is None and task.scale is None:
        return values
    return np.clip(nearest(values, TABLE_BITS), -_LARGEST_HALF, _LARGEST_HALF)


@compute.register
def _(task: FullyConnected, memory: Memory) -> None:
    content = np.ascontiguousarray(memory.read(task.source))
    read = content.view(np.int16)[..., 0] if task.takes_wide else content
    values = read.astype(np.int64) - task.input_zero_point
    sums = task.weights.astype(np.int64) @ values + task.bias
    scaled: Reals = sums.astype(np.float64) * task.scale
    whole = half_away(np.maximum(scaled, 0) if task.has_relu else scaled)
    if task.is_wide:
        memory.write(task.target, wide_bytes(whole))
        return
    result = np.clip(whole + task.output_zero_point, 0, 255)
    memory.write(task.target, result.astype(np.uint8))


@compute.register
@np.errstate(over="ignore", invalid="ignore")
def _(task: HalfFullyConnected, memory: Memory) -> None:
    content = np.ascontiguousarray(memory.read(task.source))
    if task.is_bfloat16:
        values = from_bfloat16(content.view(np.uint16)[..., 0])
    else:
        values = content.view(np.float16)[..., 0].astype(np.float32)
    total = task.bias.copy()
    for weights, value in zip(task.weights.T.astype(np.float32), values, strict=True):
        total += weights * value
    kept = np.maximum(total, 0) if task.has_relu else total
    result = to_bfloat16(kept) if task.is_bfloat16 else to_halves(kept)
    memory.write(task.target, result[:, None].view(np.uint8))
