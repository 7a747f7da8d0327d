"""`anynpu profile`: layers by two clocks, and a trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from anynpu.cli import main

from .. import models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    file.write_bytes(models.deep())
    return file


def test_layers_are_sorted_by_the_chip_s_time(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(model), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    times = [layer["chip_us"] for layer in found["layers"]]
    assert len(times) == 3
    assert times == sorted(times, reverse=True)
    assert {layer["type"] for layer in found["layers"]} == {"Conv"}


def test_layers_are_timed_where_runs_repeat_their_outputs(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ANYNPU_SOFT_COMPUTE=once, which has no host's clock, is for the requests of a trace."""
    monkeypatch.setenv("ANYNPU_SOFT_COMPUTE", "once")
    assert main(["profile", str(model), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["layers"]) == 3


def test_layers_of_a_compiled_nb_file(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[1] / "data" / "compiled" / "nbg" / "residual.t527.nb"
    assert main(["profile", str(file), "--order", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["device"]["chip"] == "t527"
    assert [layer["type"] for layer in found["layers"]] == ["NN"] * 4
    assert found["layers"][2]["name"] == "ConvolutionReluPoolingAddLayer"
    assert all(layer["host_us"] >= 0 for layer in found["layers"])


def test_cpu_operators_are_marked(
    compiled_sample: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(compiled_sample("rk3588/op_gemm_i8"))]) == 0
    shown = capsys.readouterr().out
    first, *_ = shown.splitlines()
    assert "'chip us' is estimated by the model clock" in first
    assert "CPU !" in shown
    assert "1 of them on the CPU (!)" in shown


def test_a_trace_has_a_track_a_core_and_layers_inside_runs(model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    assert main(["profile", str(model), "--trace", str(trace)]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert any(name.startswith("core ") for name in names)
    slices = [event for event in events if event["ph"] == "X"]
    runs = [event for event in slices if event["name"] == "run"]
    assert sorted({event["args"]["request"] for event in runs}) == list(range(12))
    for run in runs:
        inside = [
            event for event in slices
            if event["tid"] == run["tid"] and event["args"]["request"] == run["args"]["request"]
            and "chip_us" in event["args"]
        ]  # fmt: skip
        assert len(inside) == 3
        assert inside[0]["ts"] == pytest.approx(run["ts"])
        assert sum(event["dur"] for event in inside) == pytest.approx(run["dur"])
