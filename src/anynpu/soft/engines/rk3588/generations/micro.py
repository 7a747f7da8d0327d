"""RV1103 and RV1106 ("RKNPU t3").

Addresses are absolute in one space, and both arithmetic stages are simpler: what is fetched from
memory is used, and one shift serves all signs. Depthwise weights come with their zero points.
"""

from __future__ import annotations

import numpy as np

from .....errors import ModelError
from ..elements import Element
from ..machine import TaskState
from ..registers import (
    CnaConv1,
    CnaConvert0,
    CnaConvert1,
    CnaConvert2,
    CnaConvert3,
    CnaConvert4,
    CnaDataSize1,
    CnaDma1,
    CnaDma2,
    CnaPad0,
    CnaPad1,
    CnaWeightSize0,
    CnaWeightSize1,
    CnaWeightSize2,
    CoreClip,
    CoreMisc,
    CoreSize0,
    DpuBn,
    DpuBnAlu,
    DpuBnMul,
    DpuBnRelux,
    DpuBs,
    DpuBsAlu,
    DpuBsMul,
    DpuBsOw,
    DpuBsOwOperand,
    DpuBsRelux,
    DpuDataFormat,
    DpuEw,
    DpuFeatureMode,
    DpuHeight,
    DpuOutScale,
    DpuWidth,
    RdmaBs,
    RdmaFeatureMode,
    Register,
    bits,
    sign_extend,
)
from ..tasks import InputConversion, Operation
from ..view import TaskRegisters, half
from .base import Generation, Groups

_CORE_ENABLED, _RDMA_ENABLED = 1 << 2, 1 << 4
_FC_SKIP, _SKIPS_ZEROS = 0x1060, 0xFFFF0001
_INPUT_OFFSET = 0x4018
_SHIFT = 0x4054
_SHIFT_FIELD = bits(24, 29)
_PAD_LEFT = bits(8, 11)
_CORE_DEPTHWISE = bits(3)
_BS_MULTIPLIES = bits(9)
_BS_KNOWN = frozenset({0x100012, 0x100212, 0x101C92, 0x20040, 0x20140, 0x120180, 0x121D80})
_BN_PASS, _BN_ADD_MULTIPLY = 0x12, 0x20000
_OPERANDS = DpuBsOw.OW_SRC.put(1) | DpuBsOw.OD_BYPASS.put(1)
_WRITERS_KNOWN = frozenset({0, 0x124, 0x100000, 0x10000000, 0x30000000, 0x30000124, 0x70000124})
"""DPU_BS_OW_CFG of writers that fill channel blocks."""

_TRANSPOSES_BYTES, _TRANSPOSES_ATOMS = 0x2007FC, 0x80007FC
"""The same of writers that turn lanes into pixels, and that reorder pixels."""

_WEIGHT_OFFSET = bits(0, 15)
_HAS_WEIGHT_OFFSET = bits(31)
_SECOND = bits(0, 15)
_FIRST = bits(16, 31)
_KNOWN_FEATURE_MODE = 0x3FFFF
_TWO_BYTES, _TWO_BYTES_OF_RK3588 = 2, 3

_EW_LOOK_UP, _EW_DIVIDE = 0x4140, 0x810421C8
_EW_OPERATIONS = {
    0x0004C0C0: DpuEw.ALU_ALGO.put(Operation.SUBTRACT.value),
    0x8002C0C0: DpuEw.ALU_ALGO.put(Operation.ADD.value),
    0x81004094: DpuEw.OP_TYPE.put(1),
    _EW_DIVIDE: DpuEw.ALU_ALGO.put(Operation.DIVIDE.value),
}
"""DPU_EW_CFG of operations with an operand from memory."""

