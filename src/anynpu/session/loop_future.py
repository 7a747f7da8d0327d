"""The future of a request for asyncio: from the delivering thread to the event loop at once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from ..native.pump import State
from .scheduler import CancelledRequestError, RequestHandle, Results, Scheduler


class LoopFuture(asyncio.Future[Results]):
    """An `asyncio.Future` of the running loop whose `cancel` takes the request out of the queue.

    The loop's thread uses it; `deliver` is for the session's delivering thread.
    """

    def __init__(self, choose: Callable[[Results], Results]) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self._home = loop
        self._choose = choose
        self._handle: tuple[Scheduler, RequestHandle] | None = None
        self._is_delivered = False
        self._handle_lock = threading.Lock()

    def attach(self, scheduler: Scheduler, handle: RequestHandle) -> None:
        """Know the request, unless it has been delivered already."""
        with self._handle_lock:
            if not self._is_delivered:
                self._handle = (scheduler, handle)

    def cancel(self, msg: object = None) -> bool:
        """Take the request back if it still waits; what it gives otherwise goes nowhere."""
        with self._handle_lock:
            if self._handle is not None:
                scheduler, handle = self._handle
                scheduler.cancel(handle)
        return super().cancel(msg)

    def running(self) -> bool:
        """Whether the request is on a worker."""
        with self._handle_lock:
            return self._handle is not None and self._handle[1].record.state == State.RUNNING

    def deliver(self, results: Results | None, error: Exception | None) -> None:
        """End with the results, or the exception; on the delivering thread."""
        with self._handle_lock:
            # From here on the handle may become another request's.
            self._handle, self._is_delivered = None, True
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._home.call_soon_threadsafe(self._finish, results, error)

    def _finish(self, results: Results | None, error: Exception | None) -> None:
        if self.done():
            return
        if isinstance(error, CancelledRequestError):
            super().cancel()
        elif error is not None:
            self.set_exception(error)
            self.exception()  # whoever doesn't ask needs no complaint in the log
        else:
            assert results is not None, "a request without results has an error"
            self.set_result(self._choose(results))
