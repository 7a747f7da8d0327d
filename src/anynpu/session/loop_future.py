"""The future of a request for asyncio: from the delivering thread to the event loop at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from .scheduler import CancelledRequestError, Results
from .submitted import Submitted


class LoopFuture(Submitted, asyncio.Future[Results]):
    """An `asyncio.Future` of the running loop whose `cancel` takes the request out of the queue.

    The loop's thread uses it; `deliver` is for the session's delivering thread.
    """

    def __init__(self, choose: Callable[[Results], Results]) -> None:
        loop = asyncio.get_running_loop()
        Submitted.__init__(self)
        asyncio.Future.__init__(self, loop=loop)
        self._home = loop
        self._choose = choose

    def cancel(self, msg: object = None) -> bool:
        """Take the request back if it still waits; what it gives otherwise goes nowhere."""
        self._take_back()
        return super().cancel(msg)

    def deliver(self, results: Results | None, error: Exception | None) -> None:
        """End with the results, or the exception; on the delivering thread."""
        self._forget()
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
