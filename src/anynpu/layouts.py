"""Pure array functions: the device's channel-blocked layout, and affine quantisation.

Nothing here keeps state; every function may be called from any thread.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .errors import TensorError
from .native import kernels

__all__ = [
    "blocks_of_surfaces",
    "dequantize_affine",
    "dequantize_nc1hwc2",
    "nc1hwc2_to_nchw",
    "nchw_to_nc1hwc2",
    "quantize_affine",
]


def nc1hwc2_to_nchw(
    array: NDArray[Any], channels: int, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Unpack channel blocks: (N, C1, H, W, C2) of any dtype to (N, `channels`, H, W).

    The result is a new array, or `out`, to whose dtype the values are cast. `channels` is the
    model's own count; the padding channels above it are dropped. C1 may be larger than needed
    (RK3588 rounds it up). Raises `TensorError` when the array isn't 5-dimensional, holds fewer
    than `channels` channels, or `out` has another shape.
    """
    nchw = _result(_unpacked_shape(array, channels), array.dtype, out)
    kernels.unpack(array, nchw)
    return nchw


def dequantize_nc1hwc2(
    array: NDArray[Any],
    channels: int,
    scale: float,
    zero_point: int,
    out: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Unpack channel blocks of integers and dequantise them, in one pass.

    The same as `dequantize_affine` of `nc1hwc2_to_nchw`: (N, C1, H, W, C2) to float32
    (N, `channels`, H, W), a new array or `out`. Raises `TensorError` as those do.
    """
    real = _result(_unpacked_shape(array, channels), np.dtype(np.float32), out)
    kernels.unpack(array, real, scale, zero_point)
    return real


def blocks_of_surfaces(array: NDArray[Any], height: int, width: int) -> NDArray[Any]:
    """Channel blocks of an image, (N, C1, H, W, C2), as a view of (N, C1, 1, S, C2).

    So the NPU writes images whose pixels are no multiple of four: S is H * W rounded up. Blocks
    that have the image's own sizes are returned as they are. Raises `TensorError` for an array that
    isn't 5-dimensional or has too few pixels.
    """
    if array.ndim != 5 or math.prod(array.shape[2:4]) < height * width:
        raise TensorError(
            f"an image of {height}x{width} can't lie in channel blocks of shape {array.shape}"
        )
    n, c1, h, w, c2 = array.shape
    if (h, w) == (height, width):
        return array
    pixels = array.reshape(n, c1, h * w, c2)[:, :, : height * width]
    image: NDArray[Any] = pixels.reshape(n, c1, height, width, c2)
    return image


def nchw_to_nc1hwc2(
    array: NDArray[Any], c2: int, c1: int | None = None, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Pack channels into blocks: (N, C, H, W) of any dtype to (N, C1, H, W, C2).

    The result is a new array, or `out`, to whose dtype the values are cast. Channels that pad the
    last block are zero. `c1` may ask for more blocks than ceil(C / C2), as RK3588 does. Raises
    `TensorError` when the array isn't 4-dimensional, the blocks are too few, or `out` has another
    shape.
    """
    if array.ndim != 4:
        raise TensorError(f"an NCHW array has 4 dimensions; this one has shape {array.shape}")
    n, channels, h, w = array.shape
    if c2 < 1:
        raise TensorError(f"c2={c2} is not a positive block size")
    blocks = -(-channels // c2) if c1 is None else c1
    if blocks * c2 < channels:
        raise TensorError(f"c1={blocks} blocks of c2={c2} can't hold {channels} channels")
    packed = _result((n, blocks, h, w, c2), array.dtype, out)
    kernels.pack(array, packed)
    return packed


def _unpacked_shape(array: NDArray[Any], channels: int) -> tuple[int, ...]:
    if array.ndim != 5:
        raise TensorError(f"an NC1HWC2 array has 5 dimensions; this one has shape {array.shape}")
    n, c1, h, w, c2 = array.shape
    if not 0 < channels <= c1 * c2:
        raise TensorError(
            f"channels={channels} is not in 1..{c1 * c2}, which C1={c1} blocks of C2={c2} hold"
        )
    return n, channels, h, w


def _result(shape: tuple[int, ...], dtype: np.dtype[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    if out is None:
        return np.empty(shape, dtype)
    if out.shape != shape:
        raise TensorError(f"the result has the shape {shape}; out has {out.shape}")
    return out


def quantize_affine(
    values: ArrayLike,
    scale: float,
    zero_point: int,
    dtype: DTypeLike = np.int8,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Quantise: saturate(round(values / scale) + zero_point), a new array of `dtype` or in `out`.

    Ties round to even, as ONNX's QuantizeLinear does; NaN becomes the lowest value. `dtype` is an
    integer type of at most 16 bits. Raises `TensorError` for a scale that isn't positive.
    """
    target = np.dtype(dtype) if out is None else out.dtype
    if not (scale > 0 and np.isfinite(scale)):
        raise TensorError(f"scale={scale} is not a positive number")
    if target.kind not in "iu" or target.itemsize > 2:
        raise TensorError(f"dtype {target} is not an integer of 8 or 16 bits")
    given = np.asarray(values)
    result = np.empty(given.shape, target) if out is None else out
    kernels.quantize(given, scale, zero_point, result)
    return result


def dequantize_affine(
    array: NDArray[Any], scale: float, zero_point: int, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Dequantise: (array - zero_point) * scale as a new float32 array, or in `out`.

    `array` has an integer dtype and any shape; `out` has the same shape.
    """
    result = np.empty(array.shape, np.float32) if out is None else out
    kernels.dequantize(array, scale, zero_point, result)
    return result
