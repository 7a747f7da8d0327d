"""Pure array functions: the device's channel-blocked layout, and affine quantisation.

Nothing here keeps state; every function may be called from any thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .errors import TensorError
from .native import kernels

__all__ = [
    "copy_channels_last",
    "dequantize_affine",
    "nc1hwc2_to_nchw",
    "nchw_to_nc1hwc2",
    "quantize_affine",
]

_FEW_CHANNELS = 16


def nc1hwc2_to_nchw(
    array: NDArray[Any], channels: int, out: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Unpack channel blocks: (N, C1, H, W, C2) of any dtype to (N, `channels`, H, W).

    The result is a new array, or `out`, to whose dtype the values are cast. `channels` is the
    model's own count; the padding channels above it are dropped. C1 may be larger than needed
    (RK3588 rounds it up). Raises `TensorError` when the array isn't 5-dimensional, holds fewer
    than `channels` channels, or `out` has another shape.
    """
    if array.ndim != 5:
        raise TensorError(f"an NC1HWC2 array has 5 dimensions; this one has shape {array.shape}")
    n, c1, h, w, c2 = array.shape
    if not 0 < channels <= c1 * c2:
        raise TensorError(
            f"channels={channels} is not in 1..{c1 * c2}, which C1={c1} blocks of C2={c2} hold"
        )
    if out is not None and out.dtype != array.dtype and out.shape == (n, channels, h, w):
        kernels.convert(nc1hwc2_to_nchw(array, channels), out)
        return out
    nchw = _result((n, channels, h, w), array.dtype, out)
    whole, rest = divmod(channels, c2)
    if whole:
        # Splitting an axis is a view for any strides.
        blocks = nchw[:, : whole * c2].reshape(n, whole, c2, h, w)
        np.copyto(blocks, array[:, :whole].transpose(0, 1, 4, 2, 3))
    if rest:
        nchw[:, whole * c2 :] = array[:, whole, :, :, :rest].transpose(0, 3, 1, 2)
    return nchw


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
    if packed.dtype != array.dtype:
        source, array = array, np.empty(array.shape, packed.dtype)
        kernels.convert(source, array)
    whole, rest = divmod(channels, c2)
    if whole:
        full = array[:, : whole * c2].reshape(n, whole, c2, h, w).transpose(0, 1, 3, 4, 2)
        packed[:, :whole] = full
    packed[:, whole:] = 0
    if rest:
        packed[:, whole, :, :, :rest] = array[:, whole * c2 :].transpose(0, 2, 3, 1)
    return packed


def copy_channels_last(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy (N, H, W, C) values of any strides, cast to the target's dtype.

    Where the source's channels lie apart, as those of a transposed NCHW array do, few channels are
    copied one by one: NumPy's own order of copying is then some seven times slower.
    """
    channels = source.shape[-1]
    if source.strides[-1] == source.itemsize or channels > _FEW_CHANNELS:
        np.copyto(target, source, casting="unsafe")
        return
    for channel in range(channels):
        np.copyto(target[..., channel], source[..., channel], casting="unsafe")


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
    limits = np.iinfo(target.name)
    with np.errstate(over="ignore", invalid="ignore"):
        real = np.divide(values, np.float32(scale), dtype=np.float32)
        np.rint(real, out=real)
        np.add(real, np.float32(zero_point), out=real)
        np.fmin(np.fmax(real, np.float32(limits.min), out=real), np.float32(limits.max), out=real)
    if out is None:
        return np.asarray(real).astype(target)
    np.copyto(out, real, casting="unsafe")
    return out


def dequantize_affine(
    array: NDArray[Any], scale: float, zero_point: int, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Dequantise: (array - zero_point) * scale as a new float32 array, or in `out`.

    `array` has an integer dtype and any shape; `out` has the same shape.
    """
    real = np.subtract(array, np.float32(zero_point), out=out, dtype=np.float32)
    result: NDArray[np.float32] = np.multiply(real, np.float32(scale), out=real)
    return result
