"""RV1106's arithmetic stages in RK3588's notation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ......errors import ModelError
from ...elements import Element
from ...registers.core import CoreMisc
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
)
from ...registers.fields import bits, sign_extend
from ...registers.rdma import RdmaBs, RdmaFeatureMode
from ...task_registers import half
from ...tasks import Operation
from ..base import unknown
from ..limits import HIGHEST, LOWEST, Limited, translate_limits

_RDMA_ENABLED = 1 << 4
INPUT_OFFSET = 0x4018
"""What BS adds where nothing is fetched from memory."""

_SHIFT = 0x4054
_SHIFT_NEGATIVE = bits(24, 29)
_SHIFT_POSITIVE = bits(9, 14)
"""Of DPU_BS_CFG: by how many bits products that aren't negative are shifted."""

_BS_KNOWN = frozenset(
    {0x52, 0x100012, 0x100092, 0x20040, 0x20140, 0x100080, 0x120100, 0x120180, 0x100180}
)
"""DPU_BS_CFG without the shift."""

_OPERANDS_IN_MEMORY, _WITHOUT_PRODUCT = 1 << 0, 1 << 1
_OPERANDS = _OPERANDS_IN_MEMORY | _WITHOUT_PRODUCT
_SIZE_E = (bits(2, 4), bits(5, 7), bits(8, 10))
_PACKS = 1 << 20
_INERT_WRITER_BITS = 7 << 28
_TRANSPOSES_LANES, TRANSPOSES_ATOMS = 1 << 21, 1 << 27
"""DPU_BS_OW_CFG of writers that turn lanes into pixels, and that reorder pixels."""

_BN_KNOWN_BITS = (
    DpuBn.ALU_BYPASS.put(1)
    | DpuBn.MUL_BYPASS.put(1)
    | DpuBn.MUL_PRELU.put(1)
    | DpuBn.ALU_SRC.put(1)
    | DpuBn.ALU_ALGO.put(15)
)
_CORE_OFFSET = 0x1074
"""What the CORE adds to all weights, where they come without zero points."""

_WEIGHT_OFFSET = bits(0, 15)
_HAS_WEIGHT_OFFSET = bits(31)
_KNOWN_FEATURE_MODE = 0x3FFFF
_EW_LOOK_UP, _EW_DIVIDE, _EW_WIDE_ADD = 0x4140, 0x810421C8, 0x8042C1C0
_EW_OPERATIONS = {
    0x8000C0C0: DpuEw.ALU_ALGO.put(Operation.MAX.value),
    0x0004C0C0: DpuEw.ALU_ALGO.put(Operation.SUBTRACT.value),
    0x8002C0C0: DpuEw.ALU_ALGO.put(Operation.ADD.value),
    0x81004094: DpuEw.OP_TYPE.put(1),
    _EW_DIVIDE: DpuEw.ALU_ALGO.put(Operation.DIVIDE.value),
}
"""DPU_EW_CFG of operations with an operand from memory."""

_EW_WITHOUT_OPERATOR = 1 << 24
_EW_CONVERSION = DpuEw.CVT_ROUND.put(1) | DpuEw.CVT_TYPE.put(1)
BS_CLAMP, BN_CLAMP, EW_CLAMP = (0x40D8, 0x40DC), (0x40E0, 0x40E4), (0x40E8, 0x40EC)
"""The least and the greatest value that leaves a stage."""


def translate_bs(words: dict[int, int], enable_mask: int) -> None:
    """The first stage, and with it what is added to weights."""
    config = words.get(DpuBs.number, 0)
    is_active = not DpuBs.BYPASS.of(config)
    positive = _SHIFT_POSITIVE.of(config)
    if is_active and config & ~_SHIFT_POSITIVE.put(_SHIFT_POSITIVE.mask) not in _BS_KNOWN:
        raise unknown(DpuBs, config)
    use = RdmaBs.DATA_USE.of(words.get(RdmaBs.number, 0)) if enable_mask & _RDMA_ENABLED else 0
    offset, shifts = words.pop(INPUT_OFFSET, 0), words.pop(_SHIFT, 0)
    factor = DpuBsMul.MUL_OPERAND.of(words.get(DpuBsMul.number, 0))
    has_product = not words.get(DpuBsOw.number, 0) & _WITHOUT_PRODUCT
    multiplies = use & 4 or has_product or (_is_float(words) and factor)
    words[DpuBs.number] = (
        DpuBs.BYPASS.put(not is_active)
        | DpuBs.ALU_BYPASS.put(not (use & 1 or offset))
        | DpuBs.ALU_ALGO.put(Operation.ADD.value)
        | DpuBs.ALU_SRC.put(use & 1)
        | DpuBs.MUL_BYPASS.put(not multiplies)
        | _limit(words, BS_CLAMP, DpuBs)
    )
    words[DpuBsAlu.number] = offset
    negative_shift = _SHIFT_NEGATIVE.of(shifts)
    words[DpuBsMul.number] = (
        DpuBsMul.MUL_SRC.put(use >> 2)
        | DpuBsMul.MUL_SHIFT_VALUE.put(positive)
        | DpuBsMul.MUL_OPERAND.put(factor)
    )
    field = DpuDataFormat.BS_MUL_SHIFT_VALUE_NEG
    formats = words[DpuDataFormat.number] & ~field.put(field.mask)
    words[DpuDataFormat.number] = formats | field.put(negative_shift)
    _translate_weight_offset(words, use, shifts)


