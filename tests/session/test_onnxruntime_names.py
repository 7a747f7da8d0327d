"""ONNX Runtime's names: what is done, what means nothing to an NPU, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import anynpu
from anynpu.session import providers

from .. import models

X = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)
OURS = "RKNPU2ExecutionProvider"


@pytest.fixture(autouse=True)
def _nothing_said() -> Iterator[None]:
    providers._said.clear()
    yield
    providers._said.clear()


def test_the_module_s_functions() -> None:
    assert anynpu.get_available_providers() == [OURS, "VIPLiteExecutionProvider"]
    assert anynpu.get_all_providers() == anynpu.get_available_providers()
    assert anynpu.get_device() == "NPU"


def test_a_list_of_providers_takes_ours_and_says_once_that_others_are_not_used() -> None:
    with pytest.warns(anynpu.ProviderWarning, match="CPUExecutionProvider: not used"):
        session = anynpu.InferenceSession(
            models.add_one(),
            providers=[OURS, "CPUExecutionProvider"],
            provider_options=[{"max_queue_size": 5}, {}],
        )
    with session:
        assert session.get_providers() == [OURS]
        assert session.get_provider_options()[OURS]["max_queue_size"] == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        anynpu.InferenceSession(models.add_one(), providers=["CPUExecutionProvider"]).close()


def test_a_list_that_ends_with_the_processor_is_for_this_session() -> None:
    with (
        pytest.warns(anynpu.ProviderWarning, match="CUDAExecutionProvider, CPUExecution"),
        anynpu.InferenceSession(
            models.add_one(),
            providers=[("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"],
        ) as session,
    ):
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], X + 1)


@pytest.mark.parametrize("names", [["CUDAExecutionProvider"], ["FlyingExecutionProvider"]])
def test_what_cannot_be_had_is_refused(names: list[str]) -> None:
    with pytest.raises(anynpu.OptionError, match="unknown provider"):
        anynpu.InferenceSession(models.add_one(), providers=names)


def test_the_session_puts_itself_in_onnx_runtime_s_place() -> None:
    program = (
        "import onnxruntime, anynpu, numpy as np, sys\n"
        "for name in ('InferenceSession', 'SessionOptions', 'RunOptions', 'OrtValue'):\n"
        "    setattr(onnxruntime, name, getattr(anynpu, name))\n"
        "session = onnxruntime.InferenceSession(sys.argv[1])\n"
        "print(session.run(None, {'x': np.ones((1, 3, 4, 5), np.float32)})[0].sum())"
    )
    file = Path(__file__).with_name("add_one.onnx")
    try:
        file.write_bytes(models.add_one())
        done = subprocess.run(
            [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=False
        )
    finally:
        file.unlink()
    assert (done.stdout, done.returncode) == ("120.0\n", 0), done.stderr


def test_hints_are_taken_and_other_names_are_not() -> None:
    options = anynpu.SessionOptions()
    options.intra_op_num_threads = 2
    options.graph_optimization_level = anynpu.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = anynpu.ExecutionMode.ORT_PARALLEL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    with anynpu.InferenceSession(models.add_one(), options) as session:
        assert session.get_session_options() is options
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], X + 1)
    with pytest.raises(AttributeError):
        setattr(options, "intra_op_threads", 2)  # noqa: B010
    ours = {name for name in dir(anynpu.SessionOptions()) if not name.startswith("_")}
    theirs = {name for name in dir(onnxruntime.SessionOptions()) if not name.startswith("_")}
    assert ours - theirs == {"applied", "changes_model", "providers"}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda o: setattr(o, "optimized_model_filepath", "x.onnx"), "optimized_model_filepath"),
        (lambda o: o.register_custom_ops_library("x.so"), "pass custom_ops"),
        (lambda o: o.add_session_config_entry("session.load_model_format", "ORT"), "load_model"),
        (
            lambda o: o.get_session_config_entry("none"),
            "does not have configuration with key: none",
        ),
    ],
)
def test_what_a_session_cannot_do_is_refused(ask: object, message: str) -> None:
    with pytest.raises(anynpu.OptionError, match=message):
        ask(anynpu.SessionOptions())  # type: ignore[operator]


def test_onnx_runtime_s_own_options_are_looked_at(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    anynpu.InferenceSession(models.add_one(), options).close()
    options.optimized_model_filepath = str(tmp_path / "x.onnx")
    with pytest.raises(anynpu.OptionError, match="optimized_model_filepath"):
        anynpu.InferenceSession(models.add_one(), options)


def test_sizes_and_weights_from_outside_are_for_onnx_files(tmp_path: Path) -> None:
    options = anynpu.SessionOptions()
    options.add_free_dimension_override_by_name("n", 2)
    options.add_initializer("one", anynpu.OrtValue.ortvalue_from_numpy(np.float32(5)))
    with anynpu.InferenceSession(models.add_one(("n", 3)), options) as session:
        assert session.get_inputs()[0].shape == [2, 3]
        np.testing.assert_array_equal(session.run(None, {"x": np.ones((2, 3))})[0], 6)
    for wrong in ("add_initializer", "add_free_dimension_override_by_name"):
        options = anynpu.SessionOptions()
        getattr(options, wrong)("nothing", 3)
        with pytest.raises(anynpu.OptionError, match="nothing"):
            anynpu.InferenceSession(models.add_one(), options)
    compiled = tmp_path / "net.rknn"
    compiled.write_bytes(b"RKNN" + bytes(200))
    with pytest.raises(anynpu.OptionError, match="it is compiled"):
        anynpu.InferenceSession(compiled, options)


def test_values_in_and_out() -> None:
    with anynpu.InferenceSession(models.two_inputs()) as session:
        a, b = np.full((2, 3), 5, np.float32), np.full((2, 3), 2, np.float32)
        feed = {
            "a": anynpu.OrtValue.from_dlpack(a),
            "b": anynpu.OrtValue.ortvalue_from_numpy(b),
        }
        (value,) = session.run_with_ort_values(["difference"], feed, anynpu.RunOptions())
        assert value.data_type() == "tensor(float)"
        assert value.tensor_size_in_bytes() == 24
        np.testing.assert_array_equal(value.numpy(), a - b)
    assert feed["a"].data_ptr() == a.ctypes.data
    flags = anynpu.OrtValue.from_dlpack(np.array([0, 1], np.uint8), is_bool_tensor=True)
    assert flags.numpy().tolist() == [False, True]


def test_run_options() -> None:
    options = anynpu.RunOptions()
    options.add_run_config_entry("ztu_modelrt_dispatch_batch", "1")
    with anynpu.InferenceSession(models.add_one()) as session:
        batch = np.concatenate([X, X, X])
        np.testing.assert_array_equal(session.run(None, {"x": batch}, options)[0], batch + 1)
        with pytest.raises(anynpu.OptionError, match="can't be honoured"):
            options.add_run_config_entry("gpu_graph_id", "1")
        options.terminate = True
        with pytest.raises(anynpu.OptionError, match="terminate is set"):
            session.run(None, {"x": X}, options)


def test_profiling_writes_a_trace(tmp_path: Path) -> None:
    options = anynpu.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "trace_")
    with anynpu.InferenceSession(models.add_one(), options) as session:
        assert session.get_profiling_start_time_ns() > 0
        for _ in range(3):
            session.run(None, {"x": X})
        name = session.end_profiling()
        assert session.end_profiling() == ""
    assert name.startswith(options.profile_file_prefix)
    events = json.loads(Path(name).read_text())["traceEvents"]
    assert sum(event["name"] == "run" for event in events) == 3


def test_providers_can_be_confirmed_not_changed() -> None:
    with anynpu.InferenceSession(models.add_one()) as session:
        session.set_providers([OURS])
        with pytest.raises(anynpu.OptionError, match="open another session"):
            session.set_providers([OURS], [{"max_queue_size": 7}])
        with pytest.raises(anynpu.OptionError, match="unknown provider"):
            session.set_providers(["CUDAExecutionProvider"])
        assert session.get_overridable_initializers() == []


@pytest.mark.parametrize("name", ["n", ""])
def test_sizes_are_fixed_by_what_they_count(name: str) -> None:
    model = onnx.load_from_string(models.add_one(("n", 3)))
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.shape.dim[0].Clear()
        info.type.tensor_type.shape.dim[0].dim_param = name
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = anynpu.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
    with anynpu.InferenceSession(model.SerializeToString(), options) as session:
        assert session.get_inputs()[0].shape == [2, 3]
    options.add_free_dimension_override_by_denotation("DATA_CHANNEL", 2)
    with pytest.raises(anynpu.OptionError, match="counts DATA_CHANNEL; there are DATA_BATCH"):
        anynpu.InferenceSession(model.SerializeToString(), options)
