"""A `.nb` in a session: the same calls as for a `.rknn`, on VIPLite."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu import DType, InferenceSession, Layout, Quantization
from anynpu.native import kernels, transfers
from anynpu.native.pump import c_threads
from anynpu.soft import faults
from anynpu.viplite.library import load
from anynpu.viplite.runtime import runtime_of
from benchmarks.null import VIPLITE_MODEL

from .. import models
from ..soft.viplite.client import network_file, relu, slow
from .conftest import NullDevice, Open

SHAPE = (1, 3, 4, 5)
SCALE, ZERO = 0.5, 125
REAL = (np.arange(60, dtype=np.float32).reshape(SHAPE) - 30) / 2
QUANTISED = (REAL / SCALE + ZERO).astype(np.uint8)
EXPECTED = np.maximum(REAL, 0)


@pytest.fixture
def session() -> Iterator[InferenceSession]:
    with InferenceSession(relu()) as session:
        yield session


@pytest.fixture
def on_devices(null_vip: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """A function that opens a session on devices whose runs take a given number of milliseconds."""
    sessions = []

    def open_session(*milliseconds: float, **options: Any) -> InferenceSession:
        times = ",".join(str(round(each * 1000)) for each in milliseconds)
        monkeypatch.setenv("NULL_DEVICE_CORES", times)
        monkeypatch.setenv("NULL_DEVICE_INPUT", "1,1,1,1")
        monkeypatch.setenv("NULL_DEVICE_OUTPUT", "1,1,1,1")
        options = {"library": null_vip, "output_dtype": "model", **options}
        session = InferenceSession(VIPLITE_MODEL, provider_options=options)
        sessions.append(session)
        return session

    yield open_session
    for session in sessions:
        session.close()


@pytest.fixture
def devices(null_vip: Path) -> NullDevice:
    return NullDevice(null_vip)


def number(value: int) -> np.ndarray:
    return np.full((1, 1, 1, 1), value, np.uint8)


# ------------------------------------------------------------------------------- what it says


def test_what_a_session_says(session: InferenceSession) -> None:
    assert session.get_providers() == ["VIPLiteExecutionProvider"]
    (arg,) = session.get_inputs()
    assert (arg.name, arg.shape, arg.type) == ("x", [1, 3, 4, 5], "tensor(float)")
    assert (arg.layout, arg.model_dtype) == (Layout.NCHW, DType.UINT8)
    assert (arg.scale, arg.zero_point) == (0.5, 125)
    (arg,) = session.get_outputs()
    assert (arg.name, arg.type, arg.model_dtype) == ("y", "tensor(float)", DType.UINT8)
    meta = session.get_modelmeta()
    assert meta.graph_name == "test"
    assert meta.custom_metadata_map["target_platform"] == "0x1000003b"
    assert meta.custom_metadata_map["npu_version"] == "v3"
    assert meta.custom_metadata_map["library"] == "the soft NPU"
    assert session.device_type == "viplite"
    assert "VIPLiteExecutionProvider: x [1, 3, 4, 5]" in repr(session)


def test_the_file_decides_the_provider(tmp_path: Path) -> None:
    file = tmp_path / "model.nb"
    file.write_bytes(relu())
    several: list[Any] = [None, "VIPLiteExecutionProvider", [("VIPLiteExecutionProvider", {})]]
    for providers in several:
        with InferenceSession(file, providers=providers) as session:
            np.testing.assert_array_equal(session.run(None, {"x": REAL})[0], EXPECTED)
    with pytest.raises(anynpu.OptionError, match="for VIPLiteExecutionProvider, not for RKNPU2"):
        InferenceSession(file, providers="RKNPU2ExecutionProvider")
    with pytest.raises(anynpu.OptionError, match="for RKNPU2ExecutionProvider, not for VIPLite"):
        InferenceSession(models.add_one(), providers="VIPLiteExecutionProvider")


# ------------------------------------------------------------------------------------ computing


@pytest.mark.parametrize("layout", ["original", "nhwc"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "values",
    [REAL, REAL.astype(np.float64), REAL.astype(np.float16), REAL.tolist(), QUANTISED],
    ids=["float32", "float64", "float16", "list", "quantised"],
)
def test_inputs_of_every_kind(values: Any, order: Any, layout: str) -> None:
    if isinstance(values, np.ndarray):
        values = np.asarray(values, order=order)
        values = values.transpose(0, 2, 3, 1) if layout == "nhwc" else values
    elif layout == "nhwc":
        values = np.array(values).transpose(0, 2, 3, 1).tolist()
    options = {"layout": layout, "output_layout": layout}
    expected = EXPECTED.transpose(0, 2, 3, 1) if layout == "nhwc" else EXPECTED
    with InferenceSession(relu(), provider_options=options) as session:
        assert tuple(session.get_inputs()[0].shape) == expected.shape
        assert tuple(session.get_outputs()[0].shape) == expected.shape
        for _ in range(2):
            (result,) = session.run(None, {"x": values})
            assert result.dtype == np.float32
            np.testing.assert_array_equal(result, expected)
            (result,) = session.submit(["y"], {"x": values}).result()
            np.testing.assert_array_equal(result, expected)


def test_real_values_of_another_dtype_are_quantised(session: InferenceSession) -> None:
    """int8 is not the model's own dtype, so these are the numbers -3 to 56, cut at 65."""
    values = np.arange(60, dtype=np.int8).reshape(SHAPE) - 3
    (result,) = session.run(None, {"x": values})
    np.testing.assert_array_equal(result, np.maximum(values, 0).astype(np.float32))


