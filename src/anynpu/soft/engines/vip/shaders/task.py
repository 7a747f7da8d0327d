"""A shader, resolved: a function of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory import Window
from ..tasks import Task
from .shader import Image

Array = NDArray[Any]
Function = Callable[..., Array | tuple[Array, ...]]

TOGETHER = 1 << 15
"""Values of a result that are made at a time."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Each window of an image of 16-bit values as a row; what lies beyond the image is zero.

    `columns` windows of `size` rows and pixels are beside each other, `steps` apart, the first one
    beginning `before` the image.
    """

    size: tuple[int, int]
    steps: tuple[int, int]
    before: tuple[int, int]
    columns: int


@dataclass(frozen=True, eq=False)
class RowProducts:
    """Rows of float16 by kernels, (kernels, values), of float16, and a bias of float32.

    Sums of 8 products are cut to float32, `together` of them summed and rounded before they are
    added to what is there. With `cuts` negative results are zero. With `by_kernel` a row of the
    output has a kernel's results, otherwise a row's.
    """

    weights: NDArray[np.float16]
    bias: NDArray[np.float32]
    together: int
    cuts: bool
    by_kernel: bool


@dataclass(frozen=True, eq=False)
class ShaderTask(Task):
    """`function` of the inputs' values, each (planes, rows, pixels), gives those of the output.

    They are of the output's type; where it is an integer they are rounded and within its range.
    With `others` it gives a tuple: those of the output, and of each of the others. `products` are
    those that it sums. `form` says what the function does where a C kernel does the same.
    """

    inputs: tuple[Image, ...]
    output: Image
    function: Function
    others: tuple[Image, ...] = ()
    products: int = 0
    form: Windows | RowProducts | None = None

    @property
    def outputs(self) -> tuple[Image, ...]:
        return (self.output, *self.others)

    @property
    def macs(self) -> int:
        values = sum(math.prod(image.shape) for image in (*self.inputs, *self.outputs))
        return values + self.products

    def reads(self) -> Iterator[Window]:
        for image in self.inputs:
            if image.constant is None:
                yield image.window

    def writes(self) -> Iterator[Window]:
        for image in self.outputs:
            yield image.window


def by_rows(function: Callable[..., Array]) -> Callable[..., Array]:
    """The same function, called for some rows at a time: what lies between takes little memory.

    Each row of the result is made of the same row of the operands, or of an operand's only one.
    """

    def whole(*operands: Array) -> Array:
        rows = max(operand.shape[1] for operand in operands)
        values = max(operand.size // operand.shape[1] for operand in operands)
        step = max(1, TOGETHER // values)
        if step >= rows:
            return function(*operands)
        result: Array | None = None
        for start in range(0, rows, step):
            of = slice(start, start + step)
            part = function(*(each if each.shape[1] == 1 else each[:, of] for each in operands))
            if result is None:
                result = np.empty((part.shape[0], rows, part.shape[2]), part.dtype)
            result[:, of] = part
        assert result is not None, "there is a row"
        return result

    return whole
