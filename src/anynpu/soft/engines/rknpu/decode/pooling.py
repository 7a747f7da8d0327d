"""The PPU: pooling."""

from __future__ import annotations

import math

from ..elements import Element
from ..registers.fields import sign_extend
from ..registers.quantities import Quantity
from ..task_registers import TaskRegisters, half
from ..tasks import BlockWriter, Features, PoolingMethod, PoolingTask
from .context import Context


def decode_pooling(task: TaskRegisters, context: Context) -> PoolingTask:
    """The pooling of features in memory."""
    element = Element(task[Quantity.POOLING_ELEMENT])
    atom = context.generation.atom_of(element)
    source = context.check_features(
        Features(
            task.address(Quantity.POOLED),
            element,
            task[Quantity.POOLED_CHANNELS],
            task[Quantity.POOLED_HEIGHT],
            task[Quantity.POOLED_WIDTH],
            task[Quantity.POOLED_LINE],
            task[Quantity.POOLED_SURFACE],
            atom,
        )
    )
    height, width = task[Quantity.POOLING_HEIGHT], task[Quantity.POOLING_WIDTH]
    method = PoolingMethod(task[Quantity.POOLING_METHOD])
    if task[Quantity.COUNTS_INSIDE] and method is not PoolingMethod.AVERAGE:
        raise task.error(Quantity.COUNTS_INSIDE, "only an average counts")
    writer = BlockWriter(
        task.address(Quantity.POOLING_DESTINATION),
        height,
        width,
        (width + task[Quantity.POOLING_NOTCH]) * atom,
        task[Quantity.POOLING_SURFACE],
        source.surfaces,
        0,
        atom,
        0,
    )
    return PoolingTask(
        task.state.index,
        task.state.node,
        source,
        method,
        (task[Quantity.WINDOW_HEIGHT], task[Quantity.WINDOW_WIDTH]),
        (task[Quantity.WINDOW_STRIDE_Y], task[Quantity.WINDOW_STRIDE_X]),
        (task[Quantity.WINDOW_TOP], task[Quantity.WINDOW_LEFT]),
        _padding_value(task, method, element),
        _reciprocals(task, element),
        height,
        width,
        writer,
        bool(task[Quantity.COUNTS_INSIDE]),
    )


def _padding_value(task: TaskRegisters, method: PoolingMethod, element: Element) -> float:
    if method is PoolingMethod.AVERAGE:
        word = task[Quantity.WINDOW_PADDING]
        return half(word) if element.is_float else float(sign_extend(word, 16))
    if element.is_float:
        return -math.inf if method is PoolingMethod.MAX else math.inf
    return -128.0 if method is PoolingMethod.MAX else 127.0


def _reciprocals(task: TaskRegisters, element: Element) -> tuple[float, float]:
    height = task[Quantity.RECIPROCAL_HEIGHT]
    width = task[Quantity.RECIPROCAL_WIDTH]
    if element.is_float:
        return _reciprocal(height), _reciprocal(width)
    return height / 65536, width / 65536


def _reciprocal(word: int) -> float:
    """A float16, scaled by 2^16; 1 is what would be infinity elsewhere."""
    return min(half(word), 65536.0) / 65536
