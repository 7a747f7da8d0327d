"""Features from memory through the DPU, and reductions of floats over channels."""

from __future__ import annotations

from collections.abc import Sequence

from ...elements import Element
from ...layout import Written, written
from ...memory import Memory, Strided
from ...tasks import DenseWriter, Dpu, ElementwiseTask, Features
from .. import structures
from ..arguments import features_of
from ..rearranging import is_known_writer
from ..steps import WORK_OF_A_RESULT, KernelStep, Plan, Scratch
from . import kernels
from .arguments import DpuArguments, is_known, is_supported, stages_are_exact
from .followed import FollowedPlan
from .targets import Target, overlaps, read_operands, stored_operands

_LARGEST = {Element.INT8: 2.0**7, Element.INT16: 2.0**15, Element.INT32: 2.0**31}
"""Magnitudes of integers."""

_MANY_GROUPS = 8
"""Groups of channels that threads share, rather than pixels of all of them."""


def plan_elementwise(task: ElementwiseTask) -> Plan | None:
    """A plan, where the kernels know the task."""
    source, dpu = task.source, task.dpu
    if not (is_known(source) and is_supported(dpu, source.shape)):
        return None
    if source.element.is_float != dpu.is_float:
        return None
    if not dpu.is_float and not stages_are_exact(dpu, _LARGEST[source.element]):
        return None
    if dpu.reduction:
        return _plan_reduction(task)
    if not is_known_writer(task.writer):
        return None
    target = elementwise_target(task)
    return _Elementwise(source, dpu, target) if target.is_known else None


def elementwise_target(task: ElementwiseTask, after: Dpu | None = None) -> Target:
    """Where results go, those of the task or of stages that follow it."""
    source, dpu = task.source, task.dpu
    return Target(
        written(task, after), source.shape, (after or dpu).output.element.size,
        stored_operands(dpu), [source, *read_operands(dpu)],
    )  # fmt: skip


def _plan_reduction(task: ElementwiseTask) -> Plan | None:
    source, target = task.source, written(task)
    if not isinstance(target.writer, DenseWriter) or not task.dpu.is_float:
        return None
    dpu = task.dpu
    if (
        dpu.reduced_lanes
        or dpu.reduced_shape((1, 1, 2)) != (1, 1, 2)
        or dpu.output.element is not Element.FLOAT16
    ):
        return None
    reads: list[Features | Strided] = [source, *read_operands(task.dpu), *stored_operands(task.dpu)]
    if any(overlaps(read, view) for read in reads for view in target.views):
        return None
    return _Reduction(task, target)


class _Elementwise(FollowedPlan):
    def __init__(self, source: Features, dpu: Dpu, target: Target) -> None:
        self._source, self._target = source, target
        self._dpu = DpuArguments(dpu, source.shape)
        self.shared_bytes = target.shared_bytes

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        source = self._source
        writer, after = self._target.bind(memory, scratch.shared)
        groups, pixels = -(-source.channels // structures.GROUP), source.height * source.width
        by_groups = groups >= _MANY_GROUPS
        arguments = structures.Process(
            self._dpu.bind(memory), writer, features_of(source, memory), by_groups
        )
        work = float(groups) * structures.GROUP * pixels * WORK_OF_A_RESULT
        step = KernelStep(
            kernels.kernel("process"), arguments, groups if by_groups else pixels, work,
            multiple=1 if by_groups else structures.BLOCK, keeps=(self, memory, scratch),
        )  # fmt: skip
        return [step, *after]


class _Reduction(Plan):
    def __init__(self, task: ElementwiseTask, target: Written) -> None:
        self._source, self._target = task.source, target
        self._dpu = DpuArguments(task.dpu, task.source.shape)
        self._sign = 1 if task.dpu.reduction == "max" else -1

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        source = self._source
        pixels = source.height * source.width
        arguments = structures.Reduction(
            self._dpu.bind(memory),
            features_of(source, memory),
            self._sign,
            memory.pointer(*self._target.views, writeable=True),
            pixels,
            self._target.atoms[2],
        )
        work = float(source.channels) * pixels * WORK_OF_A_RESULT
        return [
            KernelStep(
                kernels.kernel("reduce"), arguments, pixels, work, multiple=structures.BLOCK,
                keeps=(self, memory),
            )
        ]  # fmt: skip
