"""Scripts for rknn-toolkit-lite2, with their import changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anynpu.compat.rknnlite import RKNNLite
from anynpu.soft.build import BuildOptions, build_file

from .. import models

PIXELS = np.random.default_rng(0).integers(0, 255, (1, 4, 5, 3)).astype(np.uint8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    options = BuildOptions(mean={"x": [10, 20, 30]}, std={"x": [2, 4, 5]})
    build_file(models.add_one(), tmp_path / "model.rknn", options)
    return tmp_path / "model.rknn"


def expected(pixels: np.ndarray) -> np.ndarray:
    real = (pixels.astype(np.float32) - [10, 20, 30]) / [2, 4, 5]
    result: np.ndarray = (real.astype(np.float16) + np.float16(1)).transpose(0, 3, 1, 2)
    return result


def test_the_usual_steps(file: Path) -> None:
    rknn = RKNNLite()
    assert rknn.load_rknn(str(file)) == 0
    assert rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_0) == 0
    outputs = rknn.inference(inputs=[PIXELS])
    assert outputs is not None
    assert outputs[0].dtype == np.float32
    np.testing.assert_array_equal(outputs[0], expected(PIXELS))
    version = rknn.get_sdk_version()
    assert version is not None
    assert "API: 2.3.2" in version
    rknn.release()
    rknn.release()


@pytest.mark.parametrize("data_format", ["nchw", ["nchw"], "NCHW"])
def test_other_formats(file: Path, data_format: object) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(file)
    rknn.init_runtime(core_mask=RKNNLite.NPU_CORE_ALL)
    planes = PIXELS.transpose(0, 3, 1, 2)
    outputs = rknn.inference([planes], data_format=data_format)
    assert outputs is not None
    np.testing.assert_array_equal(outputs[0], expected(PIXELS))


def test_failures_are_codes_and_words(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = RKNNLite()
    assert rknn.inference([PIXELS]) is None
    assert rknn.init_runtime() == -1
    assert rknn.load_rknn("/nowhere.rknn") == -1
    assert rknn.load_rknn(file, key_path="key") == -1
    assert rknn.load_rknn(file) == 0
    assert rknn.init_runtime(target="rk3588") == -1
    assert rknn.init_runtime() == 0
    for inputs in ([PIXELS[0]], [PIXELS, PIXELS], [PIXELS[:, :2]], [PIXELS.astype(complex)]):
        assert rknn.inference(inputs) is None
    assert rknn.inference([PIXELS], data_format="chw") is None
    assert rknn.inference([PIXELS], data_format=["nhwc"] * 2) is None
    words = capfd.readouterr().err
    for part in ("load_rknn comes first", "init_runtime comes first", "4 dimensions", "nhwc, nchw"):
        assert part in words
    assert "Traceback" not in words


@pytest.mark.parametrize(
    ("array", "data_format", "words"),
    [
        (np.zeros((1, 8, 10, 3), np.uint8), None, "(1, 4, 5, 3); found (1, 8, 10, 3): resize"),
        (np.zeros((1, 5, 4, 3), np.uint8), None, "(1, 4, 5, 3); found (1, 5, 4, 3)"),
        (np.zeros((1, 3, 4, 5), np.uint8), None, "found (1, 3, 4, 5): pass data_format='nchw'"),
        (np.zeros((1, 4, 5, 3), np.uint8), "nchw", "(1, 4, 5, 3); found (1, 5, 3, 4)"),
        (np.zeros((2, 4, 5, 3), np.uint8), None, "(1, 4, 5, 3); found (2, 4, 5, 3)"),
        (np.zeros((1, 4, 5, 1), np.uint8), None, "(1, 4, 5, 3); found (1, 4, 5, 1)"),
    ],
)
def test_another_shape_is_a_failure(
    file: Path,
    array: np.ndarray,
    data_format: str | None,
    words: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The C call reads as many bytes as it needs, of whatever image."""
    rknn = RKNNLite()
    rknn.load_rknn(file)
    rknn.init_runtime()
    assert rknn.inference([array], data_format=data_format) is None
    assert words in capfd.readouterr().err


def test_types_may_change(file: Path) -> None:
    rknn = RKNNLite()
    rknn.load_rknn(file)
    rknn.init_runtime()
    for dtype in (np.uint8, np.float32, np.int16, np.uint8, np.float64, np.int64):
        outputs = rknn.inference([PIXELS.astype(dtype)])
        assert outputs is not None
        np.testing.assert_array_equal(outputs[0], expected(PIXELS))


def test_every_shape_of_a_dynamic_model(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(models.dynamic(((8, 8), (12, 16))))
    rknn = RKNNLite(verbose=True)
    assert rknn.load_rknn(tmp_path / "model.onnx") == 0
    assert rknn.init_runtime() == 0
    for size in ((8, 8), (12, 16), (12, 16), (8, 8)):
        outputs = rknn.inference([np.zeros((1, 3, *size), np.float32)], data_format=["nchw"])
        assert outputs is not None
        assert outputs[0].shape == (1, 8, *size)
    assert rknn.inference([np.zeros((1, 9, 9, 3), np.float32)]) is None


def test_one_core(tmp_path: Path) -> None:
    build_file(models.add_one(), tmp_path / "model.rknn", BuildOptions(soc="rk3566"))
    rknn = RKNNLite()
    rknn.load_rknn(tmp_path / "model.rknn")
    assert rknn.init_runtime() == 0
    platforms = rknn.list_support_target_platform()
    assert platforms is not None
    assert platforms["filled_target_platform"] == ["rk3566"]


def test_what_failures_write(file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.txt"
    rknn = RKNNLite(verbose=True, verbose_file=str(log))
    assert rknn.init_runtime() == -1
    assert "Traceback" in capfd.readouterr().err
    assert "load_rknn comes first" in log.read_text()
