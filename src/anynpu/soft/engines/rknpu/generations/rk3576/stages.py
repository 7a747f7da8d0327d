"""RK3576's arithmetic stages, and what reads for them, in RK3588's notation."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ......errors import ModelError
from ...elements import Element
from ...layout import ATOM
from ...registers.dpu import (
    DpuBn,
    DpuBnAlu,
    DpuBnMul,
    DpuBs,
    DpuBsAlu,
    DpuBsMul,
    DpuBsOw,
    DpuBsOwOperand,
    DpuDataFormat,
    DpuEw,
    DpuEwConvertOffset,
    DpuEwConvertScale,
    DpuEwOperand,
    DpuOutOffset,
    DpuOutScale,
    DpuOutShift,
)
from ...registers.fields import Field, bits, sign_extend, signed_word
from ...registers.rdma import (
    RdmaBn,
    RdmaBnAddress,
    RdmaBs,
    RdmaBsAddress,
    RdmaChannel,
    RdmaEw,
    RdmaEwAddress,
    RdmaEwSurfaceNotch,
    RdmaEwSurfaceStride,
    RdmaFeatureMode,
    RdmaHeight,
    RdmaSource,
    RdmaSourceDma,
    RdmaSurfaceNotch,
    RdmaWidth,
)
from ...task_registers import half
from ...tasks import Operation
from ..base import Constants, bytes_of_atoms, unknown, unknown_number
from ..limits import HIGHEST, LOWEST, NO_LIMITS, from_order, translate_limits, within
from .operands import ADDS, KNOWN_USE, MULTIPLIES, OFFSETS_WEIGHTS, Operands, read_operands

_BS, _BS_MODE, _BS_CLAMPS = 0x4038, 0x4044, ((0x4048, 0x404C), (0x4058, 0x405C))
_GROUPS = 0x4050
_BN, _BN_CLAMPS = 0x4060, ((0x406C, 0x4070), (0x4074, 0x4078))
_EW, _EW_OFFSET, _EW_SCALE, _EW_FACTOR = 0x407C, 0x4080, 0x4084, 0x4090
_EW_CLAMPS = (0x4088, 0x408C), (0x40A4, 0x40A8)
_OUT_OFFSET, _OUT_SCALE, _OUT_SHIFT = 0x40AC, 0x40B0, 0x40B4
_BS_USE, _BS_NUMBERS, _BN_USE, _BN_NUMBERS = 0x501C, 0x5024, 0x5028, 0x5030
_EW_MODE, _FEATURE_MODE = 0x5034, 0x5044
LINE_NOTCH, EW_LINE_NOTCH = 0x5078, 0x507C

_KEPT = (
    DpuDataFormat,
    RdmaWidth,
    RdmaHeight,
    RdmaChannel,
    RdmaSource,
    RdmaBsAddress,
    RdmaBnAddress,
    RdmaEwAddress,
)
"""Registers at RK3588's places."""

_IN_ATOMS = (RdmaEwSurfaceStride, RdmaSurfaceNotch, RdmaEwSurfaceNotch)
"""The same, but RK3588 counts bytes."""

STAGES_REGISTERS = frozenset(
    {
        *(register.number for register in (*_KEPT, *_IN_ATOMS, RdmaSourceDma)),
        _BS,
        _BS_MODE,
        _GROUPS,
        _BN,
        _EW,
        _EW_OFFSET,
        _EW_SCALE,
        _EW_FACTOR,
        *(number for clamp in (*_BS_CLAMPS, *_BN_CLAMPS, *_EW_CLAMPS) for number in clamp),
        _OUT_OFFSET,
        _OUT_SCALE,
        _OUT_SHIFT,
        _BS_USE,
        _BS_NUMBERS,
        _BN_USE,
        _BN_NUMBERS,
        _EW_MODE,
        _FEATURE_MODE,
        LINE_NOTCH,
        EW_LINE_NOTCH,
    }
)
STAGES_CONSTANTS: Mapping[int, frozenset[int]] = dict.fromkeys(
    (0x403C, 0x4094, 0x409C, 0x40BC, 0x4120, 0x4130, 0x5064), frozenset({0})
)
"""Registers of which files only have these values."""

