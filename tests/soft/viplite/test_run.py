"""Running networks: results, the order of calls, time, cancelling, priorities, threads."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

from anynpu.layouts import dequantize_affine
from anynpu.soft.device import CorePool
from anynpu.soft.engines.nbg.twin import TwinInstance
from anynpu.soft.viplite.driver import DRIVER
from anynpu.soft.viplite.networks import NETWORKS
from anynpu.tensor import Quantization
from anynpu.viplite import abi
from anynpu.viplite.abi import NetworkProperty, Status
from anynpu.viplite.library import VipliteLibrary

from ... import models
from .client import (
    OK,
    answer,
    bind_all,
    create,
    infer,
    make_buffer,
    network_file,
    parameters,
    plain,
    prepared,
    relu,
    slow,
)

INVALID = Status.INVALID_ARGUMENTS
LONG_MS = 120_000


def set_word(vip: VipliteLibrary, network: Any, property: int, word: int) -> None:
    value = ctypes.c_uint32(word)
    assert vip.vip_set_network(network, property, ctypes.addressof(value)) == OK


# --------------------------------------------------------------------------------------- results


def test_uint8(vip: VipliteLibrary) -> None:
    values = np.random.default_rng(0).integers(0, 256, 60).astype(np.uint8)
    with prepared(vip, relu()) as network:
        np.testing.assert_array_equal(infer(vip, network, values)[0], np.maximum(values, 125))


def test_int8(vip: VipliteLibrary) -> None:
    values = np.arange(-30, 30).astype(np.int8)
    with prepared(vip, network_file(models.quantized())) as network:
        np.testing.assert_array_equal(infer(vip, network, values)[0], np.maximum(values, -3))


def test_float16_is_what_onnx_runtime_computes(vip: VipliteLibrary) -> None:
    values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float16)
    session = onnxruntime.InferenceSession(models.convolution())
    (expected,) = session.run(None, {"x": values.astype(np.float32)})
    with prepared(vip, network_file(models.convolution())) as network:
        found = infer(vip, network, values)[0]
    np.testing.assert_array_equal(found, expected.astype(np.float16).ravel())


def test_fixed_point(vip: VipliteLibrary) -> None:
    edges = {"x": Quantization.fixed_point(8), "y": Quantization.fixed_point(6)}
    values = np.array([-(2**15), -300, -1, 0, 1, 300], np.int16)
    with prepared(vip, network_file(models.add_one((2, 3)), edges=edges)) as network:
        (found,) = infer(vip, network, values)
    np.testing.assert_array_equal(found, np.rint((values / 256.0 + 1) * 64).astype(np.int16))


def test_an_input_that_is_normalised_takes_pixels(vip: VipliteLibrary) -> None:
    metadata = {"anynpu.mean": '{"x": [10, 20, 30]}', "anynpu.std": '{"x": [2, 4, 5]}'}
    pixels = np.random.default_rng(0).integers(0, 256, (1, 3, 4, 5)).astype(np.uint8)
    mean, std = (np.array(v).reshape(3, 1, 1) for v in ([10, 20, 30], [2, 4, 5]))
    with prepared(vip, network_file(models.add_one(metadata=metadata))) as network:
        params = parameters(vip, network, "input")
        assert (params.data_format, params.quant_format) == (2, 2)
        assert (params.quant_data.affine.scale, params.quant_data.affine.zeroPoint) == (1, 0)
        (found,) = infer(vip, network, pixels)
    expected = ((pixels - mean) / std + 1).astype(np.float16)
    np.testing.assert_array_equal(found, expected.ravel())


def test_quantised_pixels_that_are_normalised_as_well(vip: VipliteLibrary) -> None:
    """Also where the model's own quantisation is that of the pixels."""
    metadata = {"anynpu.mean": '{"x": [10, 20, 30]}', "anynpu.std": '{"x": [1, 1, 1]}'}
    pixels = np.random.default_rng(0).integers(0, 256, (1, 3, 4, 5)).astype(np.uint8)
    model = models.quantized(dtype=np.uint8, scale=1, zero_point=0, metadata=metadata)
    with prepared(vip, network_file(model)) as network:
        (found,) = infer(vip, network, pixels)
    shifted = pixels.astype(np.int32) - np.array([10, 20, 30]).reshape(3, 1, 1)
    np.testing.assert_array_equal(found, np.maximum(shifted, 0).ravel())


def test_several_tensors_of_whole_numbers(vip: VipliteLibrary) -> None:
    values = np.array([5, -7, 2**40, 0, 1, 2], np.int64)
    with prepared(vip, network_file(models.passes(TensorProto.INT64))) as network:
        np.testing.assert_array_equal(infer(vip, network, values)[0], values)
    a, b = np.arange(6).astype(np.float16), np.full(6, 2, np.float16)
    with prepared(vip, network_file(models.two_inputs())) as network:
        added, difference = infer(vip, network, a, b)
    np.testing.assert_array_equal(added, a + b)
    np.testing.assert_array_equal(difference, a - b)


