"""Who runs which request when: a network's workers behind a pump, and the thread that delivers.

The pump runs requests with no Python between them. Here arrays fill a request, its record goes to
the pump, and what was done becomes arrays or an exception, on the thread that waits for it or on
the one that delivers.

The handler of a signal may raise between any two instructions of the main thread. Therefore a
request is among those that have entered before its record goes to the pump, and stays there until
the pump has given the record back, whoever has been interrupted in the meantime.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import traceback
import weakref
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

from numpy.typing import NDArray

from .. import process
from ..backends import Network, Request
from ..errors import ClosedError, OptionError, QueueFullError, StateError
from ..interruptible import Thread
from ..native.pump import ANY_WORKER, MASKED_WORKERS, Answer, State, Step, open_pump
from ..options import Options
from ..process import Stage
from .profile import Profile

Results = list[NDArray[Any]]
Deliver = Callable[[Results | None, Exception | None], None]
"""Gets a request's results, or the exception that it ended with; must not raise."""

_PATIENCE = 0.2
"""Seconds that C waits before Python looks for a signal, such as Ctrl-C's."""
_UNSEEN_PER_WORKER = 8
_FEW_ENTERED = 32


class CancelledRequestError(Exception):
    """The request was taken back before it began."""


class RequestHandle:
    """A request on its way: who holds this gets its results.

    Where it isn't held any more, an exception came between, and the results go nowhere.
    """

    __slots__ = ("__weakref__", "address", "entry", "record", "request")

    def __init__(self, request: Request) -> None:
        self.request, self.record = request, request.record
        self.address = ctypes.addressof(request.record)
        self.entry = (request, weakref.ref(self))


class _Reported:
    """A request that is delivered when it is done."""

    __slots__ = ("deliver", "handle")

    def __init__(self, handle: RequestHandle, deliver: Deliver) -> None:
        self.handle, self.deliver = handle, deliver


