"""`anynpu inspect`: compiled files, soft ones, and files that are neither."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anynpu.cli import main
from anynpu.native import forms
from anynpu.soft.formats.rknn import write_soft

from ..soft.formats.compiled_file import micro_file, standard_file


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    file = tmp_path / "net.rknn"
    file.write_bytes(standard_file())
    return file


def described(file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["inspect", str(file), "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_compiled_file_as_json(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = described(compiled, capsys)
    assert (found["kind"], found["target"], found["npu"]) == ("compiled", "rk3588", "RKNPU v2")
    assert (found["toolkit"], found["custom_string"]) == ("2.3.2", "mine")
    assert found["memory"] == {"weight": 64, "internal": 4096, "extra": 0}
    (graph,) = found["graphs"]
    assert "layers" not in graph
    (source,), (target,) = graph["inputs"], graph["outputs"]
    assert (source["name"], source["shape"], source["mean"]) == ("x", [1, 3, 2, 2], [1, 2, 3])
    assert (target["scale"], target["zero_point"]) == ([0.25], [4])


def test_a_compiled_file_as_a_table(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(compiled), "--layers"]) == 0
    shown = capsys.readouterr().out
    for word in ("rk3588 (RKNPU v2)", "2.3.2(compiler version", "mine", "1x16x2x2", "Conv:conv0"):
        assert word in shown


def test_why_a_graph_is_not_run(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graphs = described(compiled, capsys, "--layers")["graphs"]
    assert graphs[0]["problem"]
    assert {layer["runs_on"] for layer in graphs[0]["layers"]} == {"-"}
    assert main(["inspect", str(compiled), "--layers"]) == 0
    assert "The soft NPU can't run this graph" in capsys.readouterr().out


def test_who_runs_each_layer(
    compiled_sample: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = described(compiled_sample("rk3588/op_gemm_i8"), capsys, "--layers")
    (graph,) = found["graphs"]
    assert graph["problem"] == ""
    devices = [layer["device"] for layer in graph["layers"]]
    assert devices == ["edge", "NPU", "NPU", "CPU", "edge"]
    runs = [layer["runs_on"] for layer in graph["layers"]]
    assert (runs[0], runs[3], runs[4]) == ("-", "NumPy", "-")
    assert not {"-", "NumPy", "ONNX Runtime"} & {*runs[1:3]}


def test_which_kernels_run_each_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = Path(__file__).parents[1] / "data" / "compiled" / "rk3576"
    for name, wanted in (
        ("cnn_i8", {"int8"}),
        ("softmax_fp16", {"general"}),
        ("moves_i8", {"copies"}),
    ):
        file = tmp_path / f"{name}.rknn"
        file.write_bytes(lzma.decompress((packed / f"{name}.rknn.xz").read_bytes()))
        found = described(file, capsys, "--layers", "--kernels")
        layers = found["graphs"][0]["layers"]
        assert found["kernel_form"] == forms.running()
        assert "kernels" not in described(file, capsys, "--layers")["graphs"][0]["layers"][0]
        for layer in layers:
            kinds = set(layer["kernels"])
            runs = {"fast": kinds - {"reference"}, "reference": {"reference"}}
            assert kinds == runs.get(layer["runs_on"], kinds)
            assert bool(kinds) == (layer["runs_on"] in ("fast", "mixed", "reference"))
        assert wanted <= {kind for layer in layers for kind in layer["kernels"]}
        assert main(["inspect", str(file), "--layers", "--kernels"]) == 0
        shown = capsys.readouterr().out
        assert str(forms.running()) in shown
        assert all(kind in shown for kind in wanted)


def test_a_small_chip_s_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "micro.rknn"
    file.write_bytes(micro_file())
    found = described(file, capsys)
    assert (found["target"], found["container"]) == ("rv1106", 0x1004)


def test_a_soft_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "soft.rknn"
    file.write_bytes(
        write_soft(
            b"onnx", target="rk3566", toolkit="t", inputs=[("[x]", (1, 2))], outputs=[("y", (3,))]
        )
    )
    found = described(file, capsys)
    assert (found["kind"], found["target"]) == ("soft", "rk3566")
    assert main(["inspect", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "an ONNX file for the soft NPU" in shown
    assert "[x]" in shown


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"CYPTRKNN" + bytes(200), "encrypted"),
        (b"\x08\x07onnx" + bytes(200), "neither a .rknn nor a .nb file"),
        (b"", "is empty"),
        (standard_file()[:-3], "truncated"),
    ],
)
def test_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, problem: str
) -> None:
    file = tmp_path / "other"
    file.write_bytes(data)
    assert main(["inspect", str(file)]) == 1
    error = capsys.readouterr().err
    assert any(word in error for word in problem.split("|"))


def test_it_needs_no_onnx_runtime(compiled: Path) -> None:
    """A board or a bare machine has the reader's packages only."""
    program = (
        "import sys; sys.modules['onnxruntime'] = sys.modules['onnx'] = None\n"
        "from anynpu.cli import main\n"
        f"sys.exit(main(['inspect', {str(compiled)!r}, '--layers']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Conv:conv0" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("package", ["flatbuffers", "bson"])
def test_what_the_reader_needs_is_named(compiled: Path, package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from anynpu.cli import main\n"
        f"sys.exit(main(['inspect', {str(compiled)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install 'anynpu[formats]'" in done.stderr


def test_what_a_board_refuses_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(__file__).parents[1] / "data" / "compiled" / "runtime" / "rv1106_min_int8.npz"
    file = tmp_path / "net.rknn"
    with np.load(data) as archive:
        file.write_bytes(lzma.decompress(archive["compiled"].tobytes()))
    (graph,) = described(file, capsys, "--layers")["graphs"]
    refused = {layer["type"]: layer for layer in graph["layers"] if layer["refused_by"]}
    assert list(refused) == ["Min"]
    assert refused["Min"]["refused_by"] == "librknnmrt 2.3.2"
    assert "rknn-toolkit2#482" in refused["Min"]["refused_source"]
    assert main(["inspect", str(file), "--layers"]) == 0
    assert "A board refuses this graph: librknnmrt 2.3.2 doesn't compute Min" in (
        capsys.readouterr().out
    )
