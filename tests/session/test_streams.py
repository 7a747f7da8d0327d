"""Many requests in a row: pipelines, maps, divided batches; all cores at work, results in order."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import anynpu
from anynpu import InferenceSession

from .. import models
from .conftest import NullDevice, Open

SECONDS = 20.0


def feed(number: float) -> np.ndarray:
    return np.full((1, 1, 1, 1), number, np.float32)


def value(results: list[np.ndarray] | None) -> float | None:
    return None if results is None else float(results[0].ravel()[0])


# ---------------------------------------------------------------------------------------- pipeline


def test_a_pipeline_returns_the_results_of_depth_calls_ago(on_cores: Open) -> None:
    session = on_cores(2, 1)
    assert [value(session.run_pipeline(feed(n))) for n in range(6)] == [None] * 3 + [0, 1, 2]
    assert [value(results) for results in session.flush()] == [3, 4, 5]
    assert session.flush() == []
    assert session.run_pipeline(feed(9), depth=1) is None
    assert value(session.run_pipeline(feed(10), depth=1)) == 9


@pytest.mark.parametrize(("depth", "reset"), [(3, True), (2, False)])
def test_a_pipeline_that_begins_anew(on_cores: Open, depth: int, reset: bool) -> None:
    session = on_cores(1)
    for number in range(4):
        session.run_pipeline(feed(number))
    found = [value(session.run_pipeline(feed(10), depth, reset))]
    found += [value(session.run_pipeline(feed(11 + n), depth)) for n in range(depth)]
    assert found == [None] * depth + [10]


@pytest.mark.parametrize("depth", [0, -1])
def test_a_depth_that_is_none(on_cores: Open, depth: int) -> None:
    with pytest.raises(anynpu.OptionError, match="depth"):
        on_cores(0).run_pipeline(feed(0), depth)


def test_a_pipeline_keeps_inputs_apart(on_cores: Open) -> None:
    session, buffer = on_cores(3, 2, 1), feed(0)
    found = []
    for number in range(30):
        buffer[:] = number
        found.append(value(session.run_pipeline(buffer, depth=5)))
    buffer[:] = -1
    found += [value(results) for results in session.flush()]
    assert found == [None] * 5 + list(range(30))


# --------------------------------------------------------------------------------------------- map


def test_a_map_in_order(on_cores: Open) -> None:
    session = on_cores(3, 1, 0.2)
    assert [value(r) for r in session.map(map(feed, range(100)))] == list(range(100))


def test_a_map_as_requests_are_done(on_cores: Open) -> None:
    session = on_cores(200, 1, schedule=[0, 1], dispatch="idle")
    found = [value(r) for r in session.map(map(feed, range(10)), ordered=False)]
    assert sorted(found) == list(range(10))  # type: ignore[type-var]
    assert found[-1] == 0


def test_a_map_is_lazy(on_cores: Open) -> None:
    session = on_cores(0, 0, 0)
    read: list[int] = []

    def endless() -> Iterator[np.ndarray]:
        for number in itertools.count():
            read.append(number)
            yield feed(number)

    results = session.map(endless())
    assert read == []
    assert [value(next(results)) for _ in range(50)] == list(range(50))
    assert len(read) < 100


def test_a_map_that_is_dropped_leaves_nothing_behind(on_cores: Open) -> None:
    session = on_cores(20)
    results = session.map(map(feed, range(100)))
    assert value(next(results)) == 0
    del results
    start = time.monotonic()
    assert value(session.run(None, feed(5))) == 5
    assert time.monotonic() - start < SECONDS


def test_an_error_ends_a_map(on_cores: Open) -> None:
    session = on_cores(0)
    feeds = [feed(0), feed(1), np.zeros((2, 2), np.float32)]
    results = session.map(feeds)
    with pytest.raises(anynpu.TensorError, match="shape"):
        list(results)
    assert value(session.run(None, feed(5))) == 5


def test_a_map_of_chosen_outputs() -> None:
    a, b = np.full((2, 3), 5, np.float32), np.full((2, 3), 2, np.float32)
    with InferenceSession(models.two_inputs()) as session:
        for results in session.map([[a, b]] * 5, output_names=["difference"]):
            assert [r[0, 0] for r in results] == [3]


def test_every_core_is_at_work(on_cores: Open, device: NullDevice) -> None:
    requests = 45
    for way in ("map", "pipeline", "async", "batch"):
        session = on_cores(20, 20, 20)
        device.peak()
        if way == "map":
            assert len(list(session.map(map(feed, range(requests))))) == requests
        elif way == "pipeline":
            for number in range(requests):
                session.run_pipeline(feed(number), depth=6)
            session.flush()
        elif way == "batch":
            batch = np.zeros((requests, 1, 1, 1), np.float32)
            session.run(None, batch, {"ztu_modelrt_dispatch_batch": True})
        else:
            done = threading.Semaphore(0)
            for number in range(requests):
                session.run_async(None, feed(number), lambda r, done, e: done.release(), done)
            for _ in range(requests):
                assert done.acquire(timeout=SECONDS)
        assert device.peak() == 3, way
        session.close()


def test_a_slow_core_holds_nobody_up(on_cores: Open) -> None:
    """One core takes a request for as long as the others take many."""
    session = on_cores(400, 5, schedule=[0, 1], dispatch="idle")
    futures = [session.submit(None, feed(number)) for number in range(20)]
    for future in futures[1:]:
        future.result(SECONDS)
    assert not futures[0].done()


# ------------------------------------------------------------------------------------------ batches


@pytest.mark.parametrize("flag", [True, 1, "true", "on"])
def test_a_batch_is_divided_between_the_workers(on_cores: Open, flag: object) -> None:
    session = on_cores(3, 2, 1)
    batch = np.arange(20, dtype=np.float32).reshape(20, 1, 1, 1)
    (result,) = session.run(None, {"x": batch}, {"ztu_modelrt_dispatch_batch": flag})
    np.testing.assert_array_equal(result, batch)


def test_onnx_runtime_s_run_options(on_cores: Open) -> None:
    import onnxruntime

    options = onnxruntime.RunOptions()
    session = on_cores(0)
    assert value(session.run(None, feed(3), options)) == 3
    options.add_run_config_entry("ztu_modelrt_dispatch_batch", "1")
    batch = np.arange(4, dtype=np.float32).reshape(4, 1, 1, 1)
    np.testing.assert_array_equal(session.run(None, batch, options)[0], batch)
    with pytest.raises(anynpu.OptionError, match="not for run_async"):
        session.run_async(None, batch, print, None, options)


def test_unknown_run_options(on_cores: Open) -> None:
    with pytest.raises(anynpu.OptionError, match="unknown run options"):
        on_cores(0).run(None, feed(0), {"ztu_modelrt_dispatch_bach": True})


def test_a_batch_for_a_model_of_several_samples() -> None:
    values = np.arange(7 * 3, dtype=np.float32).reshape(7, 3)
    with InferenceSession(models.add_one((2, 3))) as session:
        (result,) = session.run(None, values, batch="split")
        np.testing.assert_array_equal(result, values + 1)
        with pytest.raises(anynpu.TensorError, match="batch='split'"):
            session.run(None, values, {"ztu_modelrt_dispatch_batch": True})
        with pytest.raises(anynpu.OptionError, match="batch"):
            session.run(None, values, batch="divide")


def test_batches_that_do_not_fit() -> None:
    with InferenceSession(models.two_inputs()) as session:
        for a, b in (((4, 3), (6, 3)), ((0, 3), (0, 3)), ((), ())):
            with pytest.raises(anynpu.TensorError, match="same number of samples"):
                session.run(None, [np.zeros(a), np.zeros(b)], batch="split")
        with pytest.raises(anynpu.TensorError, match="shape"):
            session.run(None, [np.zeros((4, 5))] * 2, batch="split")
