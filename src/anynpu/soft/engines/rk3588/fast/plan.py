"""Which plan runs a task."""

from __future__ import annotations

from ..layout import ATOM
from ..tasks import (
    BlockWriter,
    ConvolutionTask,
    CopyTask,
    Dpu,
    ElementwiseTask,
    Features,
    PhaseWriter,
    PoolingTask,
    Task,
    Writer,
)
from . import general, kernels
from .convolution import plan_convolution
from .copies import plan_copy
from .elementwise import plan_elementwise
from .general.kernels import library as general_library
from .places import writes_twice
from .pooling import plan_pooling
from .rearranging import plan_rearrangement
from .steps import Plan

_MOST_BYTES = 1 << 26
"""Space that a task may ask for."""


def plan_task(task: Task) -> Plan | None:
    """A plan, or None where the reference has to run the task."""
    plan = None
    if writes_twice(*_written(task)):
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


def _written(task: Task) -> tuple[Writer, tuple[int, int, int, int]]:
    """What writes, and the atoms (surfaces, height, width, bytes) that it gets if it takes any."""
    match task:
        case CopyTask():
            source, (rows, columns) = task.source, task.repeats
            height, width = source.height, source.width * columns
            return task.writer, (source.surfaces * rows, height, width, source.atom)
        case PoolingTask():
            source = task.source
            return task.writer, (source.surfaces, task.height, task.width, source.atom)
        case ConvolutionTask():
            what = task.convolution
            shape = what.channels, what.height, what.width
        case ElementwiseTask():
            shape = task.source.shape
        case _:
            raise AssertionError("there are no other tasks")
    writer = task.writer
    atom = writer.atom if isinstance(writer, BlockWriter | PhaseWriter) else ATOM
    lanes = max(1, atom // task.dpu.output.element.size)
    return writer, (-(-shape[0] // lanes), *shape[1:], atom)


def _plan_bytes(task: Task) -> Plan | None:
    match task:
        case ConvolutionTask():
            what = task.convolution
            shape = what.channels, what.height, what.width
            if 0 in what.stride or _repeats_its_operand(task.dpu, shape):
                return None
            return plan_convolution(task)
        case ElementwiseTask():
            if _repeats_its_operand(task.dpu, task.source.shape):
                return None
            return plan_elementwise(task)
        case PoolingTask():
            return plan_pooling(task)
    return None


def _repeats_its_operand(dpu: Dpu, shape: tuple[int, int, int]) -> bool:
    """Whether the second operand is one a pixel or a column, which the int8 kernels don't know."""
    operand = dpu.elementwise.operand if dpu.elementwise else None
    channels = shape[0]
    return isinstance(operand, Features) and operand.shape not in (shape, (channels, 1, 1))


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
