"""What shaders of a family share: real values to the output's type."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..refusal import Unknown
from ..rounding import numbers_of_halves, to_halves
from .shader import Image
from .task import Array

U8, F16, F32, I16, I32, TRUTH = (
    np.dtype(kind) for kind in (np.uint8, np.float16, np.float32, np.int16, np.int32, np.int8)
)
"""Types of images; a truth value is a byte of 0 or 1."""
BF16 = np.dtype(np.uint16)
"""bfloat16, whose bits they are."""
ONE = 0x3F800000
"""1.0 as a register's float32: the scale of what isn't quantised."""
Reals = NDArray[np.float32]


def to_bytes(values: Array) -> NDArray[np.uint8]:
    """Real values to the nearest bytes; halves go to even numbers."""
    result: NDArray[np.uint8] = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return result


def reals_of(values: Array) -> Reals:
    """Values as float32; float16 as instructions on lanes take them."""
    if values.dtype == F16:
        return numbers_of_halves(values).astype(np.float32)
    return values.astype(np.float32)


def limited_halves(values: Array) -> NDArray[np.float16]:
    """The nearest float16; what is beyond the largest is that."""
    halves = to_halves(values)
    is_beyond = np.isinf(halves)
    halves[is_beyond] = np.copysign(_LARGEST_HALF, halves[is_beyond])
    return halves


_LARGEST_HALF = np.float16(65504)


def types(*images: Image) -> tuple[np.dtype[np.generic], ...]:
    return tuple(image.dtype for image in images)


def check_broadcast(output: Image, *inputs: Image) -> None:
    """Raise `Unknown` unless inputs have the output's sizes, or one."""
    for image in inputs:
        pairs = zip(image.shape, output.shape, strict=True)
        if any(own not in (1, size) for own, size in pairs):
            raise Unknown(f"operands of {image.shape} for a result of {output.shape}")


def check_same(output: Image, *inputs: Image) -> None:
    """Raise `Unknown` unless inputs have the output's sizes."""
    for image in inputs:
        if image.shape != output.shape:
            raise Unknown(f"operands of {image.shape} for a result of {output.shape}")
