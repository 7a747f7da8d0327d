"""Requests that run while their caller goes on: callbacks, futures, asyncio, limits, the end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import random
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu import InferenceSession

from .. import models
from .conftest import NullDevice, Open

SECONDS = 20.0


def feed(number: float) -> np.ndarray:
    return np.full((1, 1, 1, 1), number, np.float32)


def value(results: list[np.ndarray] | None) -> float:
    assert results is not None
    return float(results[0].ravel()[0])


class Calls:
    """A callback that notes what it is called with, and lets a test wait for a number of calls."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, Any, str]] = []
        self._changed = threading.Condition()

    def __call__(self, results: Any, user_data: Any, error: str) -> None:
        with self._changed:
            self.all.append((results, user_data, error))
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.all) >= count, SECONDS)

    @property
    def tags(self) -> list[Any]:
        return [user_data for _, user_data, _ in self.all]


def test_a_callback_gets_results_and_user_data(on_cores: Open) -> None:
    session, calls = on_cores(0), Calls()
    session.run_async(None, feed(7), calls, "tag")
    session.run_async(["y"], {"x": feed(8)}, calls)
    calls.wait(2)
    assert [(value(r), tag, error) for r, tag, error in calls.all] == [
        (7, "tag", ""),
        (8, None, ""),
    ]


def test_callbacks_come_in_the_order_of_the_calls(on_cores: Open) -> None:
    """Whatever the cores' speed, and whichever core a request ran on."""
    session, calls = on_cores(4, 1, 0.2), Calls()
    for number in range(100):
        session.run_async(None, feed(number), calls, number)
    calls.wait(100)
    assert calls.tags == list(range(100))
    assert [value(results) for results, _, _ in calls.all] == calls.tags


def test_callbacks_as_requests_are_done(on_cores: Open) -> None:
    session = on_cores(200, 1, schedule=[0, 1], dispatch="idle", sequential_callbacks=False)
    calls = Calls()
    for number in range(3):
        session.run_async(None, feed(number), calls, number)
    calls.wait(3)
    assert calls.tags[-1] == 0
    assert sorted(calls.tags) == [0, 1, 2]


def test_a_failing_request_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "rknn_run@2=FAIL")
    anynpu_faults_reset()
    calls = Calls()
    # One worker, so that the second call is the second request's.
    options = {"tp_mode": "0"}
    with InferenceSession(models.add_one((1, 2)), provider_options=options) as session:
        for number in range(3):
            session.run_async(None, np.full((1, 2), number), calls, number)
    results, tags, errors = zip(*calls.all, strict=True)
    assert tags == (0, 1, 2)
    assert [r is None for r in results] == [False, True, False]
    assert errors[0] == errors[2] == ""
    assert "RKNN_ERR_FAIL" in errors[1]


def anynpu_faults_reset() -> None:
    from anynpu.soft import faults

    faults.reset()


def test_inputs_may_be_changed_at_once(on_cores: Open) -> None:
    session, calls, buffer = on_cores(5), Calls(), feed(0)
    for number in range(10):
        buffer[:] = number
        session.run_async(None, buffer, calls, number)
    buffer[:] = -1
    calls.wait(10)
    assert [value(results) for results, _, _ in calls.all] == list(range(10))