_EW_WITHOUT_OPERATOR = 1 << 24
_CLIP_ROUND = 1 << 5


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
    wide_transposer = 16
    has_scalar_operands = True
    works_without_core = True

    def translate(self, state: TaskState) -> dict[int, int]:
        words = dict(state.words)
        if CnaConv1.number in words:
            _translate_convolution(words)
            if not state.enable_mask & _CORE_ENABLED:
                _translate_bare_convolution(words)
        if DpuDataFormat.number in words:
            _translate_precisions(words)
            _translate_bs(words, state.enable_mask)
            _translate_bn(words)
            _translate_elementwise(words)
            _translate_writer(words)
        return words

    def feature_strides(self, task: TaskRegisters, width: int) -> tuple[int, int]:
        return task[CnaDma1.LINE_STRIDE] * 4, task[CnaDma2.SURF_STRIDE] * self.atom

    def input_conversion(self, task: TaskRegisters) -> InputConversion | None:
        # Two scales a register, then offsets that are shifted as well. Unsigned data are pictures
        # as bytes, which come here quantised.
        if not task[CnaConvert0.DATA_SIGN]:
            return None
        pairs = [task.word(register) for register in (CnaConvert1, CnaConvert2)]
        offsets = [task.stride(register) for register in (CnaConvert3, CnaConvert4)]
        if task[CnaConvert0.CVT_TYPE] or offsets[0] != offsets[1]:
            raise task.error(CnaConvert0, "the conversion is not known")
        first, second = pairs
        return InputConversion(
            False,
            (offsets[0],) * 4,
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
        )

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
    if CoreClip.number in words:
        # No difference was seen between files that set it and others.
        words[CoreClip.number] &= ~_CLIP_ROUND
    if is_depthwise:
        words[CnaWeightSize0.number] = words.get(CnaWeightSize1.number, 0)


