"""Element formats: what a buffer holds, and the way from and to the values that people use.

Memory holds real values, or whole numbers that stand for them. Two elements of 4 bits share a
byte, the first one in its low half; each row begins with a byte of its own. bfloat16 is the upper
half of a float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TensorError
from ..native import kernels
from ..tensor import DType, Quantization, TensorInfo
from .abi import BufferFormat

DTYPES: dict[BufferFormat, DType] = {
    BufferFormat.FP32: DType.FLOAT32,
    BufferFormat.FP16: DType.FLOAT16,
    BufferFormat.UINT8: DType.UINT8,
    BufferFormat.INT8: DType.INT8,
    BufferFormat.UINT16: DType.UINT16,
    BufferFormat.INT16: DType.INT16,
    BufferFormat.CHAR: DType.INT8,
    BufferFormat.BFP16: DType.BFLOAT16,
    BufferFormat.INT32: DType.INT32,
    BufferFormat.UINT32: DType.UINT32,
    BufferFormat.INT64: DType.INT64,
    BufferFormat.UINT64: DType.UINT64,
    BufferFormat.FP64: DType.FLOAT64,
    BufferFormat.INT4: DType.INT4,
    BufferFormat.UINT4: DType.UINT4,
    BufferFormat.BOOL8: DType.BOOL,
}
"""The element type of each format."""

FORMATS = {dtype: form for form, dtype in DTYPES.items() if form is not BufferFormat.CHAR}

_NIBBLES = {DType.INT4: (-8, 7), DType.UINT4: (0, 15)}
_STORED = {DType.INT4: "uint8", DType.UINT4: "uint8", DType.BFLOAT16: "uint16"}
_FAST = (np.int8, np.uint8, np.int16, np.uint16)


def stored_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of arrays over the memory: bytes for 4-bit elements, uint16 for bfloat16."""
    return np.dtype(_STORED[dtype]) if dtype in _STORED else dtype.numpy


def stored_shape(shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """The shape of arrays over the memory: rows of 4-bit elements are half as long."""
    if dtype not in _NIBBLES or not shape:
        return shape
    return (*shape[:-1], (shape[-1] + 1) // 2)


def size_of(shape: tuple[int, ...], dtype: DType) -> int:
    """Bytes that a tensor takes in memory."""
    return math.prod(stored_shape(shape, dtype)) * stored_dtype(dtype).itemsize


def encode(values: NDArray[Any], info: TensorInfo, out: NDArray[Any]) -> None:
    """Write values to memory as a tensor has them there.

    An array of the tensor's own dtype is what the memory gets: quantised values stay as they are.
    Others are real values, which are quantised or rounded; whole numbers for a tensor of whole
    numbers. `out` has the stored shape and dtype. Raises `TensorError` for another shape than the
    tensor's.
    """
    if values.shape != info.shape:
        raise TensorError(f"tensor {info.name!r} has the shape {info.shape}; found {values.shape}")
    if info.dtype in _NIBBLES:
        is_own = values.dtype in (np.int8, np.uint8)
        whole = _whole(values, None if is_own else info.quantization, *_NIBBLES[info.dtype])
        out[...] = _pack_nibbles(whole.astype(np.int8).view(np.uint8))
    elif values.dtype == out.dtype and info.dtype is not DType.BFLOAT16:
        kernels.copy(values, out)
    elif info.dtype is DType.BFLOAT16:
        out[...] = _to_bfloat16(np.ascontiguousarray(values, np.float32))
    elif info.quantization is None:
        kernels.convert(values, out)
    elif out.dtype.type in _FAST:
        kernels.quantize(values, info.scale, info.zero_point, out)
    else:
        limits = np.iinfo(out.dtype)
        out[...] = _whole(values, info.quantization, int(limits.min), int(limits.max))


def decode(stored: NDArray[Any], info: TensorInfo, out: NDArray[np.float32]) -> None:
    """Write what memory holds as real values. `stored` has the stored shape and dtype."""
    if info.dtype in _NIBBLES:
        _dequantize(unpack_nibbles(stored, info.shape, info.dtype), info, out)
    elif info.dtype is DType.BFLOAT16:
        out.view(np.uint32)[...] = stored
        out.view(np.uint32)[...] <<= 16
    elif info.quantization is None:
        kernels.convert(stored, out)
    else:
        _dequantize(stored, info, out)


def own_values(stored: NDArray[Any], info: TensorInfo) -> NDArray[Any]:
    """What memory holds in a dtype that NumPy has, quantised as it is: a view where that is so.

    4-bit elements become int8 or uint8, bfloat16 float32.
    """
    if info.dtype in _NIBBLES:
        return unpack_nibbles(stored, info.shape, info.dtype)
    if info.dtype is DType.BFLOAT16:
        real = np.empty(info.shape, np.float32)
        decode(stored, info, real)
        return real
    return stored


def unpack_nibbles(stored: NDArray[Any], shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """4-bit elements as int8 or uint8."""
    pairs = np.empty((*stored.shape, 2), np.uint8)
    np.bitwise_and(stored, 0xF, out=pairs[..., 0])
    np.right_shift(stored, 4, out=pairs[..., 1])
    rows = pairs.reshape(*stored.shape[:-1], 2 * stored.shape[-1])[..., : shape[-1]]
    if dtype is DType.UINT4:
        return np.ascontiguousarray(rows)
    # A shift to the left and back again brings the sign along.
    signed: NDArray[Any] = np.ascontiguousarray(rows << 4).view(np.int8) >> 4
    return signed


def _pack_nibbles(values: NDArray[np.uint8]) -> NDArray[Any]:
    if values.shape[-1] % 2:
        values = np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1)
    packed: NDArray[Any] = (values[..., ::2] & 0xF) | (values[..., 1::2] << 4)
    return packed


def _whole(
    values: NDArray[Any], quantization: Quantization | None, low: int, high: int
) -> NDArray[Any]:
    """Quantised values, for elements that no kernel is for; without a quantisation the same."""
    if quantization is None:
        limited: NDArray[Any] = np.clip(values, low, high)
        return limited
    lowest, highest = float(low - quantization.zero_point), float(high - quantization.zero_point)
    real = np.rint(values / np.float64(quantization.scale))
    np.nan_to_num(real, copy=False, nan=lowest, posinf=highest, neginf=lowest)
    whole: NDArray[Any] = np.clip(real, lowest, highest).astype(np.int64)
    whole += quantization.zero_point
    return whole


def _dequantize(stored: NDArray[Any], info: TensorInfo, out: NDArray[np.float32]) -> None:
    if stored.dtype.type in _FAST:
        kernels.dequantize(stored, info.scale, info.zero_point, out)
    else:
        np.multiply(stored.astype(np.float64) - info.zero_point, info.scale, out=out,
                    casting="same_kind")  # fmt: skip


def _to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """To nearest, ties to even; what is no number stays so."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype(np.uint16)