class Scheduler:
    """Runs requests on a network's workers. Any thread may call any method.

    It owns the network and closes it.
    """

    def __init__(self, network: Network, options: Options) -> None:
        self.network = network
        self.workers = len(network.worker_cores)
        self._keeps_main_thread_free = network.keeps_main_thread_free
        self.profile: Profile | None = None
        self._timeout = options.submit_timeout_ms / 1000
        schedule = _schedule(network.worker_cores, options) if options.is_round_robin else []
        self._pump = open_pump(
            self.workers, options.max_queue_size, self.workers * _UNSEEN_PER_WORKER
        )
        if schedule:
            self._pump.set_schedule(schedule)
        self._pump.set_pacing(options.enable_pacing)
        self._steps: dict[int, Sequence[Step]] = {}
        self._programs: dict[int, int] = {}
        self._lock = threading.Lock()
        self._spare: list[RequestHandle] = []
        self._entered: dict[int, tuple[Request, weakref.ref[RequestHandle]]] = {}
        self._most_entered = _FEW_ENTERED
        self._reported: dict[int, _Reported] = {}
        self._thread = Thread(self._deliver_all)
        self._is_closing = self._is_closed = False
        self._closing = threading.Lock()
        self._process = os.getpid()
        _alive.add(self)

    # ------------------------------------------------------------------------------- for a caller

    def run(self, arrays: Sequence[NDArray[Any]]) -> Results:
        """Run a request to its end: on this thread, where a worker is idle. Nothing is copied."""
        handle = self._filled(arrays, copy=False)
        try:
            if self._enter(self._pump.submit if self._keeps_off() else self._pump.run, handle):
                self._await(handle)
            results = self._outcome(handle)
        except BaseException:
            self._let_go(handle)
            raise
        self._recycle(handle)
        return results

    def start(self, arrays: Sequence[NDArray[Any]], *, may_wait: bool = True) -> RequestHandle:
        """Begin a request whose arrays are copied; `finish` ends it.

        It may have to wait for a place in the queue, unless `may_wait` is False.
        """
        handle = self._filled(arrays, copy=True)
        handle.record.is_urgent = not may_wait
        try:
            self._enter(self._pump.submit, handle)
        except BaseException:
            self._let_go(handle)
            raise
        return handle

    def finish(self, handle: RequestHandle) -> Results:
        """Wait for a request, and return its results or raise what it ended with."""
        try:
            self._await(handle)
            results = self._outcome(handle)
        except BaseException:
            self._let_go(handle)
            raise
        self._recycle(handle)
        return results

    def is_done(self, handle: RequestHandle) -> bool:
        """Whether `finish` needn't wait."""
        return self._pump.wait([handle.record], 0) == 0

    def first_done(self, handles: Sequence[RequestHandle]) -> int:
        """Wait until one of some requests is done; its place."""
        records = [handle.record for handle in handles]
        while (place := self._pump.wait(records, _PATIENCE)) < 0:
            pass
        return place

    def abandon(self, handles: MutableSequence[RequestHandle]) -> None:
        """Take requests out of a sequence and give them up.

        Those that wait are cancelled, the others' results go nowhere.
        """
        while handles:
            self._let_go(handles.pop())

    # ------------------------------------------------------------------------------- for delivery

    def submit(
        self,
        arrays: Sequence[NDArray[Any]],
        deliver: Deliver,
        *,
        in_order: bool,
        may_wait: bool = True,
        copy: bool = True,
    ) -> RequestHandle:
        """Begin a request; `deliver` gets what it ends with.

        Its arrays are copied, or without `copy` left unchanged by the caller until it is done.

        It is called on the delivering thread, after the requests submitted before with `in_order`
        where this one is too. Raises `QueueFullError` where no place gets free in time, or at all
        without `may_wait`.
        """
        self._thread.start()
        handle = self._filled(arrays, copy=copy)
        handle.record.is_reported, handle.record.is_ordered = True, in_order
        # Whoever submits while it delivers would wait for itself.
        handle.record.is_urgent = self._thread.is_current
        reported = _Reported(handle, deliver)
        try:
            self._reported[handle.address] = reported
            self._enter(self._pump.submit, handle, may_wait=may_wait)
        except BaseException:
            self._withdraw(reported)
            raise
        return handle

    def cancel(self, handle: RequestHandle) -> bool:
        """Take back a submitted request that still waits; whether it did.

        It is delivered as cancelled.
        """
        return self._pump.cancel(handle.record)

    # ------------------------------------------------------------------------------------ the end

    def close(self, *, cancel: bool = False) -> None:
        """Accept nothing more, finish or cancel what is there, deliver it, free the network.

        From a callback it returns before all is delivered. Twice does no harm, and where it was
        interrupted it is done then.
        """
        if os.getpid() != self._process:
            return
        self._is_closing = True
        self._pump.close(cancel=cancel)
        if not self._thread.is_current:
            with self._closing:
                self._close()
        elif self._closing.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._closing.release()

    def _close(self) -> None:
        if self._is_closed:
            return
        self._pump.join()
        if self._thread.has_begun and not self._thread.is_current:
            self._thread.join()
        self.network.close()
        self._is_closed = True

    def forked(self) -> None:
        """This process is a fork of the one with the workers: nothing can be run here."""
        self._process = -1

    # ------------------------------------------------------------------------------------ requests

    def _keeps_off(self) -> bool:
        """Whether this thread leaves the work to others, to hear of signals meanwhile."""
        is_main = threading.get_ident() == threading.main_thread().ident
        return self._keeps_main_thread_free and is_main

    def _filled(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> RequestHandle:
        if self._process < 0:
            raise StateError("the session is from before a fork; open one in this process")
        if self._is_closing:
            raise ClosedError("this session is closed: use it before close(), or open another one")
        try:
            handle = self._spare.pop()
        except IndexError:
            handle = self._new_handle()
        record = handle.record
        record.is_reported = record.is_ordered = record.is_urgent = False
        record.workers = ANY_WORKER
        try:
            handle.request.fill(arrays, copy=copy)
            record.program = self._program(handle.request.variant)
        except BaseException:
            self._recycle(handle)
            raise
        return handle

    def _new_handle(self) -> RequestHandle:
        if len(self._entered) > self._most_entered:
            self._forget_abandoned()
            self._most_entered = 2 * len(self._entered) + _FEW_ENTERED
        return RequestHandle(self.network.new_request())

    def _forget_abandoned(self) -> None:
        """Forget requests whose handles nobody holds, once the pump gave their records back."""
        for address, (request, handle) in list(self._entered.items()):
            if handle() is None and request.record.state not in (State.WAITING, State.RUNNING):
                self._entered.pop(address, None)

    def _program(self, variant: int) -> int:
        if variant not in self._programs:
            with self._lock:
                if variant not in self._programs:
                    steps = [self.network.steps(worker, variant) for worker in range(self.workers)]
                    number = self._pump.add_program(steps)
                    self._steps[number] = steps[0]
                    self._programs[variant] = number
        return self._programs[variant]

    def _enter(
        self, enter: Callable[..., Answer], handle: RequestHandle, *, may_wait: bool = True
    ) -> bool:
        """Pass a record to the pump, in portions of patience; whether it is yet to be done."""
        record = handle.record
        if not record.is_reported:
            self._entered[handle.address] = handle.entry
        answer = enter(record, 0)
        deadline = time.monotonic() + self._timeout if answer is Answer.FULL and may_wait else 0
        while answer is Answer.FULL and (left := deadline - time.monotonic()) > 0:
            answer = enter(record, min(left, _PATIENCE))
        if answer is Answer.CLOSED:
            raise ClosedError("this session is closed: use it before close(), or open another one")
        if answer is Answer.FULL and not may_wait:
            raise QueueFullError(
                f"the queue of {self.workers} workers is full: submit again when some requests are "
                f"done, or raise max_queue_size"
            )
        if answer is Answer.FULL:
            raise QueueFullError(
                f"the queue of {self.workers} workers was full for {self._timeout:g} s; raise "
                f"max_queue_size or submit_timeout_ms, or submit less"
            )
        return answer is Answer.ACCEPTED

    def _withdraw(self, reported: _Reported) -> None:
        """Forget a request that was to be delivered, or deliver it to nobody if it went in."""
        handle = reported.handle
        reported.deliver = _to_nobody
        # Once it was delivered it is someone else's handle, under an entry of theirs.
        if self._reported.get(handle.address) is reported and handle.record.state == State.IDLE:
            del self._reported[handle.address]
            self._recycle(handle)

    def _await(self, handle: RequestHandle) -> None:
        records = [handle.record]
        while self._pump.wait(records, _PATIENCE) < 0:
            pass

    def _let_go(self, handle: RequestHandle) -> None:
        """Give a request up: its buffers are used again, at once or when the pump has done it."""
        if handle.record.state == State.IDLE or self._pump.wait([handle.record], 0) == 0:
            self._recycle(handle)
        else:
            self._pump.cancel(handle.record)

    def _outcome(self, handle: RequestHandle) -> Results:
        request, record = handle.request, handle.record
        if record.state == State.CANCELLED:
            if self._is_closing:
                raise ClosedError("the session was closed before the request began")
            raise CancelledRequestError
        steps = self._steps[record.program]
        if record.result:
            raise self.network.error(request, steps[record.step], record.result)
        if self.profile is not None:
            self.profile.add(record, [step.name for step in steps])
        return request.take_results()

    def _recycle(self, handle: RequestHandle) -> None:
        """Use a request's buffers again; the pump doesn't have it."""
        handle.record.state = State.IDLE
        handle.request.clear()
        self._entered.pop(handle.address, None)
        self._spare.append(handle)

    # ------------------------------------------------------------------------------------ delivery

    def _deliver_all(self) -> None:
        due = 0
        early: dict[int, int] = {}
        while address := self._pump.next(None):
            # All that are done, in one turn of the GIL.
            while address:
                handle = self._reported[address].handle
                if not handle.record.is_ordered:
                    self._deliver(address)
                else:
                    early[handle.record.order] = address
                while due in early:
                    self._deliver(early.pop(due))
                    due += 1
                address = self._pump.next(0)

    def _deliver(self, address: int) -> None:
        reported = self._reported.pop(address)
        handle = reported.handle
        results, error = None, None
        try:
            results = self._outcome(handle)
        except Exception as failure:
            error = failure
        start = time.monotonic()
        try:
            reported.deliver(results, error)
        except BaseException:
            # Nobody is above this thread to hear of it.
            traceback.print_exc()
        finally:
            if self.profile is not None and error is None:
                self.profile.add_callback(time.monotonic() - start)
            self._recycle(handle)
            self._pump.confirm(1)


def _to_nobody(results: Results | None, error: Exception | None) -> None:
    """Deliver nothing."""


def _schedule(cores: Sequence[int | None], options: Options) -> list[int]:
    """For each request in turn the bit mask of the workers that may run it."""
    if len(cores) > MASKED_WORKERS:
        raise OptionError(
            f"threads_per_core makes {len(cores)} workers, and a schedule gives requests in turn "
            f"to {MASKED_WORKERS} at most: lower it, or let dispatch be 'idle'"
        )
    if options.schedule is None:
        return [1 << worker for worker in range(len(cores))]
    return [
        sum(1 << worker for worker, place in enumerate(cores) if place == core)
        for core in options.schedule
    ]


_alive: weakref.WeakSet[Scheduler] = weakref.WeakSet()


def _close_all() -> None:
    for scheduler in list(_alive):
        scheduler.close()


def _after_fork() -> None:
    for scheduler in _alive:
        scheduler.forked()


process.at_exit(Stage.SESSIONS, _close_all)
process.in_child(_after_fork)
