"""A run on a thread of its own: for calls that return at once, or wait for a limited time."""

from __future__ import annotations

import threading
import time
import traceback
import weakref
from collections.abc import Callable

from .. import process
from ..process import Stage
from .cabi import doors
from .failure import Conventions, Failure

_PATIENCE = 10.0
"""Seconds that the end of the program waits for a run that was cancelled."""


class Request:
    """Work that is under way from the moment it is made; any thread may wait for it.

    `cancel` makes it end soon. An exception that is no `Failure` becomes one as the API's
    conventions have it. `deadline` is the `time.monotonic` time at which whoever waits gives up,
    with the failure that `late` makes.
    """

    def __init__(
        self,
        work: Callable[[], None],
        cancel: Callable[[], None],
        conventions: Conventions,
        deadline: float | None = None,
        late: Callable[[], Failure] | None = None,
    ) -> None:
        self.cancel = cancel
        self._deadline, self._late = deadline, late
        self._conventions = conventions
        self._failure: Failure | None = None
        self._done = threading.Event()
        _alive.add(self)
        # A daemon: the end of the program doesn't wait for a simulated device, it cancels it.
        threading.Thread(target=self._run, args=(work,), daemon=True, name="anynpu run").start()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; False where it didn't come in time."""
        return self._done.wait(seconds)

    def wait_in_time(self) -> None:
        """Wait for the end; where the time is over before, cancel the work and fail."""
        deadline = self._deadline
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not self.wait(left) and self._late is not None:
            self.cancel()
            raise self._late()

    def result(self) -> None:
        """Raise the `Failure` that the work ended with, if any; the work is done."""
        if self._failure is not None:
            raise Failure(self._failure.code, self._failure.message)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Failure as failure:
            self._failure = failure
        except BaseException:
            self._conventions.log.error(f"the run, internal error:\n{traceback.format_exc()}")
            self._failure = Failure(self._conventions.internal, "the run failed")
        finally:
            self._done.set()


_alive: weakref.WeakSet[Request] = weakref.WeakSet()


def _cancel_all() -> None:
    under_way = [request for request in list(_alive) if not request.is_done]
    for request in under_way:
        request.cancel()
    for request in under_way:
        request.wait(_PATIENCE)


process.at_exit(Stage.DEVICE, _cancel_all)
doors.at_hurry(_cancel_all)
process.in_child(_alive.clear)