def test_a_callback_that_raises_harms_not_computed(
    on_cores: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    session, calls = on_cores(0), Calls()

    def fail(results: Any, user_data: Any, error: str) -> None:
        raise SystemExit("callback's own")

    session.run_async(None, feed(1), fail)
    session.run_async(None, feed(2), calls)
    calls.wait(1)
    assert "callback's own" in capfd.readouterr().err


def test_a_callback_may_run_and_submit(on_cores: Open) -> None:
    session, calls = on_cores(1, max_queue_size=1), Calls()

    def again(results: Any, user_data: int, error: str) -> None:
        inner = value(session.run(None, feed(value(results) + 100)))
        future = session.submit(None, feed(inner + 100))
        calls(None, inner, error)
        for number in range(30):
            session.run_async(None, feed(0), calls, number)
        assert not future.cancelled()

    session.run_async(None, feed(1), again)
    calls.wait(31)
    assert calls.tags == [101, *range(30)]


def test_a_callback_may_close_the_session(on_cores: Open) -> None:
    session, calls = on_cores(1), Calls()
    closed = threading.Event()

    def close(results: Any, user_data: Any, error: str) -> None:
        session.close()
        session.close()
        closed.set()

    session.run_async(None, feed(0), close)
    for number in range(3):
        session.run_async(None, feed(number), calls, number)
    assert closed.wait(SECONDS)
    calls.wait(3)
    with pytest.raises(anynpu.ClosedError):
        session.run(None, feed(0))


@pytest.mark.parametrize("callback", [None, "text", 5])
def test_a_callback_has_to_be_callable(on_cores: Open, callback: Any) -> None:
    with pytest.raises(TypeError, match="can't be called"):
        on_cores(0).run_async(None, feed(0), callback)


def test_errors_are_raised_at_once(on_cores: Open) -> None:
    session, calls = on_cores(0), Calls()
    with pytest.raises(anynpu.TensorError, match="shape"):
        session.run_async(None, np.zeros((1, 2)), calls)
    with pytest.raises(anynpu.TensorError, match="no outputs"):
        session.run_async(["z"], feed(0), calls)
    assert calls.all == []


# ------------------------------------------------------------------------------------- a full queue


def test_a_full_queue(on_cores: Open, device: NullDevice) -> None:
    session, calls = on_cores(0, max_queue_size=1, submit_timeout_ms=50), Calls()
    with device.holding():
        session.run_async(None, feed(0), calls)
        session.run_async(None, feed(1), calls)
        for call in (
            lambda: session.run_async(None, feed(2), calls),
            lambda: session.submit(None, feed(2)),
            lambda: session.run(None, feed(2)),
            lambda: session.run_pipeline(feed(2)),
        ):
            with pytest.raises(anynpu.QueueFullError, match="max_queue_size") as caught:
                call()
            assert isinstance(caught.value, RuntimeError)
            assert isinstance(caught.value, TimeoutError)
    calls.wait(2)
    assert value(session.run(None, feed(3))) == 3


def test_a_place_in_time(on_cores: Open) -> None:
    session, calls = on_cores(20, max_queue_size=1), Calls()
    for number in range(6):
        session.run_async(None, feed(number), calls, number)
    calls.wait(6)
    assert calls.tags == list(range(6))


def test_callbacks_that_take_long_hold_submissions_up(on_cores: Open) -> None:
    session = on_cores(0, max_queue_size=50, submit_timeout_ms=50)
    gate = threading.Event()

    def submit_many() -> None:
        for _ in range(100):
            session.run_async(None, feed(0), lambda results, data, error: gate.wait(SECONDS))

    with pytest.raises(anynpu.QueueFullError):
        submit_many()
    gate.set()


# ------------------------------------------------------------------------------------------ futures


def test_futures(on_cores: Open) -> None:
    session = on_cores(2, 1)
    futures = [session.submit(None, feed(number)) for number in range(20)]
    assert [value(future.result(SECONDS)) for future in futures] == list(range(20))
    done, _ = concurrent.futures.wait(futures)
    assert len(done) == 20
    assert all(future.done() and not future.running() for future in futures)
    assert not futures[0].cancel()


def test_a_future_s_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "rknn_run=TIMEOUT")
    anynpu_faults_reset()
    with InferenceSession(models.add_one((1, 2))) as session:
        error = session.submit(None, np.zeros((1, 2))).exception(SECONDS)
    assert isinstance(error, anynpu.CallTimeoutError)


def test_cancelling_a_future(on_cores: Open, device: NullDevice) -> None:
    session = on_cores(0)
    with device.holding():
        first, second, third = (session.submit(None, feed(number)) for number in range(3))
        while not first.running():
            time.sleep(0.001)
        assert not first.cancel()
        assert second.cancel()
        assert second.cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            second.result(0)
    assert [value(future.result(SECONDS)) for future in (first, third)] == [0, 2]
    assert not third.cancel()


