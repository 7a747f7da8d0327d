"""The pump of Python threads, where the C one can't be built: the same behaviour, with the GIL."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache

from .pump import Answer, Job, Pump, Slot, State, Step


class PythonPump(Pump):
    """Workers as Python threads round the same jobs."""

    def __init__(self, workers: int, capacity: int, most_unseen: int) -> None:
        self.workers = workers
        self._capacity, self._most_unseen = capacity, most_unseen
        self._changed = threading.Condition()
        self._programs: list[list[list[Step]]] = []
        self._schedule: Sequence[int] = ()
        self._queue: deque[Job] = deque()
        self._done: deque[Job] = deque()
        self._busy = [False] * workers
        self._handed: list[Job | None] = [None] * workers
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

    def submit(self, job: Job, timeout: float | None) -> Answer:
        with self._changed:
            answer = self._admit(job, timeout)
            if answer is Answer.ACCEPTED:
                worker = self._idle_worker(job)
                if worker is None:
                    self._enqueue(job)
                else:
                    self._hand_over(worker, job)
            return answer

    def run(self, job: Job, timeout: float | None) -> Answer:
        with self._changed:
            answer = self._admit(job, timeout)
            if answer is not Answer.ACCEPTED:
                return answer
            worker = self._idle_worker(job)
            if worker is None:
                self._enqueue(job)
                return answer
            self._begin(worker, job)
            self._run_begun(worker, job)
            following = self._take_for(worker)
            if following is not None:
                self._hand_over(worker, following)
            return Answer.FINISHED

    def wait(self, jobs: Sequence[Job], timeout: float | None) -> int:
        def finished() -> int:
            return next((i for i, job in enumerate(jobs) if job.state >= State.DONE), -1)

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

    def cancel(self, job: Job) -> bool:
        with self._changed:
            for waiting in self._queue:
                if waiting is job:
                    self._queue.remove(waiting)
                    self._report(job, State.CANCELLED)
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

    def _admit(self, job: Job, timeout: float | None) -> Answer:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if self._is_closed:
                return Answer.CLOSED
            if self._schedule:
                job.workers = self._schedule[self._tickets % len(self._schedule)]
            until = deadline
            if self._has_space(job):
                due = self._next_admission
                if not self._is_paced or job.is_urgent or time.monotonic() >= due:
                    break
                until = due if deadline is None else min(due, deadline)
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                return Answer.FULL
            self._changed.wait(None if until is None else max(0.0, until - now))
        self._accept(job)
        return Answer.ACCEPTED

    def _accept(self, job: Job) -> None:
        self._tickets += 1
        if job.is_ordered:
            job.order = self._order
            self._order += 1
        if job.is_reported:
            self._reported += 1
        now = time.monotonic()
        job.submitted = int(now * 1e9)
        if self._is_paced:
            self._next_admission = max(self._next_admission, now)
            self._next_admission += self._mean_duration / self.workers

    def _has_space(self, job: Job) -> bool:
        if job.is_urgent:
            return True
        if job.is_reported and self._unseen >= self._most_unseen:
            return False
        return len(self._queue) < self._capacity or self._idle_worker(job) is not None

    def _idle_worker(self, job: Job) -> int | None:
        for worker in range(self.workers):
            if not self._busy[worker] and job.workers >> worker & 1:
                return worker
        return None

    def _enqueue(self, job: Job) -> None:
        job.state = State.WAITING
        self._queue.append(job)

    def _begin(self, worker: int, job: Job) -> None:
        self._busy[worker] = True
        job.state, job.worker = State.RUNNING, worker

    def _hand_over(self, worker: int, job: Job) -> None:
        self._begin(worker, job)
        self._handed[worker] = job
        self._changed.notify_all()

    def _take_for(self, worker: int) -> Job | None:
        for job in self._queue:
            if job.workers >> worker & 1:
                self._queue.remove(job)
                return job
        return None

    def _report(self, job: Job, state: State) -> None:
        job.state = state
        if job.is_reported:
            self._unseen += 1
            self._done.append(job)
        self._changed.notify_all()

    def _run_begun(self, worker: int, job: Job) -> None:
        steps = self._programs[job.program][worker]
        enters = self._last[worker] != job.program
        self._changed.release()
        try:
            succeeded = _run_steps(steps, job, enters)
        finally:
            self._changed.acquire()
        self._last[worker] = job.program if succeeded else None
        duration = time.monotonic() - job.started / 1e9
        mean = self._mean_duration
        self._mean_duration = mean * 0.95 + duration * 0.05 if mean else duration
        self._busy[worker] = False
        self._report(job, State.DONE)

    def _work(self, number: int) -> None:
        with self._changed:
            while True:
                self._changed.wait_for(
                    lambda: self._handed[number] or (self._is_closed and not self._busy[number])
                )
                job = self._handed[number]
                if job is None:
                    return
                self._handed[number] = None
                while job is not None:
                    self._run_begun(number, job)
                    job = self._take_for(number)
                    if job is not None:
                        self._begin(number, job)


def _run_steps(steps: Sequence[Step], job: Job, enters: bool) -> bool:
    job.started = int(time.monotonic() * 1e9)
    job.result = 0
    for number, step in enumerate(steps):
        job.step = number
        if enters or not step.is_entry:
            arguments = [
                job.slots[value.number] if isinstance(value, Slot) else value
                for value in step.arguments
            ]
            job.result = _function(step.address, len(arguments))(*arguments)
        job.ends[number] = int(time.monotonic() * 1e9)
        if job.result:
            return False
    job.step = len(steps)
    return True


@cache
def _function(address: int, count: int) -> Callable[..., int]:
    return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_size_t] * count)(address)
