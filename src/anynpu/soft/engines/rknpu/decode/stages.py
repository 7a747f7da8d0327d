"""The DPU: its two arithmetic stages, the element-wise stage, the table, the output conversion."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..elements import Element
from ..interning import shared
from ..registers.dpu import (
    DpuBn,
    DpuBnAlu,
    DpuBnLowest,
    DpuBnMul,
    DpuBnRelux,
    DpuBs,
    DpuBsAlu,
    DpuBsLowest,
    DpuBsMul,
    DpuBsOw,
    DpuBsOwOperand,
    DpuBsRelux,
    DpuDataFormat,
    DpuEw,
    DpuEwConvertOffset,
    DpuEwConvertScale,
    DpuEwLowest,
    DpuEwOperand,
    DpuEwRelux,
    DpuHeight,
    DpuLutInfo,
    DpuLutLeScale,
    DpuLutLeShift,
    DpuLutLeStart,
    DpuLutLoEnd,
    DpuLutLoScale,
    DpuLutLoShift,
    DpuLutLoStart,
    DpuOutOffset,
    DpuOutScale,
    DpuOutShift,
)
from ..registers.fields import Field, Register
from ..registers.ppu import PpuReciprocalHeight, PpuReciprocalWidth
from ..registers.rdma import RdmaBn, RdmaBnAddress, RdmaBs, RdmaBsAddress
from ..rounding import Ties
from ..task_registers import TaskRegisters, bfloat, half
from ..tasks import (
    Dpu,
    Elementwise,
    Features,
    LookupTable,
    OperandConversion,
    Operation,
    Output,
    Stage,
)
from ..weights import Operand, OperandBlock
from .context import Context
from .operand import COLUMNS, decode_columns, decode_operand

RDMA_ENABLED, PPU_ENABLED = 1 << 4, 1 << 5
_MAXIMUM, _SUBTRACT = 0, 4
_NO_LIMIT = -(1 << 31)
_LARGEST_SHIFT = 47
"""What is more leaves nothing of 32 bits times 16."""
_Parts = dict[str, Operand]


@dataclass(frozen=True)
class _StageRegisters:
    """The two stages have the same registers at two places."""

    config: type[DpuBs] | type[DpuBn]
    alu: type[DpuBsAlu] | type[DpuBnAlu]
    mul: type[DpuBsMul] | type[DpuBnMul]
    relux: type[DpuBsRelux] | type[DpuBnRelux]
    lowest: type[DpuBsLowest] | type[DpuBnLowest]
    negative_shift: Field
    multiply_first: bool


_BS = _StageRegisters(
    DpuBs, DpuBsAlu, DpuBsMul, DpuBsRelux, DpuBsLowest, DpuDataFormat.BS_MUL_SHIFT_VALUE_NEG, False
)
_BN = _StageRegisters(
    DpuBn, DpuBnAlu, DpuBnMul, DpuBnRelux, DpuBnLowest, DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG, True
)
_BN_THAT_ADDS_FIRST = replace(_BN, multiply_first=False)


def decode_dpu(
    task: TaskRegisters,
    context: Context,
    shape: tuple[int, int, int],
    is_float: bool,
    parts: _Parts,
) -> Dpu:
    """The stages for values of a shape (C, H, W); `parts` is BS's operand block."""
    bn_parts = _bn_operands(task, context, shape[0], is_float)
    bn = _BN_THAT_ADDS_FIRST if context.generation.bn_adds_first else _BN
    maximum = _maximum(task, context, shape[0], is_float)
    reduction = task[DpuHeight.MINMAX_CTL]
    return Dpu(
        is_float,
        _stage(task, _BS, is_float, parts),
        None if maximum else _stage(task, bn, is_float, bn_parts),
        maximum or _elementwise(task, context, shape, is_float),
        ("max" if reduction & 2 else "min") if reduction & 1 else None,
        _output(task, is_float),
    )


def bs_operands(task: TaskRegisters, context: Context, channels: int, is_float: bool) -> _Parts:
    """The per-channel operands of BS that memory holds, by name."""
    use = task[RdmaBs.DATA_USE] if task.state.enable_mask & RDMA_ENABLED else 0
    if not use or task[DpuBs.BYPASS]:
        return {}
    block = OperandBlock(use, channels, is_float, context.generation.operand_group)
    return context.operands(task.address(RdmaBsAddress), block)


def decode_weight_offset(task: TaskRegisters, is_float: bool, parts: _Parts) -> Operand | None:
    """What BS adds to every weight of a kernel."""
    if is_float or task[DpuBs.BYPASS] or task[DpuBsOw.OD_BYPASS]:
        return None
    if not task[DpuBsOw.OW_SRC]:
        return task.signed(DpuBsOwOperand.OW_OP) or None
    offsets = parts.get("weight_offset")
    if isinstance(offsets, np.ndarray) and not offsets.any():
        return None
    return offsets


