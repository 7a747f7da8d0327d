"""The simulated chip: cores that run one job at a time.

Thread-safe; a `Device` is shared by every context of its chip in the process.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from ..soc import SOCS, Soc


class Device:
    """The cores of one chip.

    Jobs wait in order of priority (0 first), then of arrival. A job with `cores` set to None takes
    any one idle core; otherwise it takes all the cores named, together.
    """

    def __init__(self, soc: Soc) -> None:
        self.soc = soc
        self._idle = set(range(soc.cores))
        self._changed = threading.Condition()
        self._tickets = itertools.count()
        self._waiting: list[tuple[int, int, frozenset[int] | None]] = []

    @contextmanager
    def occupy(self, cores: frozenset[int] | None, priority: int) -> Iterator[frozenset[int]]:
        """Wait for the cores, hold them for the block, and give the block their numbers."""
        job = (priority, next(self._tickets), cores)
        with self._changed:
            heapq.heappush(self._waiting, job)
            try:
                taken = self._grant(job)
                while taken is None:
                    self._changed.wait()
                    taken = self._grant(job)
            finally:
                self._waiting.remove(job)
                heapq.heapify(self._waiting)
                self._changed.notify_all()
            self._idle -= taken
        try:
            yield taken
        finally:
            with self._changed:
                self._idle |= taken
                self._changed.notify_all()

    def _grant(self, job: tuple[int, int, frozenset[int] | None]) -> frozenset[int] | None:
        """The cores for a waiting job, None while it has to wait on.

        A job that comes earlier in the order keeps the cores it waits for, so that a job for
        several cores is not starved by jobs for one.
        """
        free = set(self._idle)
        for earlier in sorted(self._waiting):
            wanted = earlier[2]
            if wanted is None:
                taken = frozenset(sorted(free)[:1])
                available = bool(taken)
            else:
                taken = wanted
                available = wanted <= free
            if earlier == job:
                return taken if available else None
            free -= taken
        return None


@cache
def device_for(name: str) -> Device:
    """The process's device for a chip's name."""
    return Device(SOCS[name])
