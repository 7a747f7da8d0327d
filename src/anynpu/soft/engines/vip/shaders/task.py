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
