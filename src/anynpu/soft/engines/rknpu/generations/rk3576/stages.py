"""What RK3576's DPU says of its stages, and RDMA of what they read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...elements import Element
from ...layout import ATOM
from ...registers.blocks import Enabled
from ...registers.fields import Field
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters, half
from ...tasks import Operation
from ..limits import NO_LIMITS, POSITIVE, LimitRegisters, from_order, limits, within
from ..settings import (
    ElementwiseSettings,
    FromMemory,
    Limits,
    OperandKind,
    StageNames,
    StageSettings,
    Sum,
)
from .convolution import depthwise_weight_offset
from .dpu import (
    ADDS_AND_MULTIPLIES,
    ADDS_NUMBER,
    BS_KNOWN,
    COMPARES,
    COMPARES_NUMBER,
    FLOORS,
    GREATER_OF_FLOATS,
    LOOKS_UP,
    OPERATIONS,
    TWO_TABLES,
    WIDE_SUMS,
    DpuBn,
    DpuBnHighest,
    DpuBnLowest,
    DpuBnSumHighest,
    DpuBnSumLowest,
    DpuBs,
    DpuBsHighest,
    DpuBsLowest,
    DpuBsMode,
    DpuBsOw,
    DpuBsSumHighest,
    DpuBsSumLowest,
    DpuDataFormat,
    DpuEw,
    DpuEwGreater,
    DpuEwHighest,
    DpuEwLowest,
    DpuEwNumber,
    DpuEwSumHighest,
    DpuEwSumLowest,
    DpuLut,
    DpuLutEnd0,
    DpuLutEnd1,
    DpuLutEnd2,
    DpuLutEnd3,
    DpuLutInfo,
    DpuLutShiftsAbove,
    DpuLutShiftsBelow,
    DpuLutSlopesAbove0,
    DpuLutSlopesAbove1,
    DpuLutSlopesBelow0,
    DpuLutSlopesBelow1,
    DpuLutStart0,
    DpuLutStart1,
    DpuLutStart2,
    DpuLutStart3,
    DpuOutShift,
)
from .operands import WEIGHT_OFFSETS, Operands, read_operands
from .rdma import (
    RdmaBn,
    RdmaBs,
    RdmaEw,
    RdmaEwSurfaceNotch,
    RdmaEwSurfaceStride,
    RdmaFeatureMode,
)

_COMBINED = 1
_COLUMNS = 2
_HALF = 0.5
_FOUR_RANGES = (
    (DpuLutStart0, DpuLutStart1, DpuLutStart2, DpuLutStart3),
    (DpuLutEnd0, DpuLutEnd1, DpuLutEnd2, DpuLutEnd3),
    (DpuLutSlopesBelow0, DpuLutSlopesBelow1),
    (DpuLutSlopesAbove0, DpuLutSlopesAbove1),
)
"""A table's range may be split in four, each with its own straight lines outside."""


@dataclass(frozen=True)
class StageLimits:
    """Limits of what is added, and of what is multiplied after that."""

    sums: LimitRegisters
    products: LimitRegisters


BS_LIMITS = StageLimits(
    LimitRegisters(DpuBsSumLowest, DpuBsSumHighest), LimitRegisters(DpuBsLowest, DpuBsHighest)
)
BN_LIMITS = StageLimits(
    LimitRegisters(DpuBnSumLowest, DpuBnSumHighest), LimitRegisters(DpuBnLowest, DpuBnHighest)
)
_EW_SUMS = LimitRegisters(DpuEwSumLowest, DpuEwSumHighest)
_EW_LIMITS = LimitRegisters(DpuEwLowest, DpuEwHighest)


def stages(task: TaskRegisters) -> tuple[StageSettings | None, StageSettings | None]:
    """The first and the second stage; both add before they multiply."""
    return _bs(task), _bn(task)


def _bs(task: TaskRegisters) -> StageSettings | None:
    if task[DpuBs.BYPASS]:
        return None
    if task.word(DpuBs) not in BS_KNOWN:
        raise task.error(DpuBs)
    operands = read_operands(task, RdmaBs, Quantity.BS_USE, Quantity.BS_NUMBERS)
    if not is_told(task, operands.factor, DpuBsOw.MUL_BYPASS, DpuBsOw.MUL_SRC):
        raise task.error(DpuBsOw)
    names = StageNames(RdmaBs, RdmaBs, (RdmaBs, RdmaBs))
    offset = _weight_offset(task, operands)
    return stage_of(task, operands, DpuBsMode.MUL_PRELU, BS_LIMITS, names, offset)


