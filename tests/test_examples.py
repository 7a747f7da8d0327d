"""Every example runs, with no board, and says what it should."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from skimage import data

from anynpu.soft.build import BuildOptions, build_file
from anynpu.vision import read_picture, write_picture
from anynpu.vision.frames import VideoWriter, open_frames

from . import models
from .vision.models import constant

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *arguments: object) -> list[str]:
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


@pytest.fixture
def clip(tmp_path: Path) -> tuple[Path, Path]:
    """A video of six frames, and a detector that finds a cat in each."""
    with VideoWriter(tmp_path / "clip.mp4", 5) as writer:
        for number in range(6):
            writer.write(np.full((64, 64, 3), 40 * number, np.uint8))
    cells = np.zeros((1, 84, 21), np.float32)
    cells[0, :4, 3] = 16, 16, 16, 8
    cells[0, 4 + 15, 3] = 0.8
    model = tmp_path / "detector.onnx"
    build_file(constant([cells]), model, BuildOptions(std={"x": [255] * 3}))
    return tmp_path / "clip.mp4", model


def test_photograph(shared_model: Callable[[str], Path], tmp_path: Path) -> None:
    write_picture(tmp_path / "coffee.png", data.coffee())
    target = tmp_path / "found.jpg"
    model = shared_model("yolox_nano_416.onnx")
    lines = run("photograph.py", tmp_path / "coffee.png", model, target, "yolox")
    assert lines[0].startswith("cup 0.9")
    assert read_picture(target).shape == data.coffee().shape


def test_video(clip: tuple[Path, Path], tmp_path: Path) -> None:
    lines = run("video.py", *clip, tmp_path / "found.mp4")
    assert lines[0].startswith("6 frames, ")
    assert lines[1:] == ["cat: in 6 frames"]
    with open_frames(tmp_path / "found.mp4") as frames:
        assert len(list(frames)) == 6


def test_camera(clip: tuple[Path, Path]) -> None:
    assert run("camera.py", *clip, "yolov8", 4) == ["frame 0: cat came"]


def test_read_text(ocr_models: Path, tmp_path: Path) -> None:
    for name, shape, mean, std in (
        ("det", (1, 3, 192, 384), (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
        ("rec", (1, 3, 48, 640), (127.5,) * 3, (127.5,) * 3),
    ):
        options = BuildOptions(shapes=[{"x": shape}], mean={"x": mean}, std={"x": std})
        source = ocr_models / f"ch_PP-OCRv4_{name}_infer.onnx"
        build_file(source, tmp_path / f"{name}.rknn", options)
    model = onnx.load(str(ocr_models / "ch_PP-OCRv4_rec_infer.onnx"))
    entries = {entry.key: entry.value for entry in model.metadata_props}
    (tmp_path / "characters.txt").write_text("\n".join(entries["character"].splitlines()))
    write_picture(tmp_path / "page.png", np.stack([data.page()] * 3, axis=-1))
    paths = (tmp_path / name for name in ("page.png", "rec.rknn", "det.rknn", "characters.txt"))
    assert run("read_text.py", *paths)[0].endswith("%  Region-based segmentation")


def test_streaming_sound() -> None:
    assert run("streaming_sound.py")[-1] == "32000 samples (int64) were heard: 0123456789"


def test_embeddings(compiled_sample: Callable[[str], Path], tmp_path: Path) -> None:
    pictures = {"cat": data.chelsea(), "mirrored": data.chelsea()[:, ::-1], "cup": data.coffee()}
    paths = [tmp_path / f"{name}.png" for name in pictures]
    for path, picture in zip(paths, pictures.values(), strict=True):
        write_picture(path, np.ascontiguousarray(picture))
    lines = run("embeddings.py", compiled_sample("rk3588/efficientnet_lite0_224_i8"), *paths)
    assert lines[0].startswith("cat.png is most like mirrored.png: 0.9")


def test_matmul() -> None:
    assert run("matmul.py")[-1] == "as NumPy computes it: True"


def test_custom_operator() -> None:
    (line,) = run("custom_operator.py")
    assert float(line.split()[-1]) < 0.01


def test_c_program(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    model = tmp_path / "model.rknn"
    build_file(models.add_one(), model, BuildOptions())
    (line,) = run("c_program.py", model)
    assert line == "input x, 60 elements; the largest of 60 values is 1.000, at 0"


def test_serving(tmp_path: Path) -> None:
    model = tmp_path / "model.rknn"
    build_file(models.add_one(), model, BuildOptions())
    assert run("serving.py", model) == [
        "input x: FP32 [1, 3, 4, 5]", "output y: [1, 3, 4, 5], the largest value is 1",
    ]  # fmt: skip


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in listed, path.name
