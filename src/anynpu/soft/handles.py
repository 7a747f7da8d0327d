"""What stands behind a handle: found, borrowed for a call, run, cancelled, and closed.

Every API of the soft NPU goes by this. A call finds a thing by its handle, waits until it is idle,
and holds its lock. A run that only waits so long, or not at all, goes on on a thread of its own as
a `Request`; later calls wait for its end. A thing may be destroyed at any moment by another thread:
its run then ends soon, and whoever waited to borrow it is told that it isn't alive any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, Protocol, TypeVar

from .. import process
from .cabi import doors
from .failure import Conventions, Failure
from .request import Request


class Closeable(Protocol):
    """What a handle stands for."""

    def close(self) -> None: ...


_T = TypeVar("_T", bound=Closeable)


class Table(Generic[_T]):
    """The things of one kind by their handles: small integers, never reused.

    `numbers` counts the handles: kinds that share it have none in common. `unknown` makes the
    failure of a call with a handle that isn't alive.
    """

    def __init__(self, numbers: Iterator[int], unknown: Callable[[int], Failure]) -> None:
        self._numbers = numbers
        self._unknown = unknown
        self._things: dict[int, _T] = {}
        process.in_child(self._leave_behind)

    def add(self, thing: _T) -> int:
        """Give a thing a handle."""
        handle = next(self._numbers)
        self._things[handle] = thing
        return handle

    def find(self, handle: int | None) -> _T:
        """The thing of a handle; fails for NULL and for one that isn't alive."""
        found = self._things.get(handle or 0)
        if found is None:
            raise self._unknown(handle or 0)
        return found

    def remove(self, handle: int | None) -> _T:
        """Take a thing out of the table; fails as `find` does."""
        found = self._things.pop(handle or 0, None)
        if found is None:
            raise self._unknown(handle or 0)
        return found

    def __contains__(self, handle: int) -> bool:
        return handle in self._things

    def all(self) -> list[_T]:
        """What is alive."""
        return list(self._things.values())

    def close_all(self) -> None:
        """Close what is left."""
        while self._things:
            self._things.popitem()[1].close()

    def _leave_behind(self) -> None:
        """In a forked process nothing from before is alive, and none of it is taken apart."""
        process.keep_for_ever(self._things)
        self._things = {}


class Runnable:
    """A thing on which runs are made. Its lock is held during every call on it but `cancel`.

    `request` is the last run on a thread of its own, unless its end has been told. `cancelled` says
    to a run under way, and to one that waits for cores, that it should end.
    """

    def __init__(self, conventions: Conventions) -> None:
        self.lock = threading.RLock()
        self.closed = False
        self.request: Request | None = None
        self.cancelled = threading.Event()
        self._conventions = conventions

    def is_called_by_run(self) -> bool:
        """Whether this thread is inside the run, as a callback is."""
        return False

    def cancel(self) -> None:
        """Make a run that waits or is under way end soon; from any thread."""
        self.cancelled.set()

    def release(self) -> None:
        """Let go of what it holds; under its lock, when it is closed."""

    def begin(
        self,
        work: Callable[[], None],
        deadline: float | None = None,
        late: Callable[[], Failure] | None = None,
    ) -> Request:
        """Run on a thread of its own, which takes the lock when the caller lets go of it.

        `deadline` and `late` are as `Request` has them.
        """

        def locked() -> None:
            with self.lock:
                work()

        self.request = Request(locked, self.cancel, self._conventions, deadline, late)
        return self.request

    def finish(self, request: Request) -> None:
        """Wait for a run, as long as it has time, and end as it ended, which is told once."""
        request.wait_in_time()
        if self.request is request:
            self.request = None
        request.result()

    def close(self) -> None:
        """End a run under way, and let go of everything."""
        # From here on nobody borrows it; who has borrowed it may still begin a run.
        self.closed = True
        while True:
            self.cancel()
            if (request := self.request) is not None:
                request.wait()
            with self.lock:
                if self.request is None or self.request.is_done:
                    # A run keeps the thing, which keeps the run.
                    self.request = None
                    self.release()
                    return


_R = TypeVar("_R", bound=Runnable)


class RunnableTable(Table[_R]):
    """Things that can be borrowed; at the process's end their runs are cancelled."""

    def __init__(self, numbers: Iterator[int], unknown: Callable[[int], Failure]) -> None:
        super().__init__(numbers, unknown)
        doors.at_hurry(self._cancel_all)

    def borrow(self, handle: int | None) -> AbstractContextManager[_R]:
        """The thing of a handle, idle and locked for the block; fails as `find` does."""
        return borrow(self.find(handle), lambda: self._unknown(handle or 0))

    def _cancel_all(self) -> None:
        for thing in self.all():
            thing.cancel()


@contextmanager
def borrow(thing: _R, closed: Callable[[], Failure]) -> Iterator[_R]:
    """A thing, idle and locked for the block; `closed` makes the failure where it isn't alive.

    A call from inside its run gets it as it is: it would wait for itself.
    """
    is_inside = thing.is_called_by_run()
    while True:
        # Another thread that waits for the run may take it away.
        if (request := thing.request) is not None and not is_inside:
            request.wait()
        with thing.lock:
            if thing.closed:
                raise closed()
            request = thing.request
            if request is None or request.is_done or is_inside:
                try:
                    yield thing
                except Failure:
                    # Whoever destroys a thing cancels its run.
                    if thing.closed:
                        raise closed() from None
                    raise
                return
