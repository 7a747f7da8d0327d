"""The tables that the stream processor has itself: a sigmoid and a hyperbolic tangent.

Their entries and the way in which they are read were found by giving programs that read no more
than an entry arguments of every size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..rounding import Reals as WideReals
from .arithmetic import Reals
from .tables import FunctionTable, PiecewiseTable

_EXPONENT_BITS = 4
_LEAST, _BEYOND = np.float32(2.0**-7), np.float32(2.0**9)
"""Magnitudes with an entry of their own, and the first that has none."""

_BITS_OF_SIGMOID, _BITS_OF_TANH = 15, 12
"""Of an entry's mantissa."""


@dataclass(frozen=True, eq=False)
class OddTable(FunctionTable):
    """A function of magnitudes, whose results get the argument's sign.

    What is less than the least magnitude lies between the first entries of both signs.
    """

    magnitudes: PiecewiseTable

    def _lookup(self, argument: Reals) -> tuple[Reals, Reals, Reals]:
        magnitude = np.abs(argument)
        inside = np.clip(magnitude, _LEAST, np.nextafter(_BEYOND, np.float32(0)))
        entry, fraction, difference = (
            self.magnitudes.entry(inside),
            self.magnitudes.fraction(inside),
            self.magnitudes.difference(inside),
        )
        is_small = magnitude < _LEAST
        way = (np.float32(1) - magnitude / _LEAST) * np.float32(0.5)
        sign = np.copysign(np.float32(1), argument)
        difference = np.where(is_small, -2 * entry, difference) * sign
        return entry * sign, np.where(is_small, way, fraction), difference


def _entries(function: Callable[[WideReals], WideReals], bits: int, *, is_signed: bool) -> Reals:
    """A table's values, by sign, the exponent's lower bits and as much of the mantissa as fits."""
    mantissa_bits = 10 - _EXPONENT_BITS - is_signed
    values = np.zeros(1024, np.float32)
    half = 1 << _EXPONENT_BITS >> 1
    exponents = np.arange(1 - half, half + 1)[:, None]
    steps = np.arange(1 << mantissa_bits)
    magnitudes: WideReals = 2.0**exponents * (1 + steps / (1 << mantissa_bits))
    places = ((exponents + 127) << mantissa_bits | steps) & (
        1 << mantissa_bits + _EXPONENT_BITS
    ) - 1
    for sign in range(1 + is_signed):
        mantissa, exponent = np.frexp(function(-magnitudes if sign else magnitudes))
        rounded = np.rint(np.ldexp(mantissa, bits + 1))
        values[places | sign << 9] = np.ldexp(rounded, exponent - bits - 1)
    return values


def _sigmoid(values: WideReals) -> WideReals:
    result: WideReals = 1 / (1 + np.exp(-values))
    return result


SIGMOID_TABLE = PiecewiseTable(
    _entries(_sigmoid, _BITS_OF_SIGMOID, is_signed=True),
    is_signed=True,
    is_odd=False,
    exponent_bits=_EXPONENT_BITS,
    too_large=(np.float32(0), np.float32(1)),
)
TANH_TABLE = OddTable(
    PiecewiseTable(
        _entries(np.tanh, _BITS_OF_TANH, is_signed=False),
        is_signed=False,
        is_odd=False,
        exponent_bits=_EXPONENT_BITS,
        too_large=(np.float32(1), np.float32(1)),
    )
)
