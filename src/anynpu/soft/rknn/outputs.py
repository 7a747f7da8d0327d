"""rknn_outputs_get and rknn_outputs_release: from the program's arrays to the caller's buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...native import kernels
from ...rknn.abi import ErrorCode
from ...tensor import DType
from ..cabi.memory_views import writable
from ..engines import Port
from .contexts import CONTEXTS, Context, on_context, on_context_as
from .failure import Failure
from .leniency import crash, let_pass
from .lent_outputs import LENT
from .output_values import to_real


@on_context
def rknn_outputs_get(ctx: Context, n_outputs: int, outputs: Any, extend: Any) -> None:
    """Write outputs, in the model's own order of axes, to the caller's buffers or to new ones.

    The place in the array says which output an entry is for, and is written over its index.
    """
    ports = ctx.shapes.outputs
    if n_outputs > len(ports):
        raise Failure(ErrorCode.PARAM_INVALID, f"n_outputs({n_outputs}) is more than {len(ports)}")
    if not outputs:
        raise crash("outputs", "the outputs pointer is NULL")
    if ctx.request is not None:
        ctx.request.result()
    if ctx.run_microseconds is None:
        let_pass("outputs before a run", "there are no outputs before rknn_run")
    if n_outputs < len(ports):
        let_pass(
            "fewer outputs",
            f"rknn_outputs_get, param output num({n_outputs}) != model output num({len(ports)})",
            is_warning=True,
        )
    for place, (wanted, port) in enumerate(zip(outputs[:n_outputs], ports, strict=False)):
        # An array that was only cleared is as good as one that was numbered.
        if wanted.index not in (0, place):
            let_pass("output index", f"outputs[{place}].index is {wanted.index}; the place counts")
        wanted.index = place
        _get(ctx, place, wanted, port)


def rknn_outputs_release(context: int, n_outputs: int, outputs: Any) -> None:
    """Free the buffers that rknn_outputs_get allocated; the caller's own are left alone.

    The pointers stay as they were, and lead nowhere.
    """
    if context and context not in CONTEXTS:
        let_pass("release after destroy", f"context {context:#x} is not alive")
        # Nobody knows any more how many outputs there are.
        n_outputs = min(n_outputs, len(LENT))
    else:
        _check_release(context, n_outputs)
    if not outputs:
        raise crash("released outputs", "the outputs pointer is NULL")
    for place, given in enumerate(outputs[:n_outputs]):
        if not given.is_prealloc and given.buf and not LENT.take_back(given.buf):
            raise crash(
                "release twice", f"the buffer of outputs[{place}] was released, or was never lent"
            )


@on_context_as("rknn_outputs_release")
def _check_release(ctx: Context, n_outputs: int) -> None:
    if n_outputs > len(ctx.shapes.outputs):
        text = f"n_outputs({n_outputs}) is more than {len(ctx.shapes.outputs)}"
        raise crash("released outputs", text)


def _get(ctx: Context, place: int, wanted: Any, port: Port) -> None:
    dtype = DType.FLOAT32 if wanted.want_float else port.dtype
    needed = dtype.size_of(port.elements)
    if wanted.is_prealloc:
        if not wanted.buf and wanted.size >= needed and ctx.soc.has_small_blocks:
            # Where the vendor's runtime looks at no pointer first.
            raise crash("no output buffer", f"the buffer for outputs[{place}] is NULL")
        if not wanted.buf or wanted.size < needed:
            let_pass(
                "small output buffer",
                f"output[{place}] buf size error, size = {wanted.size if wanted.buf else 0}, "
                f"expected size = {needed} if want_float = {wanted.want_float}",
            )
            return
        target = np.frombuffer(writable(wanted.buf, needed), dtype.numpy)
    else:
        target = np.empty(port.elements, dtype.numpy)
        wanted.buf = LENT.lend(ctx.lender, target)
        wanted.size = needed
    source, target = ctx.arrays.outputs[place], target.reshape(port.shape)
    if wanted.want_float and port.quantization is not None:
        to_real(source, port, port.quantization, ctx.soc, target)
    else:
        kernels.convert(source, target)