def test_futures_and_callbacks_of_many_threads(on_cores: Open) -> None:
    """Nothing is mixed up: every request gets its own results, once."""
    session = on_cores(0, 0.3, 0.1)
    wrong: list[str] = []

    def use(thread: int) -> None:
        rng = random.Random(thread)
        calls = Calls()
        expected = 0
        for step in range(60):
            number = thread * 1000 + step
            way = rng.choice(["run", "async", "future", "cancel"])
            if way == "run" and value(session.run(None, feed(number))) != number:
                wrong.append(f"run {number}")
            if way == "async":
                session.run_async(None, feed(number), calls, number)
                expected += 1
            if way in ("future", "cancel"):
                future = session.submit(None, feed(number))
                if way == "cancel" and future.cancel():
                    continue
                if value(future.result(SECONDS)) != number:
                    wrong.append(f"future {number}")
        calls.wait(expected)
        wrong.extend(f"async {tag}" for results, tag, _ in calls.all if value(results) != tag)
        if calls.tags != sorted(calls.tags):
            wrong.append("order")

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


# ------------------------------------------------------------------------------------------ asyncio


def test_awaiting(on_cores: Open) -> None:
    session = on_cores(2, 1)

    async def main() -> list[float]:
        results = await asyncio.gather(
            *(session.run_awaitable(None, feed(number)) for number in range(40))
        )
        return [value(each) for each in results]

    assert asyncio.run(main()) == list(range(40))


def test_the_event_loop_goes_on_while_the_queue_is_full(on_cores: Open, device: NullDevice) -> None:
    session = on_cores(0, max_queue_size=1)

    async def main() -> list[float]:
        with device.holding():
            tasks = [asyncio.ensure_future(session.run_awaitable(None, feed(n))) for n in range(6)]
            for _ in range(10):
                await asyncio.sleep(0.001)
            assert not any(task.done() for task in tasks)
        return [value(results) for results in await asyncio.gather(*tasks)]

    assert sorted(asyncio.run(main())) == list(range(6))


def test_a_cancelled_request_leaves_the_queue(on_cores: Open, device: NullDevice) -> None:
    session = on_cores(0)

    async def main() -> tuple[list[float], bool]:
        with device.holding():
            tasks = (session.run_awaitable(None, feed(number)) for number in (1, 2, 3))
            first, second, third = map(asyncio.ensure_future, tasks)
            await asyncio.sleep(0.02)
            second.cancel()
            await asyncio.sleep(0.02)
        results = [value(await first), value(await third)]
        return results, second.cancelled()

    assert asyncio.run(main()) == ([1, 3], True)


def test_futures_of_the_event_loop(on_cores: Open, device: NullDevice) -> None:
    session = on_cores(0, max_queue_size=2)

    async def main() -> None:
        with device.holding():
            first, second, third = (session.submit_awaitable(None, feed(n)) for n in (1, 2, 3))
            with pytest.raises(anynpu.QueueFullError):
                session.submit_awaitable(None, feed(4))
            assert first.running()
            assert not second.running()
            assert second.cancel()
            assert second.cancelled()
            assert first.cancel()  # its result goes nowhere
            fourth = session.submit_awaitable(["y"], feed(5), copy=False)
            with pytest.raises(anynpu.TensorError, match="output"):
                session.submit_awaitable(["z"], feed(5))
        assert value(await third) == 3
        assert value(await fourth) == 5
        assert not third.cancel()
        assert not third.running()

    asyncio.run(main())


def test_a_future_whose_event_loop_has_ended(on_cores: Open, device: NullDevice) -> None:
    session = on_cores(0)

    async def main() -> asyncio.Future[Any]:
        return session.submit_awaitable(None, feed(1))

    with device.holding():
        future = asyncio.run(main())
    assert value(session.run(None, feed(2))) == 2
    assert not future.done()


