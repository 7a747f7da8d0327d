"""Many requests after one another with all workers busy, read and returned lazily."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from .scheduler import RequestHandle, Results, Scheduler

_AHEAD = 4
"""Requests under way for each worker: a slow one's result may be awaited while others go on."""

Inputs = Iterable[Sequence[NDArray[Any]]]
"""The arrays of each request."""


def in_order(scheduler: Scheduler, inputs: Inputs) -> Iterator[Results]:
    """Each request's results, in their order."""
    pending: deque[RequestHandle] = deque()
    try:
        for arrays in inputs:
            pending.append(scheduler.start(arrays, may_wait=False))
            if len(pending) > _AHEAD * scheduler.workers or scheduler.is_done(pending[0]):
                yield scheduler.finish(pending.popleft())
        while pending:
            yield scheduler.finish(pending.popleft())
    finally:
        scheduler.abandon(pending)


def as_done(scheduler: Scheduler, inputs: Inputs) -> Iterator[Results]:
    """Each request's results, as they are done."""
    pending: list[RequestHandle] = []
    try:
        for arrays in inputs:
            pending.append(scheduler.start(arrays, may_wait=False))
            if len(pending) > _AHEAD * scheduler.workers:
                yield scheduler.finish(pending.pop(scheduler.first_done(pending)))
        while pending:
            yield scheduler.finish(pending.pop(scheduler.first_done(pending)))
    finally:
        scheduler.abandon(pending)
