"""Runs that return at once, runs that only wait so long, and the cores they take."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest

from anynpu.rknn import abi
from anynpu.rknn.abi import CoreMask
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.library import RknnLibrary
from anynpu.soc import find
from anynpu.soft.device import DeadlineError, Device
from anynpu.soft.failure import Failure
from anynpu.soft.rknn import contexts

from ... import models
from ...capi import SUCC, get_output, init, opened, set_input

SOON = 20
SHAPE = (1, 3, 64, 64)
VALUES = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
LIKE = np.empty((1, 32, 64, 64), np.float32)
MODEL = models.convolution(size=64, filters=32)
SLOW = models.convolution(size=512, filters=64)
SLOW_VALUES = np.zeros((1, 3, 512, 512), np.float32)


def run(npu: RknnLibrary, context: int, **fields: int) -> int:
    extend = abi.RunExtend(**fields)
    return npu.rknn_run(context, ctypes.byref(extend))


def test_a_run_that_returns_at_once(npu: RknnLibrary) -> None:
    with opened(npu, MODEL) as context:
        assert set_input(npu, context, VALUES) == SUCC
        with device_of(context).occupy(frozenset({0, 1, 2}), 0):
            assert run(npu, context, non_block=1) == SUCC
            assert not is_idle(context)
        get_output(npu, context, LIKE)
        assert is_idle(context)


def is_idle(context: int) -> bool:
    request = contexts.CONTEXTS.find(context).request
    return request is None or request.is_done


def device_of(context: int) -> Device:
    return contexts.CONTEXTS.find(context).device


def test_a_timeout_by_the_model_s_clock(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", "model")
    model = models.sigmoids(size=512, layers=40, metadata={"anynpu.soc": "rk3566"})
    with opened(npu, model) as context:
        assert set_input(npu, context, np.zeros((1, 3, 512, 512), np.float32)) == SUCC
        assert run(npu, context, timeout_ms=5) == Code.TIMEOUT
        assert run(npu, context, timeout_ms=60_000) == SUCC


def test_an_idle_core_is_taken_and_a_named_one_waited_for(npu: RknnLibrary) -> None:
    with opened(npu, MODEL) as named, opened(npu, MODEL) as free:
        assert npu.rknn_set_core_mask(named, CoreMask.CORE_0) == SUCC
        for context in (named, free):
            assert set_input(npu, context, VALUES) == SUCC
        with device_of(named).occupy(frozenset({0}), 0):
            assert run(npu, named, non_block=1) == SUCC
            assert npu.rknn_run(free, None) == SUCC
            assert contexts.CONTEXTS.find(free).last_cores == {1}
            assert not is_idle(named)
        get_output(npu, named, LIKE)
        assert contexts.CONTEXTS.find(named).last_cores == {0}


@pytest.mark.parametrize(
    ("mask", "cores"),
    [
        (CoreMask.AUTO, {0}),
        (CoreMask.CORE_2, {2}),
        (CoreMask.CORE_0_1, {0, 1}),
        (CoreMask.CORE_0_1_2, {0, 1, 2}),
        (CoreMask.ALL, {0, 1, 2}),
    ],
)
def test_a_run_takes_the_cores_of_its_mask(
    npu: RknnLibrary, mask: CoreMask, cores: set[int]
) -> None:
    with opened(npu, MODEL) as context:
        assert npu.rknn_set_core_mask(context, mask) == SUCC
        assert set_input(npu, context, VALUES) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        assert contexts.CONTEXTS.find(context).last_cores == cores


def test_outputs_wait_by_themselves(npu: RknnLibrary) -> None:
    with opened(npu, MODEL) as context:
        assert set_input(npu, context, VALUES) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        expected = get_output(npu, context, LIKE)
        assert run(npu, context, non_block=1) == SUCC
        np.testing.assert_array_equal(get_output(npu, context, LIKE), expected)


def test_inputs_set_during_a_run_are_for_the_next(npu: RknnLibrary) -> None:
    with opened(npu, MODEL) as context:
        results = []
        for scale in (1, 2):
            assert set_input(npu, context, VALUES * scale) == SUCC
            assert npu.rknn_run(context, None) == SUCC
            results.append(get_output(npu, context, LIKE))
        for _ in range(20):
            assert set_input(npu, context, VALUES) == SUCC
            assert run(npu, context, non_block=1) == SUCC
            assert set_input(npu, context, VALUES * 2) == SUCC
            np.testing.assert_array_equal(get_output(npu, context, LIKE), results[0])
            assert run(npu, context, non_block=1) == SUCC
            np.testing.assert_array_equal(get_output(npu, context, LIKE), results[1])


@pytest.mark.parametrize("strict", ["0", "1"])
def test_waiting_fails_as_the_vendor_s(
    npu: RknnLibrary,
    strict: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_STRICT", strict)
    monkeypatch.setenv("RKNN_LOG_LEVEL", "1")
    with opened(npu, MODEL) as context:
        assert npu.rknn_wait(context, None) == Code.FAIL
        assert set_input(npu, context, VALUES) == SUCC
        assert run(npu, context, non_block=1) == SUCC
        assert npu.rknn_wait(context, None) == Code.FAIL
        assert "rknn_wait fence fd = -1 is invalid" in capfd.readouterr().err
        get_output(npu, context, LIKE)
    assert npu.rknn_wait(context, None) == Code.CTX_INVALID


def test_a_run_in_time(npu: RknnLibrary) -> None:
    with opened(npu, MODEL) as context:
        assert set_input(npu, context, VALUES) == SUCC
        assert run(npu, context, timeout_ms=60_000) == SUCC
        get_output(npu, context, LIKE)


def test_a_run_that_takes_too_long_leaves_the_context_usable(npu: RknnLibrary) -> None:
    model = models.repeated_convolution(size=256, filters=32, layers=12)
    values = np.zeros((1, 3, 256, 256), np.float32)
    with opened(npu, model) as context:
        assert set_input(npu, context, values) == SUCC
        assert run(npu, context, timeout_ms=1) == Code.TIMEOUT
        assert npu.rknn_run(context, None) == SUCC
        assert run(npu, context, timeout_ms=1) == Code.TIMEOUT
        assert set_input(npu, context, values) == SUCC
        assert run(npu, context, timeout_ms=60_000) == SUCC


def test_destroying_a_context_that_runs(npu: RknnLibrary) -> None:
    for _ in range(5):
        with opened(npu, SLOW) as context:
            assert set_input(npu, context, SLOW_VALUES) == SUCC
            assert run(npu, context, non_block=1) == SUCC


def test_destroying_a_context_whose_run_waits_for_cores(npu: RknnLibrary) -> None:
    """It needn't wait for the runs of others."""
    code, context = init(npu, MODEL)
    assert code == SUCC
    assert set_input(npu, context, VALUES) == SUCC
    with device_of(context).occupy(frozenset({0, 1, 2}), 0):
        assert run(npu, context, non_block=1) == SUCC
        request = contexts.CONTEXTS.find(context).request
        destroying = threading.Thread(target=npu.rknn_destroy, args=(context,), daemon=True)
        destroying.start()
        destroying.join(SOON)
        assert not destroying.is_alive()
    assert request is not None
    with pytest.raises(Failure, match="cancelled") as caught:
        request.result()
    assert caught.value.code == Code.FAIL


