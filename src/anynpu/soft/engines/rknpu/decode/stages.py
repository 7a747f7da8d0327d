"""The DPU: its two arithmetic stages, the element-wise stage, the table, the output conversion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..elements import Element, changed
from ..generations.settings import ElementwiseSettings, FromMemory, Limits, StageSettings, Sum
from ..interning import shared
from ..registers.blocks import Enabled
from ..registers.fields import sign_extend
from ..registers.quantities import Quantity
from ..rounding import Ties
from ..task_registers import TaskRegisters, bfloat, half, number
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
from .operand import decode_columns, decode_operand

_LARGEST_SHIFT = 47
"""What is more leaves nothing of 32 bits times 16."""
_LARGEST_OUTPUT_SHIFT = 63

_ADDENDS = 1
"""A block of operands that has addends alone."""

_FACTOR_BITS, _EXPONENT_BITS = 16, 8
_Parts = dict[str, Operand]

_OF_FLOATS = frozenset({Operation.DIVIDE, Operation.FLOOR, Operation.CEIL})
"""What the element-wise stage does in float arithmetic alone."""


def decode_dpu(
    task: TaskRegisters,
    context: Context,
    shape: tuple[int, int, int],
    is_float: bool,
) -> tuple[Dpu, Operand | None]:
    """The stages for values of a shape (C, H, W), and what BS adds to every weight of a kernel."""
    given = context, shape[0], is_float
    dpu, offset, third = context.remembered.of(_of_channels, task, *given, by=given[1:])
    if third is not None:
        dpu = changed(dpu, elementwise=_elementwise(task, context, shape, is_float, third))
    return dpu, offset


def _of_channels(
    task: TaskRegisters, context: Context, channels: int, is_float: bool
) -> tuple[Dpu, Operand | None, ElementwiseSettings | None]:
    """What is the same for all pixels, and the third stage where it isn't."""
    said = context.remembered.of(_said, task, context, is_float, by=is_float)
    first, second, third = said.first, said.second, said.third
    parts = _operands(task, context, channels, is_float, first, Quantity.BS_OPERANDS)
    bn_parts = _operands(task, context, channels, is_float, second, Quantity.BN_OPERANDS)
    elementwise = None
    if second and second.sum is Sum.MAXIMUM and second.add is not None:
        elementwise, second = _maximum(task, context, channels, is_float, second, third), None
    elif third is not None and not (third.operation and isinstance(third.operand, FromMemory)):
        elementwise, third = _elementwise(task, context, (channels, 0, 0), is_float, third), None
    dpu = Dpu(
        is_float,
        _stage(task, first, is_float, parts),
        _stage(task, second, is_float, bn_parts),
        elementwise,
        said.reduction,
        said.output,
    )
    return dpu, _weight_offset(first, is_float, parts), third


@dataclass(frozen=True)
class _Said:
    """What registers say of the stages, wherever their operands lie."""

    first: StageSettings | None
    second: StageSettings | None
    third: ElementwiseSettings | None
    reduction: str | None
    output: Output


def _said(task: TaskRegisters, context: Context, is_float: bool) -> _Said:
    reduction = task[Quantity.REDUCTION]
    return _Said(
        *context.generation.stages(task),
        context.generation.elementwise(task),
        ("max" if reduction & 2 else "min") if reduction & 1 else None,
        _output(task, is_float),
    )


def _operands(
    task: TaskRegisters,
    context: Context,
    channels: int,
    is_float: bool,
    said: StageSettings | None,
    address: Quantity,
) -> _Parts:
    """The per-channel operands of a stage that memory holds, by name."""
    if said is None or not said.block:
        return {}
    block = OperandBlock(said.block, channels, is_float, context.generation.operand_group)
    return context.operands(task.address(address), block)


def _weight_offset(said: StageSettings | None, is_float: bool, parts: _Parts) -> Operand | None:
    if is_float or said is None:
        return None
    if not isinstance(said.weight_offset, FromMemory):
        return said.weight_offset or None
    offsets = parts.get("weight_offset")
    if not isinstance(offsets, np.ndarray):
        return offsets
    return shared(offsets) if offsets.any() else None