def test_results_are_within_a_step_of_the_float_model(vip: VipliteLibrary) -> None:
    edges = {"y": Quantization(0.05, 100)}
    values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float16)
    session = onnxruntime.InferenceSession(models.convolution())
    (expected,) = session.run(None, {"x": values.astype(np.float32)})
    with prepared(vip, network_file(models.convolution(), edges=edges)) as network:
        (found,) = infer(vip, network, values)
    np.testing.assert_allclose(dequantize_affine(found, 0.05, 100), expected.ravel(), atol=0.0251)


# ----------------------------------------------------------------------------- the order of calls


def test_the_order_of_calls(vip: VipliteLibrary) -> None:
    _, network = create(vip, relu())
    source, target = (
        make_buffer(vip, parameters(vip, network, side)) for side in ("input", "output")
    )
    for call in (vip.vip_run_network, vip.vip_trigger_network, vip.vip_wait_network):
        assert call(network) == Status.NETWORK_NOT_PREPARED
    assert vip.vip_set_input(network, 0, source) == Status.NETWORK_NOT_PREPARED
    assert vip.vip_set_output(network, 0, target) == Status.NETWORK_NOT_PREPARED
    assert vip.vip_prepare_network(network) == OK
    assert vip.vip_run_network(network) == Status.MISSING_INPUT_OUTPUT
    assert vip.vip_set_input(network, 0, source) == OK
    assert vip.vip_run_network(network) == Status.MISSING_INPUT_OUTPUT
    assert vip.vip_trigger_network(network) == Status.MISSING_INPUT_OUTPUT
    assert vip.vip_set_output(network, 0, target) == OK
    assert vip.vip_run_network(network) == OK
    assert vip.vip_wait_network(network) == OK  # there is nothing to wait for
    assert vip.vip_destroy_buffer(target) == OK
    assert vip.vip_run_network(network) == Status.MISSING_INPUT_OUTPUT


def test_misuse_of_binding(vip: VipliteLibrary) -> None:
    with prepared(vip, relu()) as network:
        small, enough = make_buffer(vip, plain(59)), make_buffer(vip, plain(60))
        for bind in (vip.vip_set_input, vip.vip_set_output):
            assert bind(network, 0, small) == INVALID
            assert bind(network, 1, enough) == INVALID
            assert bind(network, 0, None) == INVALID
            assert bind(network, 0, network) == INVALID
            assert bind(network, 0, enough) == OK


def test_buffers_may_change_between_runs(vip: VipliteLibrary) -> None:
    with prepared(vip, relu()) as network:
        for start in (0, 100, 196):
            values = np.arange(start, start + 60).astype(np.uint8)
            np.testing.assert_array_equal(infer(vip, network, values)[0], np.maximum(values, 125))


def test_profiling(vip: VipliteLibrary) -> None:
    with prepared(vip, relu()) as network:

        def profile() -> abi.InferenceProfile:
            ask = vip.vip_query_network
            found: abi.InferenceProfile = answer(
                ask, network, NetworkProperty.PROFILING, kind=abi.InferenceProfile
            )
            return found

        assert profile().inference_time == 0
        infer(vip, network, np.zeros(60, np.uint8))
        after = profile()
        assert after.inference_time > 0
        assert after.total_cycle == after.inference_time * 1000


# ------------------------------------------------------------------------- waiting and giving up


def test_a_run_that_is_triggered(vip: VipliteLibrary) -> None:
    with prepared(vip, relu()) as network:
        _, (target,) = bind_all(vip, network)
        for _ in range(5):
            assert vip.vip_trigger_network(network) == OK
            assert vip.vip_wait_network(network) == OK
        assert vip.vip_trigger_network(network) == OK
        # Any other call waits for the end by itself.
        assert vip.vip_set_output(network, 0, target) == OK
        assert vip.vip_wait_network(network) == OK


def test_a_trigger_returns_before_the_end(vip: VipliteLibrary) -> None:
    with prepared(vip, slow()) as network:
        bind_all(vip, network)
        assert vip.vip_run_network(network) == OK
        start = time.perf_counter()
        assert vip.vip_trigger_network(network) == OK
        triggered = time.perf_counter()
        assert vip.vip_wait_network(network) == OK
        waited = time.perf_counter()
        assert triggered - start < waited - triggered


@pytest.mark.parametrize("call", ["run", "trigger"])
def test_a_run_that_takes_too_long_leaves_the_network_usable(
    vip: VipliteLibrary, call: str
) -> None:
    _, network = create(vip, slow())
    set_word(vip, network, NetworkProperty.SET_TIME_OUT, 1)
    assert vip.vip_prepare_network(network) == OK
    bind_all(vip, network)
    if call == "run":
        assert vip.vip_run_network(network) == Status.TIMEOUT
    else:
        assert vip.vip_trigger_network(network) == OK
        assert vip.vip_wait_network(network) == Status.TIMEOUT
    assert vip.vip_finish_network(network) == OK
    set_word(vip, network, NetworkProperty.SET_TIME_OUT, LONG_MS)
    assert vip.vip_prepare_network(network) == OK
    bind_all(vip, network)
    assert vip.vip_run_network(network) == OK


