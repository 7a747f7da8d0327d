"""Which plan runs a task."""

from __future__ import annotations

from ..tasks import ConvolutionTask, CopyTask, ElementwiseTask, PoolingTask, Task
from . import floats, kernels
from .convolution import plan_convolution
from .copies import plan_copy
from .elementwise import plan_elementwise
from .floats.kernels import library as float_library
from .pooling import plan_pooling
from .rearranging import plan_rearrangement
from .steps import Plan


def plan_task(task: Task) -> Plan | None:
    """A plan, or None where the reference has to run the task."""
    if isinstance(task, CopyTask):
        return plan_copy(task) or plan_rearrangement(task)
    plan = _plan_integers(task) if kernels.library() else None
    if plan is None and float_library():
        plan = _plan_floats(task)
    return plan


def _plan_integers(task: Task) -> Plan | None:
    match task:
        case ConvolutionTask():
            return plan_convolution(task)
        case ElementwiseTask():
            return plan_elementwise(task)
        case PoolingTask():
            return plan_pooling(task)
    return None


def _plan_floats(task: Task) -> Plan | None:
    match task:
        case ConvolutionTask():
            return floats.plan_convolution(task)
        case ElementwiseTask():
            return floats.plan_elementwise(task)
        case PoolingTask():
            return floats.plan_pooling(task)
    return None
