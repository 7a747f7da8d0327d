"""`anynpu bench`: measured, estimated, checked, drawn; and runs that aren't computed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu.cli import main

from .. import models

WAYS = ["run", "run_async", "run_pipeline", "map"]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", "host")  # what --clock sets ends with the test
    file = tmp_path / "net.onnx"
    file.write_bytes(models.convolution())
    return file


def as_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_every_way_is_measured(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(model), "--duration", "0.05", "--json"]) == 0
    found = as_json(capsys)
    assert found["device"] == {
        "chip": "rk3588", "library": "the soft NPU", "soft": True, "clock": "host",
    }  # fmt: skip
    assert [each["way"] for each in found["results"]] == WAYS
    for each in found["results"]:
        latency = each["latency_ms"]
        assert each["runs"] >= 1
        assert 0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["p99"]
        assert each["fps"] == pytest.approx(each["runs"] / each["seconds"])
        assert 0 < each["device_busy"] <= 1
        assert each["stages_ms"]["run"] > 0


def test_cores_and_depths_multiply(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--cores", "0", "--cores", "0,1", "--depth", "1", "--depth", "4", "--way", "map"]
    assert main(["bench", str(model), "--duration", "0.02", *given, "--json"]) == 0
    results = as_json(capsys)["results"]
    assert [(each["cores"], each["depth"], each["workers"]) for each in results] == [
        ("0", 1, 1), ("0", 4, 1), ("0,1", 1, 2), ("0,1", 4, 2),
    ]  # fmt: skip


def test_the_first_line_says_whose_clock_it_is(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--duration", "0.02", "--way", "run", "--clock", "model"]
    assert main(["bench", str(model), *given]) == 0
    assert "times are the chip's, estimated" in capsys.readouterr().out.splitlines()[0]


def test_too_slow_is_a_failed_check(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--duration", "0.02", "--way", "run", "--min-fps"]
    assert main(["bench", str(model), *given, "0.001"]) == 0
    assert main(["bench", str(model), *given, "1e12"]) == 1
    assert "runs a second, 1e+12 were asked for" in capsys.readouterr().err


def test_an_estimate_is_the_model_clock_s(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", "rk3588")
    assert main(["bench", str(model), "--estimate", "--json"]) == 0
    found = as_json(capsys)
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", "model")
    with anynpu.Model(model) as opened:
        opened.run(np.zeros((1, 3, 16, 16), np.float32))
        microseconds = opened.run_microseconds()
    assert round(found["milliseconds"] * 1000) == microseconds
    assert found["fps_all_cores"] == pytest.approx(3 * found["fps_one_core"])
    assert "40% for attention" in found["error"]
    assert main(["bench", str(model), "--estimate", "--soc", "rk3566", "--json"]) == 0
    assert as_json(capsys)["device"]["chip"] == "rk3566"


def test_an_estimate_of_a_compiled_file(
    compiled_sample: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = compiled_sample("rk3588/smallcnn_i8")
    assert main(["bench", str(file), "--estimate", "--min-fps", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("RK3588, estimated by the model clock; nothing is computed\n")
    assert "3 cores, a request on each (at the most)" in shown


def test_an_estimate_for_allwinner_s_chips(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_SOC", "")
    folder = Path(__file__).parents[1] / "data" / "compiled" / "nbg"
    assert main(["bench", str(folder / "residual.t527.nb"), "--estimate", "--json"]) == 0
    found = as_json(capsys)
    assert found["device"] == {"chip": "t527", "clock": "model", "computed": False}
    assert found["layers"] == 4
    assert found["milliseconds"] > 0.03  # what a call takes besides its layers
    assert "order of magnitude" in found["error"]
    assert main(["bench", str(model), "--estimate", "--soc", "a733", "--json"]) == 0
    assert as_json(capsys)["device"]["chip"] == "a733"
    assert main(["bench", str(model), "--estimate", "--soc", "v853"]) == 2
    assert "there is no model clock for v853" in capsys.readouterr().err


def test_a_plot(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "bench.svg"
    given = ["--duration", "0.02", "--way", "run", "--plot", str(picture)]
    assert main(["bench", str(model), *given]) == 0
    drawn = picture.read_text()
    assert "runs a second" in drawn
    assert "cores all 3, depth 3" in drawn


def test_mistakes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(model), "--duration", "0"]) == 2
    assert "seconds above 0" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["bench", str(model), "--way", "fly"])
    assert end.value.code == 2


def test_outputs_are_repeated_when_asked_for(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A context computes once; other inputs don't change its outputs; the chip's time passes."""
    monkeypatch.delenv("ANYNPU_SOFT_CLOCK")
    rng = np.random.default_rng(3)
    first, second = rng.standard_normal((2, 1, 16, 16, 3)).astype(np.float32)
    with anynpu.Model(model) as computing:
        computing.run(first)
        wanted = computing.output_f32(0)
    monkeypatch.setenv("ANYNPU_SOFT_COMPUTE", "once")
    with anynpu.Model(model) as repeating:
        for values in (first, second):
            repeating.run(values)
            assert np.array_equal(repeating.output_f32(0), wanted)
        estimated = repeating.run_microseconds()
    assert main(["bench", str(model), "--estimate", "--json"]) == 0
    assert round(as_json(capsys)["milliseconds"] * 1000) == estimated
    with anynpu.InferenceSession(model) as session:
        version = session.get_modelmeta().custom_metadata_map["rknn_api_version"]
    assert "model clock, outputs repeated" in version


@pytest.mark.parametrize(
    ("compute", "clock", "message"),
    [("twice", "", "it may be always, once"), ("once", "host", "unset one of them")],
)
def test_repeating_has_the_chip_s_time_only(
    model: Path, monkeypatch: pytest.MonkeyPatch, compute: str, clock: str, message: str
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_COMPUTE", compute)
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", clock)
    with pytest.raises(anynpu.CallError, match=message), anynpu.Model(model) as opened:
        opened.run(np.zeros((1, 3, 16, 16), np.float32))