_RDMA_ENABLED = 1 << 4
_BS_KNOWN = frozenset({0x100012, 0x100092, 0x120080, 0x20040, 0x52})
_BS_PRELU = bits(2)
_ADDS = Operation.ADD.value
_MULTIPLY_SOURCE, _MULTIPLY_BYPASS, _OFFSETS_WEIGHTS = bits(16), bits(17), bits(31)

_BN_ALU_BYPASS, _BN_ALU_SOURCE, _BN_ALGORITHM = bits(1), bits(2), bits(4, 7)
_BN_MUL_BYPASS, _BN_MUL_SOURCE, _BN_PRELU, _BN_SHIFT_BYPASS = bits(8), bits(9), bits(10), bits(11)
_BN_KNOWN = (
    DpuBn.BYPASS.put(1)
    | _BN_ALU_BYPASS.put(1)
    | _BN_ALU_SOURCE.put(1)
    | _BN_ALGORITHM.put(2)
    | _BN_MUL_BYPASS.put(1)
    | _BN_MUL_SOURCE.put(1)
    | _BN_PRELU.put(1)
    | _BN_SHIFT_BYPASS.put(1)
)

_Clamps = tuple[tuple[int, int], tuple[int, int]]
_EW_BYPASS, _EW_CONVERTS, _EW_ROUND = bits(0), bits(31), bits(30)
_EW_LOOK_UP, _EW_ADD_AND_MULTIPLY, _EW_ADD_NUMBER = 0x1004140, 0x2C080, 0x241C0
_EW_WIDE_ADD = {(0x42C1C0, Element.FLOAT32.value), (0x8042C1C0, Element.INT32.value)}
"""The sum of two values of 32 bits, and the precision that it is for."""
_HALF = 0.5
_EW_OPERATIONS = {
    0xC0C0: DpuEw.ALU_ALGO.put(Operation.MAX.value),
    _EW_ADD_AND_MULTIPLY: DpuEw.ALU_ALGO.put(Operation.ADD.value),
    0x2C0C0: DpuEw.ALU_ALGO.put(Operation.ADD.value),
    0x4C0C0: DpuEw.ALU_ALGO.put(Operation.SUBTRACT.value),
    0x1004194: DpuEw.OP_TYPE.put(1),
    0x1004094: DpuEw.OP_TYPE.put(1),
    0x10F4094: DpuEw.OP_TYPE.put(1),
    0x10F4194: DpuEw.OP_TYPE.put(1),
    0x10021C8: DpuEw.ALU_ALGO.put(Operation.DIVIDE.value),
    0x10321C8: DpuEw.ALU_ALGO.put(Operation.DIVIDE.value),
    0x10421C8: DpuEw.ALU_ALGO.put(Operation.DIVIDE.value),
}
"""The configuration of operations with an operand from memory, without the conversion's bit."""

_FEATURE_BITS = ~(bits(1, 4).put(15) | bits(11, 14).put(15) | bits(30).put(1))
_OPERAND_BITS = (
    RdmaEw.DISABLE.put(1)
    | RdmaEw.OV4K_BYPASS.put(1)
    | RdmaEw.DATA_SIZE.put(3)
    | RdmaEw.DATA_MODE.put(3)
)
_COMBINED = 3
_OPERAND_SURFACES, _OPERAND_INERT = bits(28, 29), bits(6)
_KNOWN_SURFACES = (0, 1, 3)
"""How many surfaces of the operand are read at a time, less one."""
_POSITIVE = 0, HIGHEST


def stage_operands(
    words: Mapping[int, int], enable_mask: int, constants: Constants
) -> tuple[Operands, Operands]:
    """The operands of both arithmetic stages."""
    reads = bool(enable_mask & _RDMA_ENABLED)
    stages = ((_BS, _BS_USE, _BS_NUMBERS), (_BN, _BN_USE, _BN_NUMBERS))
    bs, bn = (
        read_operands(0, 0, constants)
        if DpuBs.BYPASS.of(words.get(config, 0))
        else _operands(words, reads, (use, numbers), constants)
        for config, use, numbers in stages
    )
    return bs, bn


def translate_stages(
    words: Mapping[int, int],
    translated: dict[int, int],
    enable_mask: int,
    operands: tuple[Operands, Operands],
) -> None:
    """What comes from memory, both arithmetic stages, the element-wise one, the output's scale."""
    for register in _KEPT:
        translated[register.number] = words.get(register.number, 0)
    _translate_sources(words, translated)
    _translate_format(words, translated, bool(enable_mask & _RDMA_ENABLED))
    _translate_bs(words, translated, operands[0])
    _translate_bn(words, translated, operands[1])
    _translate_elementwise(words, translated)
    translated[DpuOutOffset.number] = words.get(_OUT_OFFSET, 0)
    translated[DpuOutScale.number] = words.get(_OUT_SCALE, 0) & 0xFFFF
    translated[DpuOutShift.number] = _out_shift(words, translated)


