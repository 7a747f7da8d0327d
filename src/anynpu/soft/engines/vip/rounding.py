"""How the chips round: one place, with what is known of it and how.

All of it is measured on VeriSilicon's emulator of the chips, which executes the very files:
halves go to even numbers, before the zero point is added, but away from zero where a command of
the stream processor says so. The NN core's fused addition works with small floats, of 10
significant bits in T527 and V853 and of 16 in A733, whose sums are cut toward zero; that
something was cut is remembered, so that what looks like a half afterwards isn't one. A network of
two convolutions and their sum was run with hundreds of scales, constants and inputs: the rule
below gives each of its bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Truths = NDArray[np.bool_]

TABLE_BITS = 16
"""Significant bits of what comes out of the tensor processor's tables, and of what goes into those
behind coefficients: that is cut.
"""

_HALF_BITS, _LARGEST_HALF = 11, 65504.0
_FLOAT_BITS = 24
_WHOLE_BITS = 16
_LEAST = 2.0**-60
_LEAST_NORMAL = 2.0**-14
"""Of float16."""
_HALF_EXPONENT, _HALF_SIGN = np.uint16(0x7C00), np.uint16(0x8000)
_GUARD_BITS = 3
"""At least one: what further ones say is cut from the sum again."""


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


def normal_halves(values: NDArray[np.float16]) -> Reals:
    """Float16 as they are multiplied: what isn't normal is zero."""
    real = values.astype(np.float64)
    result: Reals = np.where(np.abs(real) < _LEAST_NORMAL, 0, real)
    return result


def numbers_of_halves(values: NDArray[np.float16]) -> Reals:
    """Float16 as instructions on lanes take them: the greatest exponent is one as any other.

    So infinity is 65,536, and what is no number is a larger one. What isn't normal is zero.
    """
    bits = values.view(np.uint16)
    exponents = (bits >> 10 & 31).astype(np.int32)
    magnitudes = np.ldexp(1024.0 + (bits & 1023), exponents - 25)
    signed = np.where(bits >> 15, -magnitudes, magnitudes)
    result: Reals = np.where(exponents == 0, 0.0, signed)
    return result


def from_bfloat16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """What bfloat16 stand for, of which `bits` are the bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16, ties to even; what is no number stays none."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    nearest_bits = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    result: NDArray[np.uint16] = np.where(np.isnan(values), bits >> 16 | 0x40, nearest_bits).astype(
        np.uint16
    )
    return result


def cut_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of values as bfloat16, toward zero."""
    return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16)


def cut_to_float(values: Reals) -> NDArray[np.float32]:
    """Values as float32, toward zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        result: NDArray[np.float32] = values.astype(np.float32)
    is_beyond = np.abs(result) > np.abs(values)
    np.nextafter(result, np.float32(0), out=result, where=is_beyond)
    return result


def half_up_to_float(values: Reals) -> NDArray[np.float32]:
    """Values as float32, the nearest; halves go toward positive infinity."""
    unit = 2.0 ** (_power(values) - _FLOAT_BITS + 1)
    result: NDArray[np.float32] = (np.floor(values / unit + 0.5) * unit).astype(np.float32)
    return result


def cut_to_half(values: Reals) -> Reals:
    """Values as float16, toward zero; what isn't normal is zero."""
    limited = np.clip(cut(values, _HALF_BITS), -_LARGEST_HALF, _LARGEST_HALF)
    result: Reals = np.where(np.abs(limited) < _LEAST_NORMAL, 0, limited)
    return result


def whole_sum(values: Reals) -> NDArray[np.float32]:
    """Sums over the last axis of values that are multiplied by whole numbers.

    All are brought to 16 bits below the largest one's power of two, toward negative infinity.
    """
    unit = 2.0 ** (_power(np.abs(values).max(-1, keepdims=True)) + 1 - _WHOLE_BITS)
    result: NDArray[np.float32] = (np.floor(values / unit) * unit).sum(-1).astype(np.float32)
    return result


def nearest(values: Reals, bits: int) -> Reals:
    """Values of a given number of significant bits, the nearest, ties to even."""
    unit = 2.0 ** (_power(values) - bits + 1)
    result: Reals = np.rint(values / unit) * unit
    return result


class Adder(NamedTuple):
    """The small floats of a chip's fused addition: significant bits, the least and the largest."""

    bits: int
    least: float
    largest: float


SHORT_ADDER = Adder(10, 2.0**-6, 2.0**9 - 2.0**-1)
LONG_ADDER = Adder(16, 2.0**-14, 2.0**17 - 2.0**1)


class Small(NamedTuple):
    """Small floats, and where something was cut from them: their magnitudes are a bit larger."""

    values: Reals
    are_cut: Truths


def small(values: Reals, adder: Adder) -> Small:
    """Numbers as an adder takes them and gives them."""
    limited = np.clip(values, -adder.largest, adder.largest)
    kept = cut(np.where(np.abs(values) < adder.least, 0, limited), adder.bits)
    return Small(kept, kept != values)


def _sum(a: Small, b: Small, adder: Adder) -> Small:
    """A sum whose operands are cut at the last place of the larger, and guard bits.

    There are no more guard bits than the smaller operand lies lower. If the signs differ and
    something of the smaller one was cut, one unit is taken from the sum.
    """
    power_a, power_b = _power(a.values), _power(b.values)
    guard = np.minimum(np.abs(power_a - power_b), _GUARD_BITS)
    unit = 2.0 ** (np.maximum(power_a, power_b) - adder.bits + 1 - guard)
    first, second = np.trunc(a.values / unit) * unit, np.trunc(b.values / unit) * unit
    first_is_cut, second_is_cut = a.are_cut | (first != a.values), b.are_cut | (second != b.values)
    total = first + second
    is_borrowed = np.where(np.abs(a.values) < np.abs(b.values), first_is_cut, second_is_cut)
    nearer = np.sign(total) * np.maximum(np.abs(total) - unit, 0)
    total = np.where((a.values * b.values < 0) & is_borrowed, nearer, total)
    result = small(total, adder)
    return Small(result.values, first_is_cut | second_is_cut | result.are_cut)


def fused_sum(convolution: Reals, second: Reals, constant: float, adder: Adder) -> Reals:
    """(convolution + second) + constant by a long adder, by a short one with the constant first.

    Where something was cut, the sum is the next float64 beyond it, which is on the right side
    of a half.
    """
    constants = Small(np.full_like(second, constant), np.zeros(second.shape, np.bool_))
    terms = [small(second, adder), constants]
    if adder is SHORT_ADDER:
        terms.reverse()
    total = small(convolution, adder)
    for term in terms:
        total = _sum(total, term, adder)
    beyond = np.nextafter(total.values, np.copysign(np.inf, total.values))
    return np.where(total.are_cut, beyond, total.values)
