"""Which plan runs a task."""

from __future__ import annotations

from ..tasks import ConvolutionTask, CopyTask, ElementwiseTask, PoolingTask, Task
from . import general, kernels
from .convolution import plan_convolution
from .copies import plan_copy
from .elementwise import plan_elementwise
from .general.kernels import library as general_library
from .pooling import plan_pooling
from .rearranging import plan_rearrangement
from .steps import Plan


def plan_task(task: Task) -> Plan | None:
    """A plan, or None where the reference has to run the task."""
    if isinstance(task, CopyTask):
        plan = plan_copy(task) if kernels.library() else None
        return plan or plan_rearrangement(task)
    plan = _plan_bytes(task) if kernels.library() else None
    if plan is None and general_library():
        plan = _plan_any(task)
    return plan


def _plan_bytes(task: Task) -> Plan | None:
    match task:
        case ConvolutionTask():
            return plan_convolution(task)
        case ElementwiseTask():
            return plan_elementwise(task)
        case PoolingTask():
            return plan_pooling(task)
    return None


def _plan_any(task: Task) -> Plan | None:
    match task:
        case ConvolutionTask():
            return general.plan_convolution(task)
        case ElementwiseTask():
            return general.plan_elementwise(task)
        case PoolingTask():
            return general.plan_pooling(task)
    return None
