"""rknn_inputs_set: from the caller's buffers to the program's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import nc1hwc2_to_nchw
from ...native import kernels
from ...rknn.abi import ErrorCode, TensorFormat, TensorType
from ...soc import Soc
from ...tensor import DType
from ..cabi.memory import readable
from ..engines import Port
from ..values import store_real
from .attributes import native_input_format, native_input_shape
from .contexts import Context, on_context
from .failure import Failure, check_array


@on_context
def rknn_inputs_set(ctx: Context, n_inputs: int, inputs: Any) -> None:
    """Copy and convert the inputs given; those not given keep what an earlier call set.

    An input that lives in a buffer of the caller's leaves it.
    """
    ports = ctx.shapes.inputs
    check_array(inputs, n_inputs, len(ports), "inputs")
    for given in inputs[:n_inputs]:
        if given.index >= len(ports):
            raise Failure(
                ErrorCode.INPUT_INVALID, f"input index {given.index} is not below {len(ports)}"
            )
        _set(ctx, given, ports[given.index])
        ctx.inputs_set.add(given.index)
        ctx.input_bindings.pop(given.index, None)


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
    target = ctx.arrays.inputs[given.index]
    if given.pass_through:
        _store_native(given, port, ctx.soc, target)
        return
    source: NDArray[Any] = np.frombuffer(readable(given.buf, needed), dtype.numpy)
    if port.normalization is not None and fmt is not TensorFormat.NHWC:
        raise Failure(
            ErrorCode.FAIL,
            f"Meet unsupported src layout for normalize: {fmt.name}, only support NHWC src "
            f"layout!\nrknn_inputs_set, normalize error(-1) index={given.index}",
        )
    store_real(_as_model_order(source, fmt, port), port, target)


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


def _store_native(given: Any, port: Port, soc: Soc, target: NDArray[Any]) -> None:
    """Store what is already as the device wants it: the native dtype and layout."""
    native = port.dtype.numpy
    shape = native_input_shape(port, soc)
    needed = int(np.prod(shape)) * native.itemsize
    if given.size < needed:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"param input size({given.size}) < native size({needed}) of input {port.name!r}, "
            f"whose layout on the device is {shape}",
        )
    source = np.frombuffer(readable(given.buf, needed), native).reshape(shape)
    if len(shape) == 5:
        nc1hwc2_to_nchw(source, port.shape[1], target)
    elif len(shape) == 4 and native_input_format(port) is TensorFormat.NHWC:
        kernels.convert(source.transpose(0, 3, 1, 2), target)
    else:
        kernels.convert(source, target)
