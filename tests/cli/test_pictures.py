"""`anynpu detect`, `classify` and `read`, as a user runs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anynpu.cli import main
from anynpu.soft.build import BuildOptions, build_file
from anynpu.vision import read_picture, write_picture
from anynpu.vision.frames import VideoWriter, open_frames

from ..vision.models import constant

FIRST_LINE = "RK3588, simulated by the soft NPU; times are this machine's"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A detector that always finds a cat in the middle, a classifier, pictures and a video."""
    cells = np.zeros((1, 84, 21), np.float32)
    cells[0, :4, 3] = 16, 16, 16, 8
    cells[0, 4 + 15, 3] = 0.8
    options = BuildOptions(std={"x": [255] * 3})
    build_file(constant([cells]), tmp_path / "detector.onnx", options)
    scores = np.array([[0.1, 0.7, 0.2]], np.float32)
    (tmp_path / "classifier.onnx").write_bytes(constant([scores]))
    (tmp_path / "names.txt").write_text("ant\nbee\ncow\n")
    (tmp_path / "photos").mkdir()
    for name in ("a", "b"):
        write_picture(tmp_path / "photos" / f"{name}.png", np.full((64, 128, 3), 90, np.uint8))
    with VideoWriter(tmp_path / "clip.mp4", 5) as writer:
        for number in range(4):
            writer.write(np.full((64, 64, 3), 40 * number, np.uint8))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(command.split()) == 0
    return capsys.readouterr().out.splitlines()


def test_detect_in_a_picture(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run("detect photos/a.png --model detector.onnx --save found.png", capsys)
    assert lines[0].startswith(FIRST_LINE)
    assert lines[1] == "detector.onnx: yolov8, pictures of 32x32"
    assert any("cat" in line and "0.80" in line and "32 16 96 48" in line for line in lines)
    assert lines[-1] == "written to found.png"
    drawn = read_picture("found.png")
    assert drawn.shape == (64, 128, 3)
    assert (drawn != 90).any()


def test_detect_in_a_folder_and_a_video(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run("detect photos --model detector.onnx --head yolo11 --save drawn", capsys)
    assert lines[2:] == ["photos/a.png: cat 0.80", "photos/b.png: cat 0.80", "written to drawn"]
    assert sorted(path.name for path in Path("drawn").iterdir()) == ["a.png", "b.png"]
    lines = run("detect clip.mp4 --model detector.onnx --save found.mp4 --frames 3", capsys)
    assert lines[2] == "clip.mp4#0: cat 0.80"
    assert lines[-2].startswith("3 frames, ")
    with open_frames("found.mp4") as frames:
        assert (frames.rate, len(list(frames))) == (5.0, 3)


def test_of_several_pictures_one_that_can_t_be_read_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("photos/broken.png").write_text("no picture")
    command = "detect photos/broken.png photos/b.png photos/a.png --model detector.onnx --save new"
    assert main(command.split()) == 1
    shown = capsys.readouterr()
    lines = ["photos/b.png: cat 0.80", "photos/a.png: cat 0.80", "written to new"]
    assert shown.out.splitlines()[2:] == lines
    assert "broken.png is no picture" in shown.err
    assert sorted(path.name for path in Path("new").iterdir()) == ["a.png", "b.png"]


def test_nothing_is_said_where_nothing_is_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = run("detect photos/a.png --model detector.onnx --threshold 0.9", capsys)
    assert lines[2:] == ["photos/a.png: nothing"]


def test_json_is_an_object_a_frame(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run("detect photos --model detector.onnx --json", capsys)
    first, second = map(json.loads, lines)
    assert (first["source"], second["source"]) == ("photos/a.png", "photos/b.png")
    assert first["device"]["clock"] == "host"
    (found,) = first["found"]
    assert (found["name"], found["class"]) == ("cat", 15)
    assert found["score"] == pytest.approx(0.8, abs=1e-3)
    assert found["box"] == [32.0, 16.0, 96.0, 48.0]


def test_classify(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run("classify photos/a.png --model classifier.onnx --std 1 --names names.txt", capsys)
    assert lines[1] == "classifier.onnx: 3 classes, pictures of 32x32"
    assert any("bee" in line and "70.0%" in line for line in lines)
    lines = run("classify photos --model classifier.onnx --top 1 --mean 1 --std 2 --json", capsys)
    (found,) = json.loads(lines[1])["found"]
    assert (found["name"], found["class"]) == ("class 1", 1)
    assert found["score"] == pytest.approx(0.7, abs=1e-3)


def test_read_a_line(folder: Path, ocr_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The recogniser's characters are in its own metadata."""
    from skimage import data

    write_picture("line.png", np.stack([data.page()[8:37, 2:300]] * 3, axis=-1))
    source = ocr_models / "ch_PP-OCRv4_rec_infer.onnx"
    main(f"build {source} -o rec.rknn --shape x=1,3,48,480 --mean 127.5,127.5,127.5 "
         f"--std 127.5,127.5,127.5".split())  # fmt: skip
    capsys.readouterr()
    lines = run("read line.png --model rec.rknn --save read.png", capsys)
    assert lines[1] == "rec.rknn reads each picture as a line"
    assert any("Region-based segmentation" in line for line in lines)
    assert read_picture("read.png").shape == (29, 298, 3)


@pytest.mark.parametrize(
    ("status", "command", "message"),
    [
        (1, "detect nowhere.jpg --model detector.onnx", "there is no such picture"),
        (1, "detect photos/a.png --model nowhere.onnx", "nowhere.onnx"),
        (1, "detect photos/a.png --model detector.onnx --head yolov5", "those of yolov8 or"),
        (1, "detect photos/a.png --model classifier.onnx", "anynpu classify"),
        (2, "detect photos/a.png --model detector.onnx --threshold 7", "threshold is 7.0"),
        (1, "detect photos/a.png --model detector.onnx --names nowhere.txt", "nowhere.txt"),
        (1, "detect photos/a.png --model detector.onnx --save a.doc", "name it .png or .jpg"),
        (1, "detect clip.mp4 --model detector.onnx --save a.png", "name it .mp4"),
        (2, "detect photos/a.png --model detector.onnx --save photos/a.png", "a.png would be"),
        (2, "detect photos --model detector.onnx --save photos", "a.png would be written over"),
        (2, "detect clip.mp4 --model detector.onnx --save clip.mp4", "clip.mp4 would be written"),
        (
            2,
            "detect photos/a.png photos/../photos/a.png --model detector.onnx --save new",
            "there are several a.png",
        ),
        (1, "detect photos/a.png clip.mp4 --model detector.onnx", "clip.mp4: several sources are"),
        (2, "detect clip.mp4 --model detector.onnx --frames 0", "--frames 0"),
        (1, "classify photos/a.png --model detector.onnx", "is it a detector?"),
        (
            2,
            "classify photos/a.png --model classifier.onnx --mean x",
            "--mean x: expected",
        ),
        (2, "read photos/a.png --model classifier.onnx", "which characters it reads"),
    ],
)
def test_mistakes_are_a_line(
    status: int, command: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == status
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("anynpu: ")
    assert message in said


@pytest.mark.parametrize("command", ["detect", "classify", "read"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"examples:\n  anynpu {command} " in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main([command, "picture.jpg"])


def test_a_compiled_detector_needs_no_head(
    folder: Path, compiled_sample: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = compiled_sample("rk3588/yolov3_tiny_416_i8")
    lines = run(f"detect photos/a.png --model {model}", capsys)
    assert lines[1] == f"{model}: yolov3-tiny, pictures of 416x416"
