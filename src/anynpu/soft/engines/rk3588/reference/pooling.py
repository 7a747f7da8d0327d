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
    windows = _windows(_padded(values, task), task)
    if task.method is PoolingMethod.MAX:
        pooled = reduce(greater, windows)
    elif task.method is PoolingMethod.MIN:
        pooled = reduce(lesser, windows)
    else:
        pooled = _average(reduce(np.add, windows), task, rounding)
    return round_to(pooled, source.element)


def _padded(values: NDArray[Any], task: PoolingTask) -> NDArray[Any]:
    channels, height, width = values.shape
    top, left = task.padding
    rows = (task.height - 1) * task.stride[0] + task.kernel[0]
    columns = (task.width - 1) * task.stride[1] + task.kernel[1]
    shape = (channels, max(rows, height + top), max(columns, width + left))
    padded = np.full(shape, task.padding_value, values.dtype)
    padded[:, top : top + height, left : left + width] = values
    return padded


def _windows(padded: NDArray[Any], task: PoolingTask) -> Iterator[NDArray[Any]]:
    """What each place of the kernel sees."""
    step_y, step_x = task.stride
    for row in range(task.kernel[0]):
        for column in range(task.kernel[1]):
            bottom = row + (task.height - 1) * step_y + 1
            right = column + (task.width - 1) * step_x + 1
            yield padded[:, row:bottom:step_y, column:right:step_x]


def _average(sums: NDArray[Any], task: PoolingTask, rounding: Rounding) -> NDArray[Any]:
    height, width = task.reciprocals
    if task.source.element.is_float:
        means: NDArray[Any] = sums * (np.float32(width) * np.float32(height))
        return means
    factor = int(height * 2**_FRACTION_BITS) * int(width * 2**_FRACTION_BITS)
    return rounding.average(sums * factor, 2 * _FRACTION_BITS)
