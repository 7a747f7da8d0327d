"""RV1103 and RV1106 ("RKNPU t3").

Both arithmetic stages are simpler: what is fetched from memory is used, and both add first.
Depthwise weights come with their zero points.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...elements import Address, Element
from ...registers.blocks import Enabled
from ...registers.ppu import PpuMode
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ...tasks import DenseWriter, InputConversion, Writer
from ..base import Generation, Groups, always
from ..settings import ElementwiseSettings, StageSettings
from . import convolution, stages, writer
from .registers import REGISTERS, WITHOUT_CORE


class Rv1106(Generation):
    """RV1103 and RV1106."""

    registers = REGISTERS
    derived: Mapping[Quantity, Derived] = {
        **convolution.DERIVED,
        **stages.DERIVED,
        **writer.DERIVED,
        Quantity.COUNTS_INSIDE: always(0, PpuMode),
    }
    operand_group = 4
    groups = Groups(kernels={1: 16, 2: 8}, channels={1: 32, 2: 32}, depthwise={1: 32, 2: 16})
    convolutions = Generation.convolutions | {WITHOUT_CORE, WITHOUT_CORE | Enabled.RDMA}

    def check(self, task: TaskRegisters) -> None:
        if task.state.enable_mask & Enabled.CNA:
            convolution.check_convolution(task)
        if task.state.enable_mask & Enabled.DPU:
            writer.check_writer(task)

    def input_conversion(self, task: TaskRegisters) -> InputConversion | None:
        return convolution.input_conversion(task)

    def stages(self, task: TaskRegisters) -> tuple[StageSettings | None, StageSettings | None]:
        return stages.stages(task)

    def elementwise(self, task: TaskRegisters) -> ElementwiseSettings | None:
        return stages.elementwise(task)

    def packer(
        self, task: TaskRegisters, shape: tuple[int, int, int], address: Address, together: int
    ) -> Writer | None:
        return writer.row_writer(task, shape, address)

    def reduction_writer(
        self,
        task: TaskRegisters,
        shape: tuple[int, int, int],
        element: Element,
        address: Address,
    ) -> Writer:
        # The last values of an atom are filled up.
        return DenseWriter(address, self.atom_of(element) // element.size)