def _translate_sources(words: Mapping[int, int], translated: dict[int, int]) -> None:
    for register in _IN_ATOMS:
        translated[register.number] = bytes_of_atoms(words.get(register.number, 0))
    source = words.get(RdmaSourceDma.number, 0)
    if RdmaSourceDma.LINE_NOTCH_ADDR.of(source):
        raise unknown(RdmaSourceDma, source)
    translated[RdmaSourceDma.number] = source
    operand = words.get(_EW_MODE, 0)
    together = _OPERAND_SURFACES.of(operand)
    known = _OPERAND_BITS | _OPERAND_SURFACES.put(together) | _OPERAND_INERT.put(1)
    if operand & ~known or together not in _KNOWN_SURFACES:
        raise unknown(RdmaEw, operand)
    translated[RdmaEw.number] = operand & _OPERAND_BITS
    if together:
        notch = _surface_notch(words, together + 1)
        translated[RdmaEwSurfaceNotch.number] = signed_word(notch * ATOM)
    mode = words.get(_FEATURE_MODE, 0) & _FEATURE_BITS
    if RdmaFeatureMode.COMB_USE.of(mode):
        mode = _combined(mode)
    translated[RdmaFeatureMode.number] = mode


def _out_shift(words: Mapping[int, int], translated: Mapping[int, int]) -> int:
    """The output's shift, and in it the factor that sums are multiplied by."""
    shift = words.get(_OUT_SHIFT, 0)
    if words.get(_EW, 0) != _EW_ADD_AND_MULTIPLY:
        return shift
    factor = half(words.get(_EW_FACTOR, 0))
    mantissa, exponent = math.frexp(factor)
    is_float = DpuDataFormat.PROC_PRECISION.of(translated[DpuDataFormat.number])
    if not is_float or mantissa != _HALF or exponent > 1 or shift:
        raise unknown_number(_EW_FACTOR, words.get(_EW_FACTOR, 0))
    return DpuOutShift.OUT_CVT_SHIFT.put(1 - exponent)


def _combined(mode: int) -> int:
    """Two DMAs for the input's surfaces in turn."""
    if RdmaFeatureMode.COMB_USE.of(mode) not in (
        1,
        _COMBINED,
    ) or not RdmaFeatureMode.FLYING_MODE.of(mode):
        raise unknown(RdmaFeatureMode, mode)
    return mode | RdmaFeatureMode.COMB_USE.put(_COMBINED)


def _surface_notch(words: Mapping[int, int], together: int) -> int:
    """Atoms behind a surface of the operand that is read so many surfaces at a time."""
    height = RdmaHeight.HEIGHT.of(words.get(RdmaHeight.number, 0)) + 1
    width = RdmaWidth.WIDTH.of(words.get(RdmaWidth.number, 0)) + 1
    stride = words.get(RdmaEwSurfaceStride.number, 0)
    notch = words.get(RdmaEwSurfaceNotch.number, 0)
    if height * width + notch != together * stride or words.get(EW_LINE_NOTCH, 0):
        raise unknown_number(RdmaEwSurfaceNotch.number, notch)
    return stride - height * width


def _translate_format(words: Mapping[int, int], translated: dict[int, int], reads: bool) -> None:
    """The input's element is only known to what reads it."""
    formats = translated[DpuDataFormat.number]
    element = DpuDataFormat.PROC_PRECISION.of(formats)
    if reads and RdmaFeatureMode.FLYING_MODE.of(translated[RdmaFeatureMode.number]):
        element = RdmaFeatureMode.IN_PRECISION.of(translated[RdmaFeatureMode.number])
    translated[DpuDataFormat.number] = formats | DpuDataFormat.IN_PRECISION.put(element)


