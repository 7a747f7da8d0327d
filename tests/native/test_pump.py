"""The pump, in C and of Python threads: who runs what, in which order, and how it ends."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from anynpu.native.pump import (
    ANY_WORKER,
    MAX_STEPS,
    MAX_WORKERS,
    Answer,
    Pump,
    RequestRecord,
    Slot,
    State,
    Step,
    open_pump,
)
from anynpu.native.pump.c_threads import NativePump
from anynpu.native.pump.python_threads import PythonPump

Make = Callable[..., Pump]
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t, ctypes.c_size_t)
SECONDS = 20.0


class Device:
    """Functions for steps: one notes its calls, one waits until it is let go."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []
        self.result = 0
        self.gate = threading.Event()
        self._note, self._hold = FUNCTION(self._noted), FUNCTION(self._held)

    def _noted(self, first: int, second: int) -> int:
        self.calls.append((first, second, threading.get_ident()))
        return self.result

    def _held(self, first: int, second: int) -> int:
        self.calls.append((first, second, threading.get_ident()))
        return 0 if self.gate.wait(SECONDS) else -99

    def note(self, *arguments: int | Slot, is_entry: bool = False) -> Step:
        return Step("note", address(self._note), arguments, is_entry)

    def hold(self, *arguments: int | Slot) -> Step:
        return Step("hold", address(self._hold), arguments)

    @property
    def arguments(self) -> list[tuple[int, int]]:
        return [(first, second) for first, second, _ in self.calls]


def address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@pytest.fixture
def device() -> Iterator[Device]:
    made = Device()
    yield made
    made.gate.set()


@pytest.fixture(params=[NativePump, PythonPump])
def make(request: pytest.FixtureRequest, device: Device) -> Iterator[Make]:
    pumps: list[Pump] = []

    def make_pump(workers: int = 1, capacity: int = 8, most_unseen: int = 8) -> Pump:
        pump: Pump = request.param(workers, capacity, most_unseen)
        pumps.append(pump)
        return pump

    yield make_pump
    device.gate.set()
    for pump in pumps:
        pump.close(cancel=True)
        pump.join()
    _records.clear()


_records: list[RequestRecord] = []
"""All of a test's: a pump uses them until it is joined, whoever still wants them."""


def record(*slots: int, workers: int = ANY_WORKER, **fields: int) -> RequestRecord:
    made = RequestRecord(workers=workers, **fields)
    made.slots[: len(slots)] = slots
    _records.append(made)
    return made


def add_same(pump: Pump, *steps: Step) -> int:
    return pump.add_program([steps] * pump.workers)


def finish(pump: Pump, *records: RequestRecord) -> None:
    for each in records:
        assert pump.wait([each], SECONDS) == 0


def test_the_native_pump_is_there() -> None:
    pump = open_pump(1, 1, 1)
    assert isinstance(pump, NativePump)
    pump.close(cancel=True)
    pump.join()


def test_steps_get_constants_and_slots(make: Make, device: Device) -> None:
    pump = make()
    assert add_same(pump, device.note(7, Slot(1)), device.note(Slot(0), 2**40)) == 0
    first = record(5, 6)
    assert pump.submit(first, 0) is Answer.ACCEPTED
    finish(pump, first)
    assert device.arguments == [(7, 6), (5, 2**40)]
    assert (first.state, first.result, first.step, first.worker) == (State.DONE, 0, 2, 0)
    assert 0 < first.submitted <= first.started <= first.ends[0] <= first.ends[1]


def test_the_first_failure_ends_a_request(make: Make, device: Device) -> None:
    pump = make()
    add_same(pump, device.note(1, 1), device.note(2, 2))
    device.result = -5
    failed = record()
    pump.submit(failed, 0)
    finish(pump, failed)
    assert (failed.result, failed.step) == (-5, 0)
    assert device.arguments == [(1, 1)]


def test_entry_steps_run_when_the_program_changes_or_failed(make: Make, device: Device) -> None:
    pump = make()
    for number in range(2):
        assert add_same(pump, device.note(0, number, is_entry=True), device.note(1, number)) == (
            number
        )

    def entered(program: int) -> bool:
        device.calls.clear()
        each = record(program=program)
        pump.submit(each, 0)
        finish(pump, each)
        return (0, program) in device.arguments

    assert [entered(0), entered(0), entered(1), entered(1), entered(0)] == [
        True,
        False,
        True,
        False,
        True,
    ]
    device.result = 1
    entered(0)
    device.result = 0
    assert entered(0)
    assert not entered(0)


