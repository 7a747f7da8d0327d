"""int8 features through the DPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..elements import Element
from ..memory import Memory
from ..tasks import BlockWriter, ElementwiseTask, Features, PhaseWriter
from . import kernels
from .arguments import DpuArguments, features_of, in_place, is_supported, overlap, writer_of
from .bounds import stages_are_exact
from .steps import WORK_OF_A_RESULT, Plan, Step, call, shares, together

_INPUT = 128.0


def plan_elementwise(task: ElementwiseTask) -> Plan | None:
    """A plan, where the kernels know the task and its exactness is proved."""
    source = task.source
    if source.element is not Element.INT8 or not is_supported(task.dpu, source.lanes):
        return None
    if not isinstance(task.writer, BlockWriter | PhaseWriter):
        return None
    if not stages_are_exact(task.dpu, _INPUT) or not may_run_in_blocks(task):
        return None
    return _Elementwise(task, task.writer)


def may_run_in_blocks(task: ElementwiseTask) -> bool:
    """Whether no block of atoms is written before it is read."""
    source = task.source
    shape = (source.surfaces, source.height, source.width, source.atom)
    stage = task.dpu.elementwise
    operand = stage.operand if stage and isinstance(stage.operand, Features) else None
    return all(
        features is None
        or not overlap(features, task.writer, shape)
        or in_place(features, task.writer)
        for features in (source, operand)
    )


class _Elementwise(Plan):
    def __init__(self, task: ElementwiseTask, writer: BlockWriter | PhaseWriter) -> None:
        self._source, self._writer = task.source, writer
        self._dpu = DpuArguments(task.dpu, task.source.channels, task.source.lanes)

    def bind(self, memory: Memory, scratch: Sequence[NDArray[np.uint8]]) -> Step:
        source = self._source
        writer = writer_of(self._writer, source.channels, source.width, source.lanes, memory)
        dpu, features = self._dpu.bind(memory), features_of(source, memory)
        function = kernels.function("anynpu_npu_process")
        work = source.channels * source.height * source.width * WORK_OF_A_RESULT
        parts = shares(source.surfaces, 1, work, len(scratch))
        return together(
            [call(function, dpu, writer, features, *part, keeps=self) for part in parts]
        )
