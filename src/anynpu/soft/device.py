"""The simulated chip: cores that run one request at a time, and on-chip memory.

Thread-safe; they are shared by all that the process runs on a chip.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from .. import process
from ..soc import SOCS, Soc

Cores = frozenset[int]


class DeadlineError(Exception):
    """The cores did not become free in time."""


class CancelledError(Exception):
    """Whoever waited for cores was told not to."""


@dataclass(frozen=True, order=True)
class _Request:
    """A request that waits: the smaller comes first."""

    priority: int
    ticket: int
    wanted: Cores | int

    def choose(self, free: Cores) -> Cores | None:
        """The cores it would take of those free, None where they don't suffice."""
        if isinstance(self.wanted, int):
            return frozenset(sorted(free)[: self.wanted]) if len(free) >= self.wanted else None
        return self.wanted if self.wanted <= free else None


class CorePool:
    """The cores of a chip.

    Requests wait in order of priority (0 first), then of arrival. A request names the cores it
    wants, or how many of them, whichever are idle; it gets them all at once.
    """

    def __init__(self, cores: int) -> None:
        self._idle: Cores = frozenset(range(cores))
        self._changed = threading.Condition()
        self._tickets = itertools.count()
        self._waiting: list[_Request] = []

    @contextmanager
    def occupy(
        self,
        wanted: Cores | int,
        priority: int,
        deadline: float | None = None,
        cancelled: threading.Event | None = None,
    ) -> Iterator[Cores]:
        """Wait for cores, hold them for the block, and give the block their numbers.

        `deadline` is a `time.monotonic` time; `DeadlineError` when it passes before,
        `CancelledError` when the event is set before (`wake` makes those who wait look at theirs).
        """
        taken = self._take(_Request(priority, next(self._tickets), wanted), deadline, cancelled)
        try:
            yield taken
        finally:
            with self._changed:
                self._idle |= taken
                if self._waiting:
                    self._changed.notify_all()

    def wake(self) -> None:
        """Make requests that wait look whether they were cancelled."""
        with self._changed:
            self._changed.notify_all()

    def _take(
        self, request: _Request, deadline: float | None, cancelled: threading.Event | None
    ) -> Cores:
        def is_cancelled() -> bool:
            return cancelled is not None and cancelled.is_set()

        with self._changed:
            if not self._waiting and not is_cancelled():
                # Mostly so, and then there is nothing to be put in order.
                taken = request.choose(self._idle)
                if taken is not None:
                    self._idle -= taken
                    return taken
            self._waiting.append(request)
            self._waiting.sort(key=lambda waiting: (waiting.priority, waiting.ticket))
            try:
                self._wait(lambda: is_cancelled() or self._grant(request) is not None, deadline)
                if is_cancelled():
                    raise CancelledError
                taken = self._grant(request)
                assert taken is not None, "granted under the lock a moment ago"
                self._idle -= taken
                return taken
            finally:
                self._waiting.remove(request)
                self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool], deadline: float | None) -> None:
        remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._changed.wait_for(condition, remaining):
            raise DeadlineError

    def _grant(self, request: _Request) -> Cores | None:
        """The cores for a waiting request, None while it has to wait on.

        A request that comes earlier keeps the cores it waits for, so that a request for several
        cores is not starved by requests for one.
        """
        free = self._idle
        for earlier in self._waiting:
            choice = earlier.choose(free)
            if earlier is request:
                return choice
            if choice is not None:
                free -= choice
            elif isinstance(earlier.wanted, int):
                free = frozenset()
            else:
                free -= earlier.wanted
        return None


class Device(CorePool):
    """The cores of one chip and its on-chip memory (SRAM)."""

    def __init__(self, soc: Soc) -> None:
        super().__init__(soc.cores)
        self.soc = soc
        self._free_sram = soc.sram_bytes

    @property
    def free_sram(self) -> int:
        """Bytes of on-chip memory that nobody has taken."""
        with self._changed:
            return self._free_sram

    def take_sram(self, size: int) -> int:
        """Take up to `size` bytes of on-chip memory; returns how many there were."""
        with self._changed:
            granted = min(size, self._free_sram)
            self._free_sram -= granted
            return granted

    def return_sram(self, size: int) -> None:
        """Give bytes back that `take_sram` granted."""
        with self._changed:
            self._free_sram += size


@cache
def device_for(name: str) -> Device:
    """The process's device for a chip's name."""
    return Device(SOCS[name])


# A forked process has a device of its own: requests of other threads hold the cores of this one.
process.in_child(device_for.cache_clear)
