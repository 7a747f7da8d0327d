"""A blob of coefficients of the NN core: a stream for each core, then a record for each channel."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .....native.library import load
from .....native.memory import address_of, passing_bytes
from ..refusal import Unknown
from ..structures import CoreValues
from .kernels import Kernels
from .stream import HEADER_SIZE, Header, decode

Content = NDArray[np.uint8] | NDArray[np.int16]
"""Kernels as they are in a stream: bytes, or weights of 16 bits."""

_BLOCK = 9
_ALIGNMENT = 64
_WIDE_RECORD = 6
_SIGN = 128
_MOST_WEIGHTS = 1 << 29


@dataclass(frozen=True)
class KernelShape:
    """What a command says of its kernels.

    `per_core` is how many of a superblock a core has at most. `is_signed` says that weights are
    int8; otherwise they are uint8 less `zero_point`, or less one of each channel's own. `is_wide`
    says that they are int16.
    """

    channels: int
    depth: int
    height: int
    width: int
    is_depthwise: bool
    per_core: int
    cores: int
    is_signed: bool
    zero_point: int
    has_scales: bool
    has_negative_scales: bool
    is_wide: bool = False

    @property
    def weights(self) -> int:
        """Weights of a kernel."""
        return (1 if self.is_depthwise else self.depth) * self.height * self.width

    @property
    def has_zero_points(self) -> bool:
        return self.has_scales and not self.is_signed and not self.is_wide

    @property
    def block(self) -> int:
        """Values of a kernel that lie side by side in a stream."""
        return -(-self.weights // _BLOCK) * _BLOCK if self.is_depthwise else _BLOCK


def read_kernels(blob: NDArray[np.uint8], shape: KernelShape) -> Kernels:
    """Decode a blob; raises `Unknown` for what isn't known and what doesn't fit the command."""
    _check(shape)
    header = Header.read(blob)
    if header.is_real:
        raise Unknown("coefficients of float16 for the NN core aren't known")
    if header.are_differences:
        raise Unknown("differences of coefficients for the NN core aren't known")
    if header.is_wide != shape.is_wide:
        raise Unknown(f"coefficients of {8 << header.is_wide} bits, and a command for others")
    used = min(shape.channels, shape.cores)
    sizes_end = HEADER_SIZE + 4 * used
    if sizes_end > blob.size:
        raise Unknown(f"a coefficient blob of {blob.size} bytes for {used} cores")
    sizes = blob[HEADER_SIZE:sizes_end].view("<u4").tolist()
    count = shape.channels * shape.weights
    form = shape.channels, shape.weights
    content: Content = (
        np.zeros(form, np.int16) if shape.is_wide else passing_bytes(count).reshape(form)
    )
    zero = _SIGN if shape.is_signed else shape.zero_point
    zero_points = np.full(shape.channels, zero, np.int32)
    seen = np.zeros(shape.channels, np.int32)
    position = _aligned(sizes_end)
    plans = list(streams_of(shape, used))
    for core, bits in enumerate(sizes):
        counts, channels = plans[core]
        np.add.at(seen, channels, 1)
        stream = blob[position : position + _aligned(-(-bits // 8))]
        per_kernel = -(-shape.weights // shape.block) * shape.block + shape.has_zero_points
        told_by = 1 if shape.is_wide else 2
        values, _ = decode(header, stream, bits, told_by + per_kernel * int(counts.sum()))
        told = int(values[0]) & 0xFFFF
        if not shape.is_wide:
            told = told & 255 | (int(values[1]) & 255) << 8
        if told != counts.sum():
            raise Unknown(f"core {core} has {told} kernels, not {counts.sum()} as the command says")
        _arrange(shape, counts, channels, values[told_by:], zero_points, content)
        position += _aligned(-(-bits // 8))
    if not (seen == 1).all():
        raise Unknown("the kernels of the cores aren't the channels, each once")
    return _with_records(blob, shape, position, content, zero_points)


def _check(shape: KernelShape) -> None:
    if not shape.per_core or not shape.channels or not shape.weights:
        raise Unknown(f"kernels without a size: {shape}")
    if shape.channels * shape.weights > _MOST_WEIGHTS:
        raise Unknown(f"{shape.channels} kernels of {shape.weights} weights are too many")


def streams_of(
    shape: KernelShape, used: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """For each core, how many kernels it has in each superblock, and their channels."""
    superblocks = math.ceil(math.ceil(shape.channels / shape.cores) / shape.per_core)
    left = shape.channels - used * shape.per_core * (superblocks - 1)
    if left <= 0:
        raise Unknown(f"{shape.channels} kernels don't fill {superblocks} superblocks")
    starts = np.arange(superblocks, dtype=np.int64) * shape.per_core * used
    for core in range(used):
        counts = np.full(superblocks, shape.per_core, np.int32)
        counts[-1] = left // used + (core < left % used)
        if shape.is_depthwise:
            first, step = starts + used - 1 - core, shape.cores
        else:
            # Cores in front of this one have taken as many of each superblock.
            before = np.full(superblocks, shape.per_core * core, np.int64)
            before[-1] = left // used * core + min(core, left % used)
            first, step = starts + before, 1
        channels = np.concatenate(
            [start + np.arange(n) * step for start, n in zip(first, counts, strict=True)]
        )
        if shape.is_depthwise:
            channels = _last_row(shape, channels)
        if channels.size and not 0 <= channels.min() <= channels.max() < shape.channels:
            raise Unknown("kernels of channels that the command hasn't")
        yield counts, channels.astype(np.int32)


def _last_row(shape: KernelShape, channels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the last channels don't go round all cores, the first cores have none of them."""
    rest = shape.channels % shape.cores
    if shape.channels < shape.cores:
        return channels
    moved = channels >= shape.channels - rest
    return np.where(moved, channels - (shape.cores - rest), channels)


