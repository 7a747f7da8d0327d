"""An input in a buffer of the caller's: how its bytes become the device's, at each run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from numpy.typing import NDArray

from ...native import kernels
from ...rknn.abi import ErrorCode, TensorFormat
from ...soc import Family, Soc
from ...tensor import DType
from ..device_memory import DeviceMemory
from ..engines import Port
from . import log, native_memory
from .attributes import input_width_stride
from .contexts import Context
from .failure import Failure
from .input_conversion import store_image, store_numbers
from .input_types import is_converted, is_readable
from .leniency import crash, let_pass


class Use(Enum):
    """What becomes of a buffer's bytes."""

    NATIVE = auto()
    """They are what the device itself holds."""
    PIXELS = auto()
    """They are pixels, which the NPU normalises and quantises."""
    NUMBERS = auto()
    """They are numbers, which the processor normalises and quantises."""
    QUANTIZED = auto()
    """They are what the device holds, in another order."""
    NOTHING = auto()
    """The runtime doesn't convert them: the input keeps what it had."""


@dataclass(frozen=True)
class InputBinding:
    """An input in a buffer: `shape` is how its elements lie there, padding included."""

    port: Port
    memory: DeviceMemory
    dtype: DType
    shape: tuple[int, ...]
    use: Use
    soc: Soc
    complaint: str = ""

    @property
    def size(self) -> int:
        """Bytes of the buffer that are read."""
        if self.use is Use.NOTHING:
            return 0
        return self.dtype.size_of(math.prod(self.shape))

    def load(self, target: NDArray[Any], *, flush: bool) -> None:
        """Bring the buffer's values into the program's array."""
        if flush:
            self.memory.flush()
        if self.use is Use.NOTHING:
            log.error(self.complaint)
            return
        raw = self.memory.device[: self.size]
        if self.use is Use.NATIVE:
            native_memory.store(raw, self.port, self.soc, target)
            return
        values: NDArray[Any] = raw.view(self.dtype.numpy).reshape(self.shape)
        if len(self.port.shape) != 4:
            store_numbers(values, self.port, target)
            return
        _, _, h, w = self.port.shape
        image = values[:, :h, :w]
        if self.use is Use.QUANTIZED:
            kernels.convert(image.transpose(0, 3, 1, 2), target)
        else:
            store_image(image, self.port, target)


def bind(
    ctx: Context,
    index: int,
    port: Port,
    memory: DeviceMemory,
    dtype: DType,
    fmt: TensorFormat,
    attr: Any,
) -> InputBinding:
    """How an input is read from a buffer; raises `Failure` for what a board refuses too."""
    if attr.pass_through or _is_native(ctx.soc, port, dtype, fmt):
        if attr.pass_through and native_memory.refuses_pixels(port, fmt):
            raise Failure(ErrorCode.FAIL, native_memory.REFUSES_PIXELS)
        return _bind_native(ctx, index, port, memory, dtype)
    if fmt is TensorFormat.NC1HWC2:
        raise Failure(ErrorCode.FAIL, "NC1HWC2 input format only support pass_through == 1")
    needed = dtype.size_of(port.elements)
    is_known = is_readable(dtype, port)
    if not is_known or memory.size < needed:
        shown = needed if is_known else -port.elements
        raise Failure(
            ErrorCode.FAIL, f"input memory size({memory.size}) < model input size({shown})"
        )
    use, complaint = _use(ctx, index, port, dtype, fmt)
    bound = InputBinding(
        port, memory, dtype, _shape(ctx.soc, port, attr.h_stride), use, ctx.soc, complaint
    )
    _check_size(bound)
    if use is Use.PIXELS and native_memory.converts_pixels(port):
        ctx.pixel_inputs.add(index)
    return bound


def _is_native(soc: Soc, port: Port, dtype: DType, fmt: TensorFormat) -> bool:
    """Whether the small runtime takes bytes as they are, which it isn't told to."""
    is_own = soc.family is Family.RV1106 and dtype is port.dtype
    return is_own and (len(port.shape) != 4 or fmt is not TensorFormat.NHWC)


def _bind_native(
    ctx: Context, index: int, port: Port, memory: DeviceMemory, dtype: DType
) -> InputBinding:
    """The device's own bytes: the runtime looks neither at the type nor at the layout."""
    if dtype is not port.dtype:
        let_pass(
            "raw type",
            f"{port.name!r} with pass_through is {port.dtype.name} on the device, but is: "
            f"{dtype.name}; its bytes are taken as they are",
        )
    shape = native_memory.memory_shape(port, ctx.soc)
    held, use = port.dtype, Use.NATIVE
    if index in ctx.pixel_inputs:
        held, (use, _) = DType.UINT8, _use_after_pixels(port, DType.INT8)
    bound = InputBinding(port, memory, held, shape, use, ctx.soc)
    _check_size(bound)
    return bound


def _use(ctx: Context, index: int, port: Port, dtype: DType, fmt: TensorFormat) -> tuple[Use, str]:
    """What becomes of numbers that aren't passed through, and what the runtime says to it."""
    is_image = len(port.shape) == 4
    if is_image and index in ctx.pixel_inputs and dtype is not DType.UINT8:
        return _use_after_pixels(port, dtype)
    is_quantized = dtype is DType.INT8 and port.quantization is not None
    if not is_converted(dtype, port) or (is_quantized and not is_image):
        text = (
            f"Normalize does not support for this data type. src type({dtype.name}), dst type "
            f"{port.dtype.name}"
        )
        let_pass("bound type", f"input {port.name!r}: {text}")
        return Use.NOTHING, text
    if is_image and fmt is not TensorFormat.NHWC:
        text = (
            f"Meet unsupported src layout for normalize: {fmt.name}, only support NHWC src layout!"
        )
        let_pass("bound layout", f"input {port.name!r}: {text}")
        return Use.NOTHING, text
    if is_quantized or dtype is port.dtype is not DType.FLOAT16:
        return Use.QUANTIZED, ""
    return (Use.PIXELS if dtype is DType.UINT8 else Use.NUMBERS), ""


def _use_after_pixels(port: Port, dtype: DType) -> tuple[Use, str]:
    text = f"input {port.name!r} takes uint8 pixels since one was given"
    if dtype.bits == 8:
        let_pass("bytes as pixels", f"{text}; the bytes of {dtype.name} are taken for pixels")
        return Use.PIXELS, ""
    complaint = "Meet unsupported dst layout for normalize: 1"
    let_pass("bound type", f"{text}, not {dtype.name}: {complaint}")
    return Use.NOTHING, complaint


def _shape(soc: Soc, port: Port, h_stride: int) -> tuple[int, ...]:
    """How numbers lie in a buffer: images as NHWC, with the row stride of RKNN_QUERY_INPUT_ATTR."""
    if len(port.shape) != 4:
        return port.shape
    n, c, h, _ = port.shape
    return n, max(h, h_stride), input_width_stride(port, soc), c


def _check_size(bound: InputBinding) -> None:
    if bound.memory.size < bound.size:
        raise crash(
            "small input memory",
            f"the memory for input {bound.port.name!r} has {bound.memory.size} bytes; "
            f"{bound.size} are read of {bound.dtype.name} {bound.shape}",
        )