def _translate_bs(words: Mapping[int, int], translated: dict[int, int], operands: Operands) -> None:
    config = words.get(_BS, 0)
    if DpuBs.BYPASS.of(config):
        translated[DpuBs.number] = DpuBs.BYPASS.put(1)
        return
    if config not in _BS_KNOWN:
        raise unknown_number(_BS, config)
    source = operands.of_channels
    groups = words.get(_GROUPS, 0)
    if _MULTIPLY_BYPASS.of(groups) == operands.multiplies or (
        operands.multiplies and _MULTIPLY_SOURCE.of(groups) != MULTIPLIES.of(source)
    ):
        raise unknown_number(_GROUPS, groups)
    translated[RdmaBs.number] = RdmaBs.DATA_USE.put(source)
    translated[DpuBs.number] = (
        DpuBs.ALU_ALGO.put(_ADDS)
        | DpuBs.ALU_BYPASS.put(not operands.adds)
        | DpuBs.ALU_SRC.put(ADDS.of(source))
        | DpuBs.MUL_BYPASS.put(not operands.multiplies)
        | DpuBs.MUL_PRELU.put(_BS_PRELU.of(words.get(_BS_MODE, 0)))
        | _limit(words, translated, _BS_CLAMPS, DpuBs, operands)
    )
    translated[DpuBsAlu.number] = operands.add or 0
    translated[DpuBsMul.number] = _multiplier(operands, DpuBsMul)
    _set_negative_shift(translated, operands, DpuDataFormat.BS_MUL_SHIFT_VALUE_NEG)
    _translate_weight_offset(words, translated, operands)


def _translate_weight_offset(
    words: Mapping[int, int], translated: dict[int, int], operands: Operands
) -> None:
    """Dense weights have one offset or one a kernel; depthwise ones one that the CNA knows."""
    from_memory = OFFSETS_WEIGHTS.of(operands.of_channels)
    number = DpuBsOwOperand.OW_OP.signed(translated.get(DpuBsOwOperand.number, 0))
    if _OFFSETS_WEIGHTS.of(words.get(_GROUPS, 0)):
        number = operands.weight_offset or 0
    elif from_memory or operands.weight_offset:
        raise unknown_number(_GROUPS, words.get(_GROUPS, 0))
    translated[DpuBsOwOperand.number] = DpuBsOwOperand.OW_OP.put_signed(number)
    translated[DpuBsOw.number] = DpuBsOw.OW_SRC.put(from_memory) | DpuBsOw.OD_BYPASS.put(
        not (from_memory or number)
    )


def _translate_bn(words: Mapping[int, int], translated: dict[int, int], operands: Operands) -> None:
    config = words.get(_BN, 0)
    if DpuBn.BYPASS.of(config):
        translated[DpuBn.number] = DpuBn.BYPASS.put(1)
        return
    if config & ~_BN_KNOWN:
        raise unknown_number(_BN, config)
    adds, multiplies = not _BN_ALU_BYPASS.of(config), not _BN_MUL_BYPASS.of(config)
    source = operands.of_channels
    if (
        (adds, multiplies) != (operands.adds, operands.multiplies)
        or (adds and _BN_ALU_SOURCE.of(config) != ADDS.of(source))
        or (multiplies and _BN_MUL_SOURCE.of(config) != MULTIPLIES.of(source))
    ):
        raise unknown_number(_BN, config)
    translated[RdmaBn.number] = RdmaBn.DATA_USE.put(source)
    translated[DpuBn.number] = (
        DpuBn.ALU_ALGO.put(_ADDS)
        | DpuBn.ALU_BYPASS.put(not adds)
        | DpuBn.ALU_SRC.put(ADDS.of(source))
        | DpuBn.MUL_BYPASS.put(not multiplies)
        | DpuBn.MUL_PRELU.put(_BN_PRELU.of(config))
        | _limit(words, translated, _BN_CLAMPS, DpuBn, operands)
    )
    translated[DpuBnAlu.number] = operands.add or 0
    translated[DpuBnMul.number] = _multiplier(operands, DpuBnMul)
    _set_negative_shift(translated, operands, DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG)


def _operands(
    words: Mapping[int, int], reads: bool, numbers: tuple[int, int], constants: Constants
) -> Operands:
    use = words.get(numbers[0], 0) if reads else 0
    if use & ~KNOWN_USE:
        raise unknown_number(numbers[0], use)
    operands = read_operands(use, numbers[1], constants)
    if any(operands.shifts) and not operands.multiplies:
        raise ModelError(f"the register {numbers[0]:#06x} = {use:#x} shifts without a factor")
    return operands