def test_outputs_in_the_model_s_dtype() -> None:
    with InferenceSession(relu(), provider_options={"output_dtype": "model"}) as session:
        assert session.get_outputs()[0].type == "tensor(uint8)"
        (result,) = session.run(None, {"x": QUANTISED})
        assert result.dtype == np.uint8
        np.testing.assert_array_equal(result, np.maximum(QUANTISED, ZERO))


@pytest.mark.parametrize("output_dtype", ["float32", "model"])
def test_dynamic_fixed_point(output_dtype: str) -> None:
    edges = {"x": Quantization.fixed_point(8), "y": Quantization.fixed_point(6)}
    model = network_file(models.add_one((1, 600)), edges=edges)
    values = np.linspace(-100, 100, 600, dtype=np.float32).reshape(1, 600)
    with InferenceSession(model, provider_options={"output_dtype": output_dtype}) as session:
        assert session.get_inputs()[0].model_dtype is DType.INT16
        (result,) = session.run(None, {"x": values})
        exact = np.rint((np.rint(values * 256) / 256 + 1) * 64)
        expected = exact / 64 if output_dtype == "float32" else exact
        np.testing.assert_array_equal(result, expected.astype(result.dtype))
        raw = np.rint(values * 256).astype(np.int16)
        np.testing.assert_array_equal(session.run(None, {"x": raw})[0], result)


def test_float16_and_several_tensors() -> None:
    with InferenceSession(network_file(models.two_inputs())) as session:
        a = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
        b = np.full((2, 3), 0.5, np.float16)
        total, difference = session.run(None, {"b": b, "a": a})
        np.testing.assert_array_equal(total, a + 0.5)
        np.testing.assert_array_equal(difference, a - 0.5)
        (alone,) = session.run(["difference"], {"a": a, "b": b})
        np.testing.assert_array_equal(alone, difference)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_whole_numbers(dtype: type) -> None:
    import onnx

    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    with InferenceSession(network_file(models.passes(kind))) as session:
        (arg,) = session.get_inputs()
        assert arg.type == f"tensor({np.dtype(dtype).name})"
        values: np.ndarray = np.array([[1, -2, 3], [2**20, 0, -(2**20)]], dtype)
        (result,) = session.run(None, [values])
        np.testing.assert_array_equal(result, values.astype(np.float32))


