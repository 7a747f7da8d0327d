"""The DPU: stages, table, element-wise operation, output conversion.

Floats are float32 between operations; a NaN is written as the positive quiet one without payload.
Of two zeros, the first operand counts as the greater and as the lesser.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..elements import Element
from ..layout import operand_view
from ..memory import Memory
from ..rounding import SILICON, Rounding, whole
from ..tasks import (
    REDUCED_GROUP,
    Dpu,
    Elementwise,
    Features,
    LookupTable,
    Operation,
    Output,
    Stage,
)
from ..weights import Operand, StoredOperand, unpack_operands
from .features import as_numbers, read_features

_MINUS, _PLUS = 0, 1


def process(
    memory: Memory, dpu: Dpu, values: NDArray[Any], rounding: Rounding = SILICON
) -> NDArray[Any]:
    """Accumulators or features (C, H, W), int64 or float32, to what is written.

    That is (C, H, W) of the output's dtype, or what a reduction makes of it.
    """
    for stage in (dpu.bs, dpu.bn):
        if stage:
            values = _stage(memory, stage, values, dpu.is_float, rounding)
    if dpu.elementwise:
        values = _elementwise(memory, dpu.elementwise, values, dpu.is_float, rounding)
    if dpu.reduction:
        return _reduce(dpu, values)
    return convert(dpu.output, values, dpu.is_float, rounding)


def _reduce(dpu: Dpu, values: NDArray[Any]) -> NDArray[Any]:
    shape = dpu.reduced_shape(values.shape)
    if dpu.reduced_lanes:
        values = values[np.arange(values.shape[0]) % REDUCED_GROUP < dpu.reduced_lanes]
    if dpu.reduces_rows:
        # Each group's channels and rows in a line.
        values = values.reshape(shape[0], -1, shape[2]).swapaxes(0, 1)
    elif dpu.reduces_pixels:
        values = values.reshape(-1, 1, 1)
    choose = greater if dpu.reduction == "max" else lesser
    reduced = reduce(choose, values).reshape(shape)
    return round_to(reduced, dpu.output.element)


def _stage(
    memory: Memory, stage: Stage, values: NDArray[Any], is_float: bool, rounding: Rounding
) -> NDArray[Any]:
    if stage.adds_first:
        values = _add(memory, stage, values, is_float)
        values = _multiply(memory, stage, values, is_float)
    else:
        values = _multiply(memory, stage, values, is_float)
        values = _add(memory, stage, values, is_float)
    if not is_float:
        values = _shift(values, stage.shift_positive, stage.shift_negative, rounding)
        values = rounding.leaving_stage(values)
    return _limited(stage, values, is_float)


def _limited(stage: Stage | Elementwise, values: NDArray[Any], is_float: bool) -> NDArray[Any]:
    if stage.lower is not None:
        lower = _number(stage.lower, is_float)
        values = np.where(values < lower, lower, values)
    if stage.upper is not None:
        upper = _number(stage.upper, is_float)
        values = np.where(values > upper, upper, values)
    return values


def greater(a: NDArray[Any], b: Any) -> NDArray[Any]:
    """The greater of each pair, the first of equal ones, NaN where there is one."""
    return np.where((a < b) | np.isnan(b), b, a)


def lesser(a: NDArray[Any], b: Any) -> NDArray[Any]:
    """The lesser of each pair, the first of equal ones, NaN where there is one."""
    return np.where((a > b) | np.isnan(b), b, a)


def operand_values(memory: Memory, operand: Operand, is_float: bool) -> Any:
    """A number, or an array (C, 1, 1), in the arithmetic's own type."""
    if isinstance(operand, np.ndarray):
        return operand
    if isinstance(operand, StoredOperand):
        data = memory.view(operand_view(operand))
        return unpack_operands(data, operand.block)[operand.part]
    return _number(operand, is_float)


def _number(value: float, is_float: bool) -> Any:
    return np.float32(value) if is_float else np.int64(value)


def _add(memory: Memory, stage: Stage, values: NDArray[Any], is_float: bool) -> NDArray[Any]:
    if stage.add is None:
        return values
    addend = operand_values(memory, stage.add, is_float)
    result: NDArray[Any] = values - addend if stage.subtracts else values + addend
    return result


def _multiply(memory: Memory, stage: Stage, values: NDArray[Any], is_float: bool) -> NDArray[Any]:
    if stage.multiply is None:
        return values
    product: NDArray[Any] = values * operand_values(memory, stage.multiply, is_float)
    return np.where(values < 0, product, values) if stage.multiply_negatives else product


def _shift(values: NDArray[Any], positive: int, negative: int, rounding: Rounding) -> NDArray[Any]:
    if positive == negative:
        return rounding.shift(values, positive)
    return np.where(values < 0, rounding.shift(values, negative), rounding.shift(values, positive))


