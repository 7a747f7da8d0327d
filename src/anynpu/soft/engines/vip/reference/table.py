"""Look-up tables over an exponent and a few bits of mantissa, linear in between."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..rounding import Reals
from ..tasks import Table

_LOWEST, _HIGHEST = -15, 15
_FLIP = 16
_HALF = 512
_ENTRIES = 1024


def look_up(table: Table, values: Reals) -> Reals:
    """The table's function of finite values."""
    steps = 16 if table.is_signed else 32
    magnitude = np.abs(values)
    _, raised = np.frexp(magnitude)
    exponent = np.clip(np.where(magnitude > 0, raised - 1, _LOWEST), _LOWEST, _HIGHEST)
    normal = magnitude / np.exp2(exponent) - 1
    # Below the least exponent arguments go on linearly from zero.
    least = magnitude / 2.0 ** (_LOWEST + 1)
    position = np.clip(np.where(exponent > _LOWEST, normal, least) * steps, 0, steps - 1e-6)
    step = np.floor(position).astype(np.int64)
    rest = position - step
    index = _exponent_index(table, exponent) * steps + step
    if not table.is_signed:
        found = _between(table, index, (index + 1) & (_ENTRIES - 1), rest)
        return np.where(values < 0, -found, found)
    half = np.where(values < 0, _HALF, 0)
    found = _between(table, half + index, half + ((index + 1) & (_HALF - 1)), rest)
    # At zero it is between what both halves begin with, as measured.
    zero = int(_exponent_index(table, np.array(_LOWEST)) * steps)
    middle = (table.values[zero] + table.values[_HALF + zero]) / 2
    return np.where(values == 0, middle, found)


def _exponent_index(table: Table, exponent: NDArray[np.int64]) -> NDArray[np.int64]:
    index = exponent - _LOWEST
    return index ^ _FLIP if table.exponents_are_flipped else index


def _between(table: Table, first: NDArray[np.int64], next: NDArray[np.int64], rest: Reals) -> Reals:
    low = table.values[first]
    return low + (table.values[next] - low) * rest