def test_inputs_that_do_not_fit(session: InferenceSession) -> None:
    with pytest.raises(anynpu.TensorError, match=r"array\.transpose"):
        session.run(None, {"x": REAL.transpose(0, 2, 3, 1)})
    with pytest.raises(anynpu.TensorError, match="missing"):
        session.run(None, {"z": REAL})
    with pytest.raises(anynpu.TensorError, match="complex"):
        session.run(None, {"x": REAL.astype(np.complex64)})


def test_every_way_to_run(session: InferenceSession) -> None:
    delivered: list[Any] = []
    done = threading.Event()

    def callback(results: Any, user_data: Any, error: str) -> None:
        delivered.append((results, user_data, error))
        if len(delivered) == 10:
            done.set()

    for value in range(10):
        session.run_async(None, {"x": REAL + value}, callback, value)
    assert done.wait(60)
    for position, (results, user_data, error) in enumerate(delivered):
        assert (user_data, error) == (position, "")
        np.testing.assert_array_equal(results[0], np.maximum(REAL + position, 0))
    feeds = [{"x": REAL + value} for value in range(8)]
    for value, results in enumerate(session.map(feeds)):
        np.testing.assert_array_equal(results[0], np.maximum(REAL + value, 0))
    pipelined = [session.run_pipeline(feed, depth=2) for feed in feeds]
    assert pipelined[:2] == [None, None]
    tail = session.flush()
    for value, found in enumerate([*(r for r in pipelined if r is not None), *tail]):
        np.testing.assert_array_equal(found[0], np.maximum(REAL + value, 0))

    async def wait() -> Any:
        return await asyncio.gather(*(session.run_awaitable(None, feed) for feed in feeds))

    for value, results in enumerate(asyncio.run(wait())):
        np.testing.assert_array_equal(results[0], np.maximum(REAL + value, 0))
    batch = np.concatenate([REAL + value for value in range(5)])
    (joined,) = session.run(None, {"x": batch}, batch="split")
    np.testing.assert_array_equal(joined, np.maximum(batch, 0))


def test_the_arrays_may_change_after_a_call(session: InferenceSession) -> None:
    array = REAL.copy()
    future = session.submit(None, {"x": array})
    array[...] = 7
    np.testing.assert_array_equal(future.result()[0], EXPECTED)


def test_results_are_nobody_else_s(session: InferenceSession) -> None:
    (first,) = session.run(None, {"x": REAL})
    kept = first.copy()
    session.run(None, {"x": REAL + 9})
    np.testing.assert_array_equal(first, kept)


def test_profile(session: InferenceSession) -> None:
    with session.profile() as profile:
        session.run(None, {"x": REAL})
    names = [stage.name for stage in profile.stages]
    assert {"set input", "run", "get output", "total"} <= set(names)


@pytest.mark.parametrize("strict", ["0", "1"])
def test_caches_are_flushed(strict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_STRICT", strict)
    with InferenceSession(relu(), provider_options={"cached_buffers": True}) as session:
        for shift in range(3):
            (result,) = session.run(None, {"x": REAL + shift})
            np.testing.assert_array_equal(result, np.maximum(REAL + shift, 0))
        binding = session.io_binding()
        binding.bind_cpu_input("x", REAL)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], EXPECTED)
        binding.close()


