"""`anynpu run`: feeds from files, outputs to files, and a user's mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from anynpu.cli import main

from .. import models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    file.write_bytes(models.add_one((1, 3, 4, 6)))
    return file


def test_an_array_in_and_the_output_to_a_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.arange(72, dtype=np.float32).reshape(1, 3, 4, 6)
    np.save(tmp_path / "in.npy", values)
    for target in ("out.npy", "out.npz"):
        given = ["--input", f"x={tmp_path / 'in.npy'}", "--output", str(tmp_path / target)]
        assert main(["run", str(model), *given]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == (
        "RK3588, simulated by the soft NPU; times are this machine's, and say nothing of the chip's"
    )
    assert np.array_equal(np.load(tmp_path / "out.npy"), values + 1)
    with np.load(tmp_path / "out.npz") as archive:
        assert np.array_equal(archive["y"], values + 1)


def test_a_picture_is_resized_to_the_model(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    Image.new("RGB", (60, 30), (10, 20, 30)).save(tmp_path / "photo.png")
    output = tmp_path / "out.npz"
    given = ["--input", str(tmp_path / "photo.png"), "--output", str(output)]
    assert main(["run", str(model), *given, "--bgr"]) == 0
    with np.load(output) as archive:
        assert [float(plane.mean()) for plane in archive["y"][0]] == [31, 21, 11]
    assert main(["run", str(model), *given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.partition("\n{")[2].join("{ "))
    assert found["device"]["clock"] == "host"
    assert found["outputs"][0]["largest"] == 31


def test_an_archive_feeds_all_inputs(tmp_path: Path) -> None:
    file, feed, output = tmp_path / "net.onnx", tmp_path / "in.npz", tmp_path / "out.npz"
    file.write_bytes(models.two_inputs())
    a, b = np.full((2, 3), 5, np.float32), np.full((2, 3), 3, np.float32)
    np.savez(feed, a=a, b=b)
    assert main(["run", str(file), "-i", str(feed), "-o", str(output)]) == 0
    with np.load(output) as archive:
        assert np.array_equal(archive["sum"], a + b)
        assert np.array_equal(archive["difference"], a - b)


@pytest.mark.parametrize(
    ("status", "arguments", "message"),
    [
        (2, ["--input", "z=there.npy"], "the model has no 'z', but x"),
        (1, ["--input", "nowhere.npy"], "nowhere.npy"),
        (2, ["--input", "in.npz", "--input", "in.npz"], "in.npz: x has a value already"),
        (1, ["--input", "no_picture.txt"], "neither a picture nor an .npy or .npz file"),
        (2, ["--output", "out.txt"], "it may be an .npz or an .npy file"),
        (2, ["--soc", "rk1"], "unknown chip 'rk1'"),
        (1, ["--library", "/no/lib.so"], "/no/lib.so"),
    ],
    ids=str,
)
def test_mistakes_are_one_message(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: int,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANYNPU_SOC", "rk3588")  # what --soc sets ends with the test
    Path("no_picture.txt").write_text("text")
    np.savez("in.npz", x=np.zeros((1, 3, 4, 6), np.float32))
    assert main(["run", str(model), *arguments]) == status
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("anynpu: ")
