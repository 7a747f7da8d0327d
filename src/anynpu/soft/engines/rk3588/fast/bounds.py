"""Proofs that float arithmetic gives what the integers give.

Sums of products in float32 are exact, in any order, while no partial sum can reach 2^24. Stages in
float64 are exact while no value reaches 2^52: products of integers are whole, and multiplying by a
power of two changes no digit. Both follow from the magnitudes of weights and operands alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tasks import Convolution, Dpu, Elementwise, Features, Operation, Stage
from ..weights import StoredOperand

_SUM_LIMIT = 2.0**24
_VALUE_LIMIT = 2.0**52
_INPUT = 128.0
_ENTRY = 2.0**15

Magnitude = float | NDArray[np.float64]


def largest_sums(weights: NDArray[np.float32], convolution: Convolution) -> NDArray[np.float64]:
    """The greatest magnitude of each kernel's sum; weights are (columns, kernels)."""
    totals: NDArray[np.float64] = np.abs(weights).sum(0, dtype=np.float64)
    return totals * largest_input(convolution)


def largest_input(convolution: Convolution) -> float:
    """The greatest magnitude that a weight is multiplied by."""
    return max(_INPUT, abs(convolution.padding_value))


def exact_parts(weights: NDArray[np.float32], convolution: Convolution) -> list[slice]:
    """Groups of columns whose sums stay exact in float32; one where all do."""
    sums = np.abs(weights).astype(np.float64) * largest_input(convolution)
    if sums.sum(0).max() < _SUM_LIMIT:
        return [slice(0, len(weights))]
    parts, start = [], 0
    running = np.zeros(weights.shape[1])
    for row in range(len(weights)):
        following = running + sums[row]
        if following.max() >= _SUM_LIMIT:
            parts.append(slice(start, row))
            start, following = row, sums[row]
        running = following
    parts.append(slice(start, len(weights)))
    return parts


def stages_are_exact(dpu: Dpu, largest: Magnitude) -> bool:
    """Whether the stages stay exact for inputs of a magnitude, a number or (C,)."""
    value: Magnitude | None = largest
    for stage in (dpu.bs, dpu.bn):
        if stage and value is not None:
            value = _after_stage(stage, value)
    if dpu.elementwise and value is not None:
        value = _after_elementwise(dpu.elementwise, value)
    if value is None:
        return False
    return bool(np.max(value) * abs(dpu.output.scale) < _VALUE_LIMIT)


def _magnitude(operand: Any) -> Magnitude:
    if operand is None:
        return 0.0
    values = np.abs(np.asarray(operand, np.float64))
    return values.reshape(-1) if values.ndim else float(values)


def _after_stage(stage: Stage, value: Magnitude) -> Magnitude | None:
    if isinstance(stage.add, StoredOperand) or isinstance(stage.multiply, StoredOperand):
        return None
    addend = _magnitude(stage.add)
    factor = 1.0 if stage.multiply is None else _magnitude(stage.multiply)
    factor = np.maximum(factor, 1) if stage.multiply_negatives else factor
    value = value * factor + addend if stage.multiply_first else (value + addend) * factor
    if np.max(value) >= _VALUE_LIMIT:
        return None
    value = value * 2.0 ** -min(stage.shift_positive, stage.shift_negative) + 1
    return value if stage.limit is None else np.minimum(value, max(abs(stage.limit), 1))


def _after_elementwise(stage: Elementwise, value: Magnitude) -> Magnitude | None:
    if table := stage.table:
        start = max(abs(table.negative_start), abs(table.positive_end))
        slope = max(abs(slope) for slope in table.slopes)
        value = (value + start) * slope + _ENTRY * 2.0 ** max(table.shifts)
        if np.max(value) >= _VALUE_LIMIT or max(table.steps) > 16:
            return None
        value = value * 2.0 ** -min(table.shifts) + _ENTRY
    if stage.operation is None:
        return value
    operand = _largest_operand(stage)
    if operand is None:
        return None
    if stage.operation is Operation.MULTIPLY:
        value = value * operand
    else:
        value = value + operand
    return value if np.max(value) < _VALUE_LIMIT else None


def _largest_operand(stage: Elementwise) -> float | None:
    if not isinstance(stage.operand, Features):
        return abs(float(stage.operand or 0))
    if not stage.conversion:
        return _INPUT
    how = stage.conversion
    largest = (_INPUT + abs(how.offset)) * abs(how.scale)
    return largest * 2.0**-how.shift + 1 if largest < _VALUE_LIMIT else None
