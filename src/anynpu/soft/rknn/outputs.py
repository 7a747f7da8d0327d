"""rknn_outputs_get and rknn_outputs_release: from the program's arrays to the caller's buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import dequantize_affine
from ...native import kernels
from ...rknn.abi import ErrorCode
from ...tensor import DType
from ..cabi.memory import writable
from ..engines import Port
from .contexts import Context, on_context
from .failure import Failure, check_array


@on_context
def rknn_outputs_get(ctx: Context, n_outputs: int, outputs: Any, extend: Any) -> None:
    """Write outputs, in the model's own order of axes, to the caller's buffers or to new ones.

    Which output an entry is for is said by its index, or by its place in an array whose indices
    are all 0: many clients only clear the array, and read the indices that come back.
    """
    ports = ctx.shapes.outputs
    check_array(outputs, n_outputs, len(ports), "outputs")
    if ctx.job is not None:
        ctx.job.result()
    if ctx.run_microseconds is None:
        raise Failure(ErrorCode.OUTPUT_INVALID, "there are no outputs before rknn_run")
    entries = outputs[:n_outputs]
    for wanted in entries:
        if wanted.index >= len(ports):
            raise Failure(
                ErrorCode.OUTPUT_INVALID, f"output index {wanted.index} is not below {len(ports)}"
            )
    if not any(wanted.index for wanted in entries):
        for place, wanted in enumerate(entries):
            wanted.index = place
    for wanted in entries:
        _get(ctx, wanted, ports[wanted.index])


@on_context
def rknn_outputs_release(ctx: Context, n_outputs: int, outputs: Any) -> None:
    """Free the buffers that rknn_outputs_get allocated; the caller's own are left alone."""
    check_array(outputs, n_outputs, len(ctx.shapes.outputs), "outputs")
    for given in outputs[:n_outputs]:
        if given.is_prealloc or not given.buf:
            continue
        if ctx.lent.pop(given.buf, None) is None:
            raise Failure(
                ErrorCode.OUTPUT_INVALID,
                f"output {given.index} was not allocated by this context",
            )
        given.buf = None


def _get(ctx: Context, wanted: Any, port: Port) -> None:
    dtype = DType.FLOAT32 if wanted.want_float else port.dtype
    needed = dtype.size_of(port.elements)
    if wanted.is_prealloc:
        if not wanted.buf:
            raise Failure(ErrorCode.OUTPUT_INVALID, f"the buffer of output {port.name!r} is NULL")
        if wanted.size < needed:
            raise Failure(
                ErrorCode.OUTPUT_INVALID,
                f"the buffer of output {port.name!r} has {wanted.size} bytes, {needed} are needed",
            )
        target = np.frombuffer(writable(wanted.buf, needed), dtype.numpy)
    else:
        target = np.empty(port.elements, dtype.numpy)
        wanted.buf = target.ctypes.data
        ctx.lent[wanted.buf] = target
    wanted.size = needed
    _convert(ctx.arrays.outputs[wanted.index], port, bool(wanted.want_float), target)


def _convert(source: NDArray[Any], port: Port, as_float: bool, target: NDArray[Any]) -> None:
    target = target.reshape(port.shape)
    if as_float and port.quantization is not None:
        dequantize_affine(source, port.quantization.scale, port.quantization.zero_point, out=target)
    else:
        kernels.convert(source, target)
