"""The pump of Python threads, where the C one can't be built: the same behaviour, with the GIL."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache

from .interface import ANY_WORKER, MASKED_WORKERS, Answer, Pump, RequestRecord, Slot, State, Step


class PythonPump(Pump):
    """Workers as Python threads round the same requests."""

    def __init__(self, workers: int, capacity: int, most_unseen: int) -> None:
        self.workers = workers
        self._capacity, self._most_unseen = capacity, most_unseen
        self._changed = threading.Condition()
        self._programs: list[list[list[Step]]] = []
        self._schedule: Sequence[int] = ()
        self._queue: deque[RequestRecord] = deque()
        self._done: deque[RequestRecord] = deque()
        self._busy = [False] * workers
        self._handed: list[RequestRecord | None] = [None] * workers
        self._last: list[int | None] = [None] * workers
        self._reported = self._unseen = self._tickets = self._order = 0
        self._is_paced = self._is_closed = False
        self._next_admission = self._mean_duration = 0.0
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True, name="anynpu worker")
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def add_program(self, steps: Sequence[Sequence[Step]]) -> int:
        with self._changed:
            self._programs.append([list(each) for each in steps])
            return len(self._programs) - 1

    def set_schedule(self, masks: Sequence[int]) -> None:
        with self._changed:
            self._schedule = tuple(masks)

    def set_pacing(self, is_paced: bool) -> None:
        with self._changed:
            self._is_paced = is_paced

    def submit(self, request: RequestRecord, timeout: float | None) -> Answer:
        with self._changed:
            answer = self._admit(request, timeout)
            if answer is Answer.ACCEPTED:
                worker = self._idle_worker(request)
                if worker is None:
                    self._enqueue(request)
                else:
                    self._hand_over(worker, request)
            return answer

    def run(self, request: RequestRecord, timeout: float | None) -> Answer:
        with self._changed:
            answer = self._admit(request, timeout)
            if answer is not Answer.ACCEPTED:
                return answer
            worker = self._idle_worker(request)
            if worker is None:
                self._enqueue(request)
                return answer
            self._begin(worker, request)
            self._run_begun(worker, request)
            following = self._take_for(worker)
            if following is not None:
                self._hand_over(worker, following)
            return Answer.FINISHED

    def wait(self, requests: Sequence[RequestRecord], timeout: float | None) -> int:
        def finished() -> int:
            return next(
                (i for i, request in enumerate(requests) if request.state >= State.DONE), -1
            )

        with self._changed:
            self._changed.wait_for(lambda: finished() >= 0, timeout)
            return finished()

    def next(self, timeout: float | None) -> int:
        with self._changed:
            self._changed.wait_for(
                lambda: self._done or (self._is_closed and not self._reported), timeout
            )
            return ctypes.addressof(self._done.popleft()) if self._done else 0

    def confirm(self, count: int) -> None:
        with self._changed:
            self._unseen -= count
            self._reported -= count
            self._changed.notify_all()

    def cancel(self, request: RequestRecord) -> bool:
        with self._changed:
            for waiting in self._queue:
                if waiting is request:
                    self._queue.remove(waiting)
                    self._report(request, State.CANCELLED)
                    return True
            return False

    def close(self, *, cancel: bool) -> None:
        with self._changed:
            self._is_closed = True
            while cancel and self._queue:
                self._report(self._queue.popleft(), State.CANCELLED)
            self._changed.notify_all()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    # ------------------------------------------------------------------------- with the lock

    def _admit(self, request: RequestRecord, timeout: float | None) -> Answer:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if self._is_closed:
                return Answer.CLOSED
            if self._schedule:
                request.workers = self._schedule[self._tickets % len(self._schedule)]
            until = deadline
            if self._has_space(request):
                due = self._next_admission
                if not self._is_paced or request.is_urgent or time.monotonic() >= due:
                    break
                until = due if deadline is None else min(due, deadline)
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return Answer.FULL
            self._changed.wait(None if until is None else max(0.0, until - now))
        self._accept(request)
        return Answer.ACCEPTED

    def _accept(self, request: RequestRecord) -> None:
        self._tickets += 1
        if request.is_ordered:
            request.order = self._order
            self._order += 1
        if request.is_reported:
            self._reported += 1
        now = time.monotonic()
        request.submitted = int(now * 1e9)
        if self._is_paced:
            self._next_admission = max(self._next_admission, now)
            self._next_admission += self._mean_duration / self.workers

    def _has_space(self, request: RequestRecord) -> bool:
        if request.is_urgent:
            return True
        if request.is_reported and self._unseen >= self._most_unseen:
            return False
        return len(self._queue) < self._capacity or self._idle_worker(request) is not None

    def _idle_worker(self, request: RequestRecord) -> int | None:
        for worker in range(self.workers):
            if not self._busy[worker] and _allows(request, worker):
                return worker
        return None

    def _enqueue(self, request: RequestRecord) -> None:
        request.state = State.WAITING
        self._queue.append(request)

    def _begin(self, worker: int, request: RequestRecord) -> None:
        self._busy[worker] = True
        request.state, request.worker = State.RUNNING, worker

    def _hand_over(self, worker: int, request: RequestRecord) -> None:
        self._begin(worker, request)
        self._handed[worker] = request
        self._changed.notify_all()

    def _take_for(self, worker: int) -> RequestRecord | None:
        for request in self._queue:
            if _allows(request, worker):
                self._queue.remove(request)
                return request
        return None

    def _report(self, request: RequestRecord, state: State) -> None:
        request.state = state
        if request.is_reported:
            self._unseen += 1
            self._done.append(request)
        self._changed.notify_all()

    def _run_begun(self, worker: int, request: RequestRecord) -> None:
        steps = self._programs[request.program][worker]
        enters = self._last[worker] != request.program
        self._changed.release()
        try:
            succeeded = _run_steps(steps, request, enters)
        finally:
            self._changed.acquire()
        self._last[worker] = request.program if succeeded else None
        duration = time.monotonic() - request.started / 1e9
        mean = self._mean_duration
        self._mean_duration = mean * 0.95 + duration * 0.05 if mean else duration
        self._busy[worker] = False
        self._report(request, State.DONE)

    def _work(self, number: int) -> None:
        with self._changed:
            while True:
                self._changed.wait_for(
                    lambda: self._handed[number] or (self._is_closed and not self._busy[number])
                )
                request = self._handed[number]
                if request is None:
                    return
                self._handed[number] = None
                while request is not None:
                    self._run_begun(number, request)
                    request = self._take_for(number)
                    if request is not None:
                        self._begin(number, request)


def _allows(request: RequestRecord, worker: int) -> bool:
    if worker >= MASKED_WORKERS:
        return bool(request.workers == ANY_WORKER)
    return bool(request.workers >> worker & 1)


def _run_steps(steps: Sequence[Step], request: RequestRecord, enters: bool) -> bool:
    request.started = int(time.monotonic() * 1e9)
    request.result = 0
    for number, step in enumerate(steps):
        request.step = number
        if enters or not step.is_entry:
            arguments = [
                request.slots[value.number] if isinstance(value, Slot) else value
                for value in step.arguments
            ]
            request.result = _function(step.address, len(arguments))(*arguments)
        request.ends[number] = int(time.monotonic() * 1e9)
        if request.result:
            return False
    request.step = len(steps)
    return True


@cache
def _function(address: int, count: int) -> Callable[..., int]:
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_size_t] * count)(address)
