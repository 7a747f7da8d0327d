"""One output of a request by the zero-copy API: from what the device wrote to the result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import nc1hwc2_to_nchw
from ...native import kernels
from ...native.transfers import Conversion
from ...rknn.device_tensor import blocks_of, dequantized, real_values
from ...tensor import Layout, TensorInfo

_FLOAT = np.dtype(np.float32)


@dataclass(frozen=True)
class NativeResult:
    """`native` says how the output lies in memory, `shape` is the model's.

    `is_raw`: in the device's own dtype, else float32. `is_native`: as channel blocks, else in the
    model's order, images as NHWC with `is_interleaved`.
    """

    native: TensorInfo
    shape: tuple[int, ...]
    is_raw: bool
    is_native: bool
    is_interleaved: bool

    @classmethod
    def of(cls, native: TensorInfo, logical: TensorInfo, dtype: str, layout: str) -> NativeResult:
        """As the options `output_dtype` and `output_layout` want it."""
        return cls(
            native,
            logical.shape,
            is_raw=dtype == "model" or not logical.is_real,
            is_native=layout == "native",
            is_interleaved=layout == "nhwc" and logical.layout is Layout.NCHW,
        )

    @cached_property
    def conversion(self) -> Conversion:
        """How the worker's step converts it, on its way out of memory."""
        return self._kernel or Conversion.copy(self._stored, math.prod(self.native.shape))

    def new_array(self) -> NDArray[Any]:
        """What the step writes."""
        if self._kernel is None:
            return np.empty(self.native.shape, self._stored)
        return np.empty(self.shape if self._is_unpacked else self.native.shape, self._wanted)

    def finish(self, array: NDArray[Any]) -> NDArray[Any]:
        """The result, from what the step wrote."""
        if self.is_native:
            if self._kernel is None and not self.is_raw:
                array = dequantized(array, self.native)
            return blocks_of(array, self.shape) if array.ndim == 5 else array
        if self._kernel is None:
            array = self._in_model_s_order(array)
        return array.transpose(0, 2, 3, 1) if self.is_interleaved else array

    @property
    def _stored(self) -> np.dtype[Any]:
        return self.native.dtype.numpy

    @property
    def _wanted(self) -> np.dtype[Any]:
        return self._stored if self.is_raw else _FLOAT

    @property
    def _is_unpacked(self) -> bool:
        return not self.is_native and self.native.layout is Layout.NC1HWC2

    @cached_property
    def _kernel(self) -> Conversion | None:
        """The conversion to the result, None where no kernel does it."""
        native = self.native
        is_quantized = native.quantization is not None and not self.is_raw
        number = kernels.conversion(self._stored, self._wanted, is_quantized=is_quantized)
        if number is None:
            return None
        scale, zero_point = (native.scale, native.zero_point) if is_quantized else (1.0, 0)
        if not self._is_unpacked:
            return Conversion(number, math.prod(native.shape), scale, zero_point)
        _, _, rows, columns, block = native.shape
        height, width = self.shape[2:]
        is_image = (rows, columns) == (height, width) or (rows == 1 and columns >= height * width)
        if not is_image or block > kernels.LARGEST_BLOCK:
            return None
        affine = kernels.Affine(scale, zero_point)
        return Conversion.blocks(number, self.shape, native.shape, affine)

    def _in_model_s_order(self, raw: NDArray[Any]) -> NDArray[Any]:
        if not self.is_raw:
            return real_values(raw, self.native, self.shape)
        if self._is_unpacked:
            return nc1hwc2_to_nchw(blocks_of(raw, self.shape), self.shape[1])
        return raw
