"""A shader, resolved: a function of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..memory import Window
from ..tasks import Task
from .shader import Image

Array = NDArray[Any]
Function = Callable[..., Array | tuple[Array, ...]]


@dataclass(frozen=True, eq=False)
class ShaderTask(Task):
    """`function` of the inputs' values, each (planes, rows, pixels), gives those of the output.

    They are of the output's type; where it is an integer they are rounded and within its range.
    With `others` it gives a tuple: those of the output, and of each of the others. `products` are
    those that it sums.
    """

    inputs: tuple[Image, ...]
    output: Image
    function: Function
    others: tuple[Image, ...] = ()
    products: int = 0

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