def test_an_idle_worker_runs_a_request_on_the_caller_s_thread(make: Make, device: Device) -> None:
    pump = make()
    add_same(pump, device.note(0, 0))
    mine = record()
    assert pump.run(mine, 0) is Answer.FINISHED
    assert mine.state == State.DONE
    assert device.calls[0][2] == threading.get_ident()


def test_a_busy_worker_makes_a_run_wait(make: Make, device: Device) -> None:
    pump = make()
    add_same(pump, device.hold(0, 0))
    add_same(pump, device.note(1, 1))
    holding, waiting = record(), record(program=1)
    pump.submit(holding, 0)
    assert pump.run(waiting, 0) is Answer.ACCEPTED
    assert waiting.state == State.WAITING
    assert pump.wait([waiting], 0) == -1
    device.gate.set()
    finish(pump, waiting)


def test_requests_wait_in_order(make: Make, device: Device) -> None:
    pump = make(capacity=20)
    add_same(pump, device.hold(0, 0))
    add_same(pump, device.note(Slot(0), 0))
    records = [record(), *(record(i, program=1) for i in range(1, 20))]
    for each in records:
        assert pump.submit(each, 0) is Answer.ACCEPTED
    device.gate.set()
    finish(pump, *records)
    assert device.arguments == [(i, 0) for i in range(20)]


def test_a_full_queue(make: Make, device: Device) -> None:
    pump = make(capacity=2)
    add_same(pump, device.hold(Slot(0), 0))
    records = [record(i) for i in range(3)]
    for each in records:
        assert pump.submit(each, 0) is Answer.ACCEPTED
    assert pump.submit(record(), 0) is Answer.FULL
    assert pump.submit(record(), 0.05) is Answer.FULL
    assert pump.run(record(), 0.05) is Answer.FULL
    urgent, patient = record(3, is_urgent=1), record(4)
    assert pump.submit(urgent, 0) is Answer.ACCEPTED
    thread = threading.Thread(target=pump.submit, args=(patient, None))
    thread.start()
    device.gate.set()
    thread.join(SECONDS)
    finish(pump, *records, urgent, patient)
    assert [first for first, _ in device.arguments] == [0, 1, 2, 3, 4]


def test_any_idle_worker_takes_a_request_it_may_run(make: Make, device: Device) -> None:
    pump = make(workers=3)
    add_same(pump, device.hold(0, 0))
    add_same(pump, device.note(Slot(0), 0))
    holding = record(workers=0b010)
    pump.submit(holding, 0)
    others = [record(i, program=1) for i in range(6)]
    for each in others:
        pump.submit(each, SECONDS)
    finish(pump, *others)
    assert holding.worker == 1
    assert all(each.worker in (0, 2) for each in others)
    tied = record(program=1, workers=0b010)
    pump.submit(tied, 0)
    assert pump.wait([tied], 0.05) == -1
    device.gate.set()
    finish(pump, holding, tied)
    assert tied.worker == 1


def test_a_schedule_ties_requests_to_workers_and_blocks_nobody_else(
    make: Make, device: Device
) -> None:
    pump = make(workers=2)
    add_same(pump, device.hold(0, 0))
    add_same(pump, device.note(0, 0))
    pump.set_schedule([0b01, 0b10, 0b01])
    first = record()
    pump.submit(first, 0)
    records = [record(program=1) for _ in range(5)]
    for each in records:
        pump.submit(each, SECONDS)
    finish(pump, records[0], records[3])  # numbers 1 and 4, behind others that wait for worker 0
    assert pump.wait([records[1]], 0) == -1
    device.gate.set()
    finish(pump, *records)
    assert [first.worker, *(each.worker for each in records)] == [0, 1, 0, 0, 1, 0]


def test_each_worker_has_steps_of_its_own(make: Make, device: Device) -> None:
    pump = make(workers=3)
    pump.add_program([[device.note(worker, 0), device.note(worker, 1)] for worker in range(3)])
    for worker in range(3):
        each = record(workers=1 << worker)
        pump.submit(each, 0)
        finish(pump, each)
    assert device.arguments == [(w, i) for w in range(3) for i in range(2)]