def stage_of(
    task: TaskRegisters,
    operands: Operands,
    multiplies_negatives: Field,
    limits: StageLimits,
    names: StageNames,
    weight_offset: int | FromMemory | None = None,
) -> StageSettings:
    """A stage that adds, then multiplies, by its operands and limits."""
    return StageSettings(
        Sum.ADD,
        operands.addend,
        operands.factor,
        True,
        bool(task[multiplies_negatives]),
        operands.shifts,
        stage_limits(task, limits, multiplies=operands.factor is not None),
        operands.block,
        names,
        weight_offset,
    )


def is_told(
    task: TaskRegisters, operand: int | FromMemory | None, bypass: Field, source: Field
) -> bool:
    """Whether a stage's own registers say the same of an operand as those of what reads it."""
    if operand is None:
        return bool(task[bypass])
    return not task[bypass] and bool(task[source]) == (operand is FromMemory.BLOCK)


def _weight_offset(task: TaskRegisters, operands: Operands) -> int | FromMemory | None:
    """Dense weights have one offset or one a kernel; depthwise ones one that the CNA knows."""
    from_memory = operands.block & WEIGHT_OFFSETS
    if task[DpuBsOw.OFFSETS_WEIGHTS]:
        return FromMemory.BLOCK if from_memory else operands.weight_offset
    if from_memory or operands.weight_offset:
        raise task.error(DpuBsOw)
    return dense_or_depthwise_offset(task)


def dense_or_depthwise_offset(task: TaskRegisters) -> int:
    """What is added to weights where BS says nothing of it."""
    return depthwise_weight_offset(task) if task.state.enable_mask & Enabled.CNA else 0


def _bn(task: TaskRegisters) -> StageSettings | None:
    if task[DpuBn.BYPASS]:
        return None
    operands = read_operands(task, RdmaBn, Quantity.BN_USE, Quantity.BN_NUMBERS)
    if not (
        is_told(task, operands.addend, DpuBn.ALU_BYPASS, DpuBn.ALU_SRC)
        and is_told(task, operands.factor, DpuBn.MUL_BYPASS, DpuBn.MUL_SRC)
    ):
        raise task.error(DpuBn)
    names = StageNames(RdmaBn, RdmaBn, (RdmaBn, RdmaBn))
    return stage_of(task, operands, DpuBn.MUL_PRELU, BN_LIMITS, names)


def stage_limits(task: TaskRegisters, registers: StageLimits, *, multiplies: bool) -> Limits:
    """The limits of a stage, whose values are clamped after adding and after multiplying."""
    is_float = task.is_float()
    first, last = registers.sums.words(task), registers.products.words(task)
    first = from_order(first) if is_float else first
    if not multiplies:
        last = within(first, last, is_float=is_float)
    elif first != NO_LIMITS and not first == last == POSITIVE:
        # Of a product, a limit of what is multiplied was only seen at 0.
        raise task.error(registers.sums.lowest)
    return limits(task, last, registers.products, is_float=is_float)


def elementwise(task: TaskRegisters) -> ElementwiseSettings | None:
    """The table, or an operation with an operand from memory."""
    is_float = task.is_float()
    first, last = _EW_SUMS.words(task), _EW_LIMITS.words(task)
    if first not in (NO_LIMITS, POSITIVE):
        raise task.error(DpuEwSumLowest)
    kept = limits(task, within(first, last, is_float=is_float), _EW_LIMITS, is_float=is_float)
    if task[DpuEw.BYPASS]:
        return None
    config, converts = task.word(DpuEw), bool(task[DpuEw.CONVERTS])
    looks_up = config == LOOKS_UP
    operand: int | FromMemory = FromMemory.FEATURES
    if config == ADDS_NUMBER and not is_float:
        return ElementwiseSettings(
            False, Operation.ADD, task.word(DpuEwNumber), False, True, False, kept, DpuEw
        )
    comparison = _comparison(task, config, kept)
    if comparison is not None:
        return comparison
    if task.word(DpuEwGreater):
        raise task.error(DpuEwGreater)
    if config == FLOORS and is_float:
        return ElementwiseSettings(False, Operation.FLOOR, 0, False, True, False, kept, DpuEw)
    operation = OPERATIONS.get(_without_conversion(config))
    if WIDE_SUMS.get(config) is Element(task[Quantity.ELEMENT]):
        converts, operation = False, Operation.ADD
    if not looks_up and (operation is None or (operation is Operation.DIVIDE and not is_float)):
        raise task.error(DpuEw)
    return ElementwiseSettings(
        looks_up,
        None if looks_up else operation,
        operand,
        converts,
        converts,
        bool(task[DpuEw.CVT_ROUND]),
        kept,
        DpuEw,
    )