def test_failures_reach_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody asks, which is no complaint in the log."""
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "rknn_run@1=TIMEOUT rknn_run@2=FAIL")
    said: list[Any] = []

    async def main(session: InferenceSession) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: said.append(what))
        values = np.zeros((1, 3, 4, 5), np.float32)
        with pytest.raises(TimeoutError):
            await session.submit_awaitable(None, {"x": values})
        ignored = session.submit_awaitable(None, {"x": values})
        while not ignored.done():
            await asyncio.sleep(0.001)
        del ignored
        gc.collect()
        assert (await session.submit_awaitable(None, {"x": values}))[0].max() == 1

    with InferenceSession(models.add_one()) as session:
        asyncio.run(main(session))
    assert not said


def test_a_timeout_while_the_queue_is_full(on_cores: Open, device: NullDevice) -> None:
    session = on_cores(0, max_queue_size=1)

    async def main() -> None:
        with device.holding():
            tasks = [asyncio.ensure_future(session.run_awaitable(None, feed(n))) for n in range(2)]
            await asyncio.sleep(0.01)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.run_awaitable(None, feed(9)), 0.02)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert value(session.run(None, feed(4))) == 4


# ------------------------------------------------------------------------------------------ the end


def test_closing_finishes_what_was_submitted(on_cores: Open) -> None:
    session, calls = on_cores(5, max_queue_size=50), Calls()
    for number in range(20):
        session.run_async(None, feed(number), calls, number)
    futures = [session.submit(None, feed(number)) for number in range(5)]
    session.close()
    assert calls.tags == list(range(20))
    assert [value(future.result(0)) for future in futures] == list(range(5))


def test_closing_may_cancel_what_waits(on_cores: Open, device: NullDevice) -> None:
    session, calls = on_cores(0, max_queue_size=50), Calls()
    with device.holding():
        for number in range(10):
            session.run_async(None, feed(number), calls, number)
        future = session.submit(None, feed(0))
        closing = threading.Thread(target=session.close, kwargs={"cancel": True})
        closing.start()
        end_as_closed(future)
    closing.join(SECONDS)
    assert calls.tags == list(range(10))
    assert [error == "" for _, _, error in calls.all] == [True] + [False] * 9
    assert "closed" in calls.all[-1][2]
    with pytest.raises(anynpu.ClosedError):
        future.result(0)


def end_as_closed(future: anynpu.InferenceFuture) -> None:
    with pytest.raises(anynpu.ClosedError):
        future.result(SECONDS)


def test_a_forgotten_session_finishes_and_goes(on_cores: Open, null_device: Any) -> None:
    calls = Calls()
    session = InferenceSession(
        b"RKNN" + bytes(100), provider_options={"library": null_device, "layout": "nhwc"}
    )
    del null_device
    reference = weakref.ref(session)
    try:
        session.run_async(None, np.zeros((1, 4, 4, 3), np.float32), calls)
    finally:
        del session
    gc.collect()
    assert reference() is None
    calls.wait(1)
    assert calls.all[0][2] == ""


def test_threads_that_wait_for_a_place_are_let_go(on_cores: Open) -> None:
    session = on_cores(100, max_queue_size=1)
    for number in range(2):
        session.submit(None, feed(number))
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            session.submit(None, feed(9))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.02)
    session.close(cancel=True)
    thread.join(SECONDS)
    assert [type(error) for error in errors] in ([anynpu.ClosedError], [])


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.run(None, feed(0)),
        lambda s: s.submit(None, feed(0)),
        lambda s: s.run_async(None, feed(0), print),
        lambda s: s.run_pipeline(feed(0)),
        lambda s: list(s.map([feed(0)])),
        lambda s: asyncio.run(s.run_awaitable(None, feed(0))),
    ],
)
def test_use_after_closing(on_cores: Open, use: Callable[[InferenceSession], object]) -> None:
    session = on_cores(0)
    session.close()
    with pytest.raises(anynpu.ClosedError):
        use(session)
