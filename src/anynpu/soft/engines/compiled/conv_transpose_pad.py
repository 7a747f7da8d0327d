"""The compiler's `exConvTransposePad`: zeros between pixels and around them.

A transposed convolution with strides that the NPU doesn't know becomes this and an ordinary
convolution. The attributes are the transposed convolution's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ...formats.rknn.model import Node, Tensor
from .buffers import TensorBuffer, element_dtype
from .moves import NUMPY

OP_TYPE = "exConvTransposePad"


@dataclass(frozen=True)
class Spread:
    """A node that puts pixels `strides` apart, the first one at `first`, among zeros."""

    node: Node
    source: Tensor
    target: Tensor
    strides: tuple[int, int]
    first: tuple[int, int]

    runs_on: ClassVar[str] = NUMPY

    def bind(self, memory: NDArray[np.uint8]) -> Callable[[], None]:
        """What computes the node in an internal memory; one thread at a time."""
        source, target = TensorBuffer(memory, self.source), TensorBuffer(memory, self.target)
        pixels: NDArray[Any] = np.empty(self.source.shape, element_dtype(self.source))
        quantization = self.target.quantization
        zero = quantization.zero_point if quantization else 0
        spread: NDArray[Any] = np.full(self.target.shape, zero, element_dtype(self.target))
        top, left = self.first
        height, width = (
            (size - 1) * stride + 1
            for size, stride in zip(self.source.shape[2:], self.strides, strict=True)
        )
        places = spread[
            :, :, top : top + height : self.strides[0], left : left + width : self.strides[1]
        ]

        def run() -> None:
            source.read(pixels)
            np.copyto(places, pixels)
            target.write(spread)

        return run


def prepare_spread(node: Node, source: Tensor, target: Tensor) -> Spread:
    """A node of this type; raises `ModelError` where the sizes don't fit."""
    strides, pads = _numbers(node, "strides", 2), _numbers(node, "pads", 4)
    dilations, kernel = _numbers(node, "dilations", 2), _numbers(node, "kernel_shape", 2)
    reach = [(size - 1) * apart for size, apart in zip(kernel, dilations, strict=True)]
    needed = source.shape[:2] + tuple(
        (size - 1) * stride + 1 + 2 * far - before - after
        for size, stride, far, before, after in zip(
            source.shape[2:], strides, reach, pads[:2], pads[2:], strict=False
        )
    )
    is_same = source.element is target.element and source.quantization == target.quantization
    first = (reach[0] - pads[0], reach[1] - pads[1])
    if not is_same or len(needed) != 4 or needed != target.shape or min(*first, *strides) < 0:
        raise ModelError(
            f"CPU node {node.index} {node.name!r} of type {node.op_type} would make {needed} of "
            f"{source.shape}, but the file has {target.shape}"
        )
    return Spread(node, source, target, (strides[0], strides[1]), first)


def _numbers(node: Node, name: str, count: int) -> Sequence[int]:
    values = node.attributes.get(name)
    if not isinstance(values, list | tuple) or len(values) != count:
        raise ModelError(f"CPU node {node.index} {node.name!r}: {name} = {values}")
    return [int(value) for value in values]
