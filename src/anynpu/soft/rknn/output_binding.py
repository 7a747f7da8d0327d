"""An output in a buffer of the caller's: what a run writes to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ...layouts import dequantize_affine, nchw_to_nc1hwc2
from ...native import kernels
from ...rknn.abi import ErrorCode, TensorFormat
from ...soc import Family, Soc
from ...tensor import DType
from ..device_memory import DeviceMemory
from ..engines import Port
from .attributes import is_feature, native_output_shape, nhwc_output_channels
from .failure import Failure
from .leniency import crash, let_pass
from .output_values import restore, to_unsigned

_FLOATS = (DType.FLOAT32, DType.FLOAT16)


@dataclass(frozen=True)
class OutputBinding:
    """An output in a buffer: what the runtime writes there, as it is asked or as it does it.

    `shape` is how the buffer's elements lie; `writes` is False where nothing is written.
    """

    port: Port
    memory: DeviceMemory
    dtype: DType
    fmt: TensorFormat
    shape: tuple[int, ...]
    writes: bool = True

    @property
    def size(self) -> int:
        """Bytes that are written."""
        return self.dtype.size_of(math.prod(self.shape)) if self.writes else 0

    def store(self, source: NDArray[Any], *, invalidate: bool) -> None:
        """Bring the program's values into the buffer."""
        if self.writes:
            self._write(source)
        if invalidate:
            self.memory.invalidate()
        else:
            self.memory.poison()

    def _write(self, source: NDArray[Any]) -> None:
        raw = self.memory.device[: self.size]
        view: NDArray[Any] = raw.view(self.dtype.numpy).reshape(self.shape)
        values = source if self.dtype is self.port.dtype else self._converted(source)
        if len(self.shape) == 5 and self.fmt is TensorFormat.NC1HWC2:
            self._write_blocks(values, view)
        elif len(self.shape) == 4 and self.fmt is TensorFormat.NHWC:
            channels = values.shape[1]
            view[..., channels:] = 0
            kernels.convert(values, view[..., :channels].transpose(0, 3, 1, 2))
        else:
            kernels.convert(values, view)

    def _write_blocks(self, values: NDArray[Any], view: NDArray[Any]) -> None:
        n, _, h, w, c2 = self.shape
        # Blocks without a channel, and the pixels that surfaces have to spare, stay as they are.
        channels = values.shape[1]
        written = view[:, : -(-channels // c2)]
        if (h, w) == values.shape[2:]:
            nchw_to_nc1hwc2(values, c2, written.shape[1], out=written)
            return
        pixels = values.shape[2] * values.shape[3]
        flat = values.reshape(n, channels, 1, pixels)
        written[:, :, :, :pixels] = nchw_to_nc1hwc2(flat, c2, written.shape[1])

    def _converted(self, source: NDArray[Any]) -> NDArray[Any]:
        """Values of another dtype than the device's."""
        quantization = self.port.quantization
        if quantization is None:
            return source
        if self.dtype is DType.UINT8:
            return to_unsigned(source)
        if self.fmt is TensorFormat.NHWC:
            # This way's own arithmetic, a unit in the last place from the other's.
            return dequantize_affine(source, quantization.scale, quantization.zero_point)
        return restore(source, quantization)


def bind(
    soc: Soc, port: Port, memory: DeviceMemory, dtype: DType, fmt: TensorFormat
) -> OutputBinding:
    """How an output is written to a buffer; raises `Failure` where it doesn't fit."""
    written, order = dtype, fmt
    writes = True
    if dtype is not port.dtype and soc.family is not Family.RV1106:
        written, order, writes = _as_written(port, dtype, fmt)
    # What the NPU itself writes: other types are made on the processor.
    is_npu_s = dtype in (port.dtype, DType.FLOAT32)
    shape = _layout(soc, port, order, is_npu_s=is_npu_s)
    bound = OutputBinding(port, memory, written, order, shape, writes)
    if memory.size >= bound.size:
        return bound
    text = (
        f"the memory for output {port.name!r} has {memory.size} bytes; {bound.size} are written "
        f"for {written.name} {order.name} {bound.shape}"
    )
    raise crash("small output memory" if written is dtype else "wide output", text)


def _as_written(port: Port, dtype: DType, fmt: TensorFormat) -> tuple[DType, TensorFormat, bool]:
    """What the runtime writes where another type than the device's is wanted.

    It knows float32 and, for int8, float16 and uint8; for other types it writes float32 or nothing.
    Other than the device's own type never comes in channel blocks.
    """
    order = TensorFormat.NCHW if fmt is TensorFormat.NC1HWC2 else fmt
    if dtype is DType.FLOAT32 or (port.quantization is not None and dtype is DType.UINT8):
        return dtype, order, True
    is_nhwc = fmt is TensorFormat.NHWC
    if port.quantization is not None and dtype is DType.FLOAT16 and not is_nhwc:
        return dtype, order, True
    writes = is_nhwc or port.dtype is DType.FLOAT16
    done = "float32 is written" if writes else "nothing is written"
    let_pass(
        "output type",
        f"Meet unsupported output tensor dtype. output {port.name!r} of {port.dtype.name} isn't "
        f"converted to {dtype.name} {fmt.name}: {done}",
    )
    return DType.FLOAT32, order, writes


def _layout(soc: Soc, port: Port, fmt: TensorFormat, *, is_npu_s: bool) -> tuple[int, ...]:
    """How an output's elements lie in its buffer, padding included."""
    if len(port.shape) != 4 or fmt in (TensorFormat.NCHW, TensorFormat.UNDEFINED):
        return port.shape
    n, c, h, w = port.shape
    if fmt is TensorFormat.NHWC:
        return n, h, w, nhwc_output_channels(port, soc) if is_npu_s else c
    if not is_feature(port):
        raise Failure(
            ErrorCode.PARAM_INVALID, f"{port.name!r} of {port.dtype.name} has no NC1HWC2 layout"
        )
    return native_output_shape(port, soc)