def _translate_bare_convolution(words: dict[int, int]) -> None:
    """Without the CORE block its size is the DPU's, and skipping zeros changes no sum."""
    words[CoreSize0.number] = CoreSize0.DATAOUT_HEIGHT.put(
        words.get(DpuHeight.number, 0)
    ) | CoreSize0.DATAOUT_WIDTH.put(words.get(DpuWidth.number, 0))
    if words.get(_FC_SKIP) == _SKIPS_ZEROS:
        del words[_FC_SKIP]
    # Weights lie channel by channel, all kernels side by side; there may be fewer than the input.
    kernels = max(1, CnaWeightSize2.WEIGHT_KERNELS.of(words.get(CnaWeightSize2.number, 0)))
    size = words.get(CnaWeightSize0.number, 0) // kernels
    words[CnaWeightSize1.number] = size
    channels = CnaDataSize1.DATAIN_CHANNEL.of(words.get(CnaDataSize1.number, 0))
    channels = min(channels, size // Element.FLOAT16.size)
    words[CnaDataSize1.number] = CnaDataSize1.DATAIN_CHANNEL.put(
        channels
    ) | CnaDataSize1.DATAIN_CHANNEL_REAL.put(channels - 1)


def _translate_bs(words: dict[int, int], enable_mask: int) -> None:
    config = words.get(DpuBs.number, 0)
    is_active = not DpuBs.BYPASS.of(config)
    if is_active and config not in _BS_KNOWN:
        raise _unknown(DpuBs, config)
    use = RdmaBs.DATA_USE.of(words.get(RdmaBs.number, 0)) if enable_mask & _RDMA_ENABLED else 0
    offset, shifts = words.pop(_INPUT_OFFSET, 0), words.pop(_SHIFT, 0)
    factor = DpuBsMul.MUL_OPERAND.of(words.get(DpuBsMul.number, 0))
    multiplies = use & 4 or _BS_MULTIPLIES.of(config) or (_is_float(words) and factor)
    words[DpuBs.number] = (
        DpuBs.BYPASS.put(not is_active)
        | DpuBs.ALU_BYPASS.put(not (use & 1 or offset))
        | DpuBs.ALU_SRC.put(use & 1)
        | DpuBs.MUL_BYPASS.put(not multiplies)
        | _clamp(words, _BS_CLAMP, DpuBs, DpuBsRelux)
    )
    words[DpuBsAlu.number] = offset
    shift = _SHIFT_FIELD.of(shifts)
    words[DpuBsMul.number] = (
        DpuBsMul.MUL_SRC.put(use >> 2)
        | DpuBsMul.MUL_SHIFT_VALUE.put(shift)
        | DpuBsMul.MUL_OPERAND.put(factor)
    )
    negative = DpuDataFormat.BS_MUL_SHIFT_VALUE_NEG
    formats = words[DpuDataFormat.number]
    words[DpuDataFormat.number] = formats & ~negative.put(negative.mask) | negative.put(shift)
    _translate_weight_offset(words, use, shifts)


def _translate_weight_offset(words: dict[int, int], use: int, shifts: int) -> None:
    from_memory = bool(use & 2)
    number = _WEIGHT_OFFSET.of(shifts) if _HAS_WEIGHT_OFFSET.of(shifts) else 0
    words[DpuBsOwOperand.number] = DpuBsOwOperand.OW_OP.put(number)
    kind = words.get(DpuBsOw.number, 0) & ~_OPERANDS
    if kind not in {*_WRITERS_KNOWN, _TRANSPOSES_BYTES, _TRANSPOSES_ATOMS}:
        raise _unknown(DpuBsOw, words.get(DpuBsOw.number, 0))
    words[DpuBsOw.number] = (
        DpuBsOw.OW_SRC.put(from_memory)
        | DpuBsOw.OD_BYPASS.put(not (from_memory or number))
        | DpuBsOw.SIZE_E_0.put(DpuBsOw.SIZE_E_0.of(kind))
        | DpuBsOw.TP_ORG_EN.put(kind in (_TRANSPOSES_BYTES, _TRANSPOSES_ATOMS))
    )


def _is_float(words: dict[int, int]) -> bool:
    return DpuDataFormat.PROC_PRECISION.of(words[DpuDataFormat.number]) == Element.FLOAT16.value


def _translate_precisions(words: dict[int, int]) -> None:
    """The input's element is RDMA's; the DPU repeats something else at its place."""
    mode = words.get(RdmaFeatureMode.number, 0) & _KNOWN_FEATURE_MODE
    words[RdmaFeatureMode.number] = mode
    formats = words[DpuDataFormat.number]
    shift = DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG
    words[DpuDataFormat.number] = (
        DpuDataFormat.PROC_PRECISION.put(formats)
        | DpuDataFormat.OUT_PRECISION.put(DpuDataFormat.OUT_PRECISION.of(formats))
        | DpuDataFormat.IN_PRECISION.put(RdmaFeatureMode.IN_PRECISION.of(mode))
        | shift.put(shift.of(formats))
    )


def _translate_bn(words: dict[int, int]) -> None:
    config = words.get(DpuBn.number, 0)
    limits = _clamp(words, _BN_CLAMP, DpuBn, DpuBnRelux)
    if DpuBn.BYPASS.of(config):
        words[DpuBn.number] = DpuBn.BYPASS.put(1)
    elif config == _BN_PASS:
        words[DpuBn.number] = config | limits
    elif config == _BN_ADD_MULTIPLY:
        # (x + a) * m is x * m + a * m.
        words[DpuBnAlu.number] = _multiplied_addend(words)
        words[DpuBn.number] = limits
    else:
        raise _unknown(DpuBn, config)


def _multiplied_addend(words: dict[int, int]) -> int:
    operand, factor = words.get(DpuBnAlu.number, 0), words.get(DpuBnMul.number, 0)
    if _is_float(words):
        addend = np.uint32(operand).view(np.float32)
        product = addend * np.float32(half(DpuBnMul.MUL_OPERAND.of(factor)))
        return int(np.float32(product).view(np.uint32))
    whole = sign_extend(operand, 32) * DpuBnMul.MUL_OPERAND.signed(factor)
    if sign_extend(whole, 32) != whole:
        raise ModelError(f"{DpuBnAlu.title}: {whole} doesn't fit into 32 bits")
    return whole & 0xFFFFFFFF


def _clamp(
    words: dict[int, int],
    numbers: tuple[int, int],
    stage: type[DpuBs] | type[DpuBn],
    limit: type[DpuBsRelux] | type[DpuBnRelux],
) -> int:
    """The ReLU bits of a stage's configuration for the least and the greatest value it gives."""
    lowest = sign_extend(words.pop(numbers[0], 1 << 31), 32)
    highest = sign_extend(words.pop(numbers[1], _HIGHEST), 32)
    if lowest == _LOWEST and highest == _HIGHEST:
        return stage.RELU_BYPASS.put(1)
    if lowest:
        raise ModelError(f"the register {numbers[0]:#06x} clamps at {lowest}, which is not known")
    words[limit.number] = highest
    return stage.RELUX_EN.put(highest != _HIGHEST)


def _translate_elementwise(words: dict[int, int]) -> None:
    config = words.get(DpuEw.number, 0)
    limits = (words.pop(_EW_CLAMP[0], 1 << 31), words.pop(_EW_CLAMP[1], _HIGHEST))
    inactive = DpuEw.RELU_BYPASS.put(1)
    from_memory = DpuEw.LUT_BYPASS.put(1) | DpuEw.OP_SRC.put(1)
    if DpuEw.BYPASS.of(config):
        translated = DpuEw.BYPASS.put(1)
    elif config & ~_EW_WITHOUT_OPERATOR == _EW_LOOK_UP:
        translated = inactive | DpuEw.OP_BYPASS.put(1) | DpuEw.OP_CVT_BYPASS.put(1)
    elif config in _EW_OPERATIONS:
        if config == _EW_DIVIDE:
            _treat_as_float16(words)
        translated = inactive | from_memory | _EW_OPERATIONS[config]
    else:
        raise _unknown(DpuEw, config)
    if limits != (1 << 31, _HIGHEST):
        raise ModelError(f"the registers {_EW_CLAMP[0]:#06x}... clamp, which is not known")
    words[DpuEw.number] = translated


def _treat_as_float16(words: dict[int, int]) -> None:
    """Division only says "16 bits" where RK3588 says that arithmetic is in float16."""
    precision = DpuDataFormat.PROC_PRECISION
    formats = words[DpuDataFormat.number]
    if precision.of(formats) == Element.INT16.value:
        words[DpuDataFormat.number] = formats & ~precision.mask | Element.FLOAT16.value


def _unknown(register: type[Register], value: int) -> ModelError:
    return ModelError(
        f"register {register.title} ({register.number:#06x}) = {value:#x} is not known"
    )


def _translate_writer(words: dict[int, int]) -> None:
    mode = words.get(DpuFeatureMode.number, 0)
    if DpuFeatureMode.TP_EN.of(mode) and DpuFeatureMode.NONALIGN.of(mode):
        # The first two bytes of every atom, side by side, whatever the order of equal ones.
        if DpuFeatureMode.RGP_TYPE.of(mode) != _TWO_BYTES:
            raise _unknown(DpuFeatureMode, mode)
        mode &= ~(DpuFeatureMode.TP_EN.put(1) | DpuFeatureMode.RGP_TYPE.put(15))
        words[DpuFeatureMode.number] = mode | DpuFeatureMode.RGP_TYPE.put(_TWO_BYTES_OF_RK3588)
    # Bit 20 is set where atoms are only moved or looked up; it changes nothing.
    words[DpuWidth.number] = words.get(DpuWidth.number, 0) & ~(1 << 20)
    words[DpuOutScale.number] = words.get(DpuOutScale.number, 0) & 0xFFFF
