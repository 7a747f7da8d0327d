"""Which plan runs a task."""

from __future__ import annotations

from ..tasks import ConvolutionTask, CopyTask, ElementwiseTask, PoolingTask, Task
from . import kernels
from .convolution import plan_convolution
from .copies import plan_copy
from .elementwise import plan_elementwise
from .pooling import plan_pooling
from .steps import Plan


def plan_task(task: Task) -> Plan | None:
    """A plan, or None where the reference has to run the task."""
    if kernels.library() is None:
        return None
    match task:
        case CopyTask():
            return plan_copy(task)
        case ConvolutionTask():
            return plan_convolution(task)
        case ElementwiseTask():
            return plan_elementwise(task)
        case PoolingTask():
            return plan_pooling(task)
    return None
