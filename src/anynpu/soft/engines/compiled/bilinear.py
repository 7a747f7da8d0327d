"""Resize in mode linear as the vendor's runtime computes it on the CPU.

It interpolates the numbers in memory, along the rows first, in float32: whole numbers are cut off
after the point, not rounded. The order of the operations was found by comparing with `librknnrt`
1.5.2, which gives these bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...formats.rknn.model import Node, Tensor
from .buffers import TensorBuffer, element_dtype
from .moves import NUMPY

OP_TYPE = "Resize"
_TOGETHER = 1 << 16
"""About this many pixels are computed at a time, to stay in the cache."""


@dataclass(frozen=True)
class Places:
    """For each place of the result along one axis: two places of the source and their weights."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    weight_first: NDArray[np.float32]
    weight_second: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.first)

    def among(self, places: NDArray[np.intp]) -> Places:
        """The same in a source of these places only, in ascending order."""
        first, second = (np.searchsorted(places, found) for found in (self.first, self.second))
        return Places(first, second, self.weight_first, self.weight_second)


@dataclass(frozen=True)
class Bilinear:
    """A node that resizes height and width."""

    node: Node
    source: Tensor
    target: Tensor
    rows: Places
    columns: Places

    runs_on: ClassVar[str] = NUMPY

    def bind(self, memory: NDArray[np.uint8]) -> Callable[[], None]:
        """What computes the node in an internal memory; one thread at a time."""
        source, target = TensorBuffer(memory, self.source), TensorBuffer(memory, self.target)
        is_whole = element_dtype(self.target).kind == "i"
        pixels = np.empty(self.source.shape, np.float32)
        result = np.empty(self.target.shape, np.float32)
        planes = pixels.reshape(-1, *self.source.shape[2:])
        resized = result.reshape(-1, *self.target.shape[2:])
        count = max(1, _TOGETHER // max(1, math.prod(self.target.shape[2:])))
        # Of a high picture that gets low few rows are looked at, and only those get wide.
        looked_at = np.union1d(self.rows.first, self.rows.second)
        rows = self.rows.among(looked_at)
        few = np.empty((count, len(looked_at), self.source.shape[3]), np.float32)
        wide = np.empty((2, count, len(looked_at), len(self.columns)), np.float32)
        high = np.empty((count, *self.target.shape[2:]), np.float32)

        def run() -> None:
            source.read(pixels)
            for start in range(0, len(planes), count):
                part, out = planes[start : start + count], resized[start : start + count]
                if len(looked_at) < part.shape[1]:
                    part = np.take(part, looked_at, axis=1, out=few[: len(part)], mode="clip")
                left, right = wide[:, : len(part)]
                _interpolate(part, 2, self.columns, left, right)
                _interpolate(left, 1, rows, out, high[: len(part)])
            if is_whole:
                np.trunc(result, out=result)
            target.write(result)

        return run


def _interpolate(
    values: NDArray[np.float32],
    axis: int,
    places: Places,
    out: NDArray[np.float32],
    other: NDArray[np.float32],
) -> None:
    """The weighted sums along an axis in `out`; `other` is room of its shape to work in."""
    trailing = (...,) + (None,) * (values.ndim - 1 - axis)
    for room, index, weight in (
        (out, places.first, places.weight_first),
        (other, places.second, places.weight_second),
    ):
        # The mode is one that writes straight into `out`; no index is outside.
        np.take(values, index, axis=axis, out=room, mode="clip")
        np.multiply(room, weight[trailing], out=room)
    np.add(out, other, out=out)


def prepare_bilinear(node: Node, source: Tensor, target: Tensor) -> Bilinear | None:
    """A Resize node, None where it isn't of the form that this module is about."""
    attributes = {**node.options, **node.attributes}
    dtypes = {element_dtype(source), element_dtype(target)}
    is_plain = dtypes == {np.dtype(np.float16)} or dtypes == {np.dtype(np.int8)}
    if (
        attributes.get("mode") != "linear"
        or not is_plain
        or source.quantization != target.quantization
        or len(source.shape) != 4
        or source.shape[:2] != target.shape[:2]
        or 0 in source.shape + target.shape
        or attributes.get("antialias")
        or attributes.get("exclude_outside")
    ):
        return None
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    found = [
        _places(mode, before, after)
        for before, after in zip(source.shape[2:], target.shape[2:], strict=True)
    ]
    rows, columns = found
    if rows is None or columns is None:
        return None
    return Bilinear(node, source, target, rows, columns)


def _places(mode: str, before: int, after: int) -> Places | None:
    """Where `after` places of the result lie among `before` of the source."""
    numbers = np.arange(after, dtype=np.float32)
    scale = np.float32(after) / np.float32(before)
    if mode == "align_corners":
        at = numbers * np.float32(before - 1) / np.float32(max(1, after - 1))
    elif mode in ("half_pixel", "pytorch_half_pixel") and (after > 1 or mode == "half_pixel"):
        at = (numbers + np.float32(0.5)) / scale - np.float32(0.5)
    elif mode == "asymmetric":
        at = numbers / scale
    else:
        return None
    at = np.clip(at, 0, np.float32(before - 1))
    first = np.floor(at)
    part = at - first
    index = first.astype(np.intp)
    return Places(index, np.minimum(index + 1, before - 1), np.float32(1) - part, part)
