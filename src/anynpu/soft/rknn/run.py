"""rknn_run and the choice of cores."""

from __future__ import annotations

import time
from typing import Any

from ...errors import ModelError
from ...rknn.abi import CoreMask, ErrorCode
from ...soc import Family
from .contexts import Context, borrow
from .failure import Failure


def rknn_set_core_mask(context: int, core_mask: int) -> None:
    """Choose the cores of a context's runs; only chips of several cores take one."""
    with borrow(context) as ctx:
        if ctx.soc.family is not Family.RK3588:
            raise Failure(
                ErrorCode.TARGET_PLATFORM_UNMATCH, f"{ctx.soc.name} has no choice of cores"
            )
        try:
            mask = CoreMask(core_mask)
        except ValueError:
            mask = CoreMask.UNDEFINED
        if mask is CoreMask.UNDEFINED or not _fits(mask, ctx.soc.cores):
            raise Failure(
                ErrorCode.PARAM_INVALID,
                f"failed to set core mask: {core_mask}; {ctx.soc.name} has {ctx.soc.cores} cores",
            )
        ctx.core_mask = mask


def rknn_run(context: int, extend: Any) -> None:
    """Compute; blocks until the outputs are there."""
    with borrow(context) as ctx:
        missing = [
            port.name
            for index, port in enumerate(ctx.program.inputs)
            if index not in ctx.inputs_set
        ]
        if missing:
            raise Failure(ErrorCode.INPUT_INVALID, f"inputs {missing} have not been set")
        with ctx.device.occupy(_cores(ctx), ctx.priority):
            start = time.perf_counter_ns()
            try:
                ctx.instance.run()
            except ModelError as error:
                raise Failure(ErrorCode.FAIL, str(error)) from error
            ctx.run_microseconds = (time.perf_counter_ns() - start) // 1000


def _fits(mask: CoreMask, cores: int) -> bool:
    return mask is CoreMask.ALL or mask < 1 << cores


def _cores(ctx: Context) -> frozenset[int] | None:
    """The cores to hold: None for any one, as RKNN_NPU_CORE_AUTO says."""
    if ctx.core_mask is CoreMask.AUTO:
        return None
    return frozenset(core for core in range(ctx.soc.cores) if ctx.core_mask >> core & 1)
