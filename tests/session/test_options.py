"""Provider options: documented values, defaults and refusals, and what they do."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu import InferenceSession, make_provider_options
from anynpu.rknn import custom_op
from anynpu.soft.device import device_for

from .. import models
from .conftest import Open

SHAPE = (1, 3, 4, 5)
VALUES = np.random.default_rng(5).integers(0, 100, SHAPE).astype(np.float32)


def in_force(session: InferenceSession) -> dict[str, Any]:
    return session.get_provider_options()["RKNPU2ExecutionProvider"]


def test_the_defaults() -> None:
    with InferenceSession(models.add_one()) as session:
        options = in_force(session)
    assert {key: options[key] for key in list(options)[:11]} == {
        "max_queue_size": 3,
        "threads_per_core": 1,
        "submit_timeout_ms": 10_000,
        "sequential_callbacks": True,
        "schedule": None,
        "dispatch": None,
        "enable_pacing": False,
        "layout": "original",
        "tp_mode": None,
        "disable_dup_context": False,
        "custom_op_paths": (),
    }
    assert make_provider_options() == {
        "layout": "original",
        "max_queue_size": 3,
        "threads_per_core": 1,
        "submit_timeout_ms": 10_000,
        "sequential_callbacks": True,
        "enable_pacing": False,
        "disable_dup_context": False,
        "custom_op_default_path": False,
    }


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("schedule", 1, (1,)),
        ("schedule", "0,1, 2", (0, 1, 2)),
        ("schedule", [0, 0, 1], (0, 0, 1)),
        ("schedule", np.array([0, 2]).tolist(), (0, 2)),
        ("layout", "NCHW", "original"),
        ("layout", "nchw_software", "original_software"),
        ("layout", "nhwc", "nhwc"),
        ("tp_mode", "0,1,2", "0,1,2"),
        ("tp_mode", "0, 1", "0,1"),
        ("tp_mode", 1, "1"),
        ("tp_mode", "ALL", "all"),
        ("max_queue_size", "7", 7),
        ("max_queue_size", np.int64(7), 7),
        ("sequential_callbacks", "false", False),
        ("enable_pacing", 1, True),
        ("output_layout", "NHWC", "nhwc"),
    ],
)
def test_forms_of_values(key: str, given: Any, expected: Any) -> None:
    with InferenceSession(models.add_one(), provider_options={key: given}) as session:
        assert in_force(session)[key] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": [0], "tp_mode": "auto"}, "exclude each other"),
        ({"schedule": []}, "numbers of cores"),
        ({"schedule": "0;1"}, "numbers of cores"),
        ({"schedule": -1}, "numbers of cores"),
        ({"schedule": [0.5]}, "numbers of cores"),
        ({"schedule": True}, "numbers of cores"),
        ({"tp_mode": "1,2"}, "tp_mode is '1,2'; it may be auto, all, 0"),
        ({"layout": "chwn"}, "layout is 'chwn'"),
        ({"max_queue_size": 0}, "above 0"),
        ({"max_queue_size": 2.5}, "above 0"),
        ({"max_queue_size": True}, "above 0"),
        ({"threads_per_core": "no"}, "above 0"),
        ({"submit_timeout_ms": -5}, "above 0"),
        ({"sequential_callbacks": "perhaps"}, "True or False"),
        ({"dispatch": "random"}, "idle, round_robin"),
        ({"output_dtype": "float16"}, "float32, model"),
        ({"output_layout": "any"}, "output_layout"),
        ({"priority": "highest"}, "priority is 'highest'; it may be high, medium, low"),
        ({"custom_op_paths": 5}, "a path or a sequence"),
        ({"treads_per_core": 1}, "perhaps 'threads_per_core'; known are max_queue_size"),
    ],
    ids=str,
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    for make in (
        lambda: InferenceSession(models.add_one(), provider_options=options),
        lambda: make_provider_options(**options),
    ):
        with pytest.raises(anynpu.OptionError, match=message) as caught:
            make()
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, RuntimeError)


def test_a_type_checker_sees_a_misspelt_name() -> None:
    """It finds a comment without use where it doesn't."""
    with pytest.raises(anynpu.OptionError, match="perhaps 'layout'"):
        make_provider_options(layot="nhwc")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="layot"):
        InferenceSession(models.add_one(), layot="nhwc")  # type: ignore[call-arg]
    with pytest.raises(anynpu.OptionError, match="idle, round_robin"):
        make_provider_options(dispatch="random")  # type: ignore[arg-type]


