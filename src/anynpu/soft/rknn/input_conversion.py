"""From numbers of the caller's to what the device holds, number for number as on a board.

The vendor's runtime 1.5.2 was measured for this: every result of some hundred thousand numbers,
most of them next to a tie, is reproduced (`tests/soft/rknn/test_input_conversion.py`). All steps
are float32, each rounded by itself, and what is between two whole numbers goes to the even one:

- four dimensions, up to four channels: x * K / 2^s + offset, where K is the 15-bit fixed point of
  1 / (std * scale) and the offset zero point - mean / (std * scale), rounded by itself. The NPU
  has the same constants for uint8 pictures, in integers;
- four dimensions, more channels: (x - (mean - std * scale * zero point)) / (std * scale);
- otherwise (x + zero point * scale) * (1 / scale), which wraps around where it is beyond int8;
- float16: (x - mean) / std;
- whole numbers: what is before the decimal point, limited to the type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import quantize_affine
from ...native import kernels
from ...tensor import DType
from ..engines import Port
from ..values import store_whole_numbers
from . import log

FIXED_POINT_CHANNELS = 4
"""Up to this many channels are scaled by fixed-point constants."""

_FIXED_POINT_BITS = 15
_LOWEST, _HIGHEST = -128, 127

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ChannelConstants:
    """Two numbers for each channel: x * first + second, or (x - first) / second."""

    first: Floats
    second: Floats
    divides: bool


def store_image(source: NDArray[Any], port: Port, target: NDArray[Any]) -> None:
    """Store (N, H, W, C) numbers of any strides as the device's values, in the model's order.

    Integers are real numbers here. `target` is the program's array, of the port's carrier dtype.
    """
    if _is_quantized_to_bytes(port):
        if source.dtype == np.uint8:
            kernels.look_up_pixels(source, _table(port), target)
        else:
            _take(source, _quantizing(port), target)
    elif target.dtype.kind == "f" and port.normalization is not None:
        if source.dtype == np.uint8:
            kernels.look_up_pixels(source, _table(port), target)
        else:
            _take(source, _normalizing(port), target)
    else:
        store_numbers(source.transpose(0, 3, 1, 2), port, target)


def store_numbers(source: NDArray[Any], port: Port, target: NDArray[Any]) -> None:
    """Store numbers in the model's order, for other than four dimensions or where none counts.

    Normalisation, where there is any, is the same for all of them (`engines.compiled.ports`).
    """
    if port.normalization is not None:
        mean, std = np.float32(port.normalization.mean[0]), np.float32(port.normalization.std[0])
        source = (source.astype(np.float32) - mean) / std
    if _is_quantized_to_bytes(port):
        scale, zero_point = _scale(port), _zero_point(port)
        real = np.ascontiguousarray(source, np.float32)
        kernels.quantize_wrapping(real, scale, zero_point, target)
    elif port.quantization is not None:
        quantize_affine(source, _scale(port), _zero_point(port), out=target)
    elif target.dtype.kind == "f" or source.dtype == target.dtype:
        kernels.convert(source, target)
    else:
        store_whole_numbers(np.trunc(source) if source.dtype.kind == "f" else source, target)


def wraps(source: NDArray[Any], port: Port) -> bool:
    """Whether `store_numbers` would wrap some numbers around."""
    if not _is_quantized_to_bytes(port):
        return False
    step = np.float32(_scale(port))
    quantized = np.rint((source + np.float32(_zero_point(port)) * step) * (np.float32(1) / step))
    return not bool(np.all((quantized >= _LOWEST) & (quantized <= _HIGHEST)))


def _take(source: NDArray[Any], how: ChannelConstants, target: NDArray[Any]) -> None:
    if source.dtype not in (np.float32, np.float16):
        source = source.astype(np.float32)
    kernels.take_pixels(source, how.first, how.second, target, divides=how.divides)


@lru_cache(maxsize=64)
def _quantizing(port: Port) -> ChannelConstants:
    if port.shape[1] <= FIXED_POINT_CHANNELS:
        factors, offsets = _fixed_point(port)
        fractions = [factor / 2.0**shift for factor, shift in factors]
        return ChannelConstants(_floats(fractions), _floats(offsets), divides=False)
    mean, std = _mean_and_std(port)
    step = std * np.float32(_scale(port))
    return ChannelConstants(mean - step * np.float32(_zero_point(port)), step, divides=True)


@lru_cache(maxsize=64)
def _normalizing(port: Port) -> ChannelConstants:
    return ChannelConstants(*_mean_and_std(port), divides=True)


@lru_cache(maxsize=64)
def _table(port: Port) -> NDArray[Any]:
    """(C, 256): what each byte of a channel becomes.

    As the NPU computes it where it does, else as the processor does.
    """
    channels = port.shape[1]
    is_quantized = port.dtype is DType.INT8
    table = np.empty((channels, 256), np.int8 if is_quantized else np.float32)
    if is_quantized and channels <= FIXED_POINT_CHANNELS:
        factors, offsets = _fixed_point(port)
        for channel, (factor, shift) in enumerate(factors):
            whole = [_shift_to_even(byte * factor, shift) + offsets[channel] for byte in range(256)]
            table[channel] = np.clip(whole, _LOWEST, _HIGHEST)
        return table
    how = _quantizing(port) if is_quantized else _normalizing(port)
    bytes_ = np.arange(256, dtype=np.float32)
    every = np.repeat(bytes_[:, None], channels, axis=1)[None, :, None, :]
    _take(every, how, table[None, :, :, None])
    return table


def _fixed_point(port: Port) -> tuple[list[tuple[int, int]], list[int]]:
    """((factor, shift), offset) of each channel."""
    scale, zero_point = _scale(port), _zero_point(port)
    factors, offsets = [], []
    for mean, std in zip(*_mean_and_std(port), strict=True):
        step = float(std) * float(np.float32(scale))
        shift = _FIXED_POINT_BITS - math.frexp(1 / step)[1]
        factors.append((round(2.0**shift / step), shift))
        offsets.append(round(zero_point - float(mean) / step))
    return factors, offsets


def _shift_to_even(value: int, shift: int) -> int:
    """Value / 2^shift, rounded to nearest, ties to even."""
    if shift <= 0:
        return value << -shift
    half = 1 << (shift - 1)
    whole, rest = value >> shift, value & ((1 << shift) - 1)
    return whole + (rest > half or (rest == half and whole & 1))


def _mean_and_std(port: Port) -> tuple[Floats, Floats]:
    """For each channel; a normalisation that gives one of them gives it for all."""
    channels, given = port.shape[1], port.normalization
    if given is None:
        return np.zeros(channels, np.float32), np.ones(channels, np.float32)
    mean, std = (np.broadcast_to(_floats(v), (channels,)) for v in (given.mean, given.std))
    rest = slice(FIXED_POINT_CHANNELS, None)
    if (mean[rest] != mean[0]).any() or (std[rest] != std[0]).any():
        log.warning(
            f"input {port.name!r}: the runtime 1.5.2 normalises channels from the fifth on as it "
            "does the first; here each has its own mean and std"
        )
    return np.ascontiguousarray(mean), np.ascontiguousarray(std)


def _floats(values: Any) -> Floats:
    return np.asarray(values, np.float32)


def _is_quantized_to_bytes(port: Port) -> bool:
    return port.dtype is DType.INT8 and port.quantization is not None


def _scale(port: Port) -> float:
    return port.quantization.scale if port.quantization is not None else 1.0


def _zero_point(port: Port) -> int:
    return port.quantization.zero_point if port.quantization is not None else 0