def test_reported_requests_come_in_the_order_they_are_done(make: Make, device: Device) -> None:
    pump = make(workers=2)
    add_same(pump, device.hold(0, 0))
    add_same(pump, device.note(0, 0))
    slow = record(workers=1, is_reported=1, is_ordered=1)
    quick = [record(program=1, workers=2, is_reported=1, is_ordered=1) for _ in range(3)]
    silent = record(program=1, workers=2)
    for each in (slow, *quick, silent):
        pump.submit(each, SECONDS)
    finish(pump, *quick, silent)
    assert [pump.next(SECONDS) for _ in quick] == [ctypes.addressof(each) for each in quick]
    assert pump.next(0) == pump.next(0.05) == 0
    device.gate.set()
    assert pump.next(SECONDS) == ctypes.addressof(slow)
    assert [each.order for each in (slow, *quick)] == [0, 1, 2, 3]


def test_reported_requests_that_nobody_confirms_hold_others_up(make: Make, device: Device) -> None:
    pump = make(most_unseen=2)
    add_same(pump, device.note(0, 0))
    records = [record(is_reported=1) for _ in range(3)]
    for each in records[:2]:
        assert pump.submit(each, 0) is Answer.ACCEPTED
        finish(pump, each)
    assert pump.submit(records[2], 0) is Answer.FULL
    assert pump.submit(record(), 0) is Answer.ACCEPTED
    pump.next(SECONDS)
    assert pump.submit(records[2], 0) is Answer.FULL
    pump.confirm(1)
    assert pump.submit(records[2], 0) is Answer.ACCEPTED


def test_waiting_for_any_of_several(make: Make, device: Device) -> None:
    pump = make(workers=2)
    add_same(pump, device.hold(0, 0))
    add_same(pump, device.note(0, 0))
    slow, quick = record(workers=1), record(program=1, workers=2)
    pump.submit(slow, 0)
    pump.submit(quick, 0)
    assert pump.wait([slow, quick], SECONDS) == 1
    assert pump.wait([slow], 0.05) == -1


def test_cancelling(make: Make, device: Device) -> None:
    pump = make()
    add_same(pump, device.hold(Slot(0), 0))
    records = [record(i, is_reported=i == 2) for i in range(4)]
    for each in records:
        pump.submit(each, 0)
    assert not pump.cancel(records[0])
    assert pump.cancel(records[2])
    assert not pump.cancel(records[2])
    assert pump.next(SECONDS) == ctypes.addressof(records[2])
    assert pump.cancel(records[3])
    device.gate.set()
    finish(pump, *records)
    assert [each.state for each in records] == [
        State.DONE,
        State.DONE,
        State.CANCELLED,
        State.CANCELLED,
    ]
    assert [first for first, _ in device.arguments] == [0, 1]
    assert not pump.cancel(records[1])


@pytest.mark.parametrize("cancel", [True, False])
def test_closing_with_requests_that_wait(make: Make, device: Device, cancel: bool) -> None:
    pump = make(workers=2)
    add_same(pump, device.hold(0, 0))
    records = [record(workers=1, is_reported=1) for _ in range(4)]
    for each in records:
        pump.submit(each, 0)
    pump.close(cancel=cancel)
    assert pump.submit(record(), None) is pump.run(record(), None) is Answer.CLOSED
    device.gate.set()
    pump.join()
    expected = State.CANCELLED if cancel else State.DONE
    assert [each.state for each in records] == [State.DONE, expected, expected, expected]
    seen = [pump.next(SECONDS) for _ in range(4)]
    assert sorted(seen) == sorted(map(ctypes.addressof, records))
    assert pump.next(0) == 0
    pump.confirm(4)
    assert pump.next(None) == 0  # the end


def test_closing_lets_go_of_who_waits_for_space(make: Make, device: Device) -> None:
    pump = make(capacity=1)
    add_same(pump, device.hold(0, 0))
    records = [record(), record()]
    for each in records:
        pump.submit(each, 0)
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(pump.submit(record(), None)))
    thread.start()
    time.sleep(0.05)
    pump.close(cancel=False)
    thread.join(SECONDS)
    assert answers == [Answer.CLOSED]
    device.gate.set()
    finish(pump, *records)


