"""rknn_run, rknn_wait and the choice of cores."""

from __future__ import annotations

import time
from typing import Any

from ...errors import ModelError
from ...rknn.abi import CoreMask, ErrorCode, InitFlag
from ..device_memory import strict
from ..engines import MissingOperatorError
from . import board_refusals, cores, log
from .contexts import Context, borrow, on_context, refuse_in_callback
from .failure import Failure
from .leniency import crash, let_pass
from .readiness import check_memory_for_run, check_shapes_are_set
from .timing import clock, repeats_outputs


@on_context
def rknn_set_core_mask(ctx: Context, core_mask: int) -> None:
    """Choose the cores of a context's runs."""
    try:
        mask = CoreMask(core_mask)
    except ValueError:
        mask = CoreMask.UNDEFINED
    fits = mask is CoreMask.ALL or mask < 1 << ctx.soc.cores
    if mask is CoreMask.UNDEFINED or not fits:
        number = f"{core_mask & 0xFFFFFFFF:x}"
        raise Failure(
            ErrorCode.FAIL,
            f"Not support core mask: {number}, fallback to single core auto mode\n"
            f"failed to set core mask: {number}; {ctx.soc.name} has {ctx.soc.cores} cores",
        )
    ctx.core_mask = mask


@on_context
def rknn_set_batch_core_num(ctx: Context, core_num: int) -> None:
    """Spread the batch of a context's runs over `core_num` cores."""
    if not 0 < core_num <= ctx.soc.cores:
        raise Failure(
            ErrorCode.FAIL,
            f"failed to set core_num {core_num}; {ctx.soc.name} has {ctx.soc.cores} cores",
        )
    ctx.batch_cores = core_num


def rknn_run(context: int, extend: Any) -> None:
    """Compute until the outputs are there or the time is over, or (non_block) only begin to."""
    with borrow(context) as ctx:
        refuse_in_callback(ctx)
        _check_ready(ctx)
        returns_at_once = bool(extend and extend.contents.non_block)
        milliseconds = extend.contents.timeout_ms if extend else 0
        seconds = milliseconds / 1000 if milliseconds > 0 else None
        # How an earlier run ended doesn't matter any more.
        ctx.request = None
        ctx.cancelled.clear()
        if not returns_at_once and seconds is None:
            _compute(ctx, None)
            return
        deadline = None if seconds is None else time.monotonic() + seconds
        _ = ctx.arrays
        request = ctx.begin(
            lambda: _compute(ctx, deadline),
            deadline,
            lambda: Failure(ErrorCode.TIMEOUT, f"the run took longer than {milliseconds} ms"),
        )
    if not returns_at_once:
        # Its end is kept: rknn_outputs_get fails as the run did.
        request.wait_in_time()
        request.result()


def rknn_wait(context: int, extend: Any) -> None:
    """Fail, as the vendor's function does on every chip and in every version that was tried.

    The run goes on; `rknn_outputs_get` waits for it.
    """
    with borrow(context):
        log.warning("rknn_wait fence fd = -1 is invalid")
        raise Failure(ErrorCode.FAIL, "wait failed; rknn_outputs_get waits for a run")


def _check_ready(ctx: Context) -> None:
    _check_bindings(ctx)
    if ctx.flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
        raise Failure(
            ErrorCode.FAIL,
            "rknn_run is denied if set RKNN_FLAG_COLLECT_MODEL_INFO_ONLY flag!",
        )
    check_shapes_are_set(ctx)
    missing = [
        port.name
        for index, port in enumerate(ctx.shapes.inputs)
        if index not in ctx.inputs_set and index not in ctx.input_bindings
    ]
    if missing:
        let_pass("unset inputs", f"inputs {missing} have not been set")
    check_memory_for_run(ctx)


def _check_bindings(ctx: Context) -> None:
    inputs, outputs = ctx.input_bindings.values(), ctx.output_bindings.values()
    gone = [bound.port.name for bound in inputs if bound.memory.closed]
    gone += [bound.port.name for bound in outputs if bound.memory.closed]
    if gone:
        raise crash("destroyed binding", f"the memory of {gone} was destroyed")


def _compute(ctx: Context, deadline: float | None) -> None:
    """Move the bound inputs in, hold the cores, run, move the bound outputs out."""
    instance = ctx.arrays
    flushes = not ctx.flags & InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE
    for index, binding in ctx.input_bindings.items():
        binding.load(instance.inputs[index], flush=bool(flushes))
    try:
        with cores.held(ctx, ctx.batch_cores, deadline) as taken:
            start = time.perf_counter()
            if not (repeats_outputs() and ctx.computed is instance):
                instance.run()
                ctx.computed = instance
            ctx.run_microseconds = clock().finish(
                lambda: ctx.program.lowered(ctx.variant).layers,
                ctx.soc,
                start,
                len(taken),
                deadline,
            )
            ctx.last_cores = taken
    except MissingOperatorError as error:
        missing = (board_refusals.unsupported(op_type, ctx.soc) for op_type in error.op_types)
        raise Failure(ErrorCode.FAIL, "\n".join(missing)) from error
    except ModelError as error:
        raise Failure(ErrorCode.FAIL, f"failed to submit!, {error}") from error
    flushes = not ctx.flags & InitFlag.DISABLE_FLUSH_OUTPUT_MEM_CACHE
    for index, bound in ctx.output_bindings.items():
        bound.store(instance.outputs[index], invalidate=bool(flushes))
    if strict() and ctx.internal_memory is not None:
        ctx.internal_memory.scribble()
