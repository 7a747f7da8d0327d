"""What RV1106's DPU says of its stages: what is fetched from memory is used."""

from __future__ import annotations

from ...elements import Element
from ...registers.blocks import Enabled
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ...tasks import Operation
from ..limits import NO_LIMITS, LimitRegisters, limits
from ..rk3588.dpu import DpuBnAlu, DpuBnMul
from ..rk3588.rdma import RdmaFeatureMode
from ..rk3588.stages import SUMS, block_use, combines_sources, operand_bytes
from ..settings import ElementwiseSettings, FromMemory, Limits, StageNames, StageSettings, Sum
from .registers import (
    BN_KNOWN,
    BN_SUM_AND_PRODUCT,
    BS_KNOWN,
    DIVIDES,
    LOOKS_UP,
    OPERATIONS,
    WIDE_SUM,
    CnaWeightOffset,
    CoreMisc,
    DpuBn,
    DpuBnHighest,
    DpuBnLowest,
    DpuBs,
    DpuBsHighest,
    DpuBsLowest,
    DpuBsMul,
    DpuBsOw,
    DpuBsOwOperand,
    DpuDataFormat,
    DpuEw,
    DpuEwHighest,
    DpuEwLowest,
    DpuInputOffset,
    RdmaEw,
)

_ADDENDS, _WEIGHT_OFFSETS, _FACTORS = 1, 2, 4
_BS_LIMITS = LimitRegisters(DpuBsLowest, DpuBsHighest)
_BN_LIMITS = LimitRegisters(DpuBnLowest, DpuBnHighest)
_EW_LIMITS = LimitRegisters(DpuEwLowest, DpuEwHighest)


def stages(task: TaskRegisters) -> tuple[StageSettings | None, StageSettings | None]:
    """The first and the second stage; both add before they multiply."""
    return _bs(task), _bn(task)


def _limits(task: TaskRegisters, registers: LimitRegisters) -> Limits:
    return limits(task, registers.words(task), registers, is_float=task.is_float())


def _bs(task: TaskRegisters) -> StageSettings | None:
    kept, offset = _limits(task, _BS_LIMITS), _weight_offset(task)
    if task[DpuBs.BYPASS]:
        return None
    shift = DpuBs.MUL_SHIFT_VALUE
    if task.word(DpuBs) & ~shift.put(shift.mask) not in BS_KNOWN:
        raise task.error(DpuBs)
    use, number = block_use(task, Quantity.BS_USE), task[DpuBsMul.MUL_OPERAND]
    add: int | FromMemory | None = task.word(DpuInputOffset) or None
    computes_in = Element(task.own(Quantity.ELEMENT))
    has_product = not task[DpuBsOw.WITHOUT_PRODUCT] or (
        computes_in is Element.FLOAT16 and bool(number)
    )
    multiply: int | FromMemory | None = number if has_product else None
    return StageSettings(
        Sum.ADD,
        FromMemory.BLOCK if use & _ADDENDS else add,
        FromMemory.BLOCK if use & _FACTORS else multiply,
        True,
        False,
        (task[shift], task[DpuBsOwOperand.MUL_SHIFT_VALUE_NEG]),
        kept,
        use,
        StageNames(DpuInputOffset, DpuBsMul, (shift, DpuBsOwOperand.MUL_SHIFT_VALUE_NEG)),
        offset,
    )


def _weight_offset(task: TaskRegisters) -> int | FromMemory | None:
    """Of the CORE, or of BS; both may say the same."""
    said = task[DpuBsOwOperand.OFFSETS_WEIGHTS]
    number, of_core = task[DpuBsOwOperand.OW_OP] if said else 0, task[CnaWeightOffset.OFFSET]
    if of_core and (number not in (0, of_core) or not task.has(CoreMisc)):
        raise task.error(CnaWeightOffset)
    if block_use(task, Quantity.BS_USE) & _WEIGHT_OFFSETS:
        return FromMemory.BLOCK
    return of_core or number


def _bn(task: TaskRegisters) -> StageSettings | None:
    kept = _limits(task, _BN_LIMITS)
    if task[DpuBn.BYPASS]:
        return None
    config = task.word(DpuBn)
    adds, multiplies = not task[DpuBn.ALU_BYPASS], not task[DpuBn.MUL_BYPASS]
    if config & ~sum(field.put(field.mask) for field in BN_KNOWN):
        raise task.error(DpuBn)
    if adds and multiplies and config != BN_SUM_AND_PRODUCT:
        raise task.error(DpuBn)
    add: int | FromMemory | None = None
    if adds:
        add = FromMemory.BLOCK if task[DpuBn.ALU_SRC] else task.word(DpuBnAlu)
    multiply: int | FromMemory | None = None
    if multiplies:
        is_stored = task[DpuBnMul.MUL_SRC]
        multiply = FromMemory.BLOCK if is_stored else task[DpuBnMul.MUL_OPERAND]
    shifts = DpuBnMul.MUL_SHIFT_VALUE, DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG
    return StageSettings(
        SUMS[task[DpuBn.ALU_ALGO]],
        add,
        multiply,
        True,
        bool(task[DpuBn.MUL_PRELU]),
        (task[shifts[0]], task[shifts[1]]),
        kept,
        block_use(task, Quantity.BN_USE),
        StageNames(DpuBn.ALU_ALGO, DpuBnMul, shifts),
    )


def elementwise(task: TaskRegisters) -> ElementwiseSettings | None:
    """The table, or an operation with an operand from memory."""
    kept, config = _limits(task, _EW_LIMITS), task.word(DpuEw)
    if task[DpuEw.BYPASS]:
        if _EW_LIMITS.words(task) != NO_LIMITS:
            raise task.error(DpuEwLowest, "the stage is off, and clamps, which is not known")
        return None
    looks_up = config & ~DpuEw.OPERATOR.put(1) == LOOKS_UP
    converts, operation = not looks_up, OPERATIONS.get(config & ~DpuEw.CVT_ROUND.put(1))
    if config == WIDE_SUM and task[Quantity.ELEMENT] == Element.INT32.value:
        converts, operation = False, Operation.ADD
    if not looks_up and operation is None:
        raise task.error(DpuEw)
    return ElementwiseSettings(
        looks_up,
        None if looks_up else operation,
        FromMemory.FEATURES,
        converts,
        bool(task[DpuEw.CVT_TYPE]),
        bool(task[DpuEw.CVT_ROUND]),
        kept,
        DpuEw.CVT_TYPE,
    )


def _element(task: TaskRegisters) -> int:
    """Division only says "16 bits" where RK3588 says that arithmetic is in float16."""
    element = task.own(Quantity.ELEMENT)
    is_float = element == Element.INT16.value and task.word(DpuEw) == DIVIDES
    return Element.FLOAT16.value if is_float else element


def _entering_element(task: TaskRegisters) -> int:
    """It is RDMA's; the DPU repeats something else at its place."""
    return task[Quantity.SOURCE_ELEMENT] if task.state.enable_mask & Enabled.RDMA else 0


DERIVED = {
    Quantity.ELEMENT: Derived(_element, DpuDataFormat.PROC_PRECISION),
    Quantity.ENTERING_ELEMENT: Derived(_entering_element, DpuDataFormat),
    Quantity.OPERAND_BYTES: Derived(operand_bytes, RdmaEw.DATA_SIZE),
    Quantity.COMBINES_SOURCES: Derived(combines_sources, RdmaFeatureMode.COMB_USE),
}
