"""`anynpu inspect` of `.nb` files, as a user runs it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from anynpu.cli import main
from anynpu.native import forms
from anynpu.soft.build import BuildOptions, build_file
from anynpu.soft.formats import nbg
from anynpu.soft.formats.nbg import writer

from .. import models
from ..shared import NBG_SAMPLES
from ..soft.engines.vip.test_hostile import HIGH, bits_of, changed

_COMPILED = Path(__file__).parents[1] / "data" / "compiled" / "nbg"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.nb"
    path.write_bytes(
        writer.write_soft(
            b"the model", name="net[1]", target=0xEE, cores=1,
            inputs=(nbg.Tensor("x[0]", (5, 4, 3, 1), 2, 2, scale=0.5, zero_point=7),),
            outputs=(nbg.Tensor("y", (10, 1), 5, 1, fixed_point_pos=12),
                     nbg.Tensor("z", (3,), 1, 0)),
            layers=("first", "second"), memory_pool_size=4096,
        )
    )  # fmt: skip
    return path


def test_tables(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file), "--layers"]) == 0
    printed = capsys.readouterr().out
    for text in (
        "soft: an ONNX file for the soft NPU",
        "net[1]",
        "0xee (v853, v851, v851s, r853)",
        "pool 4096, on chip 0 bytes",
        "x[0]",
        "1x3x4x5",
        "scale 0.5, zero point 7",
        "fixed point 12",
        "second",
        "1 soft",
    ):
        assert text in printed, text


def test_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(file), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["inputs"][0] == {
        "name": "x[0]",
        "sizes": [5, 4, 3, 1],
        "shape": [1, 3, 4, 5],
        "format": "UINT8",
        "quantization": {"scale": 0.5, "zero_point": 7},
        "size": 60,
    }
    assert described["outputs"][1]["quantization"] is None
    assert described["onnx"] == {"size": len(b"the model")}
    assert "layers" not in described


def test_a_compiled_file(capsys: pytest.CaptureFixture[str]) -> None:
    sample = NBG_SAMPLES / "lenet.t527.nb"
    if not sample.is_file():
        pytest.skip(f"{sample} is not there")
    assert main(["inspect", str(sample), "--json", "--layers"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["kind"] == "compiled"
    assert described["chips"][0] == "t527"
    assert sum(len(layer["operations"]) for layer in described["layers"]) == 9
    operations = described["operations"]
    assert [operation["number"] for operation in operations] == list(range(1, 10))
    assert operations[0]["inputs"][0] == {
        "memory": "network input 0",
        "shape": [28, 28],
        "bytes": 784,
    }
    assert operations[0]["macs"] > 0
    assert operations[0]["coefficient_bytes"] > 0
    assert main(["inspect", str(sample), "--layers"]) == 0
    assert "network input 0 28x28" in " ".join(capsys.readouterr().out.split())


def test_work_and_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    sample = NBG_SAMPLES / "lenet.t527.nb"
    if not sample.is_file():
        pytest.skip(f"{sample} is not there")
    assert main(["inspect", str(sample), "--json", "--macs"]) == 0
    macs = sum(each["macs"] for each in json.loads(capsys.readouterr().out)["operations"])
    assert main(["inspect", str(sample), "--macs", "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert "### Work" in printed
    assert re.search(rf"^\|  \| 9 operations \| {macs:,} \|", printed, re.MULTILINE)
    assert "┃" not in printed


def test_a_compiled_file_s_graph(tmp_path: Path) -> None:
    """The third layer adds what the second computes of the first one's result to that result."""
    pytest.importorskip("matplotlib")
    model, picture = _COMPILED / "residual.t527.nb", tmp_path / "net.svg"
    assert main(["inspect", str(model), "--graph", str(picture)]) == 0
    drawn = picture.read_text()
    assert "ReluPoolingAddLayer" in drawn  # long names lose their beginning
    assert "12x7x5" in drawn


def test_which_kernels_run_operations(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(_COMPILED / "residual.t527.nb")
    assert main(["inspect", model, "--json", "--layers"]) == 0
    assert "kernel" not in json.loads(capsys.readouterr().out)["operations"][0]
    assert main(["inspect", model, "--json", "--kernels"]) == 0
    described = json.loads(capsys.readouterr().out)
    runs = {"convolution"} if forms.running() else {"reference"}
    found = {each["kernel"] for each in described["operations"] if each["unit"] == "NN"}
    assert (described["kernel_form"], found) == (forms.running(), runs)
    assert main(["inspect", model, "--kernels"]) == 0
    assert str(runs.pop()) in capsys.readouterr().out


def test_a_refused_operation_has_no_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "clamp.t527.nb"
    model.write_bytes(changed(HIGH, bits_of(-math.inf)))
    assert main(["inspect", str(model), "--json", "--kernels"]) == 0
    operations = json.loads(capsys.readouterr().out)["operations"]
    assert any(each["refused"] for each in operations)
    assert all((each["kernel"] is None) == (each["refused"] is not None) for each in operations)


def test_kernels_of_an_onnx_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "soft.nb"
    build_file(models.convolution(), model, BuildOptions(soc="t527"))
    assert main(["inspect", str(model), "--kernels"]) == 2
    assert "ONNX Runtime computes this model" in capsys.readouterr().err


def test_a_soft_file_s_work_and_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    model, picture = tmp_path / "soft.nb", tmp_path / "net.svg"
    build_file(models.convolution(), model, BuildOptions(soc="t527"))
    assert main(["inspect", str(model), "--macs", "--graph", str(picture)]) == 0
    assert "1 layers" in capsys.readouterr().out
    assert "Conv" in picture.read_text()


def test_what_is_no_nb_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.nb"
    path.write_bytes(b"nonsense")
    assert main(["inspect", str(path)]) == 1
    assert "is neither a .rknn nor a .nb file" in capsys.readouterr().err
    path.write_bytes(nbg.MAGIC + bytes(100))
    assert main(["inspect", str(path)]) == 1
    assert "has the version 0x0 at offset 4" in capsys.readouterr().err