def test_without_c_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads and kernels in Python give the same."""
    monkeypatch.setattr(c_threads, "_functions", lambda: None)
    monkeypatch.setattr(kernels, "is_built", lambda: False)
    transfers.functions.cache_clear()
    try:
        with InferenceSession(relu(), provider_options={"workers": 2}) as session:
            futures = [session.submit(None, {"x": REAL + value}) for value in range(6)]
            for value, future in enumerate(futures):
                np.testing.assert_array_equal(future.result()[0], np.maximum(REAL + value, 0))
            np.testing.assert_array_equal(session.run(None, {"x": QUANTISED})[0], EXPECTED)
    finally:
        transfers.functions.cache_clear()


# -------------------------------------------------------------------------------------- options


def test_options_in_force() -> None:
    options = {"workers": 2, "priority": "9", "timeout_ms": 60_000, "device_id": 0}
    with InferenceSession(relu(), provider_options=options) as session:
        (found,) = session.get_provider_options().values()
        assert found["threads_per_core"] == 2
        assert (found["priority"], found["timeout_ms"], found["device"]) == (9, 60_000, 0)
        assert len(session.network.worker_cores) == 2
        np.testing.assert_array_equal(session.run(None, {"x": REAL})[0], EXPECTED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priority": 256}, "priority is 256; it takes a whole number from 0 to 255"),
        ({"priority": True}, "priority is True"),
        ({"timeout_ms": 0}, "timeout_ms is 0"),
        ({"device": -1}, "device is -1; it takes a whole number from 0"),
        ({"device": 3}, "device 3: vip_set_network returned VIP_ERROR_INVALID_ARGUMENTS"),
        ({"device": 0, "schedule": [0]}, "exclude each other"),
        ({"layout": "nchw2"}, "layout is 'nchw2'; it may be original, nchw, nhwc"),
        ({"tp_mode": "all"}, "unknown provider option 'tp_mode'"),
        ({"twin": 7}, "twin is 7; it takes a path"),
        ({"workers": 1, "threads_per_core": 2}, "given twice"),
    ],
    ids=str,
)
def test_options_that_are_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(anynpu.OptionError, match=message):
        InferenceSession(relu(), provider_options=options)


def test_networks_without_shared_weights() -> None:
    options = {"disable_dup_network": True, "workers": 3}
    with InferenceSession(relu(), provider_options=options) as session:
        futures = [session.submit(None, {"x": REAL + value}) for value in range(9)]
        for value, future in enumerate(futures):
            np.testing.assert_array_equal(future.result()[0], np.maximum(REAL + value, 0))


def test_a_library_that_cannot_duplicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", "vip_dup_network=NOT_SUPPORTED")
    faults.reset()
    with pytest.warns(UserWarning, match="loaded again, since it can't be duplicated"):
        session = InferenceSession(relu(), provider_options={"workers": 2})
    with session:
        np.testing.assert_array_equal(session.run(None, {"x": REAL})[0], EXPECTED)


def test_weights_of_another_session() -> None:
    with (
        InferenceSession(relu()) as first,
        InferenceSession(relu(), use_weight_from=first) as other,
    ):
        first.close()
        np.testing.assert_array_equal(other.run(None, {"x": REAL})[0], EXPECTED)
    with InferenceSession(models.add_one()) as rknn:
        with pytest.raises(anynpu.OptionError, match="another vendor"):
            InferenceSession(relu(), use_weight_from=rknn)
        first = InferenceSession(relu())
        with first, pytest.raises(anynpu.OptionError, match="another vendor"):
            InferenceSession(models.add_one(), use_weight_from=first)


def test_a_twin(tmp_path: Path) -> None:
    twin = tmp_path / "twin.onnx"
    twin.write_bytes(models.quantized(SHAPE, dtype=np.uint8, zero_point=ZERO))
    with InferenceSession(relu(), provider_options={"twin": twin}) as session:
        np.testing.assert_array_equal(session.run(None, {"x": REAL})[0], EXPECTED)


def test_pickling(session: InferenceSession, tmp_path: Path) -> None:
    file = tmp_path / "model.nb"
    file.write_bytes(relu())
    with InferenceSession(file, provider_options={"workers": 2}) as original:
        copy = pickle.loads(pickle.dumps(original))
    with copy:
        np.testing.assert_array_equal(copy.run(None, {"x": REAL})[0], EXPECTED)
    with pickle.loads(pickle.dumps(session)) as copy:
        np.testing.assert_array_equal(copy.run(None, {"x": REAL})[0], EXPECTED)


# --------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("vip_run_network=TIMEOUT", anynpu.CallTimeoutError),
        ("vip_run_network=CANCELED", anynpu.CallCancelledError),
        ("vip_flush_buffer=FAILURE", anynpu.CallError),
        ("vip_flush_buffer@2=OUT_OF_RESOURCE", anynpu.OutOfMemoryError),
    ],
)
def test_calls_that_fail(rule: str, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_FAULTS", rule)
    faults.reset()
    with InferenceSession(relu()) as session:
        with pytest.raises(kind, match=rule.partition("=")[0].partition("@")[0]):
            session.run(None, {"x": REAL})
        if "@" in rule:
            session.run(None, {"x": REAL})
        else:
            with pytest.raises(kind):
                session.submit(None, {"x": REAL}).result()


def test_runs_that_take_too_long() -> None:
    with InferenceSession(slow(), provider_options={"timeout_ms": 1}) as session:
        (arg,) = session.get_inputs()
        with pytest.raises(anynpu.CallTimeoutError, match="VIP_ERROR_TIMEOUT"):
            session.run(None, {arg.name: np.zeros(arg.shape, np.float32)})


def test_a_model_that_cannot_be_prepared_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    before = runtime_of(load("soft")).users
    for call in ("vip_prepare_network", "vip_create_buffer", "vip_set_output", "vip_map_buffer"):
        monkeypatch.setenv("ANYNPU_SOFT_FAULTS", f"{call}@2+=OUT_OF_MEMORY")
        faults.reset()
        with pytest.raises(anynpu.CallError, match=call):
            InferenceSession(relu(), provider_options={"workers": 3})
        gc.collect()
        assert runtime_of(load("soft")).users == before


def test_use_after_close() -> None:
    session = InferenceSession(relu())
    session.close()
    session.close()
    with pytest.raises(anynpu.ClosedError):
        session.run(None, {"x": REAL})


# -------------------------------------------------------------------------------- device memory


def test_binding_to_device_memory(session: InferenceSession) -> None:
    binding = session.io_binding()
    value = anynpu.OrtValue.ortvalue_from_numpy(
        QUANTISED, "viplite", session=session, name="x", io_kind="input"
    )
    assert value.device_name() == "viplite"
    assert value.memory_info()["size"] == 60
    binding.bind_ortvalue_input("x", value)
    binding.bind_output("y", "viplite")
    for shift in range(3):
        value.update_inplace(QUANTISED + np.uint8(shift))
        session.run_with_iobinding(binding)
        (result,) = binding.get_outputs()
        expected = np.maximum(QUANTISED + np.uint8(shift), ZERO)
        np.testing.assert_array_equal(result.numpy(), expected)
    # What is written to the memory is there at the next run, with no call between.
    value.numpy()[...] = QUANTISED
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(result.numpy(), np.maximum(QUANTISED, ZERO))
    binding.close()
    binding.close()
    with pytest.raises(anynpu.ClosedError):
        session.run_with_iobinding(binding)


@pytest.mark.parametrize("layout", ["original", "nhwc"])
@pytest.mark.parametrize("values", [REAL, QUANTISED], ids=["real", "quantised"])
def test_binding_host_arrays(values: np.ndarray, layout: str) -> None:
    given = values.transpose(0, 2, 3, 1) if layout == "nhwc" else values
    with InferenceSession(relu(), provider_options={"layout": layout}) as session:
        binding = session.io_binding()
        binding.bind_cpu_input("x", given)
        session.run_with_iobinding(binding)
        (result,) = binding.copy_outputs_to_cpu()
        np.testing.assert_array_equal(result, EXPECTED)
        (value,) = binding.get_outputs()
        np.testing.assert_array_equal(value.numpy(), EXPECTED)
        binding.close()


def test_binding_a_descriptor(session: InferenceSession) -> None:
    descriptor = os.memfd_create("frame")
    os.ftruncate(descriptor, 4096)
    os.pwrite(descriptor, QUANTISED.tobytes(), 0)
    value = anynpu.OrtValue.ortvalue_from_dmabuf(
        descriptor, SHAPE, np.uint8, size=64, session=session, name="x", io_kind="input"
    )
    with pytest.raises(anynpu.OptionError, match="from its first byte on, not from 64"):
        anynpu.OrtValue.ortvalue_from_dmabuf(
            descriptor, SHAPE, np.uint8, size=64, session=session, name="x", io_kind="input",
            offset=64,
        )  # fmt: skip
    os.close(descriptor)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", value)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], EXPECTED)
    binding.close()


def test_bindings_that_are_wrong(session: InferenceSession) -> None:
    binding = session.io_binding()
    with pytest.raises(anynpu.StateError, match="nothing is bound to input 'x'"):
        session.run_with_iobinding(binding)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"element_type": np.int16}, "input 'x' may be uint8, float32 in memory, not int16"),
        ({"element_type": None, "mem_flags": "sram"}, "mem_flags is 'sram'"),
    ]
    place: dict[str, Any] = {"session": session, "name": "x", "io_kind": "input"}
    for arguments, message in wrong:
        with pytest.raises(anynpu.OptionError, match=message):
            anynpu.OrtValue.ortvalue_from_shape_and_type(
                None, device_type="viplite", **arguments, **place
            )
    binding.close()


# ------------------------------------------------------------------------------- many at once


def test_requests_use_every_device(on_devices: Open, devices: NullDevice) -> None:
    session = on_devices(1, 1, 1, max_queue_size=32)
    assert session.network.worker_cores == (0, 1, 2)
    devices.peak()
    with devices.holding():
        futures = [session.submit(None, {"x": number(value)}) for value in range(12)]
        while devices.peak() < 3:
            time.sleep(0.001)
    for value, future in enumerate(futures):
        assert future.result()[0].item() == value


def test_a_schedule_of_devices(on_devices: Open, devices: NullDevice) -> None:
    session = on_devices(1, 1, 1, schedule=[2, 0], max_queue_size=32)
    assert session.network.worker_cores == (2, 0)
    one = on_devices(1, 1, 1, device=1, workers=2)
    assert one.network.worker_cores == (1, 1)
    for value, results in enumerate(session.map([{"x": number(v)} for v in range(8)])):
        assert results[0].item() == value
    devices.peak()
    futures = [one.submit(None, {"x": number(value)}) for value in range(3)]
    assert [future.result()[0].item() for future in futures] == [0, 1, 2]
    assert devices.peak() == 1


def test_a_full_queue(on_devices: Open, devices: NullDevice) -> None:
    session = on_devices(1, max_queue_size=1, submit_timeout_ms=50)
    with devices.holding():
        running = session.submit(None, {"x": number(1)})
        while not devices.peak():
            time.sleep(0.001)
        waiting = session.submit(None, {"x": number(2)})
        with pytest.raises(anynpu.QueueFullError):
            session.submit(None, {"x": number(3)})
        assert waiting.cancel()
    assert running.result()[0].item() == 1


def twenty_sessions(make: Callable[[], InferenceSession], check: Callable[..., None]) -> None:
    """Twenty sessions, on four threads at once."""

    def work(seed: int) -> None:
        with make() as session:
            for step in range(10):
                check(session, seed + step)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(20)))


def test_twenty_sessions_on_four_threads() -> None:
    def check(session: InferenceSession, value: int) -> None:
        (result,) = session.run(None, {"x": REAL + value})
        np.testing.assert_array_equal(result, np.maximum(REAL + value, 0))

    twenty_sessions(lambda: InferenceSession(relu()), check)


def test_one_session_on_eight_threads() -> None:
    with InferenceSession(relu(), provider_options={"workers": 2}) as session:

        def work(value: int) -> None:
            shift = value % 40
            (result,) = session.run(None, {"x": REAL + shift})
            np.testing.assert_array_equal(result, np.clip(REAL + shift, 0, 65))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(200)))


def test_a_forgotten_session_goes() -> None:
    gc.collect()
    before = runtime_of(load("soft")).users
    session = InferenceSession(relu(), provider_options={"workers": 2})
    session.run(None, {"x": REAL})
    assert runtime_of(load("soft")).users > before
    del session
    gc.collect()
    assert runtime_of(load("soft")).users == before
