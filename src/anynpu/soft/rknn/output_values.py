"""From what the device holds of an output to the caller's numbers, as the vendor's runtime does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import dequantize_affine
from ...native import kernels
from ...soc import Soc
from ...tensor import Quantization
from ..engines import Port
from .attributes import is_feature, whole_blocks

_HALF = np.finfo(np.float16)


def to_real(
    source: NDArray[Any], port: Port, quantization: Quantization, soc: Soc, out: NDArray[np.float32]
) -> None:
    """The real values of an output, in its own shape, as librknnrt 1.5.2 gives them.

    It computes (q - zero point) * scale but for whole channel blocks and whole groups of 64
    bytes of a feature map: there q * scale - zero point * scale. On RK3566 and RK3568 it has the
    NPU convert feature maps of whole groups, which multiplies by the scale in float16; no scale
    was seen that float16 doesn't hold.
    """
    scale, zero_point = quantization.scale, quantization.zero_point
    if len(port.shape) != 4 or not is_feature(port):
        dequantize_affine(source, scale, zero_point, out=out)
        return
    n, c, h, w = port.shape
    channels, pixels = whole_blocks(port, soc)
    if soc.has_small_blocks and pixels == h * w:
        is_normal = _HALF.smallest_normal <= scale <= _HALF.max
        held = float(np.float16(scale)) if is_normal else scale
        dequantize_affine(source, held, zero_point, out=out)
        return
    source, out = source.reshape(n, c, -1), out.reshape(n, c, -1)
    restore(source[:, :channels], quantization, out[:, :channels])
    for rest in (np.s_[:, :channels, pixels:], np.s_[:, channels:]):
        if source[rest].size:
            dequantize_affine(source[rest], scale, zero_point, out=out[rest])


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
