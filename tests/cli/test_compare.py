"""`anynpu compare`: models, devices, saved outputs, and layers against their source."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from anynpu.cli import main
from anynpu.cli.differences import cosine, difference

from .. import models

Sample = Callable[[str], Path]
NBG = Path(__file__).parents[1] / "data" / "compiled" / "nbg" / "residual.t527.nb"


@pytest.fixture
def source(compiled_sample: Sample) -> Path:
    file = compiled_sample("rk3588/smallcnn_i8").parents[1] / "onnx" / "smallcnn.onnx"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    return file


def compared(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["compare", *map(str, arguments), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_model_is_equal_to_itself_and_to_its_saved_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, saved = tmp_path / "net.onnx", tmp_path / "out.npz"
    model.write_bytes(models.quantized())
    assert main(["run", str(model), "-o", str(saved)]) == 0
    capsys.readouterr()
    for other in (model, saved):
        (output,) = compared(capsys, model, other, "--tolerance", 1e-12)["outputs"]
        assert output["cosine"] == pytest.approx(1)
        assert (output["largest"], output["mean"], output["equal"]) == (0, 0, 1)


def test_an_output_that_is_off_is_a_failed_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, saved = tmp_path / "net.onnx", tmp_path / "out.npz"
    model.write_bytes(models.quantized(scale=0.5))
    assert main(["run", str(model), "-o", str(saved)]) == 0
    with np.load(saved) as archive:
        values = archive["y"]
    values.flat[np.argmax(values)] -= 5
    np.savez(saved, y=values)
    assert main(["compare", str(model), str(saved), "--tolerance", "1e-6"]) == 1
    printed = capsys.readouterr()
    assert "output 'y' is" in printed.err
    assert "98.33%" in printed.out  # 59 of 60 integers
    assert main(["compare", str(model), str(saved), "--tolerance", "0.5"]) == 0


def test_layers_of_a_compiled_file_against_its_source(
    compiled_sample: Sample, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = compared(capsys, compiled_sample("rk3588/smallcnn_fp16"), source, "--per-layer")[
        "layers"
    ]
    coarse = compared(capsys, compiled_sample("rk3588/smallcnn_i8"), source, "--per-layer")[
        "layers"
    ]
    assert {"r1", "p1", "r2", "g"} <= {layer["name"] for layer in coarse}
    assert min(layer["cosine"] for layer in exact) > 0.999
    first = {layer["name"]: layer for layer in coarse}["r1"]
    assert 0.98 < first["cosine"] < 0.99999
    assert 0.5 < first["equal"] < 1


def test_the_worst_layer_comes_first_and_is_drawn(
    compiled_sample: Sample, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "layers.svg"
    model = str(compiled_sample("rk3588/smallcnn_i8"))
    given = ["compare", model, str(source), "--per-layer", "--plot", str(picture)]
    assert main(given) == 0
    shown = capsys.readouterr().out
    rows = shown.partition("Layers, the worst first")[2].splitlines()
    cosines = [float(row.split("│")[3]) for row in rows if row.startswith("│")]
    assert cosines == sorted(cosines)
    assert "1 - cosine" in picture.read_text()
    assert f"B: {source}: ONNX Runtime, in float32" in shown


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = tmp_path / "one.onnx", tmp_path / "other.onnx"
    one.write_bytes(models.add_one((1, 3)))
    other.write_bytes(models.two_outputs())
    wider = tmp_path / "wider.onnx"
    wider.write_bytes(models.add_one((1, 5)))
    for status, arguments, message in (
        (1, [one, other], f"ONNX Runtime can't run {other}"),
        (1, [one, wider], "has the shape (1, 5), and the other model's (1, 3): is it"),
        (2, [one, one, "--per-layer"], "compares a compiled file (A) with its ONNX source (B)"),
        (2, [NBG, NBG, "--per-layer"], "compares a compiled file (A) with its ONNX source (B)"),
        (2, [one, one, "--plot", "x.svg"], "give --per-layer with it"),
        (1, [one, tmp_path / "no.onnx"], "no.onnx"),
    ):
        assert main(["compare", *map(str, arguments)]) == status
        assert message in capsys.readouterr().err


def test_differences_of_zeros_and_of_what_is_no_number() -> None:
    zero, one = np.zeros(4), np.ones(4)
    assert (cosine(zero, zero), cosine(zero, one)) == (1, 0)
    bad = difference("x", np.array([np.nan, 1]), np.array([1.0, 1.0]), None)
    assert bad.distance == float("inf")


def test_a_source_of_other_tensors_is_told(
    compiled_sample: Sample, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Layers are matched by names: without one in common there is nothing to compare."""
    model = onnx.load(source)
    computed = {name for node in model.graph.node for name in node.output}
    for names in (names for node in model.graph.node for names in (node.input, node.output)):
        names[:] = [f"other {name}" if name in computed else name for name in names]
    for info in model.graph.output:
        info.name = f"other {info.name}"
    onnx.save(model, tmp_path / "other.onnx")
    compiled = compiled_sample("rk3588/smallcnn_i8")
    assert main(["compare", str(compiled), str(tmp_path / "other.onnx"), "--per-layer"]) == 1
    assert "have no tensor's name in common" in capsys.readouterr().err
