"""What RK3588's DPU says of its stages, and RDMA of what they read."""

from __future__ import annotations

from dataclasses import dataclass

from ...registers.blocks import Enabled
from ...registers.fields import Field
from ...registers.ppu import PpuMode
from ...registers.quantities import Quantity
from ...task_registers import Derived, TaskRegisters
from ...tasks import Operation
from ..base import always
from ..settings import (
    ElementwiseSettings,
    FromMemory,
    Limits,
    OperandKind,
    StageNames,
    StageSettings,
    Sum,
)
from .dpu import (
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
    DpuEwOperand,
    DpuEwRelux,
    DpuWriteSize0,
)
from .rdma import RdmaEw, RdmaFeatureMode

SUMS = {0: Sum.MAXIMUM, 2: Sum.ADD, 4: Sum.SUBTRACT}
"""ALU_ALGO of both stages."""

_COLUMNS = 2
_TRANSPOSED = 8


@dataclass(frozen=True)
class StageRegisters:
    """The two stages have the same registers at two places."""

    config: type[DpuBs] | type[DpuBn]
    alu: type[DpuBsAlu] | type[DpuBnAlu]
    mul: type[DpuBsMul] | type[DpuBnMul]
    relux: type[DpuBsRelux] | type[DpuBnRelux]
    negative_shift: Field
    use: Quantity
    adds_first: bool


BS = StageRegisters(
    DpuBs, DpuBsAlu, DpuBsMul, DpuBsRelux, DpuDataFormat.BS_MUL_SHIFT_VALUE_NEG,
    Quantity.BS_USE, adds_first=True,
)  # fmt: skip
BN = StageRegisters(
    DpuBn, DpuBnAlu, DpuBnMul, DpuBnRelux, DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG,
    Quantity.BN_USE, adds_first=False,
)  # fmt: skip


def stage(
    task: TaskRegisters, registers: StageRegisters, weight_offset: int | FromMemory | None = None
) -> StageSettings | None:
    """One of the two arithmetic stages."""
    config, mul = registers.config, registers.mul
    if task[config.BYPASS]:
        return None
    add: int | FromMemory | None = None
    if not task[config.ALU_BYPASS]:
        add = FromMemory.BLOCK if task[config.ALU_SRC] else task.word(registers.alu)
    multiply: int | FromMemory | None = None
    if not task[config.MUL_BYPASS]:
        multiply = FromMemory.BLOCK if task[mul.MUL_SRC] else task[mul.MUL_OPERAND]
    return StageSettings(
        SUMS[task[config.ALU_ALGO]],
        add,
        multiply,
        registers.adds_first,
        bool(task[config.MUL_PRELU]),
        (task[mul.MUL_SHIFT_VALUE], task[registers.negative_shift]),
        limits(task, config, registers.relux),
        block_use(task, registers.use),
        StageNames(config.ALU_ALGO, mul, (mul.MUL_SHIFT_VALUE, registers.negative_shift)),
        weight_offset,
    )


def block_use(task: TaskRegisters, use: Quantity) -> int:
    """Which operands of each channel a stage's block in memory has; 0 where nothing reads it."""
    return task[use] if task.state.enable_mask & Enabled.RDMA else 0


def limits(
    task: TaskRegisters,
    config: type[DpuBs] | type[DpuBn] | type[DpuEw],
    relux: type[DpuBsRelux] | type[DpuBnRelux] | type[DpuEwRelux],
) -> Limits:
    """A ReLU, which may have a greatest value."""
    if task[config.RELU_BYPASS]:
        return Limits()
    return Limits(0, task.word(relux) if task[config.RELUX_EN] else None)


def weight_offset(
    task: TaskRegisters, operand: type[DpuBsOwOperand] = DpuBsOwOperand
) -> int | FromMemory | None:
    """What is added to every weight of a kernel."""
    if task[DpuBsOw.OD_BYPASS]:
        return None
    return FromMemory.BLOCK if task[DpuBsOw.OW_SRC] else task[operand.OW_OP]


def elementwise(
    task: TaskRegisters, config: type[DpuEw] = DpuEw, *, has_columns: bool = True
) -> ElementwiseSettings | None:
    """The table, and an operation with an operand in a register or in memory."""
    if task[config.BYPASS]:
        return None
    operation = None if task[config.OP_BYPASS] else _operation(task, config)
    operand: int | FromMemory = task.word(DpuEwOperand)
    if task[config.OP_SRC]:
        operand = FromMemory.FEATURES
    elif has_columns and task[config.DATA_MODE] == _COLUMNS:
        operand = FromMemory.COLUMNS
    return ElementwiseSettings(
        not task[config.LUT_BYPASS],
        operation,
        operand,
        not task[config.OP_CVT_BYPASS],
        bool(task[config.CVT_TYPE]),
        bool(task[config.CVT_ROUND]),
        limits(task, config, DpuEwRelux),
        config.CVT_TYPE,
    )


def _operation(task: TaskRegisters, config: type[DpuEw]) -> Operation:
    if not task[config.OP_TYPE]:
        return Operation(task[config.ALU_ALGO])
    return Operation.PRELU if task[config.MUL_PRELU] else Operation.MULTIPLY


def operand_kind(task: TaskRegisters) -> int:
    """Numbers for columns are told as those for pixels on RV1106."""
    kind = task[RdmaEw.DATA_MODE]
    return OperandKind.PER_COLUMN if kind == _COLUMNS else kind


def operand_bytes(task: TaskRegisters) -> int:
    """The register has the power of two, counted from one."""
    return 1 << task[RdmaEw.DATA_SIZE] >> 1


def combines_sources(task: TaskRegisters) -> int:
    """Whether two DMAs read the input's surfaces in turn."""
    return task[RdmaFeatureMode.COMB_USE] & 1


def _transposed_bytes(task: TaskRegisters) -> int:
    return 2 if task[DpuWriteSize0.TP_PRECISION] else 1


DERIVED = {
    Quantity.OPERAND_KIND: Derived(operand_kind, RdmaEw.DATA_MODE),
    Quantity.OPERAND_BYTES: Derived(operand_bytes, RdmaEw.DATA_SIZE),
    Quantity.COMBINES_SOURCES: Derived(combines_sources, RdmaFeatureMode.COMB_USE),
    Quantity.COUNTS_INSIDE: always(0, PpuMode),
    Quantity.TRANSPOSED_BYTES: Derived(_transposed_bytes, DpuWriteSize0.TP_PRECISION),
    Quantity.TRANSPOSED_PIXELS: always(_TRANSPOSED, DpuWriteSize0.TP_PRECISION),
}
