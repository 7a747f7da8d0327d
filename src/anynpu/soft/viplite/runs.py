"""Running a network or a group: on the caller's thread or on one of its own, and the end of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ...soc import VipSoc
from ...viplite.abi import Interface, Status
from ..handles import Runnable, RunnableTable
from ..request import Request
from .failure import CONVENTIONS, Failure

Work = Callable[[float | None], None]
"""Computes; gets the deadline (`time.monotonic`), if there is one."""


class TimedRunnable(Runnable):
    """What has a time limit for its runs: `timeout` in milliseconds, 0 for none."""

    kind = ""

    def __init__(self) -> None:
        super().__init__(CONVENTIONS)
        self.timeout = 0
        self.microseconds = 0

    def trigger(self, work: Work) -> Request:
        """Begin to compute on a thread of its own; the thing is borrowed."""
        limit = self.timeout
        deadline = time.monotonic() + limit / 1000 if limit else None
        return self.begin(
            lambda: work(deadline),
            deadline,
            lambda: Failure(Status.TIMEOUT, f"the {self.kind}'s run took longer than {limit} ms"),
        )


_T = TypeVar("_T", bound=TimedRunnable)


def run(table: RunnableTable[_T], handle: int | None, prepare: Callable[[_T], Work]) -> None:
    """Compute what `prepare` finds to be done; returns when it is done, or its time is over.

    With a time limit it is done on another thread, as a thread can't stop waiting for itself.
    """
    with table.borrow(handle) as found:
        work = prepare(found)
        found.request = None
        if not found.timeout:
            work(None)
            return
        request = found.trigger(work)
    found.finish(request)


def wait(table: RunnableTable[_T], handle: int | None, idle: Callable[[_T], object]) -> None:
    """Wait for the run that was triggered, and end as it ended; `idle` is called without one."""
    found = table.find(handle)
    request = found.request
    if request is not None:
        found.finish(request)
        return
    with table.borrow(handle):
        idle(found)


def cancelled(chip: VipSoc) -> Failure:
    """How a run ends that was cancelled: the interface of some chips has no code for it."""
    has_code = Interface.of_npu(chip.npu_version).has(Status.CANCELED.symbol)
    return Failure(Status.CANCELED if has_code else Status.FAILURE, "the run was cancelled")
