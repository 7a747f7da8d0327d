"""The cores that a run of a context holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ...rknn.abi import CoreMask, ErrorCode
from ..device import CancelledError, Cores, DeadlineError, Device
from .contexts import DeviceContext
from .failure import Failure

_thread = threading.local()


@contextmanager
def held(ctx: DeviceContext, idle: int, deadline: float | None = None) -> Iterator[Cores]:
    """Hold the cores of the context's mask for the block, or `idle` of them that are idle.

    Fails with TIMEOUT where the cores don't become free in time, or the block takes longer, and
    with FAIL where the run is cancelled while it waits.
    """
    try:
        with _occupied(ctx, idle, deadline) as cores:
            yield cores
    except DeadlineError:
        raise Failure(ErrorCode.TIMEOUT, "the cores did not become free in time") from None
    except CancelledError:
        raise Failure(ErrorCode.FAIL, "failed to submit!, the run was cancelled") from None


@contextmanager
def _occupied(ctx: DeviceContext, idle: int, deadline: float | None) -> Iterator[Cores]:
    """Hold the cores.

    A run that a custom operator makes inside of another one goes on with that one's cores: it
    could wait for them forever.
    """
    mine: dict[Device, Cores] = _thread.__dict__.setdefault("mine", {})
    if ctx.device in mine:
        yield mine[ctx.device]
        return
    with ctx.device.occupy(_wanted(ctx, idle), ctx.priority, deadline, ctx.cancelled) as cores:
        mine[ctx.device] = cores
        try:
            yield cores
        finally:
            del mine[ctx.device]


def _wanted(ctx: DeviceContext, idle: int) -> Cores | int:
    if ctx.core_mask is CoreMask.AUTO:
        return idle
    return frozenset(core for core in range(ctx.soc.cores) if ctx.core_mask >> core & 1)
