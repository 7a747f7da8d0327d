"""int8 kernels of dense convolutions in the order in which native/npu.c multiplies them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...tasks import Convolution, Features, Image
from ...weights import Operand, WeightLayout, Weights, arrange_kernels
from ..structures import COLUMNS
from ..value_ranges import FLOAT_SUMS

_LARGEST_OFFSET = 32767 - 128
_QUAD = 4
_DEPTH_UNIT = 8
"""Places that are multiplied together, at most."""

_CHUNK = 1 << 17


@dataclass(frozen=True, eq=False)
class DenseWeights:
    """Weights of one convolution.

    `values` are (groups of COLUMNS kernels, depth / 4, COLUMNS, 4); a kernel's `depth` places are
    (height, width, stored channels), filled up with zeros to a multiple of 8. `offsets`, (groups *
    COLUMNS,), are to be added to all weights of a kernel; what is added to places without a weight
    meets a zero. `magnitudes` are the sums of each kernel's absolute values, (kernels,).
    """

    values: NDArray[np.int8]
    offsets: NDArray[np.int16]
    magnitudes: NDArray[np.float64]

    @property
    def depth(self) -> int:
        return _QUAD * int(self.values.shape[1])

    @property
    def groups(self) -> int:
        return len(self.values)


_arranged: WeakKeyDictionary[
    Weights, dict[tuple[int, int, int], tuple[Operand | None, DenseWeights | None]]
] = WeakKeyDictionary()
"""Tasks of a node share their weights, and the array of what is added to them: an identity holds
while the array is kept. What is arranged takes as many bytes as in the file."""


def dense_weights(convolution: Convolution) -> DenseWeights | None:
    """The weights, None where they don't fit into 16 bits with their offsets."""
    stored, source, offset = convolution.weights, convolution.source, convolution.weight_offset
    known = _arranged.setdefault(stored, {})
    key = source.channels, stored_channels(source), id(offset)
    if key not in known:
        known[key] = offset, _with_offsets(stored, source.channels, key[1], offset)
    return known[key][1]


def _with_offsets(
    weights: Weights, used: int, lanes: int, offset: Operand | None
) -> DenseWeights | None:
    offsets = np.zeros(-(-weights.layout.kernels // COLUMNS) * COLUMNS, np.int32)
    if offset is not None:
        given = np.asarray(offset).reshape(-1)
        if np.abs(given).max() > _LARGEST_OFFSET:
            return None
        offsets[: weights.layout.kernels] = given
    return _arrange(weights, used, lanes, offsets)


def _arrange(weights: Weights, used: int, lanes: int, offsets: NDArray[np.int32]) -> DenseWeights:
    assert weights.data is not None, "only constant weights have plans"
    layout = weights.layout
    together = _together(layout, used, lanes)
    data = np.ascontiguousarray(weights.data).view(f"i{together}")
    layout = replace(
        layout,
        channels=layout.channels // together,
        channel_group=layout.channel_group // together,
    )
    kernels = np.ascontiguousarray(arrange_kernels(data, layout)[:, : used // together])
    flat = kernels.reshape(len(kernels), -1).view(np.int8)
    return DenseWeights(
        _quads(kernels, lanes // together), offsets.astype(np.int16), _magnitudes(flat, offsets)
    )


def _together(layout: WeightLayout, used: int, lanes: int) -> int:
    """How many channels may be moved at a time: those of a quad, where they lie side by side."""
    counts = layout.channels, layout.channel_group, used, lanes
    is_whole = not (layout.row_bytes or any(count % _QUAD for count in counts))
    return _QUAD if is_whole else 1


def stored_channels(source: Features | Image) -> int:
    """Lanes that a pixel has in memory."""
    return source.channels if isinstance(source, Image) else source.surfaces * source.lanes


def _magnitudes(flat: NDArray[np.int8], offsets: NDArray[np.int32]) -> NDArray[np.float64]:
    if not offsets.any():
        # The magnitude of -128 is -128, the bits of 128.
        whole: NDArray[np.uint64] = np.abs(flat).view(np.uint8).sum(1, dtype=np.uint64)
        return whole.astype(np.float64)
    # Some kernels at a time, which stay in the cache.
    some = max(1, _CHUNK // flat.shape[1])
    added = offsets[: len(flat), None].astype(np.float32)
    largest = flat.shape[1] * (float(np.abs(added).max()) + 128)
    exact = np.float32 if largest < FLOAT_SUMS else np.float64
    sums: NDArray[np.float64] = np.empty(len(flat))
    for first in range(0, len(flat), some):
        part = slice(first, first + some)
        values = np.add(flat[part], added[part], dtype=np.float32)
        sums[part] = np.abs(values, out=values).sum(1, dtype=exact)
    return sums


def _quads(kernels: NDArray[Any], lanes: int) -> NDArray[np.int8]:
    """Kernels (K, C, KH, KW), of which an element is a channel or a quad of them; so are lanes."""
    count, used, height, width = kernels.shape
    groups, depth = -(-count // COLUMNS), height * width * lanes
    unit, quad = _DEPTH_UNIT // kernels.itemsize, _QUAD // kernels.itemsize
    padded = np.zeros((groups * COLUMNS, -(-depth // unit) * unit), kernels.dtype)
    places = padded[:count, :depth].reshape(count, height, width, lanes)
    places[..., :used] = kernels.transpose(0, 2, 3, 1)
    quads = padded.reshape(groups, COLUMNS, -1, quad).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(quads).view(np.int8).reshape(groups, -1, COLUMNS, _QUAD)
