"""What boards were seen to compute, as plain integers: nothing here is the engine's.

RV1103 boards gave these bytes in open-rknpu's suites (dense convolutions, halves, sums, products,
leaky ReLUs, clips, 2x2 pooling), RK3576 boards in rocket-userspace's gates (the converter, pooling
of 2x2 to 7x7, the limit after the product). Values are int64 arrays; features are (H, W, C).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

FACTOR_BITS = 14
"""Per-channel factors are fractions of 2^14."""

_RECIPROCAL_BITS = 16
_INT32 = -(1 << 31), (1 << 31) - 1


def shifted(values: Integers, bits: int, ties_away: bool = False) -> Integers:
    """Values / 2^bits: the nearest whole number; of two the even one, or that away from zero."""
    below, rest = np.divmod(values, 1 << bits)
    twice = 2 * rest - (1 << bits)
    above_is_nearer = below >= 0 if ties_away else below % 2 == 1
    nearest: Integers = below + ((twice > 0) | ((twice == 0) & above_is_nearer))
    return nearest


@dataclass(frozen=True)
class Converter:
    """The output converter: (y * scale + zero_point * 2^shift) / 2^shift, rounded, saturated."""

    scale: int
    shift: int
    zero_point: int
    ties_away: bool = False

    def __call__(self, values: Integers) -> NDArray[np.int8]:
        exact = values * self.scale + (self.zero_point << self.shift)
        return _int8(shifted(exact, self.shift, self.ties_away))


def _int8(values: Integers) -> NDArray[np.int8]:
    return np.clip(values, -128, 127).astype(np.int8)


def sums(
    x: NDArray[np.int8],
    weights: Integers,
    bias: Integers,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
    zero_point: int,
) -> Integers:
    """(H, W, K) accumulators of weights (K, C, KH, KW); top, left, bottom and right are padded."""
    top, left, bottom, right = padding
    edges = ((top, bottom), (left, right), (0, 0))
    padded = np.pad(x.astype(np.int64), edges, constant_values=zero_point)
    reach = [(size - 1) * step + 1 for size, step in zip(weights.shape[2:], dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(0, 1))
    seen = seen[:: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    total: Integers = np.tensordot(seen, weights, ((2, 3, 4), (1, 2, 3))) + bias
    return total


def scaled(accumulators: Integers, factors: Integers) -> Integers:
    """The first stage after a convolution: a factor a channel, shifted."""
    return np.clip(shifted(accumulators * factors, FACTOR_BITS), *_INT32)


def leaky(accumulators: Integers, factors: Integers, slope: int) -> Integers:
    """A leaky ReLU in place of that: what is positive isn't shifted, the rest is multiplied again.

    Both are 2^14 times what they stand for.
    """
    positive = np.clip(accumulators * factors, *_INT32)
    negative = np.clip(scaled(accumulators, factors) * slope, *_INT32)
    return np.where(accumulators < 0, negative, positive)


def looked_up(values: Integers, negative: Integers, positive: Integers, step_bits: int) -> Integers:
    """Two tables of 513 entries, 2^step_bits apart, that meet at zero; values lie within them."""
    start = np.where(values < 0, 512 << step_bits, 0)
    index, fraction = np.divmod(values + start, 1 << step_bits)
    index, fraction = np.minimum(index, 511), np.where(index == 512, 1 << step_bits, fraction)
    left = np.where(values < 0, negative[index], positive[index])
    right = np.where(values < 0, negative[index + 1], positive[index + 1])
    found: Integers = left + ((right - left) * fraction >> step_bits)
    return found


def averages(x: NDArray[np.int8], kernel: tuple[int, int], stride: int) -> NDArray[np.int8]:
    """Sums times reciprocals of both sides, each cut to 16 bits after the point."""
    total = _windows(x, kernel, stride).sum((-2, -1), dtype=np.int64)
    height, width = ((1 << _RECIPROCAL_BITS) // size for size in kernel)
    return _int8(shifted(total * height * width, 2 * _RECIPROCAL_BITS))


def greatest(x: NDArray[np.int8], kernel: tuple[int, int], stride: int) -> NDArray[np.int8]:
    """The greatest value of each window."""
    found: NDArray[np.int8] = _windows(x, kernel, stride).max((-2, -1))
    return found


def _windows(x: NDArray[np.int8], kernel: tuple[int, int], stride: int) -> NDArray[np.int8]:
    seen = np.lib.stride_tricks.sliding_window_view(x, kernel, axis=(0, 1))
    return seen[::stride, ::stride]
