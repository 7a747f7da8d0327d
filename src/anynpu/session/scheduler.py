"""Who runs which task when: a network's workers behind a pump, and the thread that delivers.

The pump runs jobs with no Python between them. Here tasks become jobs and jobs results: a task's
arrays fill a request, the request's job goes to the pump, and what it did becomes arrays or an
exception, on the thread that waits for it or on the one that delivers.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from ..backends import Network, Request
from ..errors import ClosedError, QueueFullError, StateError
from ..native.pump import Answer, State, Step, open_pump
from ..options import Options
from .profile import Profile

Results = list[NDArray[Any]]
Deliver = Callable[[Results | None, Exception | None], None]
"""Gets a task's results, or the exception that it ended with; must not raise."""

_PATIENCE = 0.2
"""Seconds that C waits before Python looks for a signal, such as Ctrl-C's."""
_UNSEEN_PER_WORKER = 8
_ALL_WORKERS = 2**64 - 1


class CancelledTaskError(Exception):
    """The task was taken back before it began."""


class Scheduler:
    """Runs tasks on a network's workers. Any thread may call any method.

    It owns the network and closes it.
    """

    def __init__(self, network: Network, options: Options) -> None:
        self.network = network
        self.workers = len(network.worker_cores)
        self.profile: Profile | None = None
        self._timeout = options.submit_timeout_ms / 1000
        self._pump = open_pump(
            self.workers, options.max_queue_size, self.workers * _UNSEEN_PER_WORKER
        )
        if options.is_round_robin:
            self._pump.set_schedule(_schedule(network.worker_cores, options))
        self._pump.set_pacing(options.enable_pacing)
        self._steps: list[Sequence[Step]] = []
        self._programs: dict[int, int] = {}
        self._lock = threading.Lock()
        self._spare: list[Request] = []
        self._reported: dict[int, tuple[Request, Deliver]] = {}
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._closed = threading.Event()
        self._process = os.getpid()
        _alive.add(self)

    # ------------------------------------------------------------------------------- for a caller

    def run(self, arrays: Sequence[NDArray[Any]]) -> Results:
        """Run a task to its end: on this thread, where a worker is idle. Nothing is copied."""
        request = self._filled(arrays, copy=False)
        if self._enter(self._pump.run, request) is Answer.ACCEPTED:
            return self.finish(request)
        try:
            return self._outcome(request)
        finally:
            self._recycle(request)

    def start(self, arrays: Sequence[NDArray[Any]], *, may_wait: bool = True) -> Request:
        """Begin a task whose arrays are copied; `finish` ends it.

        It may have to wait for a place in the queue, unless `may_wait` is False.
        """
        request = self._filled(arrays, copy=True)
        request.job.is_urgent = not may_wait
        self._enter(self._pump.submit, request)
        return request

    def finish(self, request: Request) -> Results:
        """Wait for a task, and return its results or raise what it ended with."""
        try:
            self._await(request)
            return self._outcome(request)
        finally:
            self._recycle(request)

    def is_done(self, request: Request) -> bool:
        """Whether `finish` needn't wait."""
        return self._pump.wait([request.job], 0) == 0

    def first_done(self, requests: Sequence[Request]) -> int:
        """Wait until one of some tasks is done; its place."""
        jobs = [request.job for request in requests]
        while (place := self._pump.wait(jobs, _PATIENCE)) < 0:
            pass
        return place

    def abandon(self, requests: Sequence[Request]) -> None:
        """Give tasks up: those that wait are cancelled, the others' results go nowhere."""
        for request in requests:
            self._pump.cancel(request.job)
        for request in requests:
            self._await(request)
            self._recycle(request)

    # ------------------------------------------------------------------------------- for delivery

    def submit(
        self,
        arrays: Sequence[NDArray[Any]],
        deliver: Deliver,
        *,
        in_order: bool,
        may_wait: bool = True,
    ) -> Request:
        """Begin a task whose arrays are copied; `deliver` gets what it ends with.

        It is called on the delivering thread, after the tasks submitted before with `in_order`
        where this one is too. Raises `QueueFullError` where no place gets free in time, or at all
        without `may_wait`.
        """
        self._start_thread()
        request = self._filled(arrays, copy=True)
        request.job.is_reported, request.job.is_ordered = True, in_order
        self._reported[ctypes.addressof(request.job)] = (request, deliver)
        # Whoever submits while it delivers would wait for itself.
        request.job.is_urgent = threading.current_thread() is self._thread
        try:
            self._enter(self._pump.submit, request, may_wait=may_wait)
        except BaseException:
            self._withdraw(request)
            raise
        return request

    def cancel(self, request: Request) -> bool:
        """Take a submitted task back that still waits; whether it did. It is delivered as such."""
        return self._pump.cancel(request.job)

    # ------------------------------------------------------------------------------------ the end

    def close(self, *, cancel: bool = False) -> None:
        """Accept nothing more, finish or cancel what is there, deliver it, free the network.

        From a callback it returns before all is delivered. Twice does no harm.
        """
        if os.getpid() != self._process:
            return
        delivers = threading.current_thread() is self._thread
        with self._lock:
            is_first = not self._is_closing
            self._is_closing = True
        self._pump.close(cancel=cancel)
        if not is_first:
            if not delivers:
                self._closed.wait()
            return
        try:
            self._pump.join()
            if self._thread is not None and not delivers:
                self._thread.join()
            self.network.close()
        finally:
            self._closed.set()

    def forked(self) -> None:
        """This process is a fork of the one with the workers: nothing can be run here."""
        self._process = -1

    # ------------------------------------------------------------------------------------ requests

    def _filled(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> Request:
        if self._process < 0:
            raise StateError("the session is from before a fork; open one in this process")
        if self._is_closing:
            raise ClosedError("this session is closed")
        try:
            request = self._spare.pop()
        except IndexError:
            request = self.network.new_request()
        job = request.job
        job.is_reported = job.is_ordered = job.is_urgent = False
        job.workers = _ALL_WORKERS
        try:
            request.fill(arrays, copy=copy)
            job.program = self._program(request.variant)
        except BaseException:
            self._recycle(request)
            raise
        return request

    def _program(self, variant: int) -> int:
        if variant not in self._programs:
            with self._lock:
                if variant not in self._programs:
                    steps = [self.network.steps(worker, variant) for worker in range(self.workers)]
                    number = self._pump.add_program(steps)
                    self._steps.insert(number, steps[0])
                    self._programs[variant] = number
        return self._programs[variant]

    def _enter(
        self, enter: Callable[..., Answer], request: Request, *, may_wait: bool = True
    ) -> Answer:
        """Pass a request's job to the pump, in portions of patience."""
        try:
            answer = enter(request.job, 0)
            deadline = time.monotonic() + self._timeout if answer is Answer.FULL and may_wait else 0
            while answer is Answer.FULL and (left := deadline - time.monotonic()) > 0:
                answer = enter(request.job, min(left, _PATIENCE))
        except BaseException:  # a signal's handler raised, perhaps after the job went in
            if request.job.state != State.IDLE and not request.job.is_reported:
                self.abandon([request])
            raise
        if answer in (Answer.ACCEPTED, Answer.FINISHED):
            return answer
        if not request.job.is_reported:
            self._recycle(request)
        if answer is Answer.CLOSED:
            raise ClosedError("this session is closed")
        raise QueueFullError(
            f"the queue of {self.workers} workers was full for {self._timeout:g} s; raise "
            f"max_queue_size or submit_timeout_ms, or submit less"
        )

    def _withdraw(self, request: Request) -> None:
        """Forget a task that was to be delivered, or deliver it to nobody if it went in."""
        address = ctypes.addressof(request.job)
        if request.job.state == State.IDLE:
            del self._reported[address]
            self._recycle(request)
        else:
            self._reported[address] = (request, lambda results, error: None)
            self._pump.cancel(request.job)

    def _await(self, request: Request) -> None:
        jobs = [request.job]
        try:
            while self._pump.wait(jobs, _PATIENCE) < 0:
                pass
        except BaseException:  # a signal's handler raised: C must be done with our arrays first
            self._pump.cancel(request.job)
            self._pump.wait(jobs, None)
            raise

    def _outcome(self, request: Request) -> Results:
        job = request.job
        while True:
            if job.state == State.CANCELLED:
                if self._is_closing:
                    raise ClosedError("the session was closed before the task began")
                raise CancelledTaskError
            steps = self._steps[job.program]
            if not job.result:
                break
            step, code = steps[job.step], job.result
            if not self.network.repair(request, step, code):
                raise self.network.error(request, step, code)
            self._run_again(request)
        if self.profile is not None:
            self.profile.add(job, [step.name for step in steps])
        return request.take_results()

    def _run_again(self, request: Request) -> None:
        job = request.job
        job.is_reported = job.is_ordered = False
        job.is_urgent = True
        answer = self._pump.run(job, 0)
        if answer is Answer.CLOSED:
            raise ClosedError("the session was closed while a task had to be run again")
        if answer is Answer.ACCEPTED:
            self._await(request)

    def _recycle(self, request: Request) -> None:
        request.job.state = State.IDLE
        request.clear()
        self._spare.append(request)

    # ------------------------------------------------------------------------------------ delivery

    def _start_thread(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._is_closing:
                # A daemon, since the end of the program closes the session first.
                self._thread = threading.Thread(
                    target=self._deliver_all, name="anynpu callbacks", daemon=True
                )
                self._thread.start()

    def _deliver_all(self) -> None:
        due = 0
        early: dict[int, int] = {}
        while address := self._pump.next(None):
            # All that are done, in one turn of the GIL.
            while address:
                request, _ = self._reported[address]
                if not request.job.is_ordered:
                    self._deliver(address)
                else:
                    early[request.job.order] = address
                while due in early:
                    self._deliver(early.pop(due))
                    due += 1
                address = self._pump.next(0)

    def _deliver(self, address: int) -> None:
        request, deliver = self._reported.pop(address)
        results, error = None, None
        try:
            results = self._outcome(request)
        except Exception as failure:
            error = failure
        start = time.monotonic()
        try:
            deliver(results, error)
        except BaseException:
            # Nobody is above this thread to hear of it.
            traceback.print_exc()
        finally:
            if self.profile is not None and error is None:
                self.profile.add_callback(time.monotonic() - start)
            self._recycle(request)
            self._pump.confirm(1)


def _schedule(cores: Sequence[int | None], options: Options) -> list[int]:
    """For each task in turn the bit mask of the workers that may run it."""
    if options.schedule is None:
        return [1 << worker for worker in range(len(cores))]
    return [
        sum(1 << worker for worker, place in enumerate(cores) if place == core)
        for core in options.schedule
    ]


_alive: weakref.WeakSet[Scheduler] = weakref.WeakSet()


def _after_fork() -> None:
    for scheduler in _alive:
        scheduler.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
