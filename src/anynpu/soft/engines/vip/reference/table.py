"""Look-up tables over an exponent and a few bits of mantissa, linear in between."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..refusal import Refusal
from ..rounding import TABLE_BITS, Reals, nearest
from ..tasks import Table

_ENTRIES = 1024
_LEAST = 2.0**-15
"""What an entry without an exponent stands for, where an argument of 0 finds it."""


def look_up(table: Table, values: Reals) -> Reals:
    """The table's function; raises `Refusal` for values that aren't finite."""
    if not np.isfinite(values).all():
        raise Refusal("what a table makes of float16 values that aren't finite isn't known")
    half = _ENTRIES // 2 if table.is_signed else _ENTRIES
    steps = half // table.exponents
    lowest = 1 - table.exponents // 2
    highest = lowest + table.exponents - 1
    magnitude = np.abs(values)
    _, raised = np.frexp(magnitude)
    exponent = np.clip(np.where(magnitude > 0, raised - 1, lowest), lowest, highest)
    position = (magnitude / np.exp2(exponent) - 1) * steps
    if table.slopes is None:
        # Below the least exponent arguments go on linearly from zero.
        least = magnitude / 2.0 ** (lowest + 1) * steps
        position = np.where(exponent > lowest, position, least)
    step = np.clip(np.floor(position), 0, steps - 1).astype(np.int64)
    index = _places(table, exponent - lowest) * steps + step
    begin = np.where((values < 0) & table.is_signed, half, 0)
    found = _between(table, begin + index, begin + (index + 1) % half, position - step)
    sign = 1.0 if table.is_signed else np.where(values < 0, -1.0, 1.0)
    # At zero it is between what both halves begin with, an odd function's half of that: measured.
    zero = int(_places(table, np.array(0)) * steps)
    middle = (table.values[zero] + (table.values[half + zero] if table.is_signed else 0.0)) / 2
    if table.slopes is None and table.is_flipped and not (table.is_signed or table.values[zero]):
        # The sign of T527's zero is that of odd functions' negative half: measured in int16.
        middle = -_LEAST
    is_last = (exponent == highest) & (step == steps - 1)
    if table.slopes is None:
        # Behind the last entry there is nothing to go on to.
        found = np.where(is_last, table.values[begin + index], found)
        return np.where(values == 0, middle, found * sign)
    start = 2.0**highest * (2 - 1 / steps)
    rise: float | Reals = table.slopes[0]
    if table.is_signed:
        rise = np.where(values < 0, -table.slopes[1], rise)
    beyond = table.values[begin + index] + (magnitude - start) * rise
    found = np.where(is_last, beyond, found) * sign
    # A table behind coefficients gives float32.
    result = np.where(magnitude < 2.0**lowest, middle + values * table.slopes[2], found)
    return result.astype(np.float32).astype(np.float64)


def _places(table: Table, exponent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the entries of an exponent are, counted from the least one."""
    return exponent ^ (table.exponents // 2) if table.is_flipped else exponent


def _between(table: Table, first: NDArray[np.int64], next: NDArray[np.int64], rest: Reals) -> Reals:
    low, high = table.values[first], table.values[next]
    if table.rounds_parts:
        return nearest(low * (1 - rest), TABLE_BITS) + nearest(high * rest, TABLE_BITS)
    if table.slopes is None:  # The tensor processor's.
        return low + nearest(nearest(high - low, TABLE_BITS) * rest, TABLE_BITS)
    return low + (high - low) * rest
