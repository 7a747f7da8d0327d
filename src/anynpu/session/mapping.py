"""Many tasks after one another with all workers busy, read and returned lazily."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from .scheduler import Results, Scheduler, Task

_AHEAD = 4
"""Tasks a worker that are under way: a slow one's result may be awaited while others go on."""

Tasks = Iterable[Sequence[NDArray[Any]]]


def in_order(scheduler: Scheduler, tasks: Tasks) -> Iterator[Results]:
    """The tasks' results, in their order."""
    pending: deque[Task] = deque()
    try:
        for arrays in tasks:
            pending.append(scheduler.start(arrays, may_wait=False))
            if len(pending) > _AHEAD * scheduler.workers or scheduler.is_done(pending[0]):
                yield scheduler.finish(pending.popleft())
        while pending:
            yield scheduler.finish(pending.popleft())
    finally:
        scheduler.abandon(pending)


def as_done(scheduler: Scheduler, tasks: Tasks) -> Iterator[Results]:
    """The tasks' results as they are done."""
    pending: list[Task] = []
    try:
        for arrays in tasks:
            pending.append(scheduler.start(arrays, may_wait=False))
            if len(pending) > _AHEAD * scheduler.workers:
                yield scheduler.finish(pending.pop(scheduler.first_done(pending)))
        while pending:
            yield scheduler.finish(pending.pop(scheduler.first_done(pending)))
    finally:
        scheduler.abandon(pending)