def test_aliases_are_merged() -> None:
    options = {"custom_op_paths": "a.so", "custom_op_path": ["b.so", Path("c.so")]}
    parsed = anynpu.InferenceSession
    with (
        pytest.warns(UserWarning, match="disable_dup_context"),
        pytest.raises(anynpu.LibraryError, match=r"a\.so"),
    ):
        parsed(models.add_one(), provider_options=options)


def workers(session: InferenceSession) -> int:
    return session._scheduler.workers


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 3),
        ({"tp_mode": "auto"}, 3),
        ({"threads_per_core": 2}, 6),
        ({"schedule": [0, 1]}, 2),
        ({"schedule": [0, 0, 1], "threads_per_core": 2}, 4),
        ({"tp_mode": "0,1,2"}, 1),
        ({"tp_mode": "0", "threads_per_core": 2}, 2),
    ],
    ids=str,
)
def test_the_number_of_workers(options: dict[str, Any], expected: int) -> None:
    with InferenceSession(models.add_one(), provider_options=options) as session:
        assert workers(session) == expected
        np.testing.assert_array_equal(session.run(None, VALUES)[0], VALUES + 1)


@pytest.mark.parametrize(("soc", "cores"), [("rk3588", 3), ("rk3576", 2), ("rk3566", 1)])
def test_the_chip_gives_the_number_of_cores(
    soc: str, cores: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = models.add_one(metadata={"anynpu.soc": soc})
    with InferenceSession(data) as session:  # by the masks that are accepted
        assert workers(session) == cores
    monkeypatch.setenv("ANYNPU_SOC", soc)
    with InferenceSession(models.add_one()) as session:
        assert workers(session) == cores


def test_the_model_s_chip_is_known_by_its_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from anynpu.soft.build import BuildOptions, build_file

    file = tmp_path / "model.rknn"
    build_file(models.add_one(), file, BuildOptions(soc="rk3566"))
    with InferenceSession(file) as session:
        assert workers(session) == 1
        metadata = session.get_modelmeta()
    assert capfd.readouterr().err == ""
    assert metadata.custom_metadata_map["target_platform"] == "rk3566"
    assert metadata.producer_name.startswith("anynpu")


def _ones(count: int) -> list[Any]:
    return [np.ones((1, 1, 1, 1), np.float32)] * count


def test_cores_that_are_not_there() -> None:
    with pytest.raises(anynpu.OptionError, match="core 5"):
        InferenceSession(models.add_one(), provider_options={"schedule": [0, 5]})
    rk3576 = models.add_one(metadata={"anynpu.soc": "rk3576"})
    with pytest.raises(anynpu.OptionError, match="core 2"):
        InferenceSession(rk3576, provider_options={"schedule": [2]})


def test_a_schedule_gives_turns_to_as_many_workers_as_a_mask_has_bits(on_cores: Open) -> None:
    with pytest.raises(anynpu.OptionError, match=r"66 workers, and a schedule gives .* to 64"):
        on_cores(0, 0, 0, schedule=[0, 1, 2], threads_per_core=22)
    session = on_cores(0, 0, 0, schedule=[0, 1, 2], threads_per_core=22, dispatch="idle")
    assert [float(r[0].ravel()[0]) for r in session.map(_ones(100))] == [1.0] * 100


def test_chips_of_one_core_ignore_masks() -> None:
    rk3566 = models.add_one(metadata={"anynpu.soc": "rk3566"})
    for options in ({"schedule": [0]}, {"tp_mode": "0"}, {"tp_mode": "auto"}):
        with InferenceSession(rk3566, provider_options=options) as session:
            np.testing.assert_array_equal(session.run(None, VALUES)[0], VALUES + 1)
    with (
        pytest.warns(UserWarning, match="one core"),
        InferenceSession(rk3566, provider_options={"schedule": [0, 1]}) as session,
    ):
        np.testing.assert_array_equal(session.run(None, VALUES)[0], VALUES + 1)


def test_a_schedule_is_a_round_robin(on_cores: Open) -> None:
    """Requests 0, 2 and 3 go to the slow core, as the schedule says, whoever is idle."""
    session = on_cores(60, 1, schedule=[0, 1, 0], max_queue_size=10)
    batch = [np.full((1, 1, 1, 1), n, np.float32) for n in range(6)]
    with session.profile() as profile:
        assert [float(r[0].ravel()[0]) for r in session.map(batch)] == list(range(6))
    run = next(stage for stage in profile.stages if stage.name == "run")
    assert run.p50 > 30_000  # four of six


def test_an_idle_core_of_the_schedule_may_take_the_next_request(on_cores: Open) -> None:
    session = on_cores(300, 1, schedule=[0, 1], dispatch="idle")
    futures = [session.submit(None, np.full((1, 1, 1, 1), n, np.float32)) for n in range(10)]
    for future in futures[1:]:
        future.result(20)
    assert not futures[0].done()


@pytest.mark.parametrize("layout", ["original", "nchw", "original_software", "nchw_software"])
def test_layouts_of_the_source(layout: str) -> None:
    with InferenceSession(models.add_one(), provider_options={"layout": layout}) as session:
        assert session.get_inputs()[0].shape == list(SHAPE)
        np.testing.assert_array_equal(session.run(None, VALUES)[0], VALUES + 1)


@pytest.mark.parametrize("layout", ["nhwc", "any"])
def test_layouts_of_the_runtime(layout: str) -> None:
    nhwc = np.ascontiguousarray(VALUES.transpose(0, 2, 3, 1))
    with InferenceSession(models.add_one(), provider_options={"layout": layout}) as session:
        assert session.get_inputs()[0].shape == [1, 4, 5, 3]
        np.testing.assert_array_equal(session.run(None, nhwc)[0], VALUES + 1)


def test_software_layout_transposes_here(capfd: pytest.CaptureFixture[str]) -> None:
    metadata = {"anynpu.mean": '{"x": [0, 0, 0]}', "anynpu.std": '{"x": [2, 2, 2]}'}
    model = models.add_one(metadata=metadata)
    with InferenceSession(model, provider_options={"layout": "nchw_software"}) as session:
        np.testing.assert_array_equal(session.run(None, VALUES)[0], VALUES / 2 + 1)
    assert capfd.readouterr().err == ""


def test_outputs_as_nhwc() -> None:
    with InferenceSession(models.add_one(), provider_options={"output_layout": "nhwc"}) as session:
        (result,) = session.run(None, VALUES)
        assert session.get_outputs()[0].shape == list(result.shape) == [1, 4, 5, 3]
        assert session.get_outputs()[0].layout is anynpu.Layout.NHWC
    np.testing.assert_array_equal(result.transpose(0, 3, 1, 2), VALUES + 1)


def test_outputs_in_the_model_s_dtype() -> None:
    options = {"output_dtype": "model"}
    with InferenceSession(models.quantized(), provider_options=options) as session:
        (result,) = session.run(None, VALUES)
        arg = session.get_outputs()[0]
        assert (arg.type, arg.dtype) == ("tensor(int8)", anynpu.DType.INT8)
    assert result.dtype == np.int8
    with InferenceSession(models.quantized()) as session:
        expected = session.run(None, VALUES)[0]
    np.testing.assert_array_equal(
        anynpu.dequantize_affine(result, arg.scale, arg.zero_point), expected
    )


def test_workers_without_shared_weights() -> None:
    options = {"disable_dup_context": True}
    with InferenceSession(models.add_one(), provider_options=options) as session:
        for results in session.map([VALUES] * 9):
            np.testing.assert_array_equal(results[0], VALUES + 1)


def test_weights_of_another_session(tmp_path: Path) -> None:
    from anynpu.soft.build import BuildOptions, build

    whole = models.convolution(channels=4, size=16, filters=64)
    small = models.convolution(channels=4, size=8, filters=64)
    stripped = build(small, BuildOptions(remove_weights=True))
    values = np.random.default_rng(0).normal(0, 1, (1, 4, 8, 8)).astype(np.float32)
    with InferenceSession(small) as session:
        (expected,) = session.run(None, values)
    with (
        InferenceSession(whole) as donor,
        InferenceSession(stripped, use_weight_from=donor) as session,
    ):
        np.testing.assert_array_equal(session.run(None, values)[0], expected)
        for results in session.map([values] * 6):
            np.testing.assert_array_equal(results[0], expected)


def test_pacing(on_cores: Open) -> None:
    session = on_cores(10, 10, enable_pacing=True, max_queue_size=50)
    values = np.zeros((1, 1, 1, 1), np.float32)
    session.run(None, values)
    start = time.monotonic()
    futures = [session.submit(None, values) for _ in range(20)]
    # Two cores at ten milliseconds take a request every five.
    assert time.monotonic() - start > 19 * 0.005 * 0.9
    for future in futures:
        future.result(20)


def test_every_shape_of_a_dynamic_model() -> None:
    sizes = ((8, 8), (12, 16), (16, 8))
    with InferenceSession(models.dynamic(sizes)) as session:
        arg = session.get_inputs()[0]
        assert arg.shape == [1, 3, 12, 16]
        assert arg.shapes == ((1, 3, 12, 16), (1, 3, 8, 8), (1, 3, 16, 8))
        feeds = [
            np.random.default_rng(n).normal(0, 1, (1, 3, *sizes[n % 3])).astype(np.float32)
            for n in range(30)
        ]
        with anynpu.Model(models.dynamic(sizes)) as model:
            expected = []
            for values in feeds:
                _, c, h, w = values.shape
                model.set_shapes((1, h, w, c))
                model.run(values)
                expected.append(model.output_f32(0))
        for found, wanted in zip(session.map(feeds), expected, strict=True):
            np.testing.assert_array_equal(found[0], wanted)
        with pytest.raises(anynpu.TensorError, match=r"takes these shapes(.|\n)*12, 16") as caught:
            session.run(None, np.zeros((1, 3, 9, 9)))
        assert "found x (1, 3, 9, 9)" in str(caught.value)


def test_profiles(on_cores: Open) -> None:
    session = on_cores(5)
    with session.profile() as profile:
        for _ in range(3):
            session.run(None, np.zeros((1, 1, 1, 1), np.float32))
        session.submit(None, np.zeros((1, 1, 1, 1), np.float32)).result(20)
        session.close()
    stages = {stage.name: stage for stage in profile.stages}
    assert set(stages) == {"wait", "set input", "run", "get output", "release", "total", "callback"}
    assert stages["run"].count == 4
    assert 5_000 <= stages["run"].p50 <= stages["run"].p99 <= stages["total"].maximum
    assert "set input" in str(profile)


def test_a_priority_says_whose_run_the_device_takes_next() -> None:
    """One core, which a run holds: of three that wait, in another order, high comes first."""
    begun, goes_on = threading.Event(), threading.Event()
    order: list[str] = []

    def opened(name: str, weights: InferenceSession | None = None, **options: Any) -> Any:
        @custom_op("cstScale")
        def compute(node: Any, inputs: Any, outputs: Any) -> Any:
            order.append(name)
            if name == "holder":
                begun.set()
                assert goes_on.wait(60)
            return inputs

        return InferenceSession(
            models.custom(metadata={"anynpu.soc": "rk3566"}),
            provider_options={"custom_ops": [compute], "disable_dup_context": True, **options},
            use_weight_from=weights,
        )

    device = device_for("rk3566")
    with contextlib.ExitStack() as stack:
        holder = stack.enter_context(opened("holder"))
        high = stack.enter_context(opened("high"))
        medium = stack.enter_context(opened("medium", priority="Medium"))
        low = stack.enter_context(opened("low", high, priority="low"))
        stack.callback(goes_on.set)
        futures = [holder.submit(None, {"x": VALUES})]
        assert begun.wait(60)
        for count, session in enumerate((low, medium, high), 1):
            futures.append(session.submit(None, {"x": VALUES}))
            while len(device._waiting) < count:
                assert not futures[-1].done()
                time.sleep(0.001)
        goes_on.set()
        for future in futures:
            assert np.array_equal(future.result(60)[0], VALUES)
    assert order == ["holder", "high", "medium", "low"]
