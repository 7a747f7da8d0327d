"""The `anynpu` command, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import anynpu
from anynpu.cli import main

from .. import models


def run(
    *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "anynpu.cli", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    file.write_bytes(models.add_one())
    return file


def test_help_and_version() -> None:
    assert "build" in run("--help").stdout
    assert run("--version").stdout == f"anynpu {anynpu.__version__}\n"
    assert run().returncode == 2
    assert run("fly").returncode == 2


def test_build(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "net.rknn"
    result = run(
        "build", str(source), "-o", str(target), "--mean", "1,2,3", "--std", "x=4,5,6",
        "--soc", "rk3566", "--custom-string", "hello",
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        f"{target}: ONNX for rk3566",
        "  input  x: FLOAT16 1x3x4x5, mean 1,2,3, std 4,5,6",
        "  output y: FLOAT16 1x3x4x5",
    ]
    with anynpu.InferenceSession(target) as session:
        assert session.get_modelmeta().custom_metadata_map["rknn_custom_string"] == "hello"


def test_build_with_shapes(tmp_path: Path) -> None:
    source, target = tmp_path / "net.onnx", tmp_path / "out.onnx"
    source.write_bytes(models.add_one(("n", 3)))
    assert run("build", str(source), "-o", str(target)).returncode == 1
    assert main(["build", str(source), "-o", str(target), "--shape", "x=4,3"]) == 0
    with anynpu.Model(target) as model:
        assert model.input_attrs[0].shape == (4, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mean", "a,b"], "expected numbers"),
        (["--shape", "1,2,3"], "expected INPUT=1,3,640,640"),
        (["--shape", "x=1,0"], "expected INPUT=1,3,640,640"),
        (["--shape", "x=one"], "expected INPUT=1,3,640,640"),
        (["--soc", "rk1"], "unknown chip 'rk1'"),
        (["--quantize", "/nowhere"], "not a folder"),
    ],
    ids=str,
)
def test_build_with_wrong_options(
    source: Path, tmp_path: Path, arguments: list[str], message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert main(["build", str(source), "-o", str(tmp_path / "o.onnx"), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_build_needs_names_for_several_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(models.two_inputs())
    assert main(["build", str(file), "-o", str(tmp_path / "o.onnx"), "--mean", "1"]) == 2
    assert "['a', 'b']" in capsys.readouterr().err


def test_errors_are_one_line_without_a_traceback(tmp_path: Path) -> None:
    result = run("build", str(tmp_path / "none.onnx"), "-o", "x.onnx")
    assert result.returncode == 1
    assert result.stderr.startswith("anynpu: ")
    assert "Traceback" not in result.stderr


def test_soft_lib_prints_a_folder_with_the_library() -> None:
    first, second = run("soft", "lib"), run("soft", "lib")
    assert first.stdout == second.stdout
    assert Path(first.stdout.strip(), "librknnrt.so").is_file()
    other = run("soft", "lib", "--soc", "rk3576")
    assert other.stdout != first.stdout
    assert Path(other.stdout.strip(), "librknnrt.so").is_file()
    assert run("soft", "lib", "--soc", "rk1").returncode == 2


def test_soft_lib_for_a_chip_with_the_small_runtime() -> None:
    result = run("soft", "lib", "--soc", "rv1106")
    assert [file.name for file in Path(result.stdout.strip()).glob("*.so")] == ["librknnmrt.so"]


def test_soft_run_puts_the_library_first() -> None:
    result = run("soft", "run", "--", "printenv", "LD_LIBRARY_PATH")
    assert result.returncode == 0
    assert Path(result.stdout.split(":")[0].strip(), "librknnrt.so").is_file()
    assert run("soft", "run").returncode == 1
    missing = run("soft", "run", "--", "/no/such/program")
    assert (missing.returncode, missing.stderr) == (
        1, "anynpu: /no/such/program: No such file or directory\n",
    )  # fmt: skip


def test_soft_run_gives_the_library_by_any_path() -> None:
    load = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).anynpu_soft_npu)"
    program = ("--", sys.executable, "-c", load)
    for path in ("/no/such/folder/librknnrt.so", "librknnrt.so"):
        assert run("soft", "run", *program, path).returncode == 0
    other = run("soft", "run", *program, "/no/such/folder/libVIPlite.so")
    assert other.returncode == 1
    assert "No such file" in other.stderr


def test_soft_run_passes_the_exit_status_on() -> None:
    assert run("soft", "run", "--", "sh", "-c", "exit 7").returncode == 7


def test_the_demo_reads_the_page(tmp_path: Path, ocr_models: Path) -> None:
    drawn = tmp_path / "page.png"
    result = run("demo", "-o", str(drawn), environment={"COLUMNS": "100", "PATH": "/usr/bin:/bin"})
    assert (result.returncode, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    for sentence in (
        "Region-based segmentation",
        "Let us first determine markers of the coins and the",
        "background. These markers are pixels that we can label",
        "unambiguously as either object or background. Here,",
        "the markers are found at the two extreme parts of the",
        "histogram of grey values:",
    ):
        assert sentence in text
    assert "RK3588, simulated by the soft NPU" in text
    assert drawn.read_bytes().startswith(b"\x89PNG")


def test_the_demo_reads_another_picture(
    tmp_path: Path, ocr_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (500, 120), "white")
    ImageDraw.Draw(picture).text((20, 30), "Hello NPU 2024", "black", ImageFont.load_default(48))
    picture.save(tmp_path / "hello.png")
    drawn = tmp_path / "drawn.png"
    assert main(["demo", str(tmp_path / "hello.png"), "--soc", "rk3566", "-o", str(drawn)]) == 0
    output = capsys.readouterr().out
    assert "Hello NPU 2024" in output
    assert "RK3566" in output
