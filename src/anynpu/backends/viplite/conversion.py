"""How one tensor's values are converted between arrays and a buffer's memory, by the kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...native import kernels, transfers
from ...tensor import DType, TensorInfo
from ...viplite import formats

_FLOAT = np.dtype(np.float32)
_OTHER_WAY = (DType.BFLOAT16, DType.INT4, DType.UINT4)
"""What NumPy has no dtype for, so that an array of the stored dtype isn't one of values."""


class Conversion(transfers.Conversion):
    """Between an array and a buffer's memory, in the same order."""

    @classmethod
    def stored(cls, info: TensorInfo) -> Conversion:
        """What memory gets, as it is."""
        count = math.prod(formats.stored_shape(info.shape, info.dtype))
        return cls.copy(formats.stored_dtype(info.dtype), count)

    @classmethod
    def to_memory(cls, dtype: np.dtype[Any], info: TensorInfo) -> Conversion | None:
        """From an array of a dtype; None where no kernel does it.

        The tensor's own dtype is copied: those are the values that memory has.
        """
        return cls._between(dtype, formats.stored_dtype(info.dtype), info)

    @classmethod
    def from_memory(cls, info: TensorInfo, dtype: np.dtype[Any]) -> Conversion | None:
        """To an array of a dtype; None where no kernel does it."""
        return cls._between(formats.stored_dtype(info.dtype), dtype, info)

    @classmethod
    def _between(
        cls, source: np.dtype[Any], target: np.dtype[Any], info: TensorInfo
    ) -> Conversion | None:
        count = math.prod(info.shape)
        if info.dtype in _OTHER_WAY:
            return None
        if source == target:
            return cls.copy(source, count)
        is_quantized = info.quantization is not None
        number = kernels.conversion(source, target, is_quantized=is_quantized)
        return None if number is None else cls(number, count, info.scale, info.zero_point)


@dataclass(frozen=True)
class ResultPlan:
    """An output: the array that the kernel writes, and what is done with it on the way out."""

    info: TensorInfo
    conversion: Conversion
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_float: bool
    is_stored: bool
    is_interleaved: bool

    @classmethod
    def of(cls, info: TensorInfo, *, is_float: bool, is_interleaved: bool) -> ResultPlan:
        """As float32, or in the tensor's own dtype; images as NHWC with `is_interleaved`."""
        stored = formats.stored_dtype(info.dtype)
        wanted = _FLOAT if is_float else stored
        conversion = Conversion.from_memory(info, wanted)
        if conversion is not None:
            return cls(info, conversion, info.shape, wanted, is_float, False, is_interleaved)
        shape = formats.stored_shape(info.shape, info.dtype)
        copy = Conversion.stored(info)
        return cls(info, copy, shape, stored, is_float, True, is_interleaved)

    def finish(self, array: NDArray[Any]) -> NDArray[Any]:
        """The result, from what the kernel wrote."""
        if self.is_stored:
            array = self._decoded(array)
        return array.transpose(0, 2, 3, 1) if self.is_interleaved else array

    def _decoded(self, stored: NDArray[Any]) -> NDArray[Any]:
        if not self.is_float:
            return formats.own_values(stored, self.info)
        real = np.empty(self.info.shape, np.float32)
        formats.decode(stored, self.info, real)
        return real
