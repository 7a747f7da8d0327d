"""From what the device holds of an output to the caller's numbers, as the vendor's runtime does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import dequantize_affine
from ...native import kernels
from ...tensor import Quantization


def restore(
    values: NDArray[Any], quantization: Quantization, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Real values: q * scale - zero point * scale, each step rounded to float32.

    A new array of the same shape, or `out`. That is what the vendor's 32-bit library gives; one
    for 64 bits may do both steps in one, and be a unit in the last place off.
    """
    result = np.empty(values.shape, np.float32) if out is None else out
    scale, zero_point = quantization.scale, quantization.zero_point
    if values.dtype == np.int8:
        kernels.restore(values, scale, zero_point, result)
    else:
        dequantize_affine(values, scale, zero_point, out=result)
    return result


def to_unsigned(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Quantised int8 as uint8: 128 more."""
    unsigned: NDArray[np.uint8] = values.view(np.uint8) ^ np.uint8(0x80)
    return unsigned
