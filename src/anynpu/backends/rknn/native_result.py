"""One output of a request by the zero-copy API: from what the device wrote to the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ...layouts import nc1hwc2_to_nchw
from ...rknn.device_tensor import blocks_of, dequantized, real_values
from ...tensor import Layout, TensorInfo


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

    @property
    def is_as_written(self) -> bool:
        """Whether the result is the very array that the device's bytes were copied to."""
        return self.is_raw and self.is_native

    def from_raw(self, raw: NDArray[Any]) -> NDArray[Any]:
        """The result; a new array, unless it `is_as_written`."""
        if self.is_native:
            values = raw if self.is_raw else dequantized(raw, self.native)
            return blocks_of(values, self.shape) if values.ndim == 5 else values
        values = self._in_model_s_order(raw)
        return values.transpose(0, 2, 3, 1) if self.is_interleaved else values

    def _in_model_s_order(self, raw: NDArray[Any]) -> NDArray[Any]:
        if not self.is_raw:
            return real_values(raw, self.native, self.shape)
        if self.native.layout is Layout.NC1HWC2:
            return nc1hwc2_to_nchw(blocks_of(raw, self.shape), self.shape[1])
        copy: NDArray[Any] = raw.copy()
        return copy