def _comparison(task: TaskRegisters, config: int, kept: Limits) -> ElementwiseSettings | None:
    """Whether each value is greater than a number, or than one in memory; 1 and 0 are results."""
    compared: dict[int, int | FromMemory] = {
        COMPARES_NUMBER: task.word(DpuEwNumber),
        COMPARES: FromMemory.FEATURES,
    }
    if _without_conversion(config) not in compared:
        return None
    if task.word(DpuEwGreater) != (GREATER_OF_FLOATS if task.is_float() else 1):
        raise task.error(DpuEwGreater)
    operand, converts = compared[_without_conversion(config)], bool(task[DpuEw.CONVERTS])
    rounds = bool(task[DpuEw.CVT_ROUND])
    return ElementwiseSettings(
        False, Operation.GREATER, operand, converts, converts, rounds, kept, DpuEw
    )


def _without_conversion(config: int) -> int:
    return config & ~(DpuEw.CONVERTS.put(1) | DpuEw.CVT_ROUND.put(1))


def _output_shift(task: TaskRegisters) -> int:
    """The output's shift, and in it the factor that sums are multiplied by."""
    shift = task.own(Quantity.OUTPUT_SHIFT)
    if task.word(DpuEw) != ADDS_AND_MULTIPLIES:
        return shift
    mantissa, exponent = math.frexp(half(task.word(DpuEwNumber)))
    if not task.is_float() or mantissa != _HALF or exponent > 1 or task.word(DpuOutShift):
        raise task.error(DpuEwNumber)
    return 1 - exponent


def check_sources(task: TaskRegisters) -> None:
    """Raise `ModelError` for what isn't known of the registers that say what is read."""
    if task[RdmaFeatureMode.COMB_USE] and not task[RdmaFeatureMode.FLYING_MODE]:
        raise task.error(RdmaFeatureMode)
    # Refuses what several surfaces at a time can't be, also where nobody reads the operand.
    _operand_surface_notch(task)


def check_table(task: TaskRegisters) -> None:
    """That the four ranges of a table are one."""
    if task.word(DpuLut) != TWO_TABLES:
        return
    for registers in _FOUR_RANGES:
        for register in registers:
            if task.word(register) != task.word(registers[0]):
                raise task.error(register)
    for register in (DpuLutSlopesBelow0, DpuLutSlopesAbove0):
        if task[register.FIRST] != task[register.SECOND]:
            raise task.error(register)
    for shifts in (DpuLutShiftsBelow, DpuLutShiftsAbove):
        if len({task[field] for field in shifts.fields}) > 1:
            raise task.error(shifts)


def _operand_kind(task: TaskRegisters) -> int:
    kind = task[RdmaEw.DATA_MODE]
    return OperandKind.PER_COLUMN if kind == _COLUMNS else kind


def operand_bytes(task: TaskRegisters) -> int:
    """The register has the power of two, counted from one."""
    return 1 << task[RdmaEw.DATA_SIZE] >> 1


def _operand_surface_notch(task: TaskRegisters) -> int:
    """What lies behind a surface of the operand; several may be read at a time."""
    together, notch = task[RdmaEw.SURFACES], task[RdmaEwSurfaceNotch.NOTCH]
    if together == 1:
        return notch
    area = task[Quantity.SOURCE_HEIGHT] * task[Quantity.SOURCE_WIDTH] * ATOM
    stride = task[RdmaEwSurfaceStride.STRIDE]
    if area + notch != together * stride or task[Quantity.OPERAND_NOTCH]:
        raise task.error(RdmaEwSurfaceNotch)
    return stride - area


def _combines_sources(task: TaskRegisters) -> int:
    return task[RdmaFeatureMode.COMB_USE] & _COMBINED


def _entering_element(task: TaskRegisters) -> int:
    """The input's element is only known to what reads it."""
    reads = task.state.enable_mask & Enabled.RDMA and task[RdmaFeatureMode.FLYING_MODE]
    return task[Quantity.SOURCE_ELEMENT if reads else Quantity.ELEMENT]


def _positive_start(task: TaskRegisters) -> int:
    return 0


DERIVED = {
    Quantity.OUTPUT_SHIFT: Derived(_output_shift, DpuOutShift.SHIFT),
    Quantity.OPERAND_KIND: Derived(_operand_kind, RdmaEw.DATA_MODE),
    Quantity.OPERAND_BYTES: Derived(operand_bytes, RdmaEw.DATA_SIZE),
    Quantity.OPERAND_SURFACE_NOTCH: Derived(_operand_surface_notch, RdmaEwSurfaceNotch),
    Quantity.COMBINES_SOURCES: Derived(_combines_sources, RdmaFeatureMode.COMB_USE),
    Quantity.ENTERING_ELEMENT: Derived(_entering_element, DpuDataFormat),
    Quantity.POSITIVE_START: Derived(_positive_start, DpuLutInfo),
}
