"""The future of a task that was submitted."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from ..interruptible import Condition
from ..native.pump import State
from .scheduler import CancelledTaskError, Results, Scheduler, Task


class InferenceFuture(concurrent.futures.Future[list[NDArray[Any]]]):
    """`concurrent.futures.Future` whose `cancel` takes the task out of the session's queue.

    Callbacks of `add_done_callback` run on the session's delivering thread.
    """

    def __init__(self, choose: Callable[[Results], Results]) -> None:
        super().__init__()
        # Its lock can't be left held by what a signal's handler raises in `result`.
        self._condition: Any = Condition()
        self._choose = choose
        self._task: tuple[Scheduler, Task] | None = None
        self._is_delivered = False
        self._task_lock = threading.Lock()

    def cancel(self) -> bool:
        """Take the task back if it still waits; whether it was."""
        with self._task_lock:
            if self._task is not None:
                scheduler, task = self._task
                if not scheduler.cancel(task):
                    return False
        return super().cancel()

    def running(self) -> bool:
        """Whether the task is on a worker."""
        with self._task_lock:
            return self._task is not None and self._task[1].job.state == State.RUNNING

    def attach(self, scheduler: Scheduler, task: Task) -> None:
        """Know the task, unless it has been delivered already."""
        with self._task_lock:
            if not self._is_delivered:
                self._task = (scheduler, task)

    def deliver(self, results: Results | None, error: Exception | None) -> None:
        """End with the results, or the exception; on the delivering thread."""
        with self._task_lock:
            # From here on the request may become another task's.
            self._task, self._is_delivered = None, True
        if isinstance(error, CancelledTaskError):
            super().cancel()
        if not self.set_running_or_notify_cancel():
            return
        if error is not None:
            self.set_exception(error)
        else:
            assert results is not None, "a task without results has an error"
            self.set_result(self._choose(results))
