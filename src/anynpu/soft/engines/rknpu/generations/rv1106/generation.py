"""RV1103 and RV1106 ("RKNPU t3").

Addresses are absolute in one space, and both arithmetic stages are simpler: what is fetched from
memory is used, and one shift serves all signs. Depthwise weights come with their zero points.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...command_stream import TaskState
from ...elements import Address, Element
from ...registers.cna import (
    CnaConv1,
    CnaConvert0,
    CnaConvert1,
    CnaConvert2,
    CnaConvert3,
    CnaConvert4,
    CnaDataSize0,
    CnaDma1,
    CnaDma2,
)
from ...registers.dpu import DpuBsOw, DpuDataFormat, DpuWriteSize0
from ...registers.fields import Field, bits, sign_extend
from ...registers.ppu import PpuMode
from ...registers.rdma import RdmaFeatureMode
from ...task_registers import TaskRegisters
from ...tasks import InputConversion, OffsetPlace, RowWriter
from ..base import Constants, Generation, Groups, input_ties
from .convolution import translate_bare_convolution, translate_convolution
from .stages import (
    BN_CLAMP,
    BS_CLAMP,
    EW_CLAMP,
    INPUT_OFFSET,
    TRANSPOSES_ATOMS,
    translate_bn,
    translate_bs,
    translate_elementwise,
    translate_precisions,
)
from .writer import row_writer, translate_joined_surfaces, translate_writer

_CORE_ENABLED = 1 << 2
_THIRD_OFFSET = 0x101C
"""What is added to the third channel of a picture."""

_LOWEST_BITS = bits(28, 31)
_SECOND = bits(0, 15)
_FIRST = bits(16, 31)


def _translate_conversion(words: dict[int, int]) -> None:
    """The lowest bit of each zero point is there once more."""
    words.pop(_THIRD_OFFSET, None)
    word = words.get(CnaConvert0.number, 0)
    offset, shift = words.get(CnaConvert3.number, 0), CnaConvert0.CVT_TRUNCATE_0.of(word)
    repeated = 15 * (sign_extend(offset, 32) >> shift & 1)
    if not CnaConvert0.DATA_SIGN.of(word) or _LOWEST_BITS.of(word) == repeated:
        words[CnaConvert0.number] = word & ~_LOWEST_BITS.put(15)


class Rv1106(Generation):
    """RV1103 and RV1106."""

    own = frozenset({_THIRD_OFFSET, INPUT_OFFSET, *BS_CLAMP, *BN_CLAMP, *EW_CLAMP})
    own_inert = frozenset(
        {
            0x103C,
            0x1048,
            0x106C,
            0x108C,
            0x1094,
            0x1188,
            0x118C,
            0x401C,
            0x4028,
            0x402C,
            *range(0x604C, 0x6070, 4),
            0x8028,
            0x802C,
        }
    )
    operand_group = 4
    has_column_operands = False
    field_bits: Mapping[Field, int] = {
        CnaDataSize0.DATAIN_HEIGHT: 12,
        CnaDataSize0.DATAIN_WIDTH: 12,
        DpuWriteSize0.CHANNEL_WDMA: 13,
        PpuMode.COUNTS_INSIDE: 0,
    }
    groups = Groups(kernels={1: 16, 2: 8}, channels={1: 32, 2: 32}, depthwise={1: 32, 2: 16})
    weights_with_zero_points = 1
    pads_channels_in_pairs = False
    has_pixel_operands = True
    works_without_core = True

    def translate(self, state: TaskState, constants: Constants) -> dict[int, int]:
        words = dict(state.words)
        if CnaConv1.number in words:
            translate_convolution(words)
            _translate_conversion(words)
            if not state.enable_mask & _CORE_ENABLED:
                translate_bare_convolution(words)
        if DpuDataFormat.number in words:
            translate_precisions(words)
            translate_bs(words, state.enable_mask)
            translate_bn(words)
            translate_elementwise(words)
            translate_writer(words)
            if RdmaFeatureMode.number in words and not state.enable_mask & _CORE_ENABLED:
                translate_joined_surfaces(words)
        return words

    def feature_strides(self, task: TaskRegisters, width: int) -> tuple[int, int]:
        unit = self.atom if task[CnaConv1.GROUP_LINE_OFF] else 4
        return task[CnaDma1.LINE_STRIDE] * unit, task[CnaDma2.SURF_STRIDE] * self.atom

    def transposed_bytes(self, task: TaskRegisters) -> int:
        moves_atoms = task.state.words.get(DpuBsOw.number, 0) & TRANSPOSES_ATOMS
        return self.atom if moves_atoms else super().transposed_bytes(task)

    def row_writer(
        self, task: TaskRegisters, address: Address, shape: tuple[int, int, int]
    ) -> RowWriter | None:
        return row_writer(task, address, shape, self.atom)

    def input_conversion(self, task: TaskRegisters) -> InputConversion:
        # Two scales a register, then offsets that are shifted up already. Of what isn't a picture
        # they are the zero point times the scale, rounded to a whole number (9 x 0.931 gives 8).
        first, second = (task.word(register) for register in (CnaConvert1, CnaConvert2))
        one, two = (task.stride(register) for register in (CnaConvert3, CnaConvert4))
        is_unsigned = not task[CnaConvert0.DATA_SIGN]
        if task[CnaConvert0.CVT_TYPE] or (one != two and not is_unsigned):
            raise task.error(CnaConvert0, "the conversion is not known")
        # Pictures of bytes have three channels, and the third offset a register of its own.
        three = sign_extend(task.state.words.get(_THIRD_OFFSET, 0), 32)
        return InputConversion(
            OffsetPlace.BEFORE_SHIFT,
            (one, two, three, 0) if is_unsigned else (one,) * 4,
            (
                sign_extend(_SECOND.of(first), 16),
                sign_extend(_FIRST.of(first), 16),
                sign_extend(_SECOND.of(second), 16),
                sign_extend(_FIRST.of(second), 16),
            ),
            (
                task[CnaConvert0.CVT_TRUNCATE_0],
                task[CnaConvert0.CVT_TRUNCATE_1],
                task[CnaConvert0.CVT_TRUNCATE_2],
                task[CnaConvert0.CVT_TRUNCATE_3],
            ),
            is_unsigned,
            input_ties(task.word(CnaConvert0)),
        )

    def image_line(self, task: TaskRegisters, width: int, channels: int, element: Element) -> int:
        line = self.filled_width(width, element) * channels * element.size
        area = line * task[CnaDataSize0.DATAIN_HEIGHT] // self.atom
        if task[CnaDma1.LINE_STRIDE] not in (area, 2 * area):
            raise task.error(CnaDma1.LINE_STRIDE, f"a picture of {area} atoms has it otherwise")
        return line
