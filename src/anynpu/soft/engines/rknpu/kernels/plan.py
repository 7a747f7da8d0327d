"""Which plan runs a task."""

from __future__ import annotations

from ..tasks import ConvolutionTask, CopyTask, ElementwiseTask, PoolingTask, Task
from . import general
from .aliasing import writes_twice
from .copies import plan_copy
from .general.kernels import library as general_library
from .int8 import kernels
from .int8.convolution import plan_convolution
from .int8.elementwise import plan_elementwise
from .int8.pooling import plan_pooling
from .rearranging import plan_rearrangement
from .steps import Plan

_MOST_BYTES = 1 << 26
"""Space that a task may ask for."""


def plan_task(task: Task) -> Plan | None:
    """A plan, or None where the reference has to run the task."""
    plan = None
    if writes_twice(task):
        # The reference writes surface after surface, as the hardware must for what files ask.
        return None
    if kernels.library():
        plan = plan_copy(task) if isinstance(task, CopyTask) else _plan_bytes(task)
    if plan is None:
        plan = plan_rearrangement(task) if isinstance(task, CopyTask) else _plan_any(task)
    if plan and max(plan.own_bytes, plan.shared_bytes) > _MOST_BYTES:
        # Strides of zero let a few bytes of memory stand for many.
        return None
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
    if general_library() is None:
        return None
    match task:
        case ConvolutionTask():
            return general.plan_convolution(task)
        case ElementwiseTask():
            return general.plan_elementwise(task)
        case PoolingTask():
            return general.plan_pooling(task)
    return None
