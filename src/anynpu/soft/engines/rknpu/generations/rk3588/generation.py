"""RK3588."""

from __future__ import annotations

from collections.abc import Mapping

from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ...tasks import InputConversion
from ..base import Generation, Groups
from ..settings import ElementwiseSettings, StageSettings
from . import convolution, stages
from .map import REGISTERS


class Rk3588(Generation):
    """RK3588."""

    registers = REGISTERS
    derived: Mapping[Quantity, Derived] = {**convolution.DERIVED, **stages.DERIVED}
    groups = Groups(kernels={1: 32, 2: 16}, channels={1: 32, 2: 32}, depthwise={1: 64, 2: 32})
    operand_group = 8

    def check(self, task: TaskRegisters) -> None:
        """What could contradict is asked for, and checked then."""

    def input_conversion(self, task: TaskRegisters) -> InputConversion | None:
        return convolution.input_conversion(task)

    def stages(self, task: TaskRegisters) -> tuple[StageSettings | None, StageSettings | None]:
        offset = stages.weight_offset(task)
        return stages.stage(task, stages.BS, offset), stages.stage(task, stages.BN)

    def elementwise(self, task: TaskRegisters) -> ElementwiseSettings | None:
        return stages.elementwise(task)