def _bn_operands(task: TaskRegisters, context: Context, channels: int, is_float: bool) -> _Parts:
    use = task[RdmaBn.DATA_USE] if task.state.enable_mask & RDMA_ENABLED else 0
    if not use or task[DpuBn.BYPASS]:
        return {}
    block = OperandBlock(use, channels, is_float, context.generation.operand_group)
    return context.operands(task.address(RdmaBnAddress), block)


def _maximum(
    task: TaskRegisters, context: Context, channels: int, is_float: bool
) -> Elementwise | None:
    """The greater of a value and BN's operand: what the third stage has an operation for."""
    if task[DpuBn.BYPASS] or task[DpuBn.ALU_BYPASS] or task[DpuBn.ALU_ALGO] != _MAXIMUM:
        return None
    if not (task[DpuBn.MUL_BYPASS] and task[DpuBn.RELU_BYPASS] and task[DpuEw.BYPASS]):
        raise task.error(DpuBn.ALU_ALGO, "a maximum is only known alone")
    operand: float | Features = _number(task, DpuBnAlu, is_float)
    if task[DpuBn.ALU_SRC]:
        if task[RdmaBn.DATA_USE] != 1:
            raise task.error(RdmaBn.DATA_USE, "a maximum takes one number a channel")
        element = Element.FLOAT32 if is_float else Element.INT32
        atom = context.generation.atom_of(element)
        operand = context.check_features(
            Features(task.address(RdmaBnAddress), element, channels, 1, 1, atom, atom, atom)
        )
    return Elementwise(None, Operation.MAX, operand, None, 0, False, None)


def _stage(
    task: TaskRegisters, registers: _StageRegisters, is_float: bool, parts: _Parts
) -> Stage | None:
    config, mul = registers.config, registers.mul
    if task[config.BYPASS]:
        return None
    multiply = _factor(task, registers, is_float, parts)
    shifts = not is_float and multiply is not None
    for field in (mul.MUL_SHIFT_VALUE, registers.negative_shift):
        if shifts and task[field] > _LARGEST_SHIFT:
            # Seen where a scale is too large for the factor, which is 0 then.
            raise task.error(field, "a negative number that the compiler cut")
    has_limit = not task[config.RELU_BYPASS] and task[config.RELUX_EN]
    return Stage(
        _addend(task, registers, is_float, parts),
        task[config.ALU_ALGO] == _SUBTRACT,
        multiply,
        registers.multiply_first,
        multiply is not None and bool(task[config.MUL_PRELU]),
        task[mul.MUL_SHIFT_VALUE] if shifts else 0,
        task[registers.negative_shift] if shifts else 0,
        not task[config.RELU_BYPASS],
        _number(task, registers.relux, is_float) if has_limit else None,
        _lowest(task, registers.lowest, is_float),
    )


def _addend(
    task: TaskRegisters, registers: _StageRegisters, is_float: bool, parts: _Parts
) -> Operand | None:
    config = registers.config
    if task[config.ALU_BYPASS]:
        return None
    if task[config.ALU_ALGO] == _MAXIMUM:
        raise task.error(config.ALU_ALGO, "a maximum is not known here")
    if not task[config.ALU_SRC]:
        return _number(task, registers.alu, is_float)
    if "add" not in parts:
        raise task.error(config.ALU_SRC, "there is no block of operands in memory")
    return parts["add"]


def _factor(
    task: TaskRegisters, registers: _StageRegisters, is_float: bool, parts: _Parts
) -> Operand | None:
    if task[registers.config.MUL_BYPASS]:
        return None
    if task[registers.mul.MUL_SRC]:
        if "multiply" not in parts:
            raise task.error(registers.mul.MUL_SRC, "there is no block of operands in memory")
        return parts["multiply"]
    field = registers.mul.MUL_OPERAND
    if not is_float:
        return task.signed(field)
    is_bfloat = task[DpuDataFormat.PROC_PRECISION] == Element.BFLOAT16.value
    return bfloat(task[field]) if is_bfloat else half(task[field])


def _number(task: TaskRegisters, register: type[Register], is_float: bool) -> float:
    """A whole register as the value it stands for: float32, or an integer."""
    return task.single(register) if is_float else task.stride(register)


def _lowest(task: TaskRegisters, register: type[Register], is_float: bool) -> float:
    """What values are kept above, a whole register; the least number of 32 bits is no limit."""
    if task.stride(register) == _NO_LIMIT:
        return -math.inf if is_float else float(_NO_LIMIT)
    return _number(task, register, is_float)


def _elementwise(
    task: TaskRegisters, context: Context, shape: tuple[int, int, int], is_float: bool
) -> Elementwise | None:
    if task[DpuEw.BYPASS]:
        return None
    operation = operand = conversion = None
    if not task[DpuEw.OP_BYPASS]:
        operation = _operation(task)
        operand = _operand(task, context, shape, is_float)
        if isinstance(operand, Features) and not is_float and not task[DpuEw.OP_CVT_BYPASS]:
            conversion = _operand_conversion(task)
    has_product = operation in (Operation.MULTIPLY, Operation.PRELU) and not is_float
    has_limit = not task[DpuEw.RELU_BYPASS] and task[DpuEw.RELUX_EN]
    return Elementwise(
        None if task[DpuEw.LUT_BYPASS] else _table(task),
        operation,
        operand,
        conversion,
        task[DpuEwConvertScale.TRUNCATE] if has_product else 0,
        not task[DpuEw.RELU_BYPASS],
        _number(task, DpuEwRelux, is_float) if has_limit else None,
        _lowest(task, DpuEwLowest, is_float),
    )