def test_the_number_of_cores_for_a_batch(npu: RknnLibrary) -> None:
    for soc, cores in (("rk3588", 3), ("rk3576", 2)):
        with opened(npu, models.add_one(metadata={"anynpu.soc": soc})) as context:
            for number in range(-1, 6):
                expected = SUCC if 1 <= number <= cores else Code.FAIL
                assert npu.rknn_set_batch_core_num(context, number) == expected
    with opened(npu, models.add_one(metadata={"anynpu.soc": "rk3566"})) as context:
        assert npu.rknn_set_batch_core_num(context, 1) == Code.TARGET_PLATFORM_UNMATCH


class TestDevice:
    """The queue of cores, apart from what runs on them."""

    def test_one_request_a_core(self) -> None:
        device = Device(find("rk3588"))
        active, peak = [0], [0]
        lock = threading.Lock()

        def work() -> None:
            with device.occupy(1, 0):
                with lock:
                    active[0] += 1
                    peak[0] = max(peak[0], active[0])
                time.sleep(0.02)
                with lock:
                    active[0] -= 1

        threads = [threading.Thread(target=work) for _ in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert peak == [3]

    def test_idle_cores_are_taken_and_named_ones_waited_for(self) -> None:
        device = Device(find("rk3588"))
        with device.occupy(frozenset({0}), 0) as first:
            assert first == {0}
            with device.occupy(1, 0) as second:
                assert second == {1}
                with device.occupy(1, 0) as third:
                    assert third == {2}
                    for wanted in (1, frozenset({1}), 3):
                        soon = time.monotonic() + 0.01
                        with pytest.raises(DeadlineError), device.occupy(wanted, 0, soon):
                            pass
            with device.occupy(2, 0) as both:
                assert both == {1, 2}

    def test_priorities_and_arrival(self) -> None:
        device = Device(find("rk3566"))
        order: list[str] = []

        def work(name: str, priority: int) -> None:
            with device.occupy(1, priority):
                order.append(name)

        with device.occupy(1, 0):
            threads = []
            for name, priority in (("low", 2), ("medium", 1), ("high", 0), ("high too", 0)):
                thread = threading.Thread(target=work, args=(name, priority))
                thread.start()
                threads.append(thread)
                while len(device._waiting) < len(threads):
                    time.sleep(0.001)
        for thread in threads:
            thread.join()
        assert order == ["high", "high too", "medium", "low"]

    def test_a_request_for_several_cores_is_not_starved(self) -> None:
        device = Device(find("rk3588"))
        got_all, stop = threading.Event(), threading.Event()

        def small() -> None:
            while not stop.is_set():
                with device.occupy(1, 0):
                    time.sleep(0.001)

        def large() -> None:
            with device.occupy(frozenset({0, 1, 2}), 0):
                got_all.set()

        threads = [threading.Thread(target=small) for _ in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        threads.append(threading.Thread(target=large))
        threads[-1].start()
        assert got_all.wait(5)
        stop.set()
        for thread in threads:
            thread.join()

    def test_on_chip_memory(self) -> None:
        device = Device(find("rk3588"))
        assert device.take_sram(900_000) == 900_000
        assert device.take_sram(900_000) == 956 * 1024 - 900_000
        assert device.take_sram(1) == 0
        device.return_sram(5)
        assert device.free_sram == 5
