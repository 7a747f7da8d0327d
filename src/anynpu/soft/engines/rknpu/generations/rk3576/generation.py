"""RK3576 ("RKNPU f2").

The same pipeline as RK3588's with other register numbers. Scalar operands of the arithmetic stages
come from memory: each stage has a small tensor of them besides the per-channel operands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ......errors import ModelError
from .....formats.rknn.model import Relocation
from ...command_stream import TaskState
from ...elements import Address, Element
from ...registers.cna import (
    CnaDma1,
    CnaFeatureAddress,
    CnaWeightSize0,
    CnaWeightSize1,
    CnaWeightSize2,
)
from ...registers.dpu import DpuChannel, DpuDestination, DpuFeatureMode, DpuHeight, DpuWidth
from ...registers.fields import Field, sign_extend
from ...task_registers import TaskRegisters
from ...tasks import REDUCED_GROUP, Dpu, InputConversion, PackedWriter, SurfacePacker
from ..base import Constants, Generation, unknown_number
from .convolution import (
    CONVOLUTION_CONSTANTS,
    CONVOLUTION_INERT,
    CONVOLUTION_REGISTERS,
    FEATURES,
    follows,
    input_conversion,
    kept_bytes,
    translate_convolution,
)
from .operands import Operands
from .pooling import POOLING_INERT, POOLING_REGISTERS, translate_pooling
from .stages import (
    EW_LINE_NOTCH,
    LINE_NOTCH,
    STAGES_CONSTANTS,
    STAGES_REGISTERS,
    stage_operands,
    translate_stages,
)
from .table import TABLE_INERT, TABLE_REGISTERS, translate_table
from .writer import (
    WRITER_CONSTANTS,
    WRITER_INERT,
    WRITER_REGISTERS,
    packed_atoms,
    surface_packer,
    surfaces_in_group,
    target_notch,
    translate_writer,
)

_CNA, _DPU, _PPU = 1 << 0, 1 << 3, 1 << 5
_REDUCED_LANES, _REDUCED_GROUPS = 4, 2


class Rk3576(Generation):
    """RK3576."""

    weights_with_zero_points = 2
    pads_channels_in_pairs = False
    field_bits: Mapping[Field, int] = {}
    """The registers that this generation has in their place say how wide they are."""

    bn_adds_first = True
    transposes_byte_blocks = True
    reduces_to_lanes = True
    own = (
        CONVOLUTION_REGISTERS
        | STAGES_REGISTERS
        | WRITER_REGISTERS
        | TABLE_REGISTERS
        | POOLING_REGISTERS
    )
    constants: Mapping[int, frozenset[int]] = {
        **CONVOLUTION_CONSTANTS,
        **STAGES_CONSTANTS,
        **WRITER_CONSTANTS,
    }
    """Registers that nobody has described; only the values that files have are taken."""

    own_inert = CONVOLUTION_INERT | WRITER_INERT | TABLE_INERT | POOLING_INERT
    own_zeros = frozenset(range(0x2810, 0x2824, 4))
    """Those of toolkit 2.2."""

    moved_addresses: Mapping[int, int] = {
        FEATURES: CnaFeatureAddress.number,
        0x4018: DpuDestination.number,
    }

    @property
    def known(self) -> Collection[int]:
        return self.own | self.constants.keys()

    def own_notation(self, state: TaskState) -> TaskState:
        """A task of a chip with these registers, but for some fields, in RK3576's notation."""
        return state

    def operands(self, state: TaskState, constants: Constants) -> tuple[Operands, Operands]:
        """What the two arithmetic stages add and multiply by."""
        return stage_operands(state.words, state.enable_mask, constants)

    def translate_table(self, words: Mapping[int, int], translated: dict[int, int]) -> None:
        """The look-up tables' registers."""
        translate_table(words, translated)

    def located(self, state: TaskState, before: TaskState | None) -> TaskState:
        # Rows that the task before has fetched stay in the buffer; here all are read from memory.
        features = _features_of(state)
        words = self.own_notation(state).words if state.enable_mask & _CNA else {}
        kept = kept_bytes(words)
        if kept:
            known = before and self.own_notation(before).words
            fetched = _features_of(before) if before else features
            if not known or not follows(words, features, known, fetched):
                raise ModelError(
                    f"register {FEATURES:#06x} = {features.addend:#x}: the rows that the task "
                    "before has left in the buffer don't end there"
                )
            state = _moved(state, features.addend - kept)
        return super().located(state, before)

    def translate(self, state: TaskState, constants: Constants) -> dict[int, int]:
        for number in self.constants.keys() & state.words.keys():
            if state.words[number] not in self.constants[number]:
                raise unknown_number(number, state.words[number])
        words = self.own_notation(state).words
        translated: dict[int, int] = {}
        if state.enable_mask & _CNA:
            translate_convolution(words, translated)
        if state.enable_mask & _DPU:
            operands = self.operands(state, constants)
            translate_stages(words, translated, state.enable_mask, operands)
            self.translate_table(words, translated)
            translate_writer(words, translated)
        if state.enable_mask & _PPU:
            translate_pooling(words, translated)
        return translated

    def weight_row_bytes(self, task: TaskRegisters) -> int:
        stored = task[CnaWeightSize0.WEIGHT_BYTES]
        if stored == task[CnaWeightSize1.WEIGHT_BYTES_PER_KERNEL]:
            return 0
        height = task[CnaWeightSize2.WEIGHT_HEIGHT]
        if not height or stored % height:
            raise task.error(CnaWeightSize0, f"not whole rows of {height}")
        return stored // height

    def source_line_notch(self, task: TaskRegisters) -> int:
        # It has a register of its own, and more bits than RK3588's, as the writer's has.
        return sign_extend(task.state.words.get(LINE_NOTCH, 0), 32)

    def image_line(self, task: TaskRegisters, width: int, channels: int, element: Element) -> int:
        line = task[CnaDma1.LINE_STRIDE] * self.atom
        if line < width * channels * element.size:
            raise task.error(CnaDma1.LINE_STRIDE, f"less than {width} columns")
        return line

    def operand_line_notch(self, task: TaskRegisters) -> int:
        return sign_extend(task.state.words.get(EW_LINE_NOTCH, 0), 32)

    def surfaces_in_group(self, task: TaskRegisters) -> int:
        return surfaces_in_group(self.own_notation(task.state).words)

    def target_line_notch(self, task: TaskRegisters) -> int:
        return target_notch(task.state.words)

    def packer(
        self, task: TaskRegisters, shape: tuple[int, int, int], address: Address, together: int
    ) -> SurfacePacker | PackedWriter | None:
        if not task[DpuFeatureMode.NONALIGN]:
            return None
        return surface_packer(self.own_notation(task.state).words, shape, address, together)

    def reduced(self, task: TaskRegisters, dpu: Dpu, shape: tuple[int, int, int]) -> Dpu:
        # The compiler leaves four kernels of every eight empty for this: their zeros would be the
        # greatest of negative values, so they can't count.
        channels, height, width = shape
        pixels = (task[DpuHeight.HEIGHT] + 1) * (task[DpuWidth.WIDTH] + 1)
        if task[DpuFeatureMode.NONALIGN]:
            if pixels != 1 or task[DpuChannel.CHANNEL] + 1 != channels * height * width:
                raise task.error(DpuChannel, "not the channels of all pixels")
            return replace(dpu, reduced_lanes=_REDUCED_LANES, reduces_pixels=True)
        # The rows are surfaces of what is reduced: the stages see them as groups of channels.
        groups = channels // REDUCED_GROUP
        is_known = packed_atoms(task.state.words) == width and groups == _REDUCED_GROUPS
        sees = task[DpuChannel.CHANNEL] + 1, task[DpuHeight.HEIGHT] + 1, task[DpuWidth.WIDTH] + 1
        if not is_known or sees != (height * REDUCED_GROUP, 1, width * groups):
            raise task.error(DpuChannel, f"not {height} rows of {width} pixels")
        return replace(dpu, reduced_lanes=_REDUCED_LANES, reduces_rows=True)

    def input_conversion(self, task: TaskRegisters) -> InputConversion:
        return input_conversion(task.state.words)


def _features_of(state: TaskState) -> Relocation:
    """Where a task fetches: in a buffer, or at an address that is there already."""
    return state.relocations.get(FEATURES) or Relocation("", state.words.get(FEATURES, 0))


def _moved(state: TaskState, addend: int) -> TaskState:
    """The task that fetches elsewhere in the same buffer."""
    found = state.relocations.get(FEATURES)
    if found is None:
        return replace(state, words={**state.words, FEATURES: addend})
    relocations = {**state.relocations, FEATURES: replace(found, addend=addend)}
    return replace(state, relocations=relocations)