def _operand_conversion(task: TaskRegisters) -> OperandConversion:
    offset = task.signed(DpuEwConvertOffset.OP_CVT_OFFSET)
    if offset and not task[DpuEw.CVT_TYPE]:
        raise task.error(DpuEw.CVT_TYPE, "where an offset is added after the scale is not known")
    return OperandConversion(
        offset,
        task.signed(DpuEwConvertScale.OP_CVT_SCALE),
        task[DpuEwConvertScale.OP_CVT_SHIFT],
        Ties.AWAY if task[DpuEw.CVT_ROUND] else Ties.EVEN,
    )


def _operation(task: TaskRegisters) -> Operation:
    if not task[DpuEw.OP_TYPE]:
        return Operation(task[DpuEw.ALU_ALGO])
    return Operation.PRELU if task[DpuEw.MUL_PRELU] else Operation.MULTIPLY


def _operand(
    task: TaskRegisters, context: Context, shape: tuple[int, int, int], is_float: bool
) -> float | Features:
    if task[DpuEw.OP_SRC]:
        return decode_operand(task, context, shape, is_float)
    if context.generation.has_column_operands and task[DpuEw.DATA_MODE] == COLUMNS:
        return decode_columns(task, context, shape, is_float)
    return _number(task, DpuEwOperand, is_float)


def _table(task: TaskRegisters) -> LookupTable:
    negative, positive = (shared(table.astype(np.float64)) for table in task.state.tables)
    return LookupTable(
        negative,
        positive,
        task.signed(DpuLutLeStart.LE_START),
        task.signed(DpuLutLoStart.LO_START),
        task.signed(DpuLutLoEnd.LO_END),
        (task[DpuLutInfo.LE_INDEX_SELECT], task[DpuLutInfo.LO_INDEX_SELECT]),
        (task.signed(DpuLutLeScale.UFLOW_SCALE), task.signed(DpuLutLoScale.OFLOW_SCALE)),
        (task[DpuLutLeShift.UFLOW_SHIFT], task[DpuLutLoShift.OFLOW_SHIFT]),
    )


def _output(task: TaskRegisters, is_float: bool) -> Output:
    element = Element(task[DpuDataFormat.OUT_PRECISION])
    scale = task.signed(DpuOutScale.OUT_CVT_SCALE)
    shift = task[DpuOutShift.OUT_CVT_SHIFT]
    offset = task.signed(DpuOutOffset.OUT_CVT_OFFSET)
    ties = Ties.AWAY if task[DpuOutShift.CVT_ROUND] else Ties.EVEN
    if is_float:
        return _output_of_floats(task, element, (scale, shift, offset), ties)
    if element is Element.FLOAT16:
        exponent = task[DpuOutShift.MINUS_EXP]
        factor = scale * 2.0 ** -(shift + exponent)
        return Output(element, scale, 0, 0, factor, offset * 2.0**-exponent)
    if element.is_float:
        raise task.error(DpuDataFormat.OUT_PRECISION, "integers are not known to become it")
    if shift > _LARGEST_SHIFT:
        raise task.error(DpuOutShift.OUT_CVT_SHIFT, "it leaves nothing of any number")
    return Output(element, scale, shift, offset, 1.0, ties=ties)


def _output_of_floats(
    task: TaskRegisters, element: Element, conversion: tuple[int, int, int], ties: Ties
) -> Output:
    scale, shift, offset = conversion
    exponent = task.signed(DpuOutShift.MINUS_EXP)
    if element is Element.INT8:
        return Output(element, 1, 0, 0, scale * 2.0**-shift, offset, ties)
    if element in (Element.FLOAT16, Element.FLOAT32):
        after = 2.0**-exponent * _chained_factor(task)
        return Output(element, 1, 0, 0, scale * 2.0**-shift * after, offset * after)
    if conversion != (1, 0, 0) or exponent:
        raise task.error(DpuOutScale, f"a conversion of floats to {element.name} is not known")
    if element is Element.INT16 and task[DpuDataFormat.IN_PRECISION] == Element.INT16.value:
        # "Raw 16 bits" in and out, around arithmetic in float16.
        element = Element.FLOAT16
    return Output(element, 1, 0, 0, 1.0, ties=ties)


def _chained_factor(task: TaskRegisters) -> float:
    """What the PPU multiplies by when it follows the DPU without a pass through memory."""
    if not task.state.enable_mask & PPU_ENABLED:
        return 1.0
    return (
        half(task[PpuReciprocalHeight.RECIP_KERNEL_HEIGHT])
        * half(task[PpuReciprocalWidth.RECIP_KERNEL_WIDTH])
        * 2.0**-32
    )
