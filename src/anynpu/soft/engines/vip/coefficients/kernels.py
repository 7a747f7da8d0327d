"""Decoded kernels, held once: as the C kernel multiplies them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..structures import KERNELS, QUAD

_LONGEST_STEP = 255
"""What a byte and a zero point differ by at most."""


_PART = 16
"""Kernels of a part."""
_LEAST_PARTED = 1 << 18
"""Bytes of kernels whose parts take less than what each tile of a layer has of each part."""


class Part(NamedTuple):
    """Some of many kernels, from kernel `start` on, which look at channels from `first` on."""

    start: int
    first: int
    kernels: Kernels


@dataclass(frozen=True, eq=False)
class Kernels:
    """Decoded coefficients, read-only, of the shape `form`: (channels, depth, height, width).

    `stored` are bytes, each channel's counting from its one of `zero_points`: in the order of
    `form` where `is_depthwise`, otherwise in quads of channels, less 128 (see `quads_of`). Of int16
    weights it is themselves, in the order of `form`. `bias` is one a channel; `scales` and
    `negative_scales` are those of channels with their own. `end` is the byte of the blob after the
    records.

    Where few kernels look at more than few channels, as those of a convolution channel by channel
    that is compiled as a dense one, `parts` are what is there, and `stored` is empty.
    """

    stored: NDArray[np.uint8] | NDArray[np.int16]
    zero_points: NDArray[np.int16]
    form: tuple[int, int, int, int]
    is_depthwise: bool
    bias: NDArray[np.int32] | NDArray[np.int64]
    scales: NDArray[np.float32] | None
    negative_scales: NDArray[np.float32] | None
    end: int
    parts: tuple[Part, ...] = ()

    @classmethod
    def of_content(
        cls,
        content: NDArray[np.uint8],
        zero_points: NDArray[np.integer],
        is_depthwise: bool,
        bias: NDArray[np.int32],
        scales: NDArray[np.float32] | None,
        negative_scales: NDArray[np.float32] | None,
        end: int,
        *,
        has_parts: bool = True,
    ) -> Kernels:
        """Bytes (channels, depth, height, width) that count from zero points. Copied."""
        zeros = zero_points.astype(np.int16)
        zeros.flags.writeable = False
        form = content.shape
        spans = () if is_depthwise or not has_parts else _spans(content, zeros)
        if spans:
            parts = []
            for start, first, last in spans:
                of = slice(start, start + _PART)
                part = cls.of_content(
                    content[of, first:last], zeros[of], False, bias[of],
                    None if scales is None else scales[of],
                    None if negative_scales is None else negative_scales[of],
                    end, has_parts=False,
                )  # fmt: skip
                parts.append(Part(start, first, part))
            nothing = np.empty(0, np.uint8)
            return cls(
                nothing, zeros, form, False, bias, scales, negative_scales, end, tuple(parts)
            )
        stored = content.reshape(-1).copy() if is_depthwise else quads_of(content, zeros)
        stored.flags.writeable = False
        return cls(stored, zeros, form, is_depthwise, bias, scales, negative_scales, end)

    def joined(self) -> Kernels:
        """The same kernels, as a whole."""
        zeros = self.zero_points
        content = (self.weights + zeros[:, None, None, None]).astype(np.uint8)
        return Kernels.of_content(
            content, zeros, self.is_depthwise, self.bias.astype(np.int32), self.scales,
            self.negative_scales, self.end, has_parts=False,
        )  # fmt: skip

    @classmethod
    def of_wide(
        cls,
        weights: NDArray[np.int16],
        is_depthwise: bool,
        bias: NDArray[np.int64],
        end: int,
        scales: NDArray[np.float32] | None = None,
        negative_scales: NDArray[np.float32] | None = None,
    ) -> Kernels:
        """Weights of 16 bits, which aren't copied."""
        zeros = np.zeros(weights.shape[0], np.int16)
        form = weights.shape
        return cls(weights, zeros, form, is_depthwise, bias, scales, negative_scales, end)

    @property
    def weights(self) -> NDArray[np.int16]:
        """All weights less their zero points, in the order of `form`; made anew."""
        channels, depth, height, width = self.form
        stored = self.stored
        if self.parts:
            whole = np.zeros(self.form, np.int16)
            for start, first, part in self.parts:
                count, seen, _, _ = part.form
                whole[start : start + count, first : first + seen] = part.weights
            return whole
        if stored.dtype == np.int16:
            return stored.reshape(self.form).astype(np.int16, copy=False)
        if self.is_depthwise:
            content = stored.reshape(self.form)
        else:
            blocks = math.ceil(channels / KERNELS)
            split = stored.reshape(blocks, -1, height, width, KERNELS, QUAD).transpose(
                0, 4, 1, 5, 2, 3
            )
            content = split.reshape(blocks * KERNELS, -1, height, width)[:channels, :depth] ^ 128
        return content.astype(np.int16) - self.zero_points[:, None, None, None]

    def largest_sums(self, most: int) -> NDArray[np.int64]:
        """What a channel's sum of products with bytes less 128 comes to at most, without its bias.

        An estimate that is quick to make, where that isn't greater than `most`.
        """
        channels, depth, height, width = self.form
        estimate = depth * height * width * _LONGEST_STEP * 128
        if estimate <= most:
            return np.full(channels, estimate, np.int64)
        sums = [int(np.abs(kernel).sum(dtype=np.int64)) * 128 for kernel in self.weights]
        return np.array(sums, np.int64)


def _spans(
    content: NDArray[np.uint8], zero_points: NDArray[np.int16]
) -> list[tuple[int, int, int]]:
    """Of each part the first kernel, the first channel that it looks at, and the one past the last.

    None where that would hardly save half of the bytes.
    """
    channels, _, height, width = content.shape
    spans: list[tuple[int, int, int]] = []
    if content.size < _LEAST_PARTED:
        return spans
    zeros = zero_points.astype(np.uint8)[:, None, None, None]
    taken = 0
    for start in range(0, channels, _PART):
        of = slice(start, start + _PART)
        seen = np.flatnonzero((content[of] != zeros[of]).any(axis=(0, 2, 3)))
        first, last = (int(seen[0]), int(seen[-1]) + 1) if seen.size else (0, 1)
        taken += content[of].shape[0] * (last - first) * height * width
        if 2 * taken > content.size:
            return []
        spans.append((start, first, last))
    return spans


def quads_of(content: NDArray[np.uint8], zero_points: NDArray[np.int16]) -> NDArray[np.uint8]:
    """The bytes of dense kernels (channels, depth, height, width), four by four and less 128.

    As (block of kernels, quad of channels, row, pixel, kernel, one of a quad); what fills up a quad
    counts for nothing.
    """
    channels, depth, height, width = content.shape
    blocks, quads = math.ceil(channels / KERNELS), math.ceil(depth / QUAD)
    padded = content
    if depth % QUAD or channels % KERNELS:
        padded = np.zeros((blocks * KERNELS, quads * QUAD, height, width), np.uint8)
        padded[:channels, :depth] = content
        padded[:channels, depth:] = zero_points.astype(np.uint8)[:, None, None, None]
    split = padded.reshape(blocks, KERNELS, quads, QUAD, height, width)
    stored = np.ascontiguousarray(split.transpose(0, 2, 4, 5, 1, 3)).reshape(-1)
    stored ^= 128
    return stored
