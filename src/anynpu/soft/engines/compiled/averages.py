"""AveragePool of quantised numbers as the vendor's runtime computes it on the CPU.

Where input and output have the same scale and zero point, it averages the whole numbers in memory
and rounds ties to even: what a tie is doesn't depend on the zero point. Found by comparing with
`librknnrt` 1.5.2, which gives these bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...formats.rknn.model import Node, Tensor
from .buffers import TensorBuffer, element_dtype
from .moves import NUMPY

OP_TYPE = "AveragePool"


@dataclass(frozen=True)
class Window:
    """Where a pooling looks along one axis: `size` places, `stride` apart, from -`before` on."""

    size: int
    stride: int
    before: int
    places: int
    results: int

    @property
    def padded(self) -> int:
        """The places of the axis with what the first and the last window see beyond its ends."""
        needed = (self.results - 1) * self.stride + self.size
        return max(needed, self.before + self.places)

    def sums(self, padded: NDArray[Any], axis: int, out: NDArray[Any]) -> None:
        """Add up the windows along an axis of `padded` places."""
        out[...] = 0
        for first in range(self.size):
            last = first + (self.results - 1) * self.stride + 1
            index = [slice(None)] * padded.ndim
            index[axis] = slice(first, last, self.stride)
            out += padded[tuple(index)]


@dataclass(frozen=True)
class Average:
    """A node that averages whole numbers; places of the padding don't count."""

    node: Node
    source: Tensor
    target: Tensor
    rows: Window
    columns: Window

    runs_on: ClassVar[str] = NUMPY

    def bind(self, memory: NDArray[np.uint8]) -> Callable[[], None]:
        """What computes the node in an internal memory; one thread at a time."""
        source, target = TensorBuffer(memory, self.source), TensorBuffer(memory, self.target)
        n, channels, height, width = self.source.shape
        rows, columns = self.rows, self.columns
        padded = np.zeros((n, channels, rows.padded, columns.padded), np.int32)
        inside = padded[
            ...,
            rows.before : rows.before + height,
            columns.before : columns.before + width,
        ]
        across = np.empty((n, channels, rows.padded, columns.results), np.int32)
        sums = np.empty(self.target.shape, np.int32)
        values: NDArray[Any] = np.empty(self.source.shape, element_dtype(self.source))
        counts = self._counts()
        means = np.empty(self.target.shape, np.float32)

        def run() -> None:
            source.read(values)
            np.copyto(inside, values)
            columns.sums(padded, 3, across)
            rows.sums(across, 2, sums)
            np.divide(sums, counts, out=means, casting="same_kind", dtype=np.float32)
            target.write(np.rint(means, out=means))

        return run

    def _counts(self) -> NDArray[np.float32]:
        """How many places inside the input each window sees: (H, W)."""
        seen = []
        for window in (self.rows, self.columns):
            inside = np.zeros(window.padded, np.float32)
            inside[window.before : window.before + window.places] = 1
            count = np.empty(window.results, np.float32)
            window.sums(inside, 0, count)
            seen.append(count)
        return seen[0][:, None] * seen[1]


def prepare_average(node: Node, source: Tensor, target: Tensor) -> Average | None:
    """An AveragePool node, None where it isn't of the form that this module is about."""
    attributes = {**node.options, **node.attributes}
    is_whole = element_dtype(source).kind == "i" and source.element is target.element
    if (
        not is_whole
        or source.quantization is None
        or source.quantization != target.quantization
        or len(source.shape) != 4
        or source.shape[:2] != target.shape[:2]
        or attributes.get("count_include_pad")
        or math.prod(attributes.get("dilations") or (1,)) != 1
    ):
        return None
    windows = _windows(attributes, source.shape[2:], target.shape[2:])
    return Average(node, source, target, *windows) if windows is not None else None


def _windows(
    attributes: Mapping[str, Any], places: Sequence[int], results: Sequence[int]
) -> tuple[Window, Window] | None:
    sizes: Any = attributes.get("kernel_shape")
    strides: Any = attributes.get("strides")
    pads = attributes.get("pads") or (0, 0, 0, 0)
    if not (_are_whole(sizes, 2) and _are_whole(strides, 2) and _are_whole(pads, 4)):
        return None
    rows, columns = (
        Window(sizes[axis], strides[axis], pads[axis], places[axis], results[axis])
        for axis in (0, 1)
    )
    # A window that is larger than any that begins or ends inside would only cost memory.
    is_sound = all(
        2 * w.places + 1 >= w.size > w.before >= 0 and w.stride > 0 and w.results > 0
        for w in (rows, columns)
    )
    # Each window must see something, or its average has no meaning.
    sees = all((w.results - 1) * w.stride < w.before + w.places for w in (rows, columns))
    return (rows, columns) if is_sound and sees else None


def _are_whole(numbers: object, count: int) -> bool:
    if not isinstance(numbers, list | tuple) or len(numbers) != count:
        return False
    return all(isinstance(number, int) for number in numbers)
