"""What users of the vendors' packages suffer from: growth, leaks, mixed results, many models."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import pytest

import anynpu

from . import models

SHAPE = (1, 3, 32, 32)
VALUES = np.ones(SHAPE, np.float32)
PICTURE = np.ones((32, 32, 3), np.uint8)
MEGABYTE = 2**20


@pytest.fixture
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def growth(work: Callable[[], object], times: int) -> int:
    """Bytes that the process grows by each time that work is done so often, after a tenth of that.

    The least of three times, or the first that is next to nothing: a leak grows every time, what
    allocators keep does not.
    """
    for _ in range(times // 10):
        work()
    least = 2**62
    for _ in range(3):
        before = resident()
        for _ in range(times):
            work()
        least = min(least, resident() - before)
        if least < MEGABYTE:
            break
    return least


@pytest.mark.usefixtures("_without_collector")
def test_ten_thousand_inferences_of_a_model() -> None:
    with anynpu.Model(models.add_one(SHAPE)) as model:

        def work() -> None:
            model.run(PICTURE)
            model.output_raw(0)
            model.output_f32(0)

        assert growth(work, 10_000) < 3 * MEGABYTE


@pytest.mark.usefixtures("_without_collector")
def test_ten_thousand_inferences_of_a_session() -> None:
    with anynpu.InferenceSession(models.add_one(SHAPE)) as session:
        assert growth(lambda: session.run(None, {"x": VALUES}), 10_000) < 3 * MEGABYTE


@pytest.mark.usefixtures("_without_collector")
def test_failed_calls_leave_nothing_behind() -> None:
    with anynpu.Model(models.add_one(SHAPE)) as model:

        def work() -> None:
            with pytest.raises(anynpu.TensorError):
                model.run(PICTURE[:-1])

        work()
        gc.collect()
        assert growth(work, 300) < 3 * MEGABYTE


def test_models_that_open_and_close() -> None:
    def work() -> None:
        with anynpu.Model(models.add_one(SHAPE)) as model:
            model.run(PICTURE)
            model.output_f32(0)

    work()
    before = descriptors()
    assert growth(work, 300) < 6 * MEGABYTE
    assert descriptors() == before


def test_thirty_models_at_once() -> None:
    opened = [anynpu.Model(models.add_one(SHAPE)) for _ in range(30)]
    wrong: list[int] = []

    def work(number: int) -> None:
        values = np.full(SHAPE, number, np.float32)
        for _ in range(10):
            opened[number].run(values)
            if not (opened[number].output_f32(0) == number + 1).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for model in opened:
        model.close()
    assert not wrong


def test_duplicates_keep_their_outputs_apart() -> None:
    with anynpu.Model(models.add_one(SHAPE)) as first:
        copies = [first.dup() for _ in range(6)]
        wrong: list[int] = []

        def work(number: int) -> None:
            values = np.full(SHAPE, number, np.float32)
            for _ in range(50):
                copies[number].run(values)
                if not (copies[number].output_f32(0) == number + 1).all():
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for copy in copies:
            copy.close()
    assert not wrong
