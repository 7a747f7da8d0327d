"""RV1103 and RV1106 ("RKNPU t3").

Addresses are absolute in one space, and both arithmetic stages are simpler: what is fetched from
memory is used, and one shift serves all signs. Depthwise weights come with their zero points.
"""

from __future__ import annotations

from ..machine import TaskState
from ..registers import (
    CnaConv1,
    CnaDma1,
    CnaDma2,
    CnaPad0,
    CnaPad1,
    CnaWeightSize0,
    CnaWeightSize1,
    CoreMisc,
    DpuBn,
    DpuBnAlu,
    DpuBnMul,
    DpuBs,
    DpuBsAlu,
    DpuBsMul,
    DpuBsOw,
    DpuDataFormat,
    DpuEw,
    DpuOutScale,
    DpuSurfaceAdd,
    DpuSurfaceStride,
    RdmaBs,
    RdmaFeatureMode,
    bits,
    sign_extend,
)
from ..tasks import Element
from ..view import TaskRegisters
from .base import Generation, Groups

_RDMA_ENABLED = 1 << 4
_INPUT_OFFSET = 0x4018
_SHIFT = 0x4054
_SHIFT_FIELD = bits(24, 29)
_PAD_LEFT = bits(8, 11)
_CORE_DEPTHWISE = bits(3)
_BS_MULTIPLIES = bits(9)
_BN_RELU_ONLY, _BN_ADD_MULTIPLY = 0x12, 0x2000


_BS_CLAMP, _BN_CLAMP, _EW_CLAMP = (0x40D8, 0x40DC), (0x40E0, 0x40E4), (0x40E8, 0x40EC)
"""The least and the greatest value that leaves a stage."""

_LOWEST, _HIGHEST = -(1 << 31), (1 << 31) - 1


class Micro(Generation):
    """RV1103 and RV1106."""

    own = frozenset({_INPUT_OFFSET, *_BS_CLAMP, *_BN_CLAMP, *_EW_CLAMP})
    own_inert = frozenset(
        {
            0x101C,
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
    groups = Groups(kernels={1: 16, 2: 8}, channels={1: 32, 2: 32}, depthwise={1: 32, 2: 16})
    has_weight_zero_points = True
    converts_inputs = False

    def translate(self, state: TaskState) -> dict[int, int]:
        words = dict(state.words)
        if CnaConv1.number in words:
            _translate_convolution(words)
        if DpuDataFormat.number in words:
            _translate_bs(words, state.enable_mask)
            _translate_bn(words)
            _translate_elementwise(words)
            _translate_writer(words)
        return words

    def feature_strides(self, task: TaskRegisters, width: int) -> tuple[int, int]:
        return task[CnaDma1.LINE_STRIDE] * 4, task[CnaDma2.SURF_STRIDE] * self.atom

    def image_line(self, task: TaskRegisters, width: int, channels: int, element: Element) -> int:
        return width * channels * element.size


def _translate_convolution(words: dict[int, int]) -> None:
    padding = words.get(CnaPad0.number, 0)
    words[CnaPad0.number] = CnaPad0.PAD_TOP.put(padding) | CnaPad0.PAD_LEFT.put(
        _PAD_LEFT.of(padding)
    )
    words[CnaPad1.number] = sign_extend(words.get(CnaPad1.number, 0), 16) & 0xFFFFFFFF
    mode, misc = words[CnaConv1.number], words.get(CoreMisc.number, 0)
    is_depthwise = CnaConv1.CONV_MODE.of(mode) == 3 or _CORE_DEPTHWISE.of(misc)
    words[CnaConv1.number] = mode & ~CnaConv1.CONV_MODE.put(15) | (3 if is_depthwise else 0)
    words[CoreMisc.number] = CoreMisc.DW_EN.put(bool(is_depthwise))
    if is_depthwise:
        words[CnaWeightSize0.number] = words.get(CnaWeightSize1.number, 0)


def _translate_bs(words: dict[int, int], enable_mask: int) -> None:
    config = words.get(DpuBs.number, 0)
    use = RdmaBs.DATA_USE.of(words.get(RdmaBs.number, 0)) if enable_mask & _RDMA_ENABLED else 0
    offset = words.get(_INPUT_OFFSET, 0)
    shift = _SHIFT_FIELD.of(words.get(_SHIFT, 0))
    multiplies = bool(use & 4 or _BS_MULTIPLIES.of(config))
    words[DpuBs.number] = (
        DpuBs.BYPASS.put(config & 1)
        | DpuBs.ALU_BYPASS.put(not (use & 1 or offset))
        | DpuBs.ALU_SRC.put(use & 1)
        | DpuBs.MUL_BYPASS.put(not multiplies)
        | DpuBs.RELU_BYPASS.put(1)
    )
    words[DpuBsAlu.number] = offset
    factor = DpuBsMul.MUL_OPERAND.of(words.get(DpuBsMul.number, 0))
    words[DpuBsMul.number] = (
        DpuBsMul.MUL_SRC.put(use >> 2)
        | DpuBsMul.MUL_SHIFT_VALUE.put(shift)
        | DpuBsMul.MUL_OPERAND.put(factor)
    )
    negative = DpuDataFormat.BS_MUL_SHIFT_VALUE_NEG
    others = DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG
    bn_shift = others.of(words[DpuDataFormat.number])
    # Everything is int8 here.
    words[DpuDataFormat.number] = negative.put(shift) | others.put(bn_shift)
    words[DpuBsOw.number] = DpuBsOw.OW_SRC.put(
        words.get(DpuBsOw.number, 0)
    ) | DpuBsOw.OD_BYPASS.put(not use & 2)
    del words[_SHIFT]


def _translate_bn(words: dict[int, int]) -> None:
    config = words.get(DpuBn.number, 0)
    if config & 1 or config == _BN_RELU_ONLY:
        return
    if config == _BN_ADD_MULTIPLY:
        # (x + a) * m is x * m + a * m.
        factor = DpuBnMul.MUL_OPERAND.signed(words.get(DpuBnMul.number, 0))
        addend = sign_extend(words.get(DpuBnAlu.number, 0), 32)
        words[DpuBnAlu.number] = addend * factor & 0xFFFFFFFF
        words[DpuBn.number] = DpuBn.RELU_BYPASS.put(1)


def _translate_elementwise(words: dict[int, int]) -> None:
    config = words.get(DpuEw.number, 0)
    if DpuEw.BYPASS.of(config):
        words[DpuEw.number] = DpuEw.BYPASS.put(1)
        return
    translated = DpuEw.RELU_BYPASS.put(1)
    if not DpuEw.LUT_BYPASS.of(config):
        translated |= DpuEw.OP_CVT_BYPASS.put(1) | DpuEw.OP_BYPASS.put(1)
    else:
        translated |= DpuEw.LUT_BYPASS.put(1) | DpuEw.OP_SRC.put(1)
        multiplies = DpuEw.OP_TYPE.of(config)
        translated |= DpuEw.OP_TYPE.put(1) if multiplies else DpuEw.ALU_ALGO.put(2)
    words[DpuEw.number] = translated


def _translate_writer(words: dict[int, int]) -> None:
    words[DpuSurfaceAdd.number] = words.get(DpuSurfaceStride.number, 0)
    words[DpuOutScale.number] = words.get(DpuOutScale.number, 0) & 0xFFFF
    words[RdmaFeatureMode.number] = words.get(RdmaFeatureMode.number, 0) & 0x1F