def _multiplier(operands: Operands, register: type[DpuBsMul] | type[DpuBnMul]) -> int:
    return (
        register.MUL_SRC.put(MULTIPLIES.of(operands.of_channels))
        | register.MUL_SHIFT_VALUE.put(operands.shifts[0])
        | register.MUL_OPERAND.put(operands.multiply or 0)
    )


def _set_negative_shift(translated: dict[int, int], operands: Operands, field: Field) -> None:
    translated[DpuDataFormat.number] |= field.put(operands.shifts[1])


def _limit(
    words: Mapping[int, int],
    translated: dict[int, int],
    clamps: _Clamps,
    stage: type[DpuBs] | type[DpuBn],
    operands: Operands,
) -> int:
    """The ReLU bits of a stage, whose values are clamped after adding and after multiplying."""
    is_float = _is_float(translated)
    first, last = (_range(words, clamp) for clamp in clamps)
    first = from_order(first) if is_float else first
    if not operands.multiplies:
        last = within(first, last, is_float=is_float)
    elif first != NO_LIMITS and not first == last == _POSITIVE:
        # Of a product, a limit of what is multiplied was only seen at 0.
        raise unknown_number(clamps[0][0], words.get(clamps[0][0], LOWEST))
    return translate_limits(translated, stage, last, is_float=is_float)


def _range(words: Mapping[int, int], clamp: tuple[int, int]) -> tuple[int, int]:
    return words.get(clamp[0], LOWEST), words.get(clamp[1], HIGHEST)


def _translate_elementwise(words: Mapping[int, int], translated: dict[int, int]) -> None:
    """The table, or an operation with an operand from memory."""
    config = words.get(_EW, 0)
    is_float = _is_float(translated)
    first, last = (_range(words, clamp) for clamp in _EW_CLAMPS)
    if first not in (NO_LIMITS, _POSITIVE):
        raise unknown_number(_EW_CLAMPS[0][0], first[0])
    limits = within(first, last, is_float=is_float)
    unlimited = translate_limits(translated, DpuEw, limits, is_float=is_float)
    from_memory = DpuEw.LUT_BYPASS.put(1) | DpuEw.OP_SRC.put(1)
    converts = _EW_CONVERTS.of(config)
    operation = _EW_OPERATIONS.get(config & ~(_EW_CONVERTS.put(1) | _EW_ROUND.put(1)))
    if (config, DpuDataFormat.PROC_PRECISION.of(translated[DpuDataFormat.number])) in _EW_WIDE_ADD:
        converts, operation = 0, DpuEw.ALU_ALGO.put(Operation.ADD.value)
    if _EW_BYPASS.of(config):
        translated[DpuEw.number] = DpuEw.BYPASS.put(1)
    elif config == _EW_LOOK_UP:
        translated[DpuEw.number] = unlimited | DpuEw.OP_BYPASS.put(1)
    elif config == _EW_ADD_NUMBER and not is_float:
        add = DpuEw.LUT_BYPASS.put(1) | DpuEw.ALU_ALGO.put(Operation.ADD.value)
        translated[DpuEw.number] = add | unlimited
        translated[DpuEwOperand.number] = words.get(_EW_FACTOR, 0)
    elif operation is not None:
        _check_division(config, operation, translated)
        translated[DpuEw.number] = (
            unlimited
            | from_memory
            | operation
            | DpuEw.OP_CVT_BYPASS.put(not converts)
            | DpuEw.CVT_TYPE.put(converts)
            | DpuEw.CVT_ROUND.put(_EW_ROUND.of(config))
        )
    else:
        raise unknown_number(_EW, config)
    offset = sign_extend(words.get(_EW_OFFSET, 0), 16)
    translated[DpuEwConvertOffset.number] = offset & 0xFFFFFFFF
    translated[DpuEwConvertScale.number] = words.get(_EW_SCALE, 0)


def _check_division(config: int, operation: int, translated: Mapping[int, int]) -> None:
    """Refuse a division of whole numbers."""
    divides = DpuEw.ALU_ALGO.of(operation) == Operation.DIVIDE.value
    if divides and not _is_float(translated):
        raise unknown_number(_EW, config)


def _is_float(translated: Mapping[int, int]) -> bool:
    precision = DpuDataFormat.PROC_PRECISION.of(translated[DpuDataFormat.number])
    return Element(precision).is_float
