"""A tensor in memory as the real numbers that it stands for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ....layouts import dequantize_affine, quantize_affine
from ....tensor import Quantization
from ...formats.rknn.model import Node, Tensor
from .buffers import TensorBuffer, element_dtype


def real_dtype(tensor: Tensor) -> np.dtype[Any]:
    """What a tensor's values are when they are dequantised."""
    dtype = element_dtype(tensor)
    is_real = tensor.quantization is not None or dtype.kind == "f"
    return np.dtype(np.float32) if is_real else dtype


def as_real(values: NDArray[Any], quantization: Quantization | None) -> NDArray[Any]:
    # Constants in float32 are real already, though they come with a scale too.
    if quantization is not None and values.dtype.kind != "f":
        return dequantize_affine(values, quantization.scale, quantization.zero_point)
    return values.astype(np.float32) if values.dtype.kind == "f" else values


_MOST_BYTES = 2
"""Of a quantised element."""


class RealValues:
    """A tensor in memory as real values, with the arrays that it takes to convert them.

    Raises `ModelError` for a quantised tensor of a type that isn't quantised.
    """

    def __init__(self, memory: NDArray[np.uint8], tensor: Tensor) -> None:
        self._buffer = TensorBuffer(memory, tensor)
        self._quantization = tensor.quantization
        self._real: NDArray[Any] = np.empty(tensor.shape, real_dtype(tensor))
        self._held = self._real
        self._is_nan: NDArray[np.bool_] = np.empty(tensor.shape, bool)
        if self._quantization is not None:
            held = element_dtype(tensor)
            if held.kind not in "iu" or held.itemsize > _MOST_BYTES:
                raise ModelError(
                    f"tensor {tensor.name!r} of {tensor.element.name} has a scale; integers of 8 "
                    f"or 16 bits have one"
                )
            self._held = np.empty(tensor.shape, held)

    def load(self) -> NDArray[Any]:
        """The values, in an array that the next `load` overwrites."""
        self._buffer.read(self._held)
        q = self._quantization
        if q is not None:
            dequantize_affine(self._held, q.scale, q.zero_point, out=self._real)
        return self._real

    def store(self, node: Node, values: NDArray[Any]) -> None:
        """Quantise values and put them into memory.

        Raises `ModelError` for too many or few, and for a NaN where integers lie.
        """
        tensor = self._buffer.tensor
        if values.size != math.prod(tensor.shape):
            raise ModelError(
                f"CPU node {node.index} {node.name!r} gives the shape {values.shape} for "
                f"{tensor.name!r} of {tensor.shape}"
            )
        values = values.reshape(tensor.shape)
        q = self._quantization
        if q is not None:
            real = np.ascontiguousarray(values, np.float32)
            values = quantize_affine(real, q.scale, q.zero_point, out=self._held)
        elif values.dtype.kind == "f" and np.isnan(values, out=self._is_nan).any():
            if self._real.dtype.kind != "f":
                raise ModelError(
                    f"CPU node {node.index} {node.name!r} gives what is no number for "
                    f"{tensor.name!r}, which holds {tensor.element.name}"
                )
            # A board's processor has one NaN; that of others comes with either sign.
            np.copyto(self._real, values)
            np.copyto(self._real, np.nan, where=self._is_nan)
            values = self._real
        self._buffer.write(values)
