"""How the chips round: one place, with what is known of it and how.

All of it is measured on VeriSilicon's emulator of the chips, which executes the very files:
halves go to even numbers, before the zero point is added, but away from zero behind the NN core's
fused addition and where a command of the stream processor says so. The fused addition works with
sums of small floats, of 10 significant bits in T527 and V853 and of 16 in A733, toward zero. For
the first no element is known that differs, whole networks are equal; 590,000 elements gave 4 that
differ for the second: ties of two negative operands.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]

TABLE_BITS = 16
"""Significant bits of what comes out of the tensor processor's tables, and of what goes into those
behind coefficients: that is cut.
"""

_LEAST = 2.0**-60
_HALF_EXPONENT, _HALF_SIGN = np.uint16(0x7C00), np.uint16(0x8000)
_SMALLEST_SUM = 2.0**-6
"""Of a convolution that is less than this, the adder of 10 bits takes nothing."""


def half_away(values: Reals) -> Reals:
    """To whole numbers, halves away from zero."""
    result: Reals = np.trunc(values + np.copysign(0.5, values))
    return result


def _power(values: Reals) -> Reals:
    """The power of two that each magnitude begins with."""
    _, exponent = np.frexp(np.maximum(np.abs(values), _LEAST))
    result: Reals = exponent - 1.0
    return result


def cut(values: Reals, bits: int) -> Reals:
    """Values of a given number of significant bits, toward zero."""
    unit = 2.0 ** (_power(values) - bits + 1)
    result: Reals = np.trunc(values / unit) * unit
    return result


def to_halves(values: Reals | NDArray[np.float32]) -> NDArray[np.float16]:
    """The nearest float16, ties to even; what is less than the least normal one is zero."""
    with np.errstate(over="ignore"):
        halves: NDArray[np.float16] = np.ascontiguousarray(values).astype(np.float16)
    bits = halves.view(np.uint16)
    bits[(bits & _HALF_EXPONENT) == 0] &= _HALF_SIGN
    return halves


def nearest(values: Reals, bits: int) -> Reals:
    """Values of a given number of significant bits, the nearest, ties to even."""
    unit = 2.0 ** (_power(values) - bits + 1)
    result: Reals = np.rint(values / unit) * unit
    return result


def _small_sum(a: Reals, b: Reals, bits: int, guard: int) -> tuple[Reals, Reals]:
    """A sum whose operands are both cut at the last place of the larger, and guard bits.

    With the sum comes that place, with no more guard bits than the smaller operand lies lower.
    """
    power_a, power_b = _power(a), _power(b)
    last = np.maximum(power_a, power_b) - bits + 1
    unit = 2.0 ** (last - guard)
    used = 2.0 ** (last - np.minimum(np.abs(power_a - power_b), guard))
    return np.trunc(a / unit) * unit + np.trunc(b / unit) * unit, used


def _nearer(total: Reals, unit: Reals, where: NDArray[np.bool_]) -> Reals:
    """Sums one unit nearer to zero in some places."""
    return np.where(where, np.sign(total) * np.maximum(np.abs(total) - unit, 0), total)


def add_of_10_bits(convolution: Reals, second: Reals, constant: float) -> Reals:
    """The fused addition of T527 and V853: (convolution + constant) + second.

    A negative sum of operands with different signs is one unit nearer to zero, and so is a
    positive second one, unless the convolution adds nothing.
    """
    kept = cut(np.where(np.abs(convolution) < _SMALLEST_SUM, 0, convolution), 10)
    constants = np.full_like(second, constant)
    total, unit = _small_sum(kept, constants, 10, 2)
    first = cut(_nearer(total, unit, (kept * constants < 0) & (total < 0)), 10)
    operand = cut(second, 10)
    total, unit = _small_sum(first, operand, 10, 2)
    return _nearer(total, unit, (first * operand < 0) & ((convolution != 0) | (total < 0)))


def sum_of_16_bits(second: Reals, constant: float) -> Reals:
    """The first of the two sums that A733's fused addition consists of."""
    total, _ = _small_sum(cut(second, 16), np.full_like(second, constant), 16, 3)
    return total


def add_of_16_bits(convolution: Reals, second: Reals, constant: float) -> Reals:
    """The fused addition of A733: (second + constant) + convolution.

    Where the signs of the last two differ, the sum is one unit nearer to zero if the first is the
    larger one, or if there is no constant.
    """
    first = sum_of_16_bits(second, constant)
    kept = cut(convolution, 16)
    total, unit = _small_sum(first, kept, 16, 3)
    differ = first * kept < 0
    return _nearer(total, unit, differ & (np.abs(first) > np.abs(kept)) if constant else differ)
