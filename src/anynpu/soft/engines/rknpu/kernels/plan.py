"""Which plan runs a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..tasks import ConvolutionTask, CopyTask, ElementwiseTask, PoolingTask, Task
from . import general
from .aliasing import writes_twice
from .copies import plan_copy
from .general.kernels import library as general_library
from .int8.convolution import plan_convolution
from .int8.elementwise import plan_elementwise
from .int8.kernels import library as int8_library
from .int8.pooling import plan_pooling
from .rearranging import plan_rearrangement
from .steps import KernelKind, Plan

Planner = Callable[[Any], Plan | None]

_MOST_BYTES = 1 << 26
"""Space that a task may ask for."""


def _plan_move(task: CopyTask) -> Plan | None:
    plan = plan_copy(task) if int8_library() else None
    return plan or plan_rearrangement(task)


PLANNERS: dict[KernelKind, Mapping[type[Task], Planner]] = {
    KernelKind.COPIES: {CopyTask: _plan_move},
    KernelKind.INT8: {
        ConvolutionTask: plan_convolution,
        ElementwiseTask: plan_elementwise,
        PoolingTask: plan_pooling,
    },
    KernelKind.GENERAL: {
        ConvolutionTask: general.plan_convolution,
        ElementwiseTask: general.plan_elementwise,
        PoolingTask: general.plan_pooling,
    },
}
"""What plans a task of a type for which kernels, the fastest first."""

_LIBRARIES = {KernelKind.INT8: int8_library, KernelKind.GENERAL: general_library}
"""Without which there are no plans of a kind."""


def plan_task(task: Task) -> Plan | None:
    """A plan, or None where the reference has to run the task."""
    if writes_twice(task):
        # The reference writes surface after surface, as the hardware must for what files ask.
        return None
    for kind, planners in PLANNERS.items():
        planner = planners.get(type(task))
        if planner is None or (kind in _LIBRARIES and _LIBRARIES[kind]() is None):
            continue
        plan = planner(task)
        if plan:
            plan.kind = kind
            # Strides of zero let a few bytes of memory stand for many.
            return None if max(plan.own_bytes, plan.shared_bytes) > _MOST_BYTES else plan
    return None