@cache
def _native() -> ctypes.CDLL | None:
    return load("vip_coefficients")


def _arrange(
    shape: KernelShape,
    counts: NDArray[np.int32],
    channels: NDArray[np.int32],
    values: NDArray[np.int16],
    zero_points: NDArray[np.int32],
    target: Content,
) -> None:
    """Cut one core's values into kernels, at their channels of `target`.

    Bytes count from `zero_points`; values of 16 bits are weights.
    """
    native = _native()
    if native is None:
        arrange_slowly(shape, counts, channels, values, zero_points, target)
        return
    call = CoreValues(
        superblocks=counts.size,
        kernels=address_of(counts),
        channels=address_of(channels),
        weights=shape.weights,
        block=shape.block,
        has_zero_points=shape.has_zero_points,
        is_wide=shape.is_wide,
        zero_points=address_of(zero_points),
        values=address_of(values),
        target=address_of(target),
    )
    native.anynpu_vip_arrange(ctypes.byref(call))


def arrange_slowly(
    shape: KernelShape,
    counts: NDArray[np.int32],
    channels: NDArray[np.int32],
    values: NDArray[np.int16],
    zero_points: NDArray[np.int32],
    target: Content,
) -> None:
    """The same in NumPy."""
    position = first = 0
    blocks = -(-shape.weights // shape.block)
    for count in counts.tolist():
        own = channels[first : first + count]
        if shape.has_zero_points:
            zero_points[own] = values[position : position + count] & 255
            position += count
        size = blocks * count * shape.block
        cut = values[position : position + size].reshape(blocks, count, shape.block)
        rows = cut.transpose(1, 0, 2).reshape(count, blocks * shape.block)
        kernels = rows[:, : shape.weights].astype(np.int32)
        if not shape.is_wide:
            kernels = (kernels + zero_points[own][:, None]) & 255
        target[own] = kernels
        position, first = position + size, first + count


def _with_records(
    blob: NDArray[np.uint8],
    shape: KernelShape,
    position: int,
    content: Content,
    zero_points: NDArray[np.int32],
) -> Kernels:
    if content.dtype == np.int16:
        return _with_wide_records(blob, shape, position, content.view(np.int16))
    words = 1 + shape.has_scales + (shape.has_scales and shape.has_negative_scales)
    end = position + 4 * words * shape.channels
    if end > blob.size:
        raise Unknown(f"a coefficient blob of {blob.size} bytes, whose records end at {end}")
    records = np.frombuffer(blob[position:end].tobytes(), "<u4").reshape(shape.channels, words)
    columns = [np.ascontiguousarray(records[:, number]) for number in range(words)]
    bias = columns[0].view(np.int32)
    scales = columns[1].view(np.float32) if words > 1 else None
    negative_scales = columns[2].view(np.float32) if words > 2 else None
    for array in (scales, negative_scales):
        if array is not None and not np.isfinite(array).all():
            raise Unknown("a channel's scale that is no finite number")
    for column in columns:
        column.flags.writeable = False
    form = (shape.channels, 1 if shape.is_depthwise else shape.depth, shape.height, shape.width)
    return Kernels.of_content(
        content.view(np.uint8).reshape(form), zero_points, shape.is_depthwise, bias, scales,
        negative_scales, _aligned(end),
    )  # fmt: skip


def _with_wide_records(
    blob: NDArray[np.uint8], shape: KernelShape, position: int, weights: NDArray[np.int16]
) -> Kernels:
    """The same with what is added to sums of int16: whole numbers of 48 bits in front of scales."""
    words = shape.has_scales + (shape.has_scales and shape.has_negative_scales)
    size = _WIDE_RECORD + 4 * words
    end = position + size * shape.channels
    if end > blob.size:
        raise Unknown(f"a coefficient blob of {blob.size} bytes, whose records end at {end}")
    records = blob[position:end].reshape(shape.channels, size)
    sums = np.zeros((shape.channels, 8), np.uint8)
    sums[:, 2:] = records[:, :_WIDE_RECORD]
    bias = sums.reshape(-1).view("<i8") >> 16
    factors = np.ascontiguousarray(records[:, _WIDE_RECORD:]).view("<f4")
    if not np.isfinite(factors).all():
        raise Unknown("a channel's scale that is no finite number")
    scales, negative_scales = (
        np.ascontiguousarray(factors[:, number]) if number < words else None for number in (0, 1)
    )
    form = (shape.channels, 1 if shape.is_depthwise else shape.depth, shape.height, shape.width)
    bias.flags.writeable = weights.flags.writeable = False
    return Kernels.of_wide(
        weights.reshape(form), shape.is_depthwise, bias, _aligned(end), scales, negative_scales
    )


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
