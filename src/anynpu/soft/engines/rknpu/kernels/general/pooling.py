"""Pooling of floats, and averages of int8."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...elements import Element
from ...layout import written
from ...memory import Memory
from ...tasks import PoolingMethod, PoolingTask
from .. import structures
from ..arguments import features_of, pooled_window
from ..steps import KernelStep, Plan, Scratch
from ..structures import Method
from ..value_ranges import FLOAT_SUMS
from .arguments import is_known
from .convolution import channel_step
from .targets import Target

_METHODS = {
    PoolingMethod.AVERAGE: Method.SUMS,
    PoolingMethod.MAX: Method.GREATEST,
    PoolingMethod.MIN: Method.LEAST,
}
_WORK_OF_A_PLACE = 8
_LARGEST_FACTOR = 1 << 38
_FRACTION_BITS = 16


def plan_pooling(task: PoolingTask) -> Plan | None:
    """A plan for float16, and for averages of int8 whose sums float32 holds."""
    source = task.source
    if task.counts_inside:
        return None
    if source.element is Element.INT8:
        if task.method is not PoolingMethod.AVERAGE or not _average_is_exact(task):
            return None
    elif source.element is not Element.FLOAT16:
        return None
    shape = source.channels, task.height, task.width
    target = Target(written(task), shape, source.element.size, [source])
    if not (target.is_known and is_known(source)):
        return None
    return _Pooling(task, target)


def _average_is_exact(task: PoolingTask) -> bool:
    """Whether sums are whole numbers of float32, and products fit into 64 bits."""
    largest = task.kernel[0] * task.kernel[1] * max(128.0, abs(task.padding_value))
    factor = _integer_factor(task)
    return (
        float(task.padding_value).is_integer()
        and largest < FLOAT_SUMS
        and 0 < factor < _LARGEST_FACTOR
    )


def _integer_factor(task: PoolingTask) -> int:
    height, width = task.reciprocals
    return int(height * 2**_FRACTION_BITS) * int(width * 2**_FRACTION_BITS)


class _Pooling(Plan):
    def __init__(self, task: PoolingTask, target: Target) -> None:
        self._task, self._target = task, target
        columns = (task.width - 1) * task.stride[1] + task.kernel[1]
        self.own_bytes = task.kernel[0] * columns * structures.GROUP * 4
        self.shared_bytes = target.shared_bytes
        self._dpu = dpu = structures.Dpu()
        dpu.element, dpu.factor = task.source.element.value, 1
        if task.method is PoolingMethod.AVERAGE and task.source.element.is_float:
            height, width = task.reciprocals
            dpu.factor = np.float32(width) * np.float32(height)
        elif task.method is PoolingMethod.AVERAGE:
            dpu.average = _integer_factor(task)

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        task, source = self._task, self._task.source
        writer, after = self._target.bind(memory, scratch.shared)
        arguments = structures.Depthwise(
            self._dpu, writer, features_of(source, memory), pooled_window(task),
            structures.Weights(),
            _METHODS[task.method], 0,
        )  # fmt: skip
        places = task.kernel[0] * task.kernel[1]
        work = float(source.channels) * task.height * task.width * places * _WORK_OF_A_PLACE
        return [channel_step(arguments, work, (self, memory, scratch)), *after]