def test_cancelling(vip: VipliteLibrary) -> None:
    with prepared(vip, slow()) as network:
        bind_all(vip, network)
        assert vip.vip_cancel_network(network) == OK  # nothing runs
        for _ in range(2):
            assert vip.vip_trigger_network(network) == OK
            assert vip.vip_cancel_network(network) == OK
            assert vip.vip_wait_network(network) == Status.CANCELED
        assert vip.vip_run_network(network) == OK


def test_cancelling_a_run_from_another_thread(vip: VipliteLibrary) -> None:
    with prepared(vip, slow()) as network, ThreadPoolExecutor() as threads:
        bind_all(vip, network)
        codes: list[int] = []
        # The run may end before it is cancelled.
        while Status.CANCELED not in codes:
            running = threads.submit(vip.vip_run_network, network)
            time.sleep(0.02)
            assert vip.vip_cancel_network(network) == OK
            codes.append(running.result())
            assert codes[-1] in (OK, Status.CANCELED)


def held(vip: VipliteLibrary) -> Any:
    """The NPU's core, held by the test."""
    pool: CorePool = DRIVER.pool(_chip())
    return pool.occupy(1, 0)


def _chip() -> Any:
    from anynpu import soc

    return soc.find_vip("a733")


def test_cancelling_a_run_that_waits_for_the_npu(vip: VipliteLibrary) -> None:
    with prepared(vip, relu()) as network:
        bind_all(vip, network)
        with held(vip):
            assert vip.vip_trigger_network(network) == OK
            assert vip.vip_cancel_network(network) == OK
            assert vip.vip_wait_network(network) == Status.CANCELED
        assert vip.vip_run_network(network) == OK


def test_destroying_a_network_that_runs(vip: VipliteLibrary) -> None:
    _, network = create(vip, slow())
    assert vip.vip_prepare_network(network) == OK
    bind_all(vip, network)
    assert vip.vip_trigger_network(network) == OK
    assert vip.vip_destroy_network(network) == OK
    assert vip.vip_wait_network(network) == INVALID


def test_destroying_buffers_while_a_run_uses_them(
    vip: VipliteLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with prepared(vip, slow()) as network:
        inputs, outputs = bind_all(vip, network)
        assert vip.vip_trigger_network(network) == OK
        time.sleep(0.05)
        for buffer in (*inputs, *outputs):
            assert vip.vip_destroy_buffer(buffer) == OK
        assert vip.vip_wait_network(network) in (OK, Status.MISSING_INPUT_OUTPUT)
        assert vip.vip_run_network(network) == Status.MISSING_INPUT_OUTPUT
    assert "internal error" not in capfd.readouterr().err


def test_priorities_order_the_requests_that_wait(
    vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    priorities: dict[int, int] = {}
    networks, order = [], []
    for priority in (0, 7, 255, 100):
        _, network = create(vip, relu())
        set_word(vip, network, NetworkProperty.SET_PRIORITY, priority)
        assert vip.vip_prepare_network(network) == OK
        bind_all(vip, network)
        networks.append(network)
        priorities[id(NETWORKS.find(network).instance)] = priority

    def run(instance: TwinInstance) -> None:
        order.append(priorities[id(instance)])

    monkeypatch.setattr(TwinInstance, "run", run)
    pool = DRIVER.pool(_chip())
    with ThreadPoolExecutor(4) as threads:
        with held(vip):
            running = []
            for number, network in enumerate(networks):
                running.append(threads.submit(vip.vip_run_network, network))
                while len(pool._waiting) <= number:
                    time.sleep(0.001)
        assert [request.result() for request in running] == [OK] * 4
    assert order == [255, 100, 7, 0]


def test_networks_in_many_threads(vip: VipliteLibrary) -> None:
    def work(seed: int) -> None:
        values = np.random.default_rng(seed).integers(0, 256, 60).astype(np.uint8)
        with prepared(vip, relu()) as network:
            for _ in range(20):
                (found,) = infer(vip, network, values)
                np.testing.assert_array_equal(found, np.maximum(values, 125))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))


def test_one_network_triggered_from_many_threads(
    vip: VipliteLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    def work(number: int) -> int:
        calls = (vip.vip_trigger_network, vip.vip_wait_network, vip.vip_run_network)
        code: int = calls[number % 3](network)
        return code

    with prepared(vip, relu()) as network:
        bind_all(vip, network)
        with ThreadPoolExecutor(8) as threads:
            codes = list(threads.map(work, range(600)))
    assert set(codes) == {OK}
    assert "internal error" not in capfd.readouterr().err


def test_one_network_from_many_threads(vip: VipliteLibrary) -> None:
    with prepared(vip, relu()) as network:
        bind_all(vip, network)
        with ThreadPoolExecutor(8) as threads:
            codes = list(threads.map(lambda _: vip.vip_run_network(network), range(100)))
    assert set(codes) == {OK}