def _maximum(
    task: TaskRegisters,
    context: Context,
    channels: int,
    is_float: bool,
    said: StageSettings,
    third: ElementwiseSettings | None,
) -> Elementwise:
    """The greater of a value and BN's operand: what the third stage has an operation for."""
    if said.multiply is not None or said.limits != Limits() or third is not None:
        raise task.error(said.where.add, "a maximum is only known alone")
    if isinstance(said.add, int):
        return Elementwise(None, Operation.MAX, number(said.add, is_float), None, 0)
    if task[Quantity.BN_USE] != _ADDENDS:
        raise task.error(Quantity.BN_USE, "a maximum takes one number a channel")
    element = Element.FLOAT32 if is_float else Element.INT32
    atom = context.generation.atom_of(element)
    operand = context.check_features(
        Features(task.address(Quantity.BN_OPERANDS), element, channels, 1, 1, atom, atom, atom)
    )
    return Elementwise(None, Operation.MAX, operand, None, 0)


def _stage(
    task: TaskRegisters, said: StageSettings | None, is_float: bool, parts: _Parts
) -> Stage | None:
    if said is None:
        return None
    if said.sum is Sum.MAXIMUM and said.add is not None:
        raise task.error(said.where.add, "a maximum is not known here")
    multiply = _factor(task, said, is_float, parts)
    shifts = said.shifts if multiply is not None and not is_float else (0, 0)
    for shift, where in zip(shifts, said.where.shifts, strict=True):
        if shift > _LARGEST_SHIFT:
            # Seen where a scale is too large for the factor, which is 0 then.
            raise task.error(where, "a negative number that the compiler cut")
    lower, upper = _limits(said.limits, is_float)
    return Stage(
        _addend(task, said, is_float, parts),
        said.sum is Sum.SUBTRACT,
        multiply,
        said.adds_first,
        multiply is not None and said.multiplies_negatives,
        shifts[0],
        shifts[1],
        lower=lower,
        upper=upper,
    )


def _addend(
    task: TaskRegisters, said: StageSettings, is_float: bool, parts: _Parts
) -> Operand | None:
    if said.add is None:
        return None
    if isinstance(said.add, int):
        return number(said.add, is_float)
    if "add" not in parts:
        raise task.error(said.where.add, "there is no block of operands in memory")
    return parts["add"]


def _factor(
    task: TaskRegisters, said: StageSettings, is_float: bool, parts: _Parts
) -> Operand | None:
    if said.multiply is None:
        return None
    if not isinstance(said.multiply, int):
        if "multiply" not in parts:
            raise task.error(said.where.multiply, "there is no block of operands in memory")
        return parts["multiply"]
    if not is_float:
        return sign_extend(said.multiply, _FACTOR_BITS)
    is_bfloat = task[Quantity.ELEMENT] == Element.BFLOAT16.value
    return bfloat(said.multiply) if is_bfloat else half(said.multiply)


def _limits(said: Limits, is_float: bool) -> tuple[float | None, float | None]:
    return (
        None if said.lower is None else number(said.lower, is_float),
        None if said.upper is None else number(said.upper, is_float),
    )


def _elementwise(
    task: TaskRegisters,
    context: Context,
    shape: tuple[int, int, int],
    is_float: bool,
    said: ElementwiseSettings | None,
) -> Elementwise | None:
    if said is None:
        return None
    if said.operation in _OF_FLOATS and not is_float:
        raise task.error(said.where, f"{said.operation.name} of integers is not known")
    operand: float | Features | None = None
    if said.operation is not None:
        operand = _operand(task, context, shape, is_float, said)
    converts = isinstance(operand, Features) and not is_float and said.converts
    lower, upper = _limits(said.limits, is_float)
    has_product = said.operation in (Operation.MULTIPLY, Operation.PRELU) and not is_float
    return Elementwise(
        _table(task) if said.looks_up else None,
        said.operation,
        operand,
        _operand_conversion(task, said) if converts else None,
        task[Quantity.PRODUCT_SHIFT] if has_product else 0,
        lower=lower,
        upper=upper,
    )


