"""rknn_set_io_mem: inputs and outputs that live in the caller's buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import dequantize_affine, nc1hwc2_to_nchw, nchw_to_nc1hwc2
from ...native import kernels
from ...rknn.abi import MAX_NAME_LEN, ErrorCode, TensorFormat, TensorType
from ...soc import Family, Soc
from ...tensor import DType
from ..engines import Port
from ..memory import DeviceMemory
from ..values import store_real, store_whole_numbers
from . import memory as memories
from .attributes import blocked_shape, is_feature
from .contexts import Context, on_context
from .failure import Failure


@dataclass(frozen=True)
class Binding:
    """A tensor in a buffer: which dtype and layout it has there.

    `shape` is how the buffer's elements lie, padding included; `is_native` says that they are
    what the device itself holds, already normalised and quantised.
    """

    port: Port
    memory: DeviceMemory
    dtype: DType
    fmt: TensorFormat
    shape: tuple[int, ...]
    is_native: bool

    @property
    def size(self) -> int:
        return self.dtype.size_of(int(np.prod(self.shape)))

    def load(self, target: NDArray[Any], *, flush: bool) -> None:
        """Bring the buffer's values into the program's array."""
        if flush:
            self.memory.flush()
        view = self._view()
        if self.fmt is TensorFormat.NC1HWC2 and len(self.shape) == 5:
            channels = self.port.shape[1]
            if self.is_native:
                nc1hwc2_to_nchw(view, channels, target)
                return
            values = nc1hwc2_to_nchw(view, channels)
        else:
            values = self._as_model_order(view)
        if self.is_native:
            kernels.convert(values, target)
        else:
            store_real(values, self.port, target)

    def store(self, source: NDArray[Any], *, invalidate: bool) -> None:
        """Bring the program's values into the buffer."""
        view = self._view()
        values = source if self.is_native else self._as_real(source)
        if self.fmt is TensorFormat.NC1HWC2 and len(self.shape) == 5:
            nchw_to_nc1hwc2(values, self.shape[4], self.shape[1], out=view)
        else:
            kernels.convert(values, self._as_model_order(view))
        if invalidate:
            self.memory.invalidate()
        else:
            self.memory.poison()

    def _view(self) -> NDArray[Any]:
        raw = self.memory.device[: self.size]
        view: NDArray[Any] = raw.view(self.dtype.numpy).reshape(self.shape)
        return view

    def _as_model_order(self, view: NDArray[Any]) -> NDArray[Any]:
        """The elements that count, in the model's order of axes."""
        if self.fmt is TensorFormat.NHWC and len(self.shape) == 4:
            _, _, h, w = self.port.shape
            ordered: NDArray[Any] = view[:, :h, :w].transpose(0, 3, 1, 2)
            return ordered
        return view

    def _as_real(self, source: NDArray[Any]) -> NDArray[Any]:
        """Real values in the buffer's dtype."""
        quantization = self.port.quantization
        if quantization is not None:
            source = dequantize_affine(source, quantization.scale, quantization.zero_point)
        if self.dtype.numpy.kind == "f":
            return source
        whole = np.empty(source.shape, self.dtype.numpy)
        store_whole_numbers(source, whole)
        return whole


@on_context
def rknn_set_io_mem(ctx: Context, mem: Any, attr: Any) -> None:
    """Let an input or output, found by its name, live in a buffer, as the attributes say."""
    if not attr:
        raise Failure(ErrorCode.PARAM_INVALID, "the attribute pointer is NULL")
    wanted = attr.contents
    memory = memories.find(mem)
    side, index, port = _find_port(ctx, wanted)
    binding = _bind(ctx.soc, port, memory, wanted, is_input=side == "input")
    if memory.size < binding.size:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"the memory for {side} {port.name!r} has {memory.size} bytes; {binding.size} are "
            f"needed for {binding.dtype.name} {binding.fmt.name} {binding.shape}",
        )
    (ctx.input_bindings if side == "input" else ctx.output_bindings)[index] = binding


def _find_port(ctx: Context, attr: Any) -> tuple[str, int, Port]:
    """(side, index, port) of the tensor that an attribute names; namesakes differ by index."""
    sides = (("input", ctx.shapes.inputs), ("output", ctx.shapes.outputs))
    found = [
        (side, index, port)
        for side, ports in sides
        for index, port in enumerate(ports)
        if port.name.encode()[: MAX_NAME_LEN - 1] == attr.name
    ]
    if not found:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"the model has no tensor {attr.name.decode(errors='replace')!r}",
        )
    return next((entry for entry in found if entry[1] == attr.index), found[0])


def _bind(soc: Soc, port: Port, memory: DeviceMemory, attr: Any, *, is_input: bool) -> Binding:
    dtype, fmt = _kind(port, attr)
    is_native = bool(attr.pass_through) or dtype is port.dtype
    if attr.pass_through and dtype is not port.dtype:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"{port.name!r} with pass_through must be {port.dtype.name}, but is: {dtype.name}",
        )
    _check_chip(soc, port, dtype, fmt, is_input=is_input)
    shape = _layout(soc, port, fmt, attr.h_stride if is_input else 0, is_input=is_input)
    return Binding(port, memory, dtype, fmt, shape, is_native)


def _kind(port: Port, attr: Any) -> tuple[DType, TensorFormat]:
    try:
        dtype = DType[TensorType(attr.type).name]
        dtype.numpy  # noqa: B018 - INT4 and BFLOAT16 have none
        fmt = TensorFormat(attr.fmt)
    except (ValueError, TypeError):
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"{port.name!r}: type {attr.type} or fmt {attr.fmt} is not supported",
        ) from None
    return dtype, fmt


def _check_chip(soc: Soc, port: Port, dtype: DType, fmt: TensorFormat, *, is_input: bool) -> None:
    """What the small runtime can do: it reads inputs as the device does, and converts outputs.

    Table 5-7 of the user guide has int8 and float16 outputs in each layout, the vendor's
    rknn_mobilenet_nhwc_demo for RV1106 float32 ones.
    """
    if soc.family is not Family.RV1106:
        return
    if is_input:
        allowed = {port.dtype} | ({DType.UINT8} if port.dtype is DType.INT8 else set())
        is_readable = len(port.shape) != 4 or fmt is not TensorFormat.NCHW
    else:
        allowed = {port.dtype, DType.FLOAT16, DType.FLOAT32}
        is_readable = True
    if dtype not in allowed or not is_readable:
        side = "input" if is_input else "output"
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"{side}({port.name}) tensor type must be: {port.dtype.name}, but is: {dtype.name} "
            f"({fmt.name})",
        )


def _layout(
    soc: Soc, port: Port, fmt: TensorFormat, h_stride: int, *, is_input: bool
) -> tuple[int, ...]:
    """How a tensor's elements lie in its buffer, padding included."""
    if len(port.shape) != 4 or fmt in (TensorFormat.NCHW, TensorFormat.UNDEFINED):
        return port.shape
    n, c, h, w = port.shape
    if fmt is TensorFormat.NHWC:
        if not is_input:
            return n, h, w, c
        return n, max(h, h_stride), soc.width_stride(w, port.dtype), c
    if not is_feature(port):
        raise Failure(
            ErrorCode.PARAM_INVALID, f"{port.name!r} of {port.dtype.name} has no NC1HWC2 layout"
        )
    return blocked_shape(port, soc)
