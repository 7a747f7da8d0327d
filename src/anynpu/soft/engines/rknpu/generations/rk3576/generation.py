"""RK3576 ("RKNPU f2").

The same pipeline as RK3588's with other register numbers. Scalar operands of the arithmetic stages
come from memory: each stage has a small tensor of them besides the per-channel operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ......errors import ModelError
from .....formats.rknn.model import Relocation
from ...command_stream import TaskState
from ...elements import Address, Element
from ...registers.blocks import Enabled
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ...tasks import REDUCED_GROUP, BlockWriter, DenseWriter, Dpu, InputConversion, Writer
from ..base import Generation, Groups
from ..settings import ElementwiseSettings, StageSettings
from ..truncation import check_told_twice
from . import convolution, stages, writer
from .cna import CnaFeatureAddress, CoreClip
from .dpu import MODES, PACKING_MODES, DpuChannel, DpuFeatureMode
from .map import REGISTERS

_REDUCED_LANES, _REDUCED_GROUPS = 4, 2


class Rk3576(Generation):
    """RK3576."""

    registers = REGISTERS
    derived: Mapping[Quantity, Derived] = {
        **convolution.DERIVED,
        **stages.DERIVED,
        **writer.DERIVED,
    }
    groups = Groups(kernels={1: 32, 2: 16}, channels={1: 32, 2: 32}, depthwise={1: 64, 2: 32})
    operand_group = 8

    def check(self, task: TaskRegisters) -> None:
        if task.state.enable_mask & Enabled.CNA:
            convolution.check_sizes(task)
            check_told_twice(task, CoreClip.AGAIN)
        if task.state.enable_mask & Enabled.DPU:
            stages.check_sources(task)
            stages.check_table(task)
            writer.check_writer(task, task.word(DpuFeatureMode), MODES, PACKING_MODES)

    def fetched(self, state: TaskState, before: TaskState | None) -> TaskState:
        # Rows that the task before has fetched stay in the buffer; here all are read from memory.
        if not state.enable_mask & Enabled.CNA:
            return state
        task, features = self._unchecked(state), _features_of(state)
        kept = convolution.kept_bytes(task)
        if not kept:
            return state
        fetched = _features_of(before) if before else features
        if not before or not convolution.follows(task, features, self._unchecked(before), fetched):
            raise ModelError(
                f"register {CnaFeatureAddress.number:#06x} = {features.addend:#x}: the rows that "
                "the task before has left in the buffer don't end there"
            )
        return _moved(state, features.addend - kept)

    def _unchecked(self, state: TaskState) -> TaskRegisters:
        return TaskRegisters(state, self.registers, self.derived)

    def input_conversion(self, task: TaskRegisters) -> InputConversion | None:
        return convolution.input_conversion(task)

    def stages(self, task: TaskRegisters) -> tuple[StageSettings | None, StageSettings | None]:
        return stages.stages(task)

    def elementwise(self, task: TaskRegisters) -> ElementwiseSettings | None:
        return stages.elementwise(task)

    def packer(
        self, task: TaskRegisters, shape: tuple[int, int, int], address: Address, together: int
    ) -> Writer | None:
        if not task[Quantity.PACKS]:
            return None
        return writer.surface_packer(task, shape, address, together)

    def reduced(self, task: TaskRegisters, dpu: Dpu, shape: tuple[int, int, int]) -> Dpu:
        # The compiler leaves four kernels of every eight empty for this: their zeros would be the
        # greatest of negative values, so they can't count.
        channels, height, width = shape
        sees = task[Quantity.CHANNELS], task[Quantity.HEIGHT], task[Quantity.WIDTH]
        if task[Quantity.PACKS]:
            if sees != (channels * height * width, 1, 1):
                raise task.error(DpuChannel, "not the channels of all pixels")
            return replace(dpu, reduced_lanes=_REDUCED_LANES, reduces_pixels=True)
        # The rows are surfaces of what is reduced: the stages see them as groups of channels.
        groups = channels // REDUCED_GROUP
        is_known = task[Quantity.PACKED_ATOMS] == width and groups == _REDUCED_GROUPS
        if not is_known or sees != (height * REDUCED_GROUP, 1, width * groups):
            raise task.error(DpuChannel, f"not {height} rows of {width} pixels")
        return replace(dpu, reduced_lanes=_REDUCED_LANES, reduces_rows=True)

    def reduction_writer(
        self,
        task: TaskRegisters,
        shape: tuple[int, int, int],
        element: Element,
        address: Address,
    ) -> Writer:
        if task[Quantity.PACKS]:
            return DenseWriter(address)
        # Some values of each column go to its lanes.
        surfaces, height, width = shape
        atom = self.atom_of(element)
        stride, padding = task[Quantity.TARGET_SURFACE], task[Quantity.PADDING]
        return BlockWriter(address, height, width, width * atom, stride, surfaces, 0, atom, padding)


def _features_of(state: TaskState) -> Relocation:
    """Where a task fetches: in a buffer, or at an address that is there already."""
    number = CnaFeatureAddress.number
    return state.relocations.get(number) or Relocation("", state.words.get(number, 0))


def _moved(state: TaskState, addend: int) -> TaskState:
    """The task that fetches elsewhere in the same buffer."""
    number = CnaFeatureAddress.number
    found = state.relocations.get(number)
    if found is None:
        return replace(state, words={**state.words, number: addend})
    relocations = {**state.relocations, number: replace(found, addend=addend)}
    return replace(state, relocations=relocations)
