"""How much work a task is, and how much room the reference needs for it.

The unit is that of `engines.work`: a product of a dense int8 convolution by the kernels. What
others cost was measured against it, a kernel's and the reference's share of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import ModelError
from ...formats.rknn.model import Task as CommandTask
from ..work import PER_COMMAND, PER_TASK, Budget
from .elements import Element
from .layout import written
from .tasks import Convolution, ConvolutionTask, CopyTask, ElementwiseTask, PoolingTask, Task

MOST_ELEMENTS = 1 << 28
"""Of an array in a task; a task that an NPU computes at one go has much fewer."""

_MOST_IN_REFERENCE = 1 << 26
"""The same where NumPy computes: it takes some 50 bytes for each."""

_PER_VIEW = 1 << 16
"""What it takes to find out where a group of surfaces lies."""


@dataclass(frozen=True)
class _Costs:
    dense: float
    dense_float: float
    depthwise: float
    place: float
    result: float
    byte: float


_OF_KERNELS = _Costs(dense=1, dense_float=2, depthwise=4, place=4, result=40, byte=3)
_OF_REFERENCE = _Costs(dense=8, dense_float=40, depthwise=70, place=80, result=600, byte=75)


def count_tasks(tasks: Sequence[CommandTask], budget: Budget) -> None:
    """Count what it takes to load tasks; raises `ModelError` where it is too much."""
    commands = sum(task.commands for task in tasks)
    budget.take(
        len(tasks) * PER_TASK + commands * PER_COMMAND,
        f"a list of {len(tasks)} tasks with {commands} commands",
    )


def work_of(task: Task, is_planned: bool) -> float:
    """What a task costs, with a plan for the kernels or without one."""
    costs = _OF_KERNELS if is_planned else _OF_REFERENCE
    target = written(task)
    views = len(target.views) * _PER_VIEW
    match task:
        case ConvolutionTask():
            convolution = task.convolution
            results = math.prod(convolution.shape)
            product = _product(convolution, costs)
            return views + results * (_depth(convolution) * product + costs.result)
        case ElementwiseTask():
            return views + math.prod(task.source.shape) * costs.result
        case PoolingTask():
            results = task.source.channels * task.height * task.width
            return views + results * (math.prod(task.kernel) * costs.place + costs.result)
    return views + math.prod(target.atoms) * costs.byte


def check_room(task: Task, is_planned: bool) -> None:
    """Raise `ModelError` for a task whose arrays are larger than any NPU's."""
    most = MOST_ELEMENTS if is_planned else _MOST_IN_REFERENCE
    elements = _largest_array(task)
    if elements > most:
        raise ModelError(f"an array of {elements} elements is more than the {most} of a task")


def _depth(convolution: Convolution) -> int:
    """Products of a result."""
    layout = convolution.weights.layout
    places = layout.height * layout.width
    return places if layout.is_depthwise else places * convolution.source.channels


def _product(convolution: Convolution, costs: _Costs) -> float:
    if convolution.weights.layout.is_depthwise:
        return costs.depthwise
    return costs.dense if convolution.source.element is Element.INT8 else costs.dense_float


def _largest_array(task: Task) -> int:
    """Elements of the largest array that the reference makes."""
    match task:
        case ConvolutionTask():
            convolution, layout = task.convolution, task.convolution.weights.layout
            source = convolution.source
            sizes = (
                _reach(outputs, kernel, stride, dilation, size * (inserted + 1) + padding)
                for outputs, kernel, stride, dilation, size, inserted, padding in zip(
                    (convolution.height, convolution.width),
                    (layout.height, layout.width),
                    convolution.stride,
                    convolution.dilation,
                    (source.height, source.width),
                    convolution.inserted,
                    convolution.padding,
                    strict=True,
                )
            )
            return max(math.prod(convolution.shape), source.channels * math.prod(sizes))
        case PoolingTask():
            source = task.source
            sizes = (
                _reach(outputs, kernel, stride, 1, size + padding)
                for outputs, kernel, stride, size, padding in zip(
                    (task.height, task.width),
                    task.kernel,
                    task.stride,
                    (source.height, source.width),
                    task.padding,
                    strict=True,
                )
            )
            return source.channels * math.prod(sizes)
        case ElementwiseTask():
            return math.prod(task.source.shape)
        case CopyTask():
            return math.prod(written(task).atoms)
    raise AssertionError("there are no other tasks")


def _reach(outputs: int, kernel: int, stride: int, dilation: int, padded: int) -> int:
    """Rows, or columns, of an input with what pads it."""
    return max((outputs - 1) * stride + (kernel - 1) * dilation + 1, padded)
