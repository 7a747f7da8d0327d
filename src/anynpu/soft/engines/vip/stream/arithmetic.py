"""The stream processor's arithmetic on float32 values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float32]


def multiply(a: Reals | np.float32, b: Reals | np.float32) -> Reals:
    result: Reals = np.multiply(a, b, dtype=np.float32)
    return result


def add(a: Reals | np.float32, b: Reals | np.float32) -> Reals:
    result: Reals = np.add(a, b, dtype=np.float32)
    return result


def subtract(a: Reals | np.float32, b: Reals | np.float32) -> Reals:
    result: Reals = np.subtract(a, b, dtype=np.float32)
    return result


def total(values: Reals, is_maximum: bool) -> Reals:
    """The sum, or the maximum, of each row."""
    result: Reals = values.max(1) if is_maximum else values.sum(1, dtype=np.float32)
    return result
