"""The PPU: maximum, minimum and average pooling."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory
from ..rounding import SILICON, Rounding
from ..tasks import PoolingMethod, PoolingTask
from .dpu import greater, lesser, round_to
from .features import as_numbers, read_features

_FRACTION_BITS = 16


def pool(memory: Memory, task: PoolingTask, rounding: Rounding = SILICON) -> NDArray[Any]:
    """The pooled features (C, H, W) of the source's dtype."""
    source = task.source
    values = as_numbers(read_features(memory, source), source.element)
    seen = windows(values, task, task.padding_value)
    if task.method is PoolingMethod.MAX:
        pooled = reduce(greater, seen)
    elif task.method is PoolingMethod.MIN:
        pooled = reduce(lesser, seen)
    else:
        pooled = _average(reduce(np.add, seen), task, rounding)
    return round_to(pooled, source.element)


def windows(
    values: NDArray[Any], task: PoolingTask, outside: float | bool
) -> Iterator[NDArray[Any]]:
    """What each place of the kernel sees of values (C, H, W), and of another one around them."""
    channels, height, width = values.shape
    top, left = task.padding
    step_y, step_x = task.stride
    rows = (task.height - 1) * step_y + task.kernel[0]
    columns = (task.width - 1) * step_x + task.kernel[1]
    shape = (channels, max(rows, height + top), max(columns, width + left))
    padded = np.full(shape, outside, values.dtype)
    padded[:, top : top + height, left : left + width] = values
    for row in range(task.kernel[0]):
        for column in range(task.kernel[1]):
            bottom = row + (task.height - 1) * step_y + 1
            right = column + (task.width - 1) * step_x + 1
            yield padded[:, row:bottom:step_y, column:right:step_x]


def _reciprocals(task: PoolingTask, axis: int) -> NDArray[np.float64]:
    """What the sums of each row or column of the output are multiplied by."""
    outputs = (task.height, task.width)[axis]
    whole, kernel = task.reciprocals[axis], task.kernel[axis]
    if not task.counts_inside:
        return np.full(outputs, whole)
    first = np.arange(outputs) * task.stride[axis] - task.padding[axis]
    size = (task.source.height, task.source.width)[axis]
    inside = np.minimum(first + kernel, size) - np.maximum(first, 0)
    parts = 2.0**_FRACTION_BITS / np.maximum(inside, 1)
    # The hardware's own are whole numbers, or float16, as those in registers are.
    is_float = task.source.element.is_float
    parts = parts.astype(np.float16).astype(np.float64) if is_float else np.floor(parts)
    return np.where(inside == kernel, whole, parts / 2**_FRACTION_BITS)


def _average(sums: NDArray[Any], task: PoolingTask, rounding: Rounding) -> NDArray[Any]:
    height, width = (_reciprocals(task, axis) for axis in (0, 1))
    if task.source.element.is_float:
        means: NDArray[Any] = sums * (width.astype(np.float32) * height.astype(np.float32)[:, None])
        return means
    rows, columns = ((each * 2**_FRACTION_BITS).astype(np.int64) for each in (height, width))
    factor = rows[:, None] * columns
    return rounding.average(sums * factor, 2 * _FRACTION_BITS)
