"""The future of a request that was submitted."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from ..interruptible import Condition
from .scheduler import CancelledRequestError, Results
from .submitted import Submitted


class InferenceFuture(Submitted, concurrent.futures.Future[list[NDArray[Any]]]):
    """`concurrent.futures.Future` whose `cancel` takes the request out of the session's queue.

    Callbacks of `add_done_callback` run on the session's delivering thread.
    """

    def __init__(self, choose: Callable[[Results], Results]) -> None:
        Submitted.__init__(self)
        concurrent.futures.Future.__init__(self)
        # Its lock can't be left held by what a signal's handler raises in `result`.
        self._condition: Any = Condition()
        self._choose = choose

    def cancel(self) -> bool:
        """Take the request back if it still waits; whether it was."""
        return self._take_back() and super().cancel()

    def deliver(self, results: Results | None, error: Exception | None) -> None:
        """End with the results, or the exception; on the delivering thread."""
        self._forget()
        if isinstance(error, CancelledRequestError):
            super().cancel()
        if not self.set_running_or_notify_cancel():
            return
        if error is not None:
            self.set_exception(error)
        else:
            assert results is not None, "a request without results has an error"
            self.set_result(self._choose(results))
