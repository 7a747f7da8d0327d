"""Store real values in the program's arrays: quantised, rounded, saturated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..layouts import quantize_affine
from ..native import kernels
from .engines import Port


def store_real(source: NDArray[Any], port: Port, target: NDArray[Any]) -> None:
    """Store values in the model's order of axes: normalised, then as the port's dtype has it."""
    if port.normalization is not None:
        source = port.normalization.apply(source)
    if port.quantization is not None:
        scale, zero_point = port.quantization.scale, port.quantization.zero_point
        quantize_affine(source, scale, zero_point, out=target)
    elif target.dtype.kind == "f" or source.dtype == target.dtype:
        kernels.convert(source, target)
    else:
        store_whole_numbers(source, target)


def store_whole_numbers(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Convert to an integer or boolean dtype: saturating, rounding to nearest; NaN is 0."""
    if target.dtype.kind == "b":
        np.copyto(target, source != 0)
        return
    limits = np.iinfo(target.dtype.name)
    if source.dtype.kind == "f":
        source = np.nan_to_num(np.rint(source.astype(np.float64)))
        # float64 can't hold the largest int64; the next smaller value it has is safe to cast.
        highest = np.nextafter(float(limits.max), 0) if limits.bits == 64 else float(limits.max)
        source = np.clip(source, float(limits.min), highest)
    elif source.dtype.kind != "b":
        held = np.iinfo(source.dtype)
        low, high = max(limits.min, held.min), min(limits.max, held.max)
        source = np.clip(source, low, high)
    np.copyto(target, source, casting="unsafe")
