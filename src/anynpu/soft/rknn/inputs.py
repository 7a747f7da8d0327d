"""rknn_inputs_set: from the caller's buffers to the program's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import nc1hwc2_to_nchw, quantize_affine
from ...rknn.abi import ErrorCode, TensorFormat, TensorType
from ...soc import Soc
from ...tensor import DType
from ..cabi.memory import readable
from ..engines import Port
from .contexts import Context, borrow
from .failure import Failure

_PACKED_CHANNELS = (1, 3, 4)
"""Channel counts whose native input layout is NHWC; others are NC1HWC2."""


def rknn_inputs_set(context: int, n_inputs: int, inputs: Any) -> None:
    """Copy and convert the inputs given; those not given keep what an earlier call set."""
    with borrow(context) as ctx:
        count = len(ctx.program.inputs)
        if not inputs:
            raise Failure(ErrorCode.PARAM_INVALID, "the inputs pointer is NULL")
        if not 0 < n_inputs <= count:
            raise Failure(ErrorCode.PARAM_INVALID, f"n_inputs({n_inputs}) is not in 1..{count}")
        for given in inputs[:n_inputs]:
            if given.index >= count:
                raise Failure(
                    ErrorCode.INPUT_INVALID, f"input index {given.index} is not below {count}"
                )
            _set(ctx, given, ctx.program.inputs[given.index])
            ctx.inputs_set.add(given.index)


def _set(ctx: Context, given: Any, port: Port) -> None:
    dtype = _dtype(given, port)
    fmt = _format(given, port)
    needed = dtype.size_of(port.elements)
    if given.size < needed:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"param input size({given.size}) < model input size({needed}); that is for input "
            f"{port.name!r} of {port.elements} elements and the type field "
            f"{TensorType(given.type).symbol}",
        )
    if not given.buf:
        raise Failure(ErrorCode.INPUT_INVALID, f"the buffer of input {port.name!r} is NULL")
    target = ctx.instance.inputs[given.index]
    if given.pass_through:
        _store_native(given, port, ctx.soc, target)
        return
    source: NDArray[Any] = np.frombuffer(readable(given.buf, needed), dtype.numpy)
    if port.normalization is not None:
        if fmt is not TensorFormat.NHWC:
            raise Failure(
                ErrorCode.FAIL,
                f"Meet unsupported src layout for normalize: {fmt.name}, only support NHWC src "
                f"layout!\nrknn_inputs_set, normalize error(-1) index={given.index}",
            )
        source = port.normalization.apply(_as_model_order(source, fmt, port))
    else:
        source = _as_model_order(source, fmt, port)
    _store_real(source, port, target)


def _dtype(given: Any, port: Port) -> DType:
    try:
        dtype = DType[TensorType(given.type).name]
        dtype.numpy  # noqa: B018 - INT4 and BFLOAT16 have none
    except (ValueError, TypeError):
        raise Failure(
            ErrorCode.INPUT_INVALID,
            f"input {port.name!r} is given with the unsupported type {given.type}",
        ) from None
    return dtype


def _format(given: Any, port: Port) -> TensorFormat:
    try:
        return TensorFormat(given.fmt)
    except ValueError:
        raise Failure(
            ErrorCode.INPUT_INVALID,
            f"input {port.name!r} is given with the unknown format {given.fmt}",
        ) from None


def _as_model_order(source: NDArray[Any], fmt: TensorFormat, port: Port) -> NDArray[Any]:
    """A view in the model's order of axes; formats matter for images only."""
    view: NDArray[Any]
    if len(port.shape) != 4 or fmt is TensorFormat.NCHW:
        view = source.reshape(port.shape)
        return view
    if fmt is TensorFormat.NC1HWC2:
        raise Failure(
            ErrorCode.INPUT_INVALID,
            f"input {port.name!r}: NC1HWC2 is the device's own layout and needs pass_through=1",
        )
    n, c, h, w = port.shape
    view = source.reshape(n, h, w, c).transpose(0, 3, 1, 2)
    return view


def _store_real(source: NDArray[Any], port: Port, target: NDArray[Any]) -> None:
    """Store real values: quantised, or converted to the carrier's dtype."""
    if port.quantization is not None:
        scale, zero_point = port.quantization.scale, port.quantization.zero_point
        quantize_affine(source, scale, zero_point, out=target)
    elif target.dtype.kind == "f" or source.dtype == target.dtype:
        np.copyto(target, source, casting="unsafe")
    else:
        _store_whole_numbers(source, target)


def _store_whole_numbers(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Convert to an integer or boolean dtype: saturating, rounding to nearest; NaN is 0."""
    if target.dtype.kind == "b":
        np.copyto(target, source != 0)
        return
    limits = np.iinfo(target.dtype.name)
    if source.dtype.kind == "f":
        source = np.nan_to_num(np.rint(source.astype(np.float64)))
        # float64 can't hold the largest int64; the next smaller value it has is safe to cast.
        highest = np.nextafter(float(limits.max), 0) if limits.bits == 64 else float(limits.max)
        source = np.clip(source, float(limits.min), highest)
    elif source.dtype.kind != "b":
        held = np.iinfo(source.dtype)
        low, high = max(limits.min, held.min), min(limits.max, held.max)
        source = np.clip(source, low, high)
    np.copyto(target, source, casting="unsafe")


def _store_native(given: Any, port: Port, soc: Soc, target: NDArray[Any]) -> None:
    """Store what is already as the device wants it: the native dtype and layout."""
    native = port.dtype.numpy
    if len(port.shape) != 4:
        shape = port.shape
    elif port.shape[1] in _PACKED_CHANNELS:
        n, c, h, w = port.shape
        shape = (n, h, w, c)
    else:
        n, c, h, w = port.shape
        c2 = soc.channel_block(port.dtype)
        shape = (n, -(-c // c2), h, w, c2)
    needed = int(np.prod(shape)) * native.itemsize
    if given.size < needed:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"param input size({given.size}) < native size({needed}) of input {port.name!r}, "
            f"whose layout on the device is {shape}",
        )
    source = np.frombuffer(readable(given.buf, needed), native).reshape(shape)
    if len(shape) == 5:
        source = nc1hwc2_to_nchw(source, port.shape[1])
    elif len(port.shape) == 4:
        source = source.transpose(0, 3, 1, 2)
    np.copyto(target, source, casting="unsafe")
