"""The kernels in NumPy: the same values as the C ones, for any strides and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_FEW_CHANNELS = 16


def convert(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy values to an array of the same shape and another dtype."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(target, source, casting="unsafe")


def dequantize(
    source: NDArray[Any], scale: float, zero_point: int, target: NDArray[np.float32]
) -> None:
    """Target = (source - zero point) * scale."""
    np.subtract(source, np.float32(zero_point), out=target, dtype=np.float32)
    np.multiply(target, np.float32(scale), out=target)


def quantize(source: ArrayLike, scale: float, zero_point: int, target: NDArray[Any]) -> None:
    """Target = saturate(round(source / scale) + zero point); NaN becomes the lowest value."""
    limits = np.iinfo(target.dtype.name)
    low, high = np.float32(limits.min - zero_point), np.float32(limits.max - zero_point)
    with np.errstate(over="ignore", invalid="ignore"):
        real = np.asarray(np.divide(source, np.float32(scale), dtype=np.float32))
        np.fmin(np.fmax(real, low, out=real), high, out=real)
        np.rint(real, out=real)
        np.add(real, np.float32(zero_point), out=real)
        np.copyto(target, real, casting="unsafe")


def quantize_wrapping(
    source: NDArray[Any], scale: float, zero_point: int, target: NDArray[np.int8]
) -> None:
    """Target = the low eight bits of round((source + zero point * scale) * (1 / scale)).

    0 for no number; each step is rounded to float32.
    """
    limits, step = np.iinfo(np.int32), np.float32(scale)
    with np.errstate(over="ignore", invalid="ignore"):
        real = np.add(source, np.float32(zero_point) * step, dtype=np.float32)
        np.multiply(real, np.float32(1) / step, out=real)
        # float64 holds the limits of int32 exactly.
        whole = np.clip(np.nan_to_num(np.rint(real).astype(np.float64)), limits.min, limits.max)
        np.copyto(target, whole.astype(np.int32), casting="unsafe")


def restore(
    source: NDArray[Any], scale: float, zero_point: int, target: NDArray[np.float32]
) -> None:
    """Target = source * scale - zero point * scale, each step rounded to float32."""
    np.multiply(source, np.float32(scale), out=target, dtype=np.float32)
    np.subtract(target, np.float32(zero_point) * np.float32(scale), out=target)


def take_pixels(
    source: NDArray[Any],
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    target: NDArray[Any],
    *,
    divides: bool,
) -> None:
    """(N, H, W, C) numbers to (N, C, H, W), normalised with constants of each channel."""
    real = source.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if divides:
            np.divide(np.subtract(real, first, out=real), second, out=real)
        else:
            np.add(np.multiply(real, first, out=real), second, out=real)
        planes = real.transpose(0, 3, 1, 2)
        if target.dtype == np.int8:
            # What is no number becomes the highest value.
            planes = np.rint(np.fmax(np.fmin(planes, np.float32(127)), np.float32(-128)))
        np.copyto(target, planes, casting="unsafe")


def look_up_pixels(source: NDArray[np.uint8], table: NDArray[Any], target: NDArray[Any]) -> None:
    """(N, H, W, C) bytes to (N, C, H, W) of the table's dtype; the table is (C, 256)."""
    for channel in range(source.shape[3]):
        np.take(table[channel], source[..., channel], out=target[:, channel])


def unpack(blocks: NDArray[Any], target: NDArray[Any]) -> None:
    """(N, C1, H, W, C2) to (N, C, H, W) of the same dtype."""
    n, _, h, w, c2 = blocks.shape
    whole, rest = divmod(target.shape[1], c2)
    if whole:
        # Splitting an axis is a view for any strides.
        channels = target[:, : whole * c2].reshape(n, whole, c2, h, w)
        np.copyto(channels, blocks[:, :whole].transpose(0, 1, 4, 2, 3))
    if rest:
        target[:, whole * c2 :] = blocks[:, whole, :, :, :rest].transpose(0, 3, 1, 2)


def pack(source: NDArray[Any], blocks: NDArray[Any]) -> None:
    """(N, C, H, W) to (N, C1, H, W, C2) of the same dtype; channels that pad are zero."""
    n, _, h, w, c2 = blocks.shape
    whole, rest = divmod(source.shape[1], c2)
    if whole:
        full = source[:, : whole * c2].reshape(n, whole, c2, h, w).transpose(0, 1, 3, 4, 2)
        blocks[:, :whole] = full
    blocks[:, whole:] = 0
    if rest:
        blocks[:, whole, :, :, :rest] = source[:, whole * c2 :].transpose(0, 2, 3, 1)


def copy_channels_last(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy (N, H, W, C) values of any strides, cast to the target's dtype.

    Where the source's channels lie apart, few are copied one by one: NumPy's own order of copying
    is then some seven times slower.
    """
    channels = source.shape[-1]
    if source.strides[-1] == source.itemsize or channels > _FEW_CHANNELS:
        np.copyto(target, source, casting="unsafe")
        return
    for channel in range(channels):
        np.copyto(target[..., channel], source[..., channel], casting="unsafe")


def cells_reaching(values: NDArray[Any], first: int, last: int, least: Any) -> NDArray[np.intp]:
    """The cells of (blocks, cells, lanes) of which any of some channels is `least` or more."""
    _, count, lanes = values.shape
    if lanes == 1:
        return np.flatnonzero(values[first:last, :, 0].max(axis=0) >= least)
    reaches = np.zeros(count, np.bool_)
    for block in range(first // lanes, -(-last // lanes)):
        start = block * lanes
        own = values[block, :, max(first - start, 0) : last - start]
        cells, _ = np.nonzero(own >= least)
        reaches[cells] = True
    return np.flatnonzero(reaches)
