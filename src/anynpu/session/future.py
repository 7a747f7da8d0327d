"""The future of a request that was submitted."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from ..interruptible import Condition
from ..native.pump import State
from .scheduler import CancelledRequestError, RequestHandle, Results, Scheduler


class InferenceFuture(concurrent.futures.Future[list[NDArray[Any]]]):
    """`concurrent.futures.Future` whose `cancel` takes the request out of the session's queue.

    Callbacks of `add_done_callback` run on the session's delivering thread.
    """

    def __init__(self, choose: Callable[[Results], Results]) -> None:
        super().__init__()
        # Its lock can't be left held by what a signal's handler raises in `result`.
        self._condition: Any = Condition()
        self._choose = choose
        self._handle: tuple[Scheduler, RequestHandle] | None = None
        self._is_delivered = False
        self._handle_lock = threading.Lock()

    def cancel(self) -> bool:
        """Take the request back if it still waits; whether it was."""
        with self._handle_lock:
            if self._handle is not None:
                scheduler, handle = self._handle
                if not scheduler.cancel(handle):
                    return False
        return super().cancel()

    def running(self) -> bool:
        """Whether the request is on a worker."""
        with self._handle_lock:
            return self._handle is not None and self._handle[1].record.state == State.RUNNING

    def attach(self, scheduler: Scheduler, handle: RequestHandle) -> None:
        """Know the request, unless it has been delivered already."""
        with self._handle_lock:
            if not self._is_delivered:
                self._handle = (scheduler, handle)

    def deliver(self, results: Results | None, error: Exception | None) -> None:
        """End with the results, or the exception; on the delivering thread."""
        with self._handle_lock:
            # From here on the handle may become another request's.
            self._handle, self._is_delivered = None, True
        if isinstance(error, CancelledRequestError):
            super().cancel()
        if not self.set_running_or_notify_cancel():
            return
        if error is not None:
            self.set_exception(error)
        else:
            assert results is not None, "a request without results has an error"
            self.set_result(self._choose(results))
