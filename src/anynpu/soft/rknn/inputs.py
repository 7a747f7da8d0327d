"""rknn_inputs_set: from the caller's buffers to the program's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...rknn.abi import ErrorCode, InitFlag, TensorFormat, TensorType
from ...tensor import DType
from ..cabi.memory_views import readable
from ..device_memory import strict
from ..engines import Port
from . import native_memory
from .attributes import PACKED_CHANNELS
from .contexts import Context, on_context
from .failure import Failure
from .input_conversion import store_image, store_numbers, wraps
from .input_types import is_converted, is_readable, named
from .leniency import crash, let_pass
from .readiness import check_memory_for_inputs, check_shapes_are_set

_LAYOUT_NAMES = {TensorFormat.UNDEFINED: "(null)"}
"""Layouts whose names in the vendor's log aren't those of the header."""


@on_context
def rknn_inputs_set(ctx: Context, n_inputs: int, inputs: Any) -> None:
    """Copy and convert the inputs given; those not given keep what an earlier call set.

    The place in the array says which input an entry is for. An input that lives in a buffer of
    the caller's leaves it.
    """
    ports = ctx.shapes.inputs
    if n_inputs > len(ports):
        raise Failure(ErrorCode.PARAM_INVALID, f"n_inputs({n_inputs}) is more than {len(ports)}")
    if not inputs:
        raise crash("inputs", "the inputs pointer is NULL")
    if n_inputs < len(ports):
        let_pass(
            "fewer inputs",
            f"rknn_inputs_set, param input num({n_inputs}) != model input num({len(ports)})",
            is_warning=True,
        )
    if ctx.flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
        let_pass("information only", "the context was initialised to collect information only")
        return
    check_shapes_are_set(ctx)
    check_memory_for_inputs(ctx)
    for place, (given, port) in enumerate(zip(inputs[:n_inputs], ports, strict=False)):
        if given.index != place:
            let_pass("input index", f"inputs[{place}].index is {given.index}; the place counts")
        _set(ctx, place, given, port)
        ctx.inputs_set.add(place)
        ctx.input_bindings.pop(place, None)


def _set(ctx: Context, place: int, given: Any, port: Port) -> None:
    dtype = _dtype(given, port)
    needed = dtype.size_of(port.elements)
    if given.size < needed:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"param input size({given.size}) < model input size({needed}); that is for input "
            f"{port.name!r} of {port.elements} elements and the type field "
            f"{TensorType(given.type).symbol}",
        )
    _check_batch(ctx, port)
    if not given.buf:
        raise crash("input buffer", f"the buffer of input {port.name!r} is NULL")
    if given.pass_through == 1:
        _pass_through(ctx, place, given, port, dtype)
        return
    fmt = _format(given, port)
    if len(port.shape) == 4:
        _set_image(ctx, place, given, port, dtype, fmt)
    else:
        _set_numbers(ctx, place, given, port, dtype, fmt)


def _dtype(given: Any, port: Port) -> DType:
    """The type of the caller's numbers; PARAM_INVALID where the runtime can't tell its size."""
    dtype = named(given.type)
    if dtype is None or not is_readable(dtype, port):
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"convert_type: unknown type: {given.type}\nUnknow dtype to get bytes: 0\n"
            f"rknn_inputs_set, param input size({given.size}) < model input "
            f"size({-port.elements}); input {port.name!r} is given with a type that the runtime "
            "doesn't convert",
        )
    return dtype


def _format(given: Any, port: Port) -> TensorFormat:
    if given.fmt not in set(TensorFormat):
        raise crash(
            "input format",
            f"meet unsupported layout({given.fmt})! input {port.name!r} has an unknown format",
        )
    return TensorFormat(given.fmt)


def _check_batch(ctx: Context, port: Port) -> None:
    if ctx.program.batch > 1 and port.shape[1:2] and port.shape[1] not in PACKED_CHANNELS:
        raise crash(
            "batch",
            "only support input channel in [1,3,4] when batch_size > 1\n"
            f"_internal_create_set_input_io_mem error! ret=-1, input {port.name!r} has "
            f"{port.shape[1]} channels; rknn_set_io_mem takes it",
        )


def _set_image(
    ctx: Context, place: int, given: Any, port: Port, dtype: DType, fmt: TensorFormat
) -> None:
    """Store an image: NHWC, as numbers to be normalised and quantised, or quantised already."""
    is_packed = port.shape[1] in PACKED_CHANNELS
    if fmt is TensorFormat.NC1HWC2 and is_packed:
        let_pass("blocks", "when input channel is 1, not support NC1HWC2 layout!")
        return
    if place in ctx.pixel_inputs:
        _set_pixels(ctx, place, given, port, dtype, fmt)
        return
    if not is_converted(dtype, port):
        _refuse_type(place, dtype, port.dtype.name)
    elif fmt is not TensorFormat.NHWC:
        _refuse_layout(place, fmt)
    else:
        if dtype is DType.UINT8 and native_memory.converts_pixels(port):
            # The first picture makes the input one of pixels, even where it isn't taken.
            ctx.pixel_inputs.add(place)
            _set_pixels(ctx, place, given, port, dtype, fmt)
            return
        _store(ctx, place, _numbers(given, port, dtype), port, dtype)


def _set_pixels(
    ctx: Context, place: int, given: Any, port: Port, dtype: DType, fmt: TensorFormat
) -> None:
    """Store bytes as a picture, which the NPU converts since a uint8 one was given.

    They are copied at once, with a look at their number, or row by row without where rows have
    pixels to spare.
    """
    has_spare_pixels = native_memory.memory_shape(port, ctx.soc)[2] != port.shape[3]
    if fmt is not TensorFormat.NHWC:
        _refuse_type(place, dtype, DType.UINT8.name)
    elif given.size > port.elements and not has_spare_pixels:
        _refuse_size(given, port)
    else:
        if dtype is not DType.UINT8:
            let_pass(
                "bytes as pixels",
                f"rknn_inputs_set, input {port.name!r} takes uint8 pixels since one was given; "
                f"the bytes of {dtype.name} are taken for pixels",
            )
        pixels = np.frombuffer(readable(given.buf, port.elements), np.uint8)
        store_image(pixels.reshape(_interleaved(port)), port, ctx.arrays.inputs[place])


def _set_numbers(
    ctx: Context, place: int, given: Any, port: Port, dtype: DType, fmt: TensorFormat
) -> None:
    """Store what isn't an image: its format says nothing."""
    if fmt is TensorFormat.NC1HWC2:
        let_pass("blocks", "rknn_inputs_set, meet unsupported layout(2)!")
    elif not is_converted(dtype, port):
        _refuse_type(place, dtype, port.dtype.name)
    elif dtype is DType.INT8 and port.quantization is not None:
        _refuse_layout(place, fmt)
    else:
        source = _numbers(given, port, dtype).reshape(port.shape)
        if strict() and wraps(source, port):
            let_pass("wraps", f"input {port.name!r} has numbers beyond int8, which wrap around")
        store_numbers(source, port, ctx.arrays.inputs[place])


