"""Proofs that fast arithmetic gives what unbounded integers give.

Sums of products in float32 are exact, in any order, while no partial sum can reach 2^24; those in
int32 while none can reach 2^31. Stages in float64 are exact while no value reaches 2^52: products
of integers are whole, and multiplying by a power of two changes no digit. An output's offset is
added to what was multiplied so, which is exact while it is with both multiplied back. All of that
follows from the magnitudes of weights and operands alone.

Integers that leave a stage are kept within int32. Kernels that don't look need to know which stages
have none to keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..rounding import INT32
from ..tasks import Convolution, Dpu, Elementwise, Features, Operation, Output, Stage

FLOAT_SUMS = 2.0**24
INTEGER_SUMS = 2.0**31
"""What sums in float32, and in int32, have to stay below."""

_VALUE_LIMIT = 2.0**52
_INPUT = 128.0
_ENTRY = 2.0**15
_LARGEST_STEP = 16
_OFFSET_LIMIT = 1 << 28

Magnitude = float | NDArray[np.float64]


def largest_input(convolution: Convolution) -> float:
    """The greatest magnitude that a weight is multiplied by."""
    return max(_INPUT, abs(convolution.padding_value))


def leaving_core(convolution: Convolution, sums: Magnitude) -> Magnitude:
    """Magnitudes of sums as the DPU gets them."""
    return sums * 2.0**-convolution.truncate + 1 if convolution.truncate else sums


@dataclass(frozen=True)
class _Range:
    """How far values reach on either side of zero: magnitudes, numbers or (C,)."""

    below: Magnitude
    above: Magnitude

    @property
    def is_exact(self) -> bool:
        return bool(np.max(self.below) < _VALUE_LIMIT and np.max(self.above) < _VALUE_LIMIT)

    @property
    def largest(self) -> Magnitude:
        return np.maximum(self.below, self.above)

    def plus(self, low: Magnitude, high: Magnitude) -> _Range:
        """After adding something from -low to high."""
        return _Range(self.below + low, self.above + high)

    def times(self, factor: Magnitude) -> _Range:
        """After multiplying by a factor of either sign."""
        ends = self.above * factor, -(self.below * factor)
        return _Range(-np.minimum(*ends), np.maximum(*ends))

    def shifted(self, below: int, above: int) -> _Range:
        """After rounding shifts of either side."""
        return _Range(self.below * 2.0**-below + 1, self.above * 2.0**-above + 1)

    def limited(self, stage: Stage | Elementwise) -> _Range:
        """Within a stage's limits."""
        if not stage.is_limited:
            return self
        low, high = -self.below, self.above
        if stage.lower is not None:
            low, high = np.maximum(low, stage.lower), np.maximum(high, stage.lower)
        if stage.upper is not None:
            low, high = np.minimum(low, stage.upper), np.minimum(high, stage.upper)
        return _Range(np.maximum(-low, 0), np.maximum(high, 0))

    @property
    def saturates(self) -> bool:
        """Whether int32 may not hold all values."""
        return bool(np.max(self.below) > -INT32[0] or np.max(self.above) > INT32[1])

    def saturated(self) -> _Range:
        """What int32 holds of it."""
        return _Range(np.minimum(self.below, -INT32[0]), np.minimum(self.above, INT32[1]))


@dataclass(frozen=True)
class Reach:
    """How large results get, `largest`, and which stages may have to keep theirs within int32."""

    largest: float
    bs_saturates: bool
    bn_saturates: bool
    elementwise_saturates: bool

    @property
    def saturates(self) -> bool:
        """Whether any stage does."""
        return self.bs_saturates or self.bn_saturates or self.elementwise_saturates


def exact_reach(dpu: Dpu, largest: Magnitude) -> Reach | None:
    """What stages make of inputs of a magnitude, a number or (C,).

    None where they may not stay exact.
    """
    values = _Range(largest, largest)
    saturates = []
    for stage in (dpu.bs, dpu.bn, dpu.elementwise):
        if stage is None:
            saturates.append(False)
            continue
        after = (
            _after_elementwise(stage, values)
            if isinstance(stage, Elementwise)
            else _after_stage(stage, values)
        )
        if after is None:
            return None
        saturates.append(after.saturates)
        values = after.saturated().limited(stage)
    converted = _after_output(dpu.output, values)
    return None if converted is None else Reach(converted, *saturates)


def _after_output(output: Output, values: _Range) -> float | None:
    scaled = values.times(float(output.scale))
    offset = abs(output.offset) * 2.0**output.shift
    both = scaled.plus(offset, offset)
    return float(np.max(both.largest)) * 2.0**-output.shift if both.is_exact else None


def offset_fits(offset: int) -> bool:
    """Whether a kernel may add an output offset as an integer."""
    return abs(offset) < _OFFSET_LIMIT


def _numbers(operand: Any) -> Magnitude:
    values = np.asarray(operand, np.float64)
    return values.reshape(-1) if values.ndim else float(values)


def _after_stage(stage: Stage, values: _Range) -> _Range | None:
    addend = _numbers(0 if stage.add is None else stage.add)
    addend = -addend if stage.subtracts else addend
    factor = _numbers(1 if stage.multiply is None else stage.multiply)
    low, high = np.maximum(-addend, 0), np.maximum(addend, 0)
    if stage.adds_first:
        values = values.plus(low, high)
    product = values.times(factor)
    if stage.multiply_negatives:
        # Positive values stay; negative ones may change their side.
        negatives = _Range(values.below, 0.0).times(factor)
        product = _Range(negatives.below, np.maximum(values.above, negatives.above))
    values = product if stage.adds_first else product.plus(low, high)
    if not values.is_exact:
        return None
    return values.shifted(stage.shift_negative, stage.shift_positive)


def _after_elementwise(stage: Elementwise, values: _Range) -> _Range | None:
    if table := stage.table:
        start = max(abs(table.negative_start), abs(table.positive_end))
        slope = max(abs(slope) for slope in table.slopes)
        line = (values.largest + start) * slope + _ENTRY * 2.0 ** max(table.shifts)
        if np.max(line) >= _VALUE_LIMIT or max(table.steps) > _LARGEST_STEP:
            return None
        reach = line * 2.0 ** -min(table.shifts) + _ENTRY
        values = _Range(reach, reach)
    if stage.operation is None:
        return values
    operand = largest_operand(stage)
    if operand is None:
        return None
    if stage.operation is Operation.MULTIPLY:
        reach = values.largest * operand
        values = _Range(reach, reach)
    else:
        values = values.plus(operand, operand)
    if not values.is_exact:
        return None
    return values.shifted(stage.product_shift, stage.product_shift)


def largest_operand(stage: Elementwise) -> float | None:
    """The greatest magnitude of the second operand, converted; None where that isn't exact."""
    if not isinstance(stage.operand, Features):
        return abs(float(stage.operand or 0))
    reach = 2.0 ** (8 * stage.operand.element.size - 1)
    if not stage.conversion:
        return reach
    how = stage.conversion
    largest = (reach + abs(how.offset)) * abs(how.scale)
    return largest * 2.0**-how.shift + 1 if largest < _VALUE_LIMIT else None
