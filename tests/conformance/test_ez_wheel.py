"""The published wheel of a Python peer runs on the soft NPU's librknnrt.so, as it comes.

It transposes images itself: with "nchw", its default, it hands them on as they are, which
librknnrt leaves out (https://github.com/airockchip/rknn-toolkit2/issues/304).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import anynpu
from anynpu.soft.build import BuildOptions, build_file

from .. import models

PEER = "ztu_somemodelruntime_ez_rknn_async"
PROGRAM = f"""
import sys
import numpy
import {PEER} as peer

session = peer.InferenceSession(sys.argv[1], provider_options={{"layout": sys.argv[4]}})
values = numpy.load(sys.argv[2])
name = session.get_inputs()[0].name
results = session.run(None, {{name: values}})
collected = []
for _ in range(4):
    session.run_async(None, {{name: values}}, lambda r, data, error: collected.append((r, error)))
import time
deadline = time.monotonic() + 30
while len(collected) < 4 and time.monotonic() < deadline:
    time.sleep(0.01)
for result, error in collected:
    assert not error, error
    for one, other in zip(result, results):
        numpy.testing.assert_array_equal(one, other)
assert len(collected) == 4
numpy.savez(sys.argv[3], *results)
"""

pytestmark = pytest.mark.skipif(
    find_spec(PEER) is None, reason=f"{PEER} is not installed (anynpu[conformance])"
)


def run_peer(
    library: Path,
    model: Path,
    values: np.ndarray,
    folder: Path,
    layout: str = "nchw_software",
    log: str = "",
) -> list[np.ndarray]:
    """What it gives for values; the library has to log nothing, or a line with `log`."""
    np.save(folder / "values.npy", values)
    paths = [str(model), str(folder / "values.npy"), str(folder / "results.npz"), layout]
    environment = os.environ | {"ZTU_RKNPU2_RUNTIME_LIBRARY": str(library)}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    logged = [line for line in result.stderr.splitlines() if " RKNN: " in line]
    assert any(log in line for line in logged) if log else not logged, result.stderr
    with np.load(folder / "results.npz") as results:
        return [results[name] for name in results.files]


def compare(library: Path, source: Path, values: np.ndarray, folder: Path) -> None:
    """The peer's numbers are our session's, and ONNX Runtime's within float16."""
    model = folder / "model.rknn"
    build_file(source, model, BuildOptions())
    theirs = run_peer(library, model, values, folder)
    with anynpu.InferenceSession(model) as session:
        ours = session.run(None, values)
    exact = onnxruntime.InferenceSession(source).run(None, {session.get_inputs()[0].name: values})
    assert len(theirs) == len(ours) == len(exact)
    for their, our, reference in zip(theirs, ours, exact, strict=True):
        np.testing.assert_array_equal(their, our)
        np.testing.assert_allclose(their, reference, rtol=2e-2, atol=5e-3 * np.abs(reference).max())


def test_a_small_network(soft_folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "source.onnx"
    source.write_bytes(models.convolution())
    values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
    compare(soft_folder / "librknnrt.so", source, values, tmp_path)


def test_its_own_layouts(soft_folder: Path, tmp_path: Path) -> None:
    """The channels last give the same; images as they are leave the inputs what they were."""
    source, model = tmp_path / "source.onnx", tmp_path / "model.rknn"
    source.write_bytes(models.convolution())
    build_file(source, model, BuildOptions())
    values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
    interleaved = np.ascontiguousarray(values.transpose(0, 2, 3, 1))
    library = soft_folder / "librknnrt.so"
    (expected,) = run_peer(library, model, values, tmp_path)
    (same,) = run_peer(library, model, interleaved, tmp_path, "nhwc")
    np.testing.assert_array_equal(same, expected)
    (left,) = run_peer(library, model, values, tmp_path, "nchw", "unsupported src layout")
    (nothing,) = run_peer(library, model, np.zeros_like(values), tmp_path)
    np.testing.assert_array_equal(left, nothing)


@pytest.mark.parametrize(
    ("file", "shape"),
    [
        ("ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 48)),
        ("ch_PP-OCRv4_det_infer.onnx", (1, 3, 320, 320)),
    ],
    ids=["classifier", "detector"],
)
def test_published_networks(
    soft_folder: Path, tmp_path: Path, ocr_models: Path, file: str, shape: tuple[int, ...]
) -> None:
    """The direction classifier and the detector of PP-OCR."""
    source = tmp_path / "fixed.onnx"
    build_file(ocr_models / file, source, BuildOptions(shapes=[{"x": shape}]))
    values = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    compare(soft_folder / "librknnrt.so", source, values, tmp_path)


@pytest.mark.parametrize(
    ("name", "shape", "high"),
    [
        ("efficientnet_lite0_224.onnx", (1, 3, 224, 224), 1),
        ("yolox_nano_416.onnx", (1, 3, 416, 416), 255),
    ],
    ids=["classifier", "detector"],
)
def test_trained_networks(
    soft_folder: Path,
    tmp_path: Path,
    shared_model: Callable[[str], Path],
    name: str,
    shape: tuple[int, ...],
    high: float,
) -> None:
    values = np.random.default_rng(0).uniform(0, high, shape).astype(np.float32)
    compare(soft_folder / "librknnrt.so", shared_model(name), values, tmp_path)


def test_a_compiled_file(
    soft_folder: Path, tmp_path: Path, compiled_sample: Callable[[str], Path]
) -> None:
    """A file of the vendor's compiler, for which the peer was written."""
    file = compiled_sample("rk3588/conv3x3_i8")
    with np.load(file.with_suffix(".npz")) as archive:
        values, simulated = archive["in0"], archive["sim0"]
    (theirs,) = run_peer(soft_folder / "librknnrt.so", file, values, tmp_path)
    with anynpu.InferenceSession(file) as session:
        (ours,) = session.run(None, values)
    np.testing.assert_array_equal(theirs, ours)
    # One step of the output's quantisation.
    np.testing.assert_allclose(ours, simulated, atol=0.034)