def _elementwise(
    memory: Memory, stage: Elementwise, values: NDArray[Any], is_float: bool, rounding: Rounding
) -> NDArray[Any]:
    if stage.table:
        values = look_up(stage.table, values, is_float, rounding)
    if stage.operation:
        operand = _operand(memory, stage, is_float, rounding)
        values = _operate(stage.operation, values, operand)
        if stage.product_shift:
            values = rounding.shift(values, stage.product_shift)
    if not is_float:
        values = rounding.leaving_stage(values)
    return _limited(stage, values, is_float)


def _operand(memory: Memory, stage: Elementwise, is_float: bool, rounding: Rounding) -> Any:
    source = stage.operand
    if not isinstance(source, Features):
        return _number(0 if source is None else source, is_float)
    values = as_numbers(read_features(memory, source), source.element)
    if how := stage.conversion:
        values = rounding.shift((values + how.offset) * how.scale, how.shift, how.ties)
    return values


def _operate(operation: Operation, values: NDArray[Any], operand: Any) -> NDArray[Any]:
    result: NDArray[Any]
    match operation:
        case Operation.PRELU:
            result = np.where(values < 0, values * operand, values)
        case Operation.ABS:
            result = np.abs(values)
        case Operation.NEGATE:
            result = -values
        case Operation.FLOOR:
            result = np.floor(values)
        case Operation.CEIL:
            result = np.ceil(values)
        case Operation.GREATER:
            result = np.asarray(values > operand).astype(values.dtype)
        case _:
            result = _BINARY[operation](values, operand)
    return result


_BINARY: dict[Operation, Callable[..., NDArray[Any]]] = {
    Operation.MAX: greater,
    Operation.MIN: lesser,
    Operation.ADD: np.add,
    Operation.DIVIDE: np.divide,
    Operation.SUBTRACT: np.subtract,
    Operation.MULTIPLY: np.multiply,
}


def look_up(
    table: LookupTable, values: NDArray[Any], is_float: bool, rounding: Rounding = SILICON
) -> NDArray[Any]:
    """Interpolated values: int64, or exact in float64 and then float32."""
    x = values.astype(np.float64)
    low = _interpolate(table.negative, x, table.negative_start, table.steps[_MINUS])
    high = _interpolate(table.positive, x, table.positive_start, table.steps[_PLUS])
    y = np.where(x < 0, low, high)
    slopes = [slope * 2.0**-shift for slope, shift in zip(table.slopes, table.shifts, strict=True)]
    below = table.negative[0] + (x - table.negative_start) * slopes[_MINUS]
    above = table.positive[-1] + (x - table.positive_end) * slopes[_PLUS]
    y = np.where(x < table.negative_start, below, y)
    y = np.where(x >= table.positive_end, above, y)
    return y.astype(np.float32) if is_float else rounding.interpolated(y)


def _interpolate(
    entries: NDArray[np.float64], x: NDArray[np.float64], start: int, step: int
) -> NDArray[np.float64]:
    place = (x - start) * 2.0**-step
    # NaN finds the first entry, and stays NaN through the fraction.
    index = np.nan_to_num(np.clip(np.floor(place), 0, entries.size - 2)).astype(np.int64)
    fraction = np.clip(place - index, 0, 1)
    left = entries[index]
    between: NDArray[np.float64] = left + (entries[index + 1] - left) * fraction
    return between


def convert(
    output: Output, values: NDArray[Any], is_float: bool, rounding: Rounding = SILICON
) -> NDArray[Any]:
    """Results to the element that is written."""
    element = output.element
    if not is_float:
        if element.is_float:
            exact = values.astype(np.float64) * output.factor + output.addend
            return round_to(exact, element)
        scaled = rounding.convert(values * output.scale, output.shift, output.offset, output.ties)
        return _saturated(scaled, element)
    values = values.astype(np.float32, copy=False) * np.float32(output.factor)
    if element.is_float:
        return round_to(values + np.float32(output.addend) if output.addend else values, element)
    return _saturated(whole(values.astype(np.float64) + output.addend, output.ties), element)


def round_to(values: NDArray[Any], element: Element) -> NDArray[Any]:
    """Numbers to the element that is stored, ties to even; there is one NaN."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    if element is Element.BFLOAT16:
        return round_to_bfloat(values)
    return values.astype(element.dtype)


def _saturated(values: NDArray[Any], element: Element) -> NDArray[Any]:
    limits = np.iinfo(element.dtype)
    clipped: NDArray[Any] = np.nan_to_num(np.clip(values, limits.min, limits.max))
    return clipped.astype(element.dtype)


def round_to_bfloat(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper halves of float32 words, ties to even; a NaN has no payload."""
    words = np.ascontiguousarray(values).view(np.uint32)
    return ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16)
