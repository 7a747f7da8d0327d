"""The request behind a future: known from its submission until it is delivered."""

from __future__ import annotations

import threading

from ..native.pump import State
from .scheduler import RequestHandle, Scheduler


class Submitted:
    """What futures of requests have in common; any thread may call it."""

    def __init__(self) -> None:
        self._handle: tuple[Scheduler, RequestHandle] | None = None
        self._is_delivered = False
        self._handle_lock = threading.Lock()

    def attach(self, scheduler: Scheduler, handle: RequestHandle) -> None:
        """Know the request, unless it has been delivered already."""
        with self._handle_lock:
            if not self._is_delivered:
                self._handle = (scheduler, handle)

    def running(self) -> bool:
        """Whether the request is on a worker."""
        with self._handle_lock:
            return self._handle is not None and self._handle[1].record.state == State.RUNNING

    def _take_back(self) -> bool:
        """Take the request out of the queue; False where it doesn't wait there any more."""
        with self._handle_lock:
            if self._handle is None:
                return True
            scheduler, handle = self._handle
            return scheduler.cancel(handle)

    def _forget(self) -> None:
        """It is delivered: from here on the handle may become another request's."""
        with self._handle_lock:
            self._handle, self._is_delivered = None, True
