"""What RK3562's DPU says of its stages."""

from __future__ import annotations

from ...elements import Element
from ...registers.blocks import Enabled
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ..limits import NO_LIMITS
from ..rk3576.dpu import BS_KNOWN, DpuEw
from ..rk3576.operands import WEIGHT_OFFSETS, Operands
from ..rk3576.stages import BN_LIMITS, BS_LIMITS, dense_or_depthwise_offset, is_told, stage_of
from ..settings import FromMemory, StageNames, StageSettings
from .registers import (
    DIVIDES,
    DpuBn,
    DpuBnAlu,
    DpuBnMul,
    DpuBs,
    DpuBsAlu,
    DpuBsMul,
    DpuBsOw,
    DpuBsOwOperand,
    DpuDataFormat,
)

_FACTORS = 4


def stages(task: TaskRegisters) -> tuple[StageSettings | None, StageSettings | None]:
    """The first and the second stage; both add before they multiply."""
    return _bs(task), _bn(task)


def _block(task: TaskRegisters, use: Quantity) -> int:
    return task[use] if task.state.enable_mask & Enabled.RDMA else 0


def _bs(task: TaskRegisters) -> StageSettings | None:
    if task[DpuBs.BYPASS]:
        return None
    shift = DpuBs.MUL_SHIFT_VALUE
    if task.word(DpuBs) & ~shift.put(shift.mask) not in BS_KNOWN:
        raise task.error(DpuBs)
    block, multiplies = _block(task, Quantity.BS_USE), not task[DpuBsOw.MUL_BYPASS]
    operands = Operands(
        task.word(DpuBsAlu) or None,
        task[DpuBsOwOperand.OW_OP] if task[DpuBsOwOperand.OFFSETS_WEIGHTS] else None,
        task[DpuBsMul.MUL_OPERAND] if multiplies and not block & _FACTORS else None,
        (task[shift], task[DpuBsOwOperand.MUL_SHIFT_VALUE_NEG]) if multiplies else (0, 0),
        block,
    )
    if not is_told(task, operands.factor, DpuBsOw.MUL_BYPASS, DpuBsOw.MUL_SRC):
        raise task.error(DpuBsOw)
    names = StageNames(DpuBsAlu, DpuBsMul, (shift, DpuBsOwOperand.MUL_SHIFT_VALUE_NEG))
    offset = _weight_offset(task, operands)
    return stage_of(task, operands, DpuBsMul.MUL_PRELU, BS_LIMITS, names, offset)


def _weight_offset(task: TaskRegisters, operands: Operands) -> int | FromMemory | None:
    from_memory = operands.block & WEIGHT_OFFSETS
    if task[DpuBsOwOperand.OFFSETS_WEIGHTS]:
        return FromMemory.BLOCK if from_memory else operands.weight_offset
    if from_memory:
        raise task.error(DpuBsOwOperand)
    return dense_or_depthwise_offset(task)


def _bn(task: TaskRegisters) -> StageSettings | None:
    if task[DpuBn.BYPASS]:
        return None
    block = _block(task, Quantity.BN_USE)
    adds, multiplies = not task[DpuBn.ALU_BYPASS], not task[DpuBn.MUL_BYPASS]
    add = task.word(DpuBnAlu) if adds and not task[DpuBn.ALU_SRC] else None
    if add and task.is_float() and BN_LIMITS.products.words(task)[1] != NO_LIMITS[1]:
        # After a convolution float16 files have the limit that belongs before the sum here.
        raise task.error(DpuBnAlu)
    shifts = task[DpuBnMul.MUL_SHIFT_VALUE], task[DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG]
    is_number = multiplies and not task[DpuBnMul.MUL_SRC]
    operands = Operands(
        add,
        None,
        task[DpuBnMul.MUL_OPERAND] if is_number else None,
        shifts if multiplies else (0, 0),
        block,
    )
    if not (
        is_told(task, operands.addend, DpuBn.ALU_BYPASS, DpuBn.ALU_SRC)
        and is_told(task, operands.factor, DpuBn.MUL_BYPASS, DpuBnMul.MUL_SRC)
    ):
        raise task.error(DpuBn)
    names = StageNames(
        DpuBnAlu, DpuBnMul, (DpuBnMul.MUL_SHIFT_VALUE, DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG)
    )
    return stage_of(task, operands, DpuBn.MUL_PRELU, BN_LIMITS, names)


def _element(task: TaskRegisters) -> int:
    """Division only says "16 bits" where RK3588 says that arithmetic is in float16."""
    element = task.own(Quantity.ELEMENT)
    is_float = element == Element.INT16.value and task.word(DpuEw) in DIVIDES
    return Element.FLOAT16.value if is_float else element


DERIVED = {Quantity.ELEMENT: Derived(_element, DpuDataFormat.PROC_PRECISION)}
