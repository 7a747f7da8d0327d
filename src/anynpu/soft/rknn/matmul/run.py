"""rknn_matmul_run, and what is chosen before: memories, cores, the shape in use."""

from __future__ import annotations

import time
from typing import Any

from ....rknn.abi import CoreMask, ErrorCode
from ...device_memory import Bytes
from .. import cores, tensor_memory
from ..failure import Failure
from ..leniency import crash
from ..timing import clock
from .compute import in_place, multiply
from .context import MatmulContext, on_matmul
from .parameters import check_scales
from .work import layer


@on_matmul
def rknn_matmul_set_io_mem(ctx: MatmulContext, mem: Any, attr: Any) -> None:
    """Let matrix A, B or C, found by its name, live in a buffer.

    The caller has to call it again whenever it has written to A or B (the guide's section 3.5.2);
    in strict mode what was written since isn't seen, otherwise it is.
    """
    if not attr:
        raise Failure(ErrorCode.PARAM_INVALID, "the attribute pointer is NULL")
    given = attr.contents
    memory = tensor_memory.find(mem)
    name = given.name.decode(errors="replace")
    needed = ctx.product.sizes.get(name)
    if needed is None:
        raise Failure(ErrorCode.PARAM_INVALID, f"there is no matrix {name!r}, only A, B, C")
    if given.size != needed:
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"{name}: the attribute's size({given.size}) is not that of the shape in use({needed})",
        )
    if memory.size < needed:
        raise crash(
            "small matrix memory",
            f"the memory for {name} has {memory.size} bytes; {needed} are needed for "
            f"{ctx.product.dtypes[name].name} {ctx.product.shapes[name]}",
        )
    if name != "C":
        memory.flush()
    ctx.change()
    ctx.memories[name] = memory


@on_matmul
def rknn_matmul_set_core_mask(context: MatmulContext, core_mask: int) -> None:
    """Choose the core: one, or whichever is idle; the vendor's runtime refuses several."""
    allowed = [CoreMask.AUTO, *(CoreMask(1 << core) for core in range(context.soc.cores))]
    if core_mask not in allowed:
        raise Failure(
            ErrorCode.FAIL,
            f"failed to set core mask: {core_mask}; a matrix product runs on one core of "
            f"{context.soc.name}'s {context.soc.cores}: "
            + ", ".join(f"{mask.symbol}({int(mask)})" for mask in allowed),
        )
    context.core_mask = CoreMask(core_mask)


@on_matmul
def rknn_matmul_set_dynamic_shape(ctx: MatmulContext, shape: Any) -> None:
    """Take up one of the context's shapes: A and C are to be set anew, and B if it is another."""
    if not shape:
        raise Failure(ErrorCode.PARAM_INVALID, "the shape pointer is NULL")
    wanted = (shape.contents.M, shape.contents.K, shape.contents.N)
    for product in ctx.products:
        if (product.m, product.k, product.n) == wanted:
            break
    else:
        listed = ", ".join(str((p.m, p.k, p.n)) for p in ctx.products)
        raise Failure(
            ErrorCode.PARAM_INVALID,
            f"shape (M, K, N) = {wanted} is not supported; there are {listed}",
        )
    keeps_b = (product.k, product.n) == (ctx.product.k, ctx.product.n)
    ctx.memories = {"B": ctx.memories["B"]} if keeps_b and "B" in ctx.memories else {}
    ctx.product = product
    ctx.change()


@on_matmul
def rknn_matmul_run(ctx: MatmulContext) -> None:
    """Compute C."""
    arrays = _arrays(ctx)
    check_scales(ctx)
    ctx.cancelled.clear()
    with cores.held(ctx, 1) as ctx.last_cores:
        start = time.perf_counter()
        _compute(ctx, arrays)
        clock().finish(lambda: (layer(ctx.product),), ctx.soc, start, 1)
    ctx.memories["C"].invalidate()


def _compute(ctx: MatmulContext, arrays: dict[str, Bytes]) -> None:
    ready = ctx.in_place or in_place(ctx.product, arrays, ctx.scalings)
    if ready is not None and ready.is_computed():
        ctx.in_place = ready
    else:
        multiply(ctx.product, arrays, ctx.scalings, ctx.converted_b)


def _arrays(ctx: MatmulContext) -> dict[str, Bytes]:
    """The bytes of A, B and C, which stay as long as these arrays."""
    arrays = {}
    for name, size in ctx.product.sizes.items():
        memory = ctx.memories.get(name)
        if memory is not None:
            arrays[name] = memory.device[:size]
            # Who destroys it from here on leaves the array what it has.
            if not memory.closed:
                continue
        code = ErrorCode.OUTPUT_INVALID if name == "C" else ErrorCode.INPUT_INVALID
        why = "has not been set for the shape in use" if memory is None else "was destroyed"
        raise Failure(code, f"the memory of matrix {name} {why} (rknn_matmul_set_io_mem)")
    return arrays
