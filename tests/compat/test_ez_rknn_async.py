"""Scripts for EZ RKNN Async, with their import changed; where it is installed, the same with it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anynpu.soft.build import BuildOptions, build_file

from .. import models

OURS = "anynpu.compat.ez_rknn_async"
THEIRS = "ztu_somemodelruntime_ez_rknn_async"
# With "nchw", its default, the original hands images on as they are, which librknnrt leaves out.
TRANSPOSES = {"layout": "nchw_software"}
VALUES = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)


@pytest.fixture(params=[OURS, THEIRS])
def ez(
    request: pytest.FixtureRequest, soft_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The package's module: ours, and the original."""
    if request.param == THEIRS:
        monkeypatch.setenv("ZTU_RKNPU2_RUNTIME_LIBRARY", str(soft_folder / "librknnrt.so"))
        yield pytest.importorskip(THEIRS)
    else:
        yield importlib.import_module(OURS)


@pytest.fixture
def file(tmp_path: Path) -> str:
    options = BuildOptions(custom_string="its author's")
    build_file(models.convolution(), tmp_path / "model.rknn", options)
    return str(tmp_path / "model.rknn")


@pytest.fixture
def expected() -> np.ndarray:
    import anynpu

    with anynpu.InferenceSession(models.convolution()) as session:
        return session.run(None, VALUES)[0]


@pytest.mark.filterwarnings("ignore:RKNN API version")
class TestBoth:
    """The same calls, the same answers."""

    def test_running(self, ez: Any, file: str, expected: np.ndarray) -> None:
        session = ez.InferenceSession(file, provider_options=TRANSPOSES | {"schedule": [0, 1, 2]})
        assert (session.input_names, session.output_names) == (["x"], ["y"])
        (arg,) = session.get_inputs()
        assert (arg.name, list(arg.shape)) == ("x", [1, 3, 16, 16])
        for feed in ({"x": VALUES}, [VALUES], VALUES):
            np.testing.assert_array_equal(session.run(None, feed)[0], expected)
        np.testing.assert_array_equal(session.run(["y"], {"x": VALUES})[0], expected)
        np.testing.assert_array_equal(session.run([], {"x": VALUES})[0], expected)

    def test_callbacks_in_order(self, ez: Any, file: str, expected: np.ndarray) -> None:
        session = ez.InferenceSession(
            file,
            provider_options=ez.make_provider_options(
                schedule=[0, 1], max_queue_size=2, **TRANSPOSES
            ),
        )
        seen: list[tuple[int, str]] = []
        done = threading.Semaphore(0)

        def callback(results: Any, user_data: int, error: str) -> None:
            np.testing.assert_array_equal(results[0], expected)
            seen.append((user_data, error))
            done.release()

        for number in range(20):
            session.run_async(None, {"x": VALUES}, callback, number)
        for _ in range(20):
            assert done.acquire(timeout=20)
        assert seen == [(number, "") for number in range(20)]

    def test_a_pipeline(self, ez: Any, file: str) -> None:
        session = ez.InferenceSession(file, provider_options=TRANSPOSES)
        found = [session.run_pipeline({"x": VALUES * n}, depth=2) for n in range(5)]
        assert [result is None for result in found] == [True, True, False, False, False]
        again = [session.run_pipeline({"x": VALUES}, depth=2, reset=n == 0) for n in range(3)]
        assert [result is None for result in again] == [True, True, False]

    def test_a_batch(self, ez: Any, file: str) -> None:
        session = ez.InferenceSession(file, provider_options=TRANSPOSES)
        batch = np.concatenate([VALUES * n for n in range(5)])
        (result,) = session.run(None, {"x": batch}, {"ztu_modelrt_dispatch_batch": True})
        assert result.shape[0] == 5
        np.testing.assert_array_equal(result[2:3], session.run(None, {"x": VALUES * 2})[0])

    @pytest.mark.parametrize(
        "options",
        [
            {"schedule": [0], "tp_mode": "0"},
            {"schedule": []},
            {"schedule": "x"},
            {"layout": "abc"},
            {"max_queue_size": 0},
            {"threads_per_core": -1},
            {"tp_mode": "5"},
            {"unknown": 1},
        ],
        ids=str,
    )
    def test_options_that_are_refused(self, ez: Any, file: str, options: dict[str, Any]) -> None:
        with pytest.raises(RuntimeError):
            ez.InferenceSession(file, provider_options=options)

    def test_a_schedule_and_a_tp_mode(self, ez: Any) -> None:
        with pytest.raises(ValueError, match="schedule"):
            ez.make_provider_options(schedule=[0, 1], tp_mode="auto")

    def test_metadata(self, ez: Any, file: str) -> None:
        session = ez.InferenceSession(file)
        metadata = session.get_modelmeta().custom_metadata_map
        assert metadata["rknn_custom_string"] == "its author's"
        assert session.get_providers() == ["RKNPU2ExecutionProvider"]


def test_names_of_the_original() -> None:
    ours = importlib.import_module(OURS)
    theirs = pytest.importorskip(THEIRS)
    missing = [name for name in theirs.__all__ if not hasattr(ours, name) and "Rknpu3" not in name]
    assert missing == []


def test_ignored_arguments(file: str) -> None:
    ours = importlib.import_module(OURS)
    with pytest.warns(UserWarning, match="ignored: colour"):
        session = ours.InferenceSession(file, colour="red", provider_options=[{}, {"x": 1}])
    with session:
        assert session.get_inputs()[0].name == "x"
    with pytest.raises(ValueError, match="RKNPU3"):
        ours.make_rknpu3_provider_options()


@pytest.mark.filterwarnings("ignore:RKNN API version")
def test_what_it_says_of_tensors(ez: Any, file: str) -> None:
    session = ez.InferenceSession(file)
    (given,), (result,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type) == ("x", "tensor(float16)")
    assert (result.name, result.type) == ("y", "tensor(float16)")
    (given,), (result,) = session.get_native_inputs(), session.get_native_outputs()
    assert (given.name, given.type, result.name) == ("x", "tensor(float16)", "y")
    assert list(given.shape) == [1, 16, 16, 3]
    assert list(result.shape) == [1, 16, 16, 8]
    session = ez.InferenceSession(file, provider_options={"zero_copy_layout": "native"})
    (result,) = session.get_native_outputs()
    assert list(result.shape) == [1, 2, 16, 16, 8]
