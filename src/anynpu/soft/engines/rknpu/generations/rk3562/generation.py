"""RK3562 ("RKNPU t4").

The registers have RK3576's numbers, but scalar operands are in registers, sizes are not reduced by
one, and the writer's fields are RK3588's. Each task is turned into RK3576's notation first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...command_stream import TaskState
from ...elements import Element
from ...registers.cna import CnaDataSize0, CnaDma1
from ...registers.dpu import (
    DpuBn,
    DpuBnMul,
    DpuBs,
    DpuBsMul,
    DpuDataFormat,
    DpuLut,
    DpuLutInfo,
    DpuLutLeScale,
    DpuLutLeShift,
    DpuLutLeStart,
    DpuLutLoEnd,
    DpuLutLoScale,
    DpuLutLoShift,
    DpuLutLoStart,
)
from ...registers.fields import bits, sign_extend
from ...registers.rdma import RdmaBn, RdmaBs
from ...task_registers import TaskRegisters
from ..base import Constants, Groups, unknown_number
from ..rk3576.generation import Rk3576
from ..rk3576.operands import MULTIPLIES, Operands
from .notation import GROUP_COUNTS, in_rk3576_notation

_RDMA_ENABLED = 1 << 4
_BS, _BS_ADD, _BS_MULTIPLY, _BS_SHIFT = 0x4038, 0x4040, 0x4044, 0x4054
_BN, _BN_ADD, _BN_MULTIPLY, _BN_HIGHEST = 0x4060, 0x4064, 0x4068, 0x4078
_HIGHEST = (1 << 31) - 1
_GROUPS, _MULTIPLY_BYPASS = 0x4050, bits(1)
_POSITIVE_SHIFT = bits(8, 13)
_OFFSET, _NEGATIVE_SHIFT, _OFFSETS = bits(0, 15), bits(16, 21), bits(31)
_TABLE = (
    DpuLutInfo,
    DpuLutLeStart,
    DpuLutLoStart,
    DpuLutLoEnd,
    DpuLutLeScale,
    DpuLutLeShift,
    DpuLutLoScale,
    DpuLutLoShift,
)
_TABLE_CONFIGS = frozenset({0, 0x160})


class Rk3562(Rk3576):
    """RK3562."""

    own = Rk3576.own | {
        GROUP_COUNTS,
        _BS_ADD,
        _BS_SHIFT,
        _BN_ADD,
        _BN_MULTIPLY,
        *(register.number for register in _TABLE),
    }
    own_inert = Rk3576.own_inert | {*range(0x6060, 0x6070, 4), 0x8028, 0x802C}
    constants: Mapping[int, frozenset[int]] = {
        **{
            number: values
            for number, values in Rk3576.constants.items()
            if number not in (GROUP_COUNTS, DpuLutLeScale.number)
        },
        **dict.fromkeys((0x4098, 0x40A0), frozenset({0})),
        0x106C: frozenset({0x20}),
        0x40C0: frozenset({0x40002, 0x40102, 0x4440002, 0x4440102}),
    }
    operand_group = 4
    transposes_byte_blocks = False
    groups = Groups(kernels={1: 16, 2: 8}, channels={1: 32, 2: 32}, depthwise={1: 32, 2: 16})

    def own_notation(self, state: TaskState) -> TaskState:
        return replace(state, words=in_rk3576_notation(state.words))

    def operands(self, state: TaskState, constants: Constants) -> tuple[Operands, Operands]:
        reads = bool(state.enable_mask & _RDMA_ENABLED)
        return _bs_operands(state.words, reads), _bn_operands(state.words, reads)

    def image_line(self, task: TaskRegisters, width: int, channels: int, element: Element) -> int:
        # The register counts the atoms of all rows.
        line = self.filled_width(width, element) * channels * element.size
        area = line * task[CnaDataSize0.DATAIN_HEIGHT] // self.atom
        if task[CnaDma1.LINE_STRIDE] != area:
            raise task.error(CnaDma1.LINE_STRIDE, f"a picture of {area} atoms has it otherwise")
        return line

    def translate_table(self, words: Mapping[int, int], translated: dict[int, int]) -> None:
        config = words.get(DpuLut.number, 0)
        if config not in _TABLE_CONFIGS:
            raise unknown_number(DpuLut.number, config)
        translated.update({register.number: words.get(register.number, 0) for register in _TABLE})


def _bs_operands(words: Mapping[int, int], reads: bool) -> Operands:
    config, shift = words.get(_BS, 0), words.get(_BS_SHIFT, 0)
    if DpuBs.BYPASS.of(config):
        return Operands(None, None, None, (0, 0), 0)
    use = RdmaBs.DATA_USE.of(words.get(RdmaBs.number, 0)) if reads else 0
    multiplies = not _MULTIPLY_BYPASS.of(words.get(_GROUPS, 0))
    factor = DpuBsMul.MUL_OPERAND.of(words.get(_BS_MULTIPLY, 0))
    return Operands(
        words.get(_BS_ADD, 0) or None,
        sign_extend(_OFFSET.of(shift), 16) if _OFFSETS.of(shift) else None,
        factor if multiplies and not MULTIPLIES.of(use) else None,
        (_POSITIVE_SHIFT.of(config), _NEGATIVE_SHIFT.of(shift)) if multiplies else (0, 0),
        use,
    )


def _bn_operands(words: Mapping[int, int], reads: bool) -> Operands:
    config, factor = words.get(_BN, 0), words.get(_BN_MULTIPLY, 0)
    if DpuBn.BYPASS.of(config):
        return Operands(None, None, None, (0, 0), 0)
    use = RdmaBn.DATA_USE.of(words.get(RdmaBn.number, 0)) if reads else 0
    adds, multiplies = not DpuBn.ALU_BYPASS.of(config), not DpuBn.MUL_BYPASS.of(config)
    formats = words.get(DpuDataFormat.number, 0)
    add = words.get(_BN_ADD, 0) if adds and not DpuBn.ALU_SRC.of(config) else None
    is_float = Element(DpuDataFormat.PROC_PRECISION.of(formats)).is_float
    if add and is_float and words.get(_BN_HIGHEST, _HIGHEST) != _HIGHEST:
        # After a convolution float16 files have the limit that belongs before the sum here.
        raise unknown_number(_BN_ADD, add)
    positive = DpuBnMul.MUL_SHIFT_VALUE.of(factor)
    negative = DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG.of(formats)
    return Operands(
        add,
        None,
        DpuBnMul.MUL_OPERAND.of(factor) if multiplies and not DpuBnMul.MUL_SRC.of(factor) else None,
        (positive, negative) if multiplies else (0, 0),
        use,
    )
