"""Kernels in steps: each unit once, no step before the one before it, and how to leave some out."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

import pytest

from anynpu.native.steps import KERNEL, Entry, Steps, is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="no build of native/steps.c")

Record = tuple[int, int, int]


class Work:
    """Kernels that note what they are given: step, first unit, end."""

    def __init__(self, effect: Callable[[Record], object] = lambda record: None) -> None:
        self.records: list[Record] = []
        self.spaces: set[int] = set()
        self._lock = threading.Lock()
        self._effect = effect
        self._kernel = KERNEL(self._run)

    def _run(self, step: int | None, first: int, end: int, scratch: int) -> None:
        record = (step or 0, first, end)
        with self._lock:
            self.records.append(record)
            self.spaces.add(scratch)
        self._effect(record)

    def entry(self, number: int, units: int, grain: int) -> Entry:
        address = ctypes.cast(self._kernel, ctypes.c_void_p).value
        return Entry(address, number, units, grain)

    def units(self, number: int) -> list[int]:
        return sorted(u for step, a, b in self.records if step == number for u in range(a, b))


@pytest.mark.parametrize("threads", [1, 2, 5, 40])
def test_every_unit_is_done_once_and_steps_in_order(threads: int) -> None:
    work = Work()
    sizes = [(7, 2), (1, 1), (100, 9), (3, 50), (0, 1)]
    entries = [work.entry(number, *size) for number, size in enumerate(sizes)]
    steps = Steps(entries, range(1, threads + 1), ctypes.c_int32())
    for _ in range(20):
        work.records.clear()
        steps.run()
        assert [work.units(number) for number in range(5)] == [list(range(n)) for n, _ in sizes]
        order = [step for step, _, _ in work.records]
        assert order == sorted(order)
        assert all(end - first <= sizes[step][1] for step, first, end in work.records)
    assert work.spaces <= set(range(1, threads + 1))


def test_several_threads_take_part() -> None:
    both = threading.Barrier(2)
    work = Work(lambda record: both.wait(20))
    Steps([work.entry(0, 2, 1)], (1, 2), ctypes.c_int32()).run()
    assert work.spaces == {1, 2}


def test_threads_have_stretches_of_neighbours() -> None:
    """Much of what a thread reads is then what it wrote in the step before."""
    both = threading.Barrier(2)
    done: set[tuple[int, int]] = set()

    def note(step: int | None, first: int, end: int, scratch: int) -> None:
        both.wait(20)
        done.add((scratch, first))

    kernel = KERNEL(note)
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    Steps([Entry(address, 0, 6, 1)], (1, 2), ctypes.c_int32()).run()
    assert done == {(1, 0), (1, 1), (1, 2), (2, 3), (2, 4), (2, 5)}


def test_what_is_one_piece_is_the_callers() -> None:
    """Who only waits for others might take them for stopped."""
    both = threading.Barrier(2)
    found: list[int] = []

    def note(record: Record) -> None:
        if record[0] == 1:
            found.append(threading.get_ident())
        else:
            both.wait(20)

    work = Work(note)
    steps = Steps([work.entry(0, 2, 1), work.entry(1, 5, 5)], (1, 2), ctypes.c_int32())
    for _ in range(100):
        steps.run()
    assert found == [threading.get_ident()] * 100


def test_threads_help_again() -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    both = threading.Barrier(2)
    work = Work(lambda record: both.wait(20))
    steps = Steps([work.entry(0, 2, 1)], (1, 2), ctypes.c_int32())
    steps.run()
    before = threads()
    for _ in range(50):
        steps.run()
    # One that isn't asleep yet, when the next run begins, isn't waited for.
    assert threads() <= before + 3


@pytest.mark.parametrize("threads", [1, 3])
def test_what_has_not_begun_when_it_is_cancelled_is_left_out(threads: int) -> None:
    cancelled = ctypes.c_int32()

    def cancel(record: Record) -> None:
        cancelled.value = record[0] == 1

    work = Work(cancel)
    steps = Steps(
        [work.entry(number, 4, 1) for number in range(4)], range(1, threads + 1), cancelled
    )
    steps.run()
    assert {step for step, _, _ in work.records} == {0, 1}
    cancelled.value = 0
    work._effect = lambda record: None
    steps.run()
    assert {step for step, _, _ in work.records} == {0, 1, 2, 3}


def test_runs_at_the_same_time_share_the_threads() -> None:
    inner = Work()
    within = Steps([inner.entry(0, 2, 1)], (7, 8), ctypes.c_int32())
    outer = Work(lambda record: within.run())
    Steps([outer.entry(0, 1, 1)], (1, 2), ctypes.c_int32()).run()
    assert inner.units(0) == [0, 1]
    assert inner.spaces == {7}


def test_runs_at_the_same_time_do_not_disturb_each_other() -> None:
    works = [Work() for _ in range(4)]

    def run(work: Work) -> None:
        steps = Steps([work.entry(n, 30, 4) for n in range(5)], (1, 2, 3), ctypes.c_int32())
        for _ in range(50):
            steps.run()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for work in works:
        assert all(work.units(n) == sorted(50 * list(range(30))) for n in range(5))


def test_threads_stay_on_the_processors_that_they_had() -> None:
    """Helpers are sent to others, and end at any time."""
    nothing = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
    had = os.sched_getaffinity(0)
    found: list[set[int]] = []

    def run() -> None:
        steps = Steps([Entry(nothing, 0, 2, 1)], (1, 2), ctypes.c_int32())
        for _ in range(3000):
            steps.run()
        found.append(os.sched_getaffinity(0))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [had] * len(threads)
