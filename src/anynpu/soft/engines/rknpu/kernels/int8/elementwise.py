"""int8 features through the DPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ......native.memory import address_of
from ...elements import Element
from ...layout import written
from ...memory import Memory
from ...reference.dpu import process
from ...tasks import BlockWriter, Dpu, ElementwiseTask, Features, PhaseWriter
from .. import structures
from ..aliasing import in_place, overlap
from ..arguments import features_of
from ..steps import WORK_OF_A_RESULT, KernelStep, Plan, Scratch
from . import kernels
from .arguments import writer_of
from .stages import DpuArguments, operand_of, stage_arguments

_INPUT = 128.0
_LANES = (8, 16)


def plan_elementwise(task: ElementwiseTask) -> Plan | None:
    """A plan, where the kernels know the task and its exactness is proved."""
    source, writer = task.source, task.writer
    if source.element is not Element.INT8 or source.lanes not in _LANES:
        return None
    if not isinstance(writer, BlockWriter | PhaseWriter) or writer.atom != source.atom:
        return None
    if not may_run_in_blocks(task):
        return None
    if is_function_of_one_value(task.dpu):
        return _Remap(task)
    dpu = stage_arguments(task.dpu, source.shape, source.lanes, _INPUT)
    return None if dpu is None else _Process(task, dpu)


def is_function_of_one_value(dpu: Dpu) -> bool:
    """Whether int8 becomes int8 without regard to channel or place."""
    if dpu.is_float or dpu.reduction or dpu.output.element is not Element.INT8:
        return False
    stages = [stage for stage in (dpu.bs, dpu.bn) if stage]
    operands: list[Any] = [value for stage in stages for value in (stage.add, stage.multiply)]
    if dpu.elementwise:
        operands.append(dpu.elementwise.operand)
    return all(value is None or isinstance(value, int | float) for value in operands)


def may_run_in_blocks(task: ElementwiseTask) -> bool:
    """Whether no block of atoms is written before it is read."""
    source = task.source
    stage = task.dpu.elementwise
    operand = stage.operand if stage and isinstance(stage.operand, Features) else None
    target = written(task)
    return all(
        features is None or not overlap(features, target) or in_place(features, task.writer)
        for features in (source, operand)
    )


class _Process(Plan):
    """Through the stages."""

    def __init__(self, task: ElementwiseTask, dpu: DpuArguments) -> None:
        self._source, self._target, self._dpu = task.source, written(task), dpu
        self._operand = operand_of(task.dpu)

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        source = self._source
        arguments = structures.Process(
            self._dpu.bind(memory, self._operand),
            writer_of(self._target, source.channels, memory),
            features_of(source, memory),
        )
        work = float(source.channels) * source.height * source.width * WORK_OF_A_RESULT
        return [
            KernelStep(
                kernels.kernel("process"), arguments, source.surfaces, work, keeps=(self, memory)
            )
        ]


class _Remap(Plan):
    """The stages' result for each of the 256 values, computed once."""

    def __init__(self, task: ElementwiseTask) -> None:
        self._source, self._target = task.source, written(task)
        inputs: NDArray[np.int64] = np.arange(-128, 128).reshape(1, 256, 1)
        results = process(Memory(np.empty(0, np.uint8), {}), task.dpu, inputs)
        self._values = np.ascontiguousarray(results.reshape(-1))

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        source = self._source
        arguments = structures.Remap(
            writer_of(self._target, source.channels, memory),
            features_of(source, memory),
            address_of(self._values),
        )
        work = float(source.channels) * source.height * source.width * _WORK_OF_A_VALUE
        kernel = kernels.kernel("remap")
        return [KernelStep(kernel, arguments, source.surfaces, work, keeps=(self, memory))]


_WORK_OF_A_VALUE = 20
