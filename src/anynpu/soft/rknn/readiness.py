"""What has to be there before inputs are set, memory is bound, or a run begins."""

from __future__ import annotations

from collections.abc import Iterator

from ...rknn.abi import InitFlag
from .contexts import Context
from .leniency import crash


def check_shapes_are_set(ctx: Context) -> None:
    """That a model of several input shapes has been told which: the runtime has no default."""
    if ctx.is_dynamic and not ctx.has_shapes:
        raise crash("no shapes", "the model has dynamic shapes, call rknn_set_input_shapes first")


def check_memory_for_inputs(ctx: Context) -> None:
    """That memory which the program allocates is there for what the runtime is to put into it."""
    for kind in _missing_memory(ctx):
        raise crash(
            "no memory",
            "invalid tensor malloc size, the inputs have no memory: "
            f"{kind} memory is to be allocated outside and has not been set",
        )


def check_memory_for_run(ctx: Context) -> None:
    """The same before a run."""
    for kind in _missing_memory(ctx):
        raise crash(
            "no memory for a run",
            f"{kind} memory is to be allocated outside and has not been set",
        )


def check_memory_may_be_set(ctx: Context) -> None:
    """That the context is for runs."""
    if ctx.flags & InitFlag.COLLECT_MODEL_INFO_ONLY:
        raise crash(
            "memory for information", "the context was initialised to collect information only"
        )


def _missing_memory(ctx: Context) -> Iterator[str]:
    outside = ctx.flags & InitFlag.MEM_ALLOC_OUTSIDE
    internal_outside = outside or ctx.flags & InitFlag.INTERNAL_ALLOC_OUTSIDE
    for needed, memory, kind in (
        (outside, ctx.weight_memory, "weight"),
        (internal_outside, ctx.internal_memory, "internal"),
    ):
        if needed and (memory is None or memory.closed):
            yield kind
