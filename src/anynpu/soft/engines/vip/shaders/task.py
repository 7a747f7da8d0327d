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
from .forms import Form, Part
from .shader import Image

Array = NDArray[Any]
Function = Callable[..., Array | tuple[Array, ...]]

TOGETHER = 1 << 15
"""Values of a result that are made at a time."""


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
    form: Form | None = None

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


def copy_of(source: Image, output: Image, first: tuple[int, int, int] = (0, 0, 0)) -> ShaderTask:
    """An image's values as they are, from a plane, row and pixel on, as many as the output has."""
    places = tuple(
        slice(start, start + count) for start, count in zip(first, output.shape, strict=True)
    )
    return ShaderTask((source,), output, lambda values: values[places], form=Part(first))


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