def test_pacing_admits_as_fast_as_requests_are_done(make: Make, device: Device) -> None:
    """Two workers at 20 ms take a request every 10 ms."""
    pump = make(workers=2, capacity=50)
    libc = ctypes.CDLL(None)
    add_same(pump, Step("sleep", address(libc.usleep), (20_000,)))
    first = record()
    pump.run(first, 0)
    pump.set_pacing(True)
    records = [record() for _ in range(10)]
    for each in records:
        assert pump.submit(each, SECONDS) is Answer.ACCEPTED
    finish(pump, *records)
    span = (records[-1].submitted - records[0].submitted) / 1e9
    assert span > 9 * 0.010 * 0.9
    assert pump.submit(record(), 0) in (Answer.FULL, Answer.ACCEPTED)
    assert pump.submit(record(is_urgent=1), 0) is Answer.ACCEPTED


def test_programs_may_be_added_while_others_run(make: Make, device: Device) -> None:
    pump = make(workers=2, capacity=1000)
    add_same(pump, device.note(0, 0))
    records: list[RequestRecord] = []
    for number in range(1, 200):
        assert add_same(pump, device.note(number, 0)) == number
        for program in (0, number):
            records.append(record(program=program))
            pump.submit(records[-1], SECONDS)
    finish(pump, *records)
    assert len(device.calls) == len(records)


def test_many_threads(make: Make, device: Device) -> None:
    """Every request runs once, whichever way it is passed in, and whoever waits."""
    pump = make(workers=3, capacity=2)
    add_same(pump, device.note(Slot(0), Slot(1)))

    def use(thread: int) -> None:
        for number in range(200):
            each = record(thread, number)
            enter = pump.run if number % 2 else pump.submit
            assert enter(each, SECONDS) in (Answer.ACCEPTED, Answer.FINISHED)
            if number % 7 == 0:
                pump.cancel(each)
            finish(pump, each)
            if each.state == State.CANCELLED:
                device.calls.append((thread, number, 0))

    threads = [threading.Thread(target=use, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(device.arguments) == [(t, n) for t in range(8) for n in range(200)]


def test_workers_beyond_a_mask_s_bits_take_what_any_worker_may(make: Make, device: Device) -> None:
    pump = make(70, 8)
    program = add_same(pump, device.hold(Slot(0), 0))
    anyone = [record(number, program=program) for number in range(70)]
    for each in anyone:
        assert pump.submit(each, 0) is Answer.ACCEPTED
    while len(device.calls) < 70:
        time.sleep(0.001)
    named = record(70, program=program, workers=1 << 63)
    assert pump.submit(named, 0) is Answer.ACCEPTED
    assert named.state == State.WAITING
    device.gate.set()
    finish(pump, *anyone, named)
    assert named.worker == 63
    assert sorted(each.worker for each in anyone) == list(range(70))


def test_limits() -> None:
    for number in (0, MAX_WORKERS + 1):
        with pytest.raises(RuntimeError, match="threads"):
            NativePump(number, 1, 1)
    pump = open_pump(1, 1, 1)
    with pytest.raises(MemoryError):
        pump.add_program([[Step("none", 0, ())] * (MAX_STEPS + 1)])


def test_completions_come_behind_a_submitter_that_waits(device: Device) -> None:
    """By as long as it takes it to ask for the GIL, so that both get it one after the other."""
    pump = NativePump(1, 1, 1)
    program = add_same(pump, device.hold(0, 0))
    first, queued, blocked = record(is_reported=1), record(), record(is_reported=1)
    assert {first.program, queued.program, blocked.program} == {program}
    pump.submit(first, 0)
    pump.submit(queued, 0)
    answers: list[Answer] = []
    # Also once there is space in the queue: the first one isn't confirmed.
    submitter = threading.Thread(target=lambda: answers.append(pump.submit(blocked, SECONDS)))
    submitter.start()
    time.sleep(0.2)
    device.gate.set()
    assert pump.next(SECONDS) == ctypes.addressof(first)
    assert time.monotonic_ns() - first.ends[0] >= 10**6
    assert not answers
    pump.confirm(1)
    submitter.join(SECONDS)
    assert answers == [Answer.ACCEPTED]
    finish(pump, queued, blocked)
    pump.close(cancel=True)
    pump.join()
