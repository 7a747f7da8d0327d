"""The kernels that quantise and dequantise, against NumPy's expressions for the same values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu.native import kernels

from .measure import Comparison, compare

_SHAPE = (1, 3, 640, 640)
_CASES: tuple[tuple[str, Any, float, int], ...] = (
    ("uint8 affine", np.uint8, 0.0078, 127),
    ("int8 affine", np.int8, 0.0078, -1),
    ("int16 dynamic fixed point", np.int16, 2.0**-12, 0),
)


def run(rounds: int) -> Iterator[Comparison]:
    """Both ways for each quantisation, on a picture of 640 x 640."""
    real = np.random.default_rng(1).uniform(-1, 1, _SHAPE).astype(np.float32)
    for name, dtype, scale, zero_point in _CASES:
        yield from _measure(name, real, np.dtype(dtype), scale, zero_point, rounds)


def _measure(
    name: str,
    real: NDArray[np.float32],
    dtype: np.dtype[Any],
    scale: float,
    zero_point: int,
    rounds: int,
) -> Iterator[Comparison]:
    quantised = np.empty(real.shape, dtype)
    back = np.empty(real.shape, np.float32)
    limits, step, zero = np.iinfo(dtype), np.float32(scale), np.float32(zero_point)
    yield compare(
        f"quantise / NumPy, {name}",
        lambda: kernels.quantize(real, scale, zero_point, quantised),
        lambda: np.clip(np.rint(real / step) + zero, limits.min, limits.max).astype(dtype),
        rounds=rounds,
    )
    yield compare(
        f"dequantise / NumPy, {name}",
        lambda: kernels.dequantize(quantised, scale, zero_point, back),
        lambda: (quantised.astype(np.float32) - zero) * step,
        rounds=rounds,
    )
