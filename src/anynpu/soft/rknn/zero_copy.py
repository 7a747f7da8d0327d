"""rknn_set_io_mem: inputs and outputs that live in the caller's buffers."""

from __future__ import annotations

from typing import Any

from ...rknn.abi import MAX_NAME_LEN, ErrorCode, TensorFormat
from ...soc import Family, Soc
from ...tensor import DType
from ..engines import Port
from . import input_binding, output_binding, tensor_memory
from .contexts import Context, on_context
from .failure import Failure
from .input_types import named
from .readiness import check_memory_may_be_set, check_shapes_are_set


@on_context
def rknn_set_io_mem(ctx: Context, mem: Any, attr: Any) -> None:
    """Let an input or output, found by its name, live in a buffer, as the attributes say."""
    if not attr:
        raise Failure(ErrorCode.PARAM_INVALID, "the attribute pointer is NULL")
    wanted = attr.contents
    memory = tensor_memory.find(mem)
    check_memory_may_be_set(ctx)
    check_shapes_are_set(ctx)
    is_input, index, port = _find_port(ctx, wanted)
    dtype, fmt = _kind(port, wanted, is_input=is_input)
    _check_chip(ctx.soc, port, dtype, fmt, is_input=is_input)
    if is_input:
        bound = input_binding.bind(ctx, index, port, memory, dtype, fmt, wanted)
        ctx.input_bindings[index] = bound
    else:
        ctx.output_bindings[index] = output_binding.bind(ctx.soc, port, memory, dtype, fmt)


def _find_port(ctx: Context, attr: Any) -> tuple[bool, int, Port]:
    """(is an input, index, port) of the tensor that an attribute names; namesakes by index."""
    sides = ((True, ctx.shapes.inputs), (False, ctx.shapes.outputs))
    found = [
        (is_input, index, port)
        for is_input, ports in sides
        for index, port in enumerate(ports)
        if port.name.encode()[: MAX_NAME_LEN - 1] == attr.name
    ]
    if not found:
        raise Failure(
            ErrorCode.FAIL, f"the model has no tensor {attr.name.decode(errors='replace')!r}"
        )
    return next((entry for entry in found if entry[1] == attr.index), found[0])


def _kind(port: Port, attr: Any, *, is_input: bool) -> tuple[DType, TensorFormat]:
    dtype = named(attr.type)
    is_known = dtype is not None and dtype.numpy_name is not None
    if dtype is None or not is_known or attr.fmt not in set(TensorFormat):
        # A board refuses such types of inputs by the size that it makes of them.
        is_type = is_input and not attr.pass_through and not is_known
        raise Failure(
            ErrorCode.FAIL if is_type else ErrorCode.PARAM_INVALID,
            f"{port.name!r}: type {attr.type} or fmt {attr.fmt} is not supported",
        )
    return dtype, TensorFormat(attr.fmt)


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
