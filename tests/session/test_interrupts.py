"""What a signal's handler raises arrives in the caller, once, and the session goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from anynpu import InferenceSession, interruptible
from anynpu.session import scheduler

from .. import models
from .conftest import NullDevice, Open
from .interrupts import VALUES, WAYS

REPOSITORY = Path(__file__).parents[2]


def interrupt(count: int, *ways: str, seconds: int) -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.session.interrupts", str(count)]
    result = subprocess.run(
        [*command, *ways],
        check=False,
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=REPOSITORY,
    )
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]


def test_a_few_hundred_interrupts() -> None:
    interrupt(20, seconds=300)


@pytest.mark.nightly
@pytest.mark.parametrize("way", WAYS)
def test_ten_thousand_interrupts(way: str) -> None:
    interrupt(10_000, way, seconds=3600)


class Interrupted(BaseException):
    """What the handler raises."""


@pytest.fixture
def interrupting() -> Iterator[None]:
    """SIGALRM raises `Interrupted`."""

    def handler(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("interrupting")
@pytest.mark.parametrize("way", ["run", "submit", "map", "run_pipeline"])
def test_an_interrupt_doesn_t_wait_for_the_device(
    on_cores: Open, device: NullDevice, way: str
) -> None:
    """The request is given up; its memory stays until the device is done with it."""
    session = on_cores(0)
    feed = np.ones((1, 1, 1, 1), np.float32)
    uses: dict[str, Callable[[], object]] = {
        "run": lambda: session.run(None, feed),
        "submit": lambda: session.submit(None, feed).result(),
        "map": lambda: list(session.map([feed] * 3)),
        "run_pipeline": lambda: [session.run_pipeline(feed) for _ in range(8)],
    }
    with device.holding():
        blocking = session.submit(None, feed)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            uses[way]()
    assert blocking.result(20)[0].ravel()[0] == 1
    for number in range(3):
        values = np.full((1, 1, 1, 1), number, np.float32)
        assert session.run(None, values)[0].ravel()[0] == number


@pytest.mark.parametrize("function", ["finish", "_await", "_outcome", "_enter", "_recycle"])
@pytest.mark.parametrize("way", ["run", "map"])
def test_an_interrupt_at_a_function_s_entry(function: str, way: str) -> None:
    """Where CPython looks for signals before any `try` begins: nothing of C's is freed."""

    def trace(frame: object, event: str, argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_name == function and code.co_filename == scheduler.__file__:
            sys.settrace(None)
            raise Interrupted

    with InferenceSession(models.add_one()) as session:
        before = sys.gettrace()
        interrupted = 0
        for _ in range(10):
            try:
                sys.settrace(trace)
                if way == "run":
                    session.run(None, VALUES)
                else:
                    list(session.map([VALUES] * 12))
            except Interrupted:
                interrupted += 1
            finally:
                sys.settrace(before)
            assert (session.run(None, VALUES)[0] == 2).all()
    assert interrupted == 10 or (function, way) == ("finish", "run")


def test_a_session_forgets_the_requests_that_were_given_up(on_cores: Open) -> None:
    session = on_cores(0)
    feed = np.ones((1, 1, 1, 1), np.float32)
    for _ in range(500):
        handles = [session._scheduler.start([feed]) for _ in range(3)]
        del handles
    assert len(session._scheduler._entered) < 200


def test_a_condition_is_left_free_whatever_comes() -> None:
    """A handler that raises in the middle of `wait` leaves the lock to others."""
    condition = interruptible.Condition()
    woken = []

    def wait() -> None:
        with condition:
            woken.append(condition.wait(20))

    thread = threading.Thread(target=wait)
    thread.start()
    while not condition._waiters:
        pass
    with condition:
        condition.notify_all()
    thread.join(20)
    assert woken == [True]
    with condition:
        assert not condition.wait(0.01)
    assert not condition._waiters


def test_a_thread_runs_once() -> None:
    runs = []
    thread = interruptible.Thread(lambda: runs.append(thread.is_current))
    for _ in range(5):
        thread.start()
    thread.join()
    assert runs == [True]
    assert thread.has_begun
    assert not thread.is_current


def test_ctrl_c_in_a_call_of_the_soft_npu() -> None:
    """One SIGINT: one KeyboardInterrupt, and the call is over by then."""
    text = """
import os, signal, threading, time
import numpy as np
import anynpu
from tests import models
model = anynpu.Model(models.repeated_convolution(size=96, filters=32, layers=6), library="soft")
values = np.zeros(model.input_attrs[0].shape, np.float32)
model.run(values)
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        model.run(values)
except KeyboardInterrupt:
    print("interrupted")
model.run(values)
print(model.output_f32(0).shape)
"""
    result = subprocess.run(
        [sys.executable, "-c", text],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=REPOSITORY,
        env={**os.environ, "ANYNPU_DEVICE": "soft"},
    )
    assert result.stdout.startswith("interrupted\n("), result.stderr
    assert result.stderr == ""