def _translate_weight_offset(words: dict[int, int], use: int, shifts: int) -> None:
    from_memory = bool(use & 2)
    number = _WEIGHT_OFFSET.of(shifts) if _HAS_WEIGHT_OFFSET.of(shifts) else 0
    if number in (0, words.get(_CORE_OFFSET)) and CoreMisc.number in words:
        # `put` refuses what isn't one number of 16 bits.
        number = words.pop(_CORE_OFFSET, 0)
    words[DpuBsOwOperand.number] = DpuBsOwOperand.OW_OP.put(number)
    words[DpuBsOw.number] = (
        DpuBsOw.OW_SRC.put(from_memory)
        | DpuBsOw.OD_BYPASS.put(not (from_memory or number))
        | _translated_writer(words.get(DpuBsOw.number, 0))
    )


def _translated_writer(config: int) -> int:
    """How atoms are written, in RK3588's bits of the same register."""
    sizes = {field.of(config) for field in _SIZE_E}
    kind = config & ~(_OPERANDS | _INERT_WRITER_BITS | _PACKS)
    for field in _SIZE_E:
        kind &= ~field.put(field.mask)
    if len(sizes) > 1 or kind not in (0, _TRANSPOSES_LANES, TRANSPOSES_ATOMS):
        raise unknown(DpuBsOw, config)
    return DpuBsOw.SIZE_E_0.put(sizes.pop()) | DpuBsOw.TP_ORG_EN.put(kind != 0)


def _is_float(words: dict[int, int]) -> bool:
    return DpuDataFormat.PROC_PRECISION.of(words[DpuDataFormat.number]) == Element.FLOAT16.value


def translate_precisions(words: dict[int, int]) -> None:
    """The input's element is RDMA's; the DPU repeats something else at its place."""
    mode = words.get(RdmaFeatureMode.number, 0) & _KNOWN_FEATURE_MODE
    words[RdmaFeatureMode.number] = mode
    formats = words[DpuDataFormat.number]
    shift = DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG
    words[DpuDataFormat.number] = (
        DpuDataFormat.PROC_PRECISION.put(DpuDataFormat.PROC_PRECISION.of(formats))
        | DpuDataFormat.OUT_PRECISION.put(DpuDataFormat.OUT_PRECISION.of(formats))
        | DpuDataFormat.IN_PRECISION.put(RdmaFeatureMode.IN_PRECISION.of(mode))
        | shift.put(shift.of(formats))
    )


def translate_bn(words: dict[int, int]) -> None:
    """The second stage."""
    config = words.get(DpuBn.number, 0)
    limits = _limit(words, BN_CLAMP, DpuBn)
    if DpuBn.BYPASS.of(config):
        words[DpuBn.number] = DpuBn.BYPASS.put(1)
        return
    if config & ~_BN_KNOWN_BITS:
        raise unknown(DpuBn, config)
    adds, multiplies = not DpuBn.ALU_BYPASS.of(config), not DpuBn.MUL_BYPASS.of(config)
    if adds and multiplies:
        # Adding comes first here: (x + a) * m is x * m + a * m.
        if config != DpuBn.ALU_ALGO.put(Operation.ADD.value):
            raise unknown(DpuBn, config)
        words[DpuBnAlu.number] = _multiplied_addend(words)
    words[DpuBn.number] = config | limits


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


def _limit(words: dict[int, int], numbers: tuple[int, int], stage: Limited) -> int:
    """The ReLU bits of a stage's configuration for the least and the greatest value it gives."""
    limits = words.pop(numbers[0], LOWEST), words.pop(numbers[1], HIGHEST)
    return translate_limits(words, stage, limits, is_float=_is_float(words))


def translate_elementwise(words: dict[int, int]) -> None:
    """The third stage."""
    config = words.get(DpuEw.number, 0)
    limits = _limit(words, EW_CLAMP, DpuEw)
    from_memory = DpuEw.LUT_BYPASS.put(1) | DpuEw.OP_SRC.put(1)
    if DpuEw.BYPASS.of(config):
        translated = DpuEw.BYPASS.put(1)
    elif config & ~_EW_WITHOUT_OPERATOR == _EW_LOOK_UP:
        translated = limits | DpuEw.OP_BYPASS.put(1) | DpuEw.OP_CVT_BYPASS.put(1)
    elif config & ~DpuEw.CVT_ROUND.put(1) in _EW_OPERATIONS:
        if config == _EW_DIVIDE:
            _treat_as_float16(words)
        operation = _EW_OPERATIONS[config & ~DpuEw.CVT_ROUND.put(1)]
        translated = limits | from_memory | operation | config & _EW_CONVERSION
    elif config == _EW_WIDE_ADD and _computes_in(words, Element.INT32):
        translated = limits | from_memory | DpuEw.ALU_ALGO.put(Operation.ADD.value)
        translated |= DpuEw.OP_CVT_BYPASS.put(1)
    else:
        raise unknown(DpuEw, config)
    if translated & DpuEw.BYPASS.put(1) and limits != DpuEw.RELU_BYPASS.put(1):
        raise ModelError(f"the registers {EW_CLAMP[0]:#06x}... clamp, which is not known")
    words[DpuEw.number] = translated


def _computes_in(words: Mapping[int, int], element: Element) -> bool:
    return DpuDataFormat.PROC_PRECISION.of(words[DpuDataFormat.number]) == element.value


def _treat_as_float16(words: dict[int, int]) -> None:
    """Division only says "16 bits" where RK3588 says that arithmetic is in float16."""
    precision = DpuDataFormat.PROC_PRECISION
    formats = words[DpuDataFormat.number]
    if precision.of(formats) == Element.INT16.value:
        words[DpuDataFormat.number] = formats & ~precision.mask | Element.FLOAT16.value
