"""What an engine provides: a `Program`, shared by contexts, and an `Instance` for each of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...tensor import DType, Quantization


@dataclass(frozen=True)
class Normalization:
    """What is applied to an input before it is quantised: (x - mean) / std for each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def is_identity(self) -> bool:
        return not any(self.mean) and all(value == 1 for value in self.std)

    def apply(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Normalise (N, C, H, W) values of any dtype and strides to a new C-ordered array."""
        mean = np.asarray(self.mean, np.float32)[:, None, None]
        std = np.asarray(self.std, np.float32)[:, None, None]
        result = np.empty(values.shape, np.float32)
        np.subtract(values, mean, out=result, casting="unsafe")
        np.divide(result, std, out=result)
        return result


@dataclass(frozen=True)
class Port:
    """One input or output of a program.

    `shape` is in the model's own order (NCHW where it is an image); `dtype` is what the device
    holds.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    quantization: Quantization | None = None
    normalization: Normalization | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def carrier(self) -> np.dtype[Any]:
        """The dtype of the arrays that an instance exchanges.

        The device's own dtype, but for float16: there float32 arrays carry values, which the
        program rounds to float16. Converting in NumPy would cost more than a small network.
        """
        return DType.FLOAT32.numpy if self.dtype is DType.FLOAT16 else self.dtype.numpy


class Instance(ABC):
    """The arrays of one context, and how to compute the outputs from the inputs.

    `inputs` and `outputs` are C-contiguous arrays of each port's shape and carrier dtype, the same
    ones for the instance's life. One thread at a time.
    """

    inputs: tuple[NDArray[Any], ...]
    outputs: tuple[NDArray[Any], ...]

    @abstractmethod
    def run(self) -> None:
        """Compute `outputs` from `inputs`; raises `ModelError` where that fails."""

    @abstractmethod
    def close(self) -> None:
        """Drop the arrays and the share in the program."""


class Program(ABC):
    """A loaded model: immutable, shared between contexts and threads.

    `framework` and `producer` say where the model comes from, `soc` the chip it is for (None for
    any), `custom_string` what its author stored in it.
    """

    framework: str
    producer: str
    soc: str | None
    custom_string: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @abstractmethod
    def instance(self) -> Instance:
        """A new set of arrays to run with."""
