"""Threads and conditions that the handler of a signal can't tear up by what it raises.

CPython runs handlers on the main thread between two instructions of Python. `threading` is written
in Python: an exception in the wrong place leaves a condition's lock held forever, and then the
thread blocks that was to notify it. What is here changes its state in single calls of C.
"""

from __future__ import annotations

import _thread
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class Condition(_thread.RLock):  # type: ignore[misc] # to mypy it is final
    """As `threading.Condition` of an RLock that is held once."""

    def __init__(self) -> None:
        super().__init__()
        self._waiters: deque[Any] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, without the lock, until notified; False after the timeout (seconds)."""
        waiter = _thread.allocate_lock()
        waiter.acquire()
        held_once = (1, threading.get_ident())
        self._waiters.append(waiter)
        is_notified = False
        try:
            self.release()
            is_notified = waiter.acquire(True, -1 if timeout is None else max(0.0, timeout))
        finally:
            # First of all, and in a call that no signal ends.
            self._acquire_restore(held_once)  # type: ignore[attr-defined]
        if not is_notified:
            with contextlib.suppress(ValueError):
                self._waiters.remove(waiter)
        return is_notified

    def notify(self, count: int = 1) -> None:
        """Wake `count` of those that wait; the lock is held."""
        while count > 0 and self._waiters:
            self._waiters.popleft().release()
            count -= 1

    def notify_all(self) -> None:
        """Wake all that wait; the lock is held."""
        self.notify(len(self._waiters))


class Thread:
    """A daemon thread that runs a function once, from the first `start` on."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._once, self._over = _thread.allocate_lock(), _thread.allocate_lock()
        self._over.acquire()
        self._ident: int | None = None

    @property
    def is_current(self) -> bool:
        """Whether the caller is on it."""
        return self._ident == threading.get_ident()

    @property
    def has_begun(self) -> bool:
        """Whether it runs, or has run."""
        return self._ident is not None

    def start(self) -> None:
        """Begin; more than once does nothing."""
        if not self.has_begun:
            _thread.start_new_thread(self._run, ())

    def join(self) -> None:
        """Wait for the function's end; it was started."""
        with self._over:
            pass

    def _run(self) -> None:
        # Who was interrupted in `start` may have started it before.
        if not self._once.acquire(False):
            return
        self._ident = threading.get_ident()
        try:
            self._function()
        finally:
            self._over.release()