def _store(ctx: Context, place: int, source: NDArray[Any], port: Port, dtype: DType) -> None:
    image = source.reshape(_interleaved(port))
    target = ctx.arrays.inputs[place]
    if dtype is DType.INT8:
        # What is int8 is quantised already.
        np.copyto(target, image.transpose(0, 3, 1, 2), casting="unsafe")
    else:
        store_image(image, port, target)


def _numbers(given: Any, port: Port, dtype: DType) -> NDArray[Any]:
    raw = readable(given.buf, dtype.size_of(port.elements))
    numbers: NDArray[Any] = np.frombuffer(raw, dtype.numpy)
    return numbers


def _interleaved(port: Port) -> tuple[int, int, int, int]:
    n, c, h, w = port.shape
    return n, h, w, c


def _pass_through(ctx: Context, place: int, given: Any, port: Port, dtype: DType) -> None:
    """Store bytes that are already as the device holds them, as many as there are."""
    copied, room = dtype.size_of(port.elements), native_memory.room(port, ctx.soc)
    if copied > room:
        raise crash(
            "wide pass_through",
            f"input {port.name!r} with pass_through is {port.dtype.name} on the device, but is: "
            f"{dtype.name}, whose {copied} bytes have no room in {room}",
        )
    if dtype is not port.dtype:
        let_pass(
            "raw bytes",
            f"rknn_inputs_set, input {port.name!r} with pass_through is {port.dtype.name} on the "
            f"device, but is: {dtype.name}; its bytes are taken as they are",
        )
    if native_memory.refuses_pixels(port, given.fmt):
        let_pass("pass_through", native_memory.REFUSES_PIXELS)
        return
    needed = native_memory.size(port, ctx.soc)
    target = ctx.arrays.inputs[place]
    if given.size < needed:
        let_pass(
            "short pass_through",
            f"rknn_inputs_set, input {port.name!r} has {needed} bytes on the device, "
            f"{given.size} are given; the rest stays",
        )
    raw = np.frombuffer(readable(given.buf, min(given.size, needed)), np.uint8)
    if place in ctx.pixel_inputs:
        let_pass(
            "bytes as pixels",
            f"rknn_inputs_set, input {port.name!r} takes uint8 pixels since one was given; its "
            "bytes are taken for pixels",
        )
        native_memory.store_pixels(raw, port, ctx.soc, target)
    else:
        native_memory.store(raw, port, ctx.soc, target)


def _refuse_layout(place: int, fmt: TensorFormat) -> None:
    name = _LAYOUT_NAMES.get(fmt, fmt.name)
    let_pass(
        "layout",
        f"Meet unsupported src layout for normalize: {name}, only support NHWC src layout!\n"
        f"rknn_inputs_set, normalize error(-1) index={place}",
    )


def _refuse_type(place: int, dtype: DType, wanted: str) -> None:
    let_pass(
        "type",
        f"Normalize does not support for this data type. src type({dtype.name}), dst type "
        f"{wanted}\nrknn_inputs_set, normalize error(-1) index={place}",
    )


def _refuse_size(given: Any, port: Port) -> None:
    let_pass("pixels", f"current input size({given.size}) > need input size({port.elements})")