def _operand_conversion(task: TaskRegisters, said: ElementwiseSettings) -> OperandConversion:
    offset = task[Quantity.OPERAND_OFFSET]
    if offset and not said.offset_first:
        raise task.error(said.where, "where an offset is added after the scale is not known")
    return OperandConversion(
        offset,
        task[Quantity.OPERAND_SCALE],
        task[Quantity.OPERAND_SHIFT],
        Ties.AWAY if said.ties_away else Ties.EVEN,
    )


def _operand(
    task: TaskRegisters,
    context: Context,
    shape: tuple[int, int, int],
    is_float: bool,
    said: ElementwiseSettings,
) -> float | Features:
    if said.operand is FromMemory.FEATURES:
        return decode_operand(task, context, shape, is_float)
    if said.operand is FromMemory.COLUMNS:
        return decode_columns(task, context, shape, is_float)
    assert isinstance(said.operand, int)
    return number(said.operand, is_float)


def _table(task: TaskRegisters) -> LookupTable:
    negative, positive = (shared(table.astype(np.float64)) for table in task.state.tables)
    return LookupTable(
        negative,
        positive,
        task[Quantity.NEGATIVE_START],
        task[Quantity.POSITIVE_START],
        task[Quantity.POSITIVE_END],
        (task[Quantity.NEGATIVE_STEP], task[Quantity.POSITIVE_STEP]),
        (task[Quantity.SLOPE_BELOW], task[Quantity.SLOPE_ABOVE]),
        (task[Quantity.SHIFT_BELOW], task[Quantity.SHIFT_ABOVE]),
    )


def _output(task: TaskRegisters, is_float: bool) -> Output:
    element = Element(task[Quantity.OUTPUT_ELEMENT])
    scale, shift = task[Quantity.OUTPUT_SCALE], task[Quantity.OUTPUT_SHIFT]
    offset = task[Quantity.OUTPUT_OFFSET]
    ties = Ties.AWAY if task[Quantity.OUTPUT_AWAY] else Ties.EVEN
    if is_float:
        return _output_of_floats(task, element, (scale, shift, offset), ties)
    if element is Element.FLOAT16:
        exponent = task[Quantity.OUTPUT_EXPONENT]
        factor = scale * 2.0 ** -(shift + exponent)
        return Output(element, scale, 0, 0, factor, offset * 2.0**-exponent)
    if element.is_float:
        raise task.error(Quantity.OUTPUT_ELEMENT, "integers are not known to become it")
    if shift > _LARGEST_OUTPUT_SHIFT:
        raise task.error(Quantity.OUTPUT_SHIFT, "more than any number has bits")
    return Output(element, scale, shift, offset, 1.0, ties=ties)


def _output_of_floats(
    task: TaskRegisters, element: Element, conversion: tuple[int, int, int], ties: Ties
) -> Output:
    scale, shift, offset = conversion
    exponent = sign_extend(task[Quantity.OUTPUT_EXPONENT], _EXPONENT_BITS)
    if element is Element.INT8:
        return Output(element, 1, 0, 0, scale * 2.0**-shift, offset, ties)
    if element in (Element.FLOAT16, Element.FLOAT32):
        after = 2.0**-exponent * _chained_factor(task)
        return Output(element, 1, 0, 0, scale * 2.0**-shift * after, offset * after)
    if conversion != (1, 0, 0) or exponent:
        raise task.error(
            Quantity.OUTPUT_SCALE, f"a conversion of floats to {element.name} is not known"
        )
    if element is Element.INT16 and task[Quantity.ENTERING_ELEMENT] == Element.INT16.value:
        # "Raw 16 bits" in and out, around arithmetic in float16.
        element = Element.FLOAT16
    return Output(element, 1, 0, 0, 1.0, ties=ties)


def _chained_factor(task: TaskRegisters) -> float:
    """What the PPU multiplies by when it follows the DPU without a pass through memory."""
    if not task.state.enable_mask & Enabled.PPU:
        return 1.0
    return half(task[Quantity.RECIPROCAL_HEIGHT]) * half(task[Quantity.RECIPROCAL_WIDTH]) * 2.0**-32
