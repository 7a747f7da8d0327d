"""Packages for ONNX Runtime, with `onnxruntime.InferenceSession` put in by anynpu's.

They and their networks come from PyPI; each test skips where its package isn't installed. What
they answer on the soft NPU is compared with what they answer on ONNX Runtime.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import anynpu

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=["onnxruntime", "anynpu"])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The runtime that a program gets."""
    if request.param == "anynpu":
        monkeypatch.setattr(onnxruntime, "InferenceSession", anynpu.InferenceSession)
    name: str = request.param
    return name


def folder_of(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0])


def test_rapidocr_reads_a_page(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of("rapidocr_onnxruntime")
    data = pytest.importorskip("skimage.data")
    engine = importlib.import_module("rapidocr_onnxruntime.utils.infer_engine")
    monkeypatch.setattr(engine, "InferenceSession", onnxruntime.InferenceSession)
    reader: Any = importlib.import_module("rapidocr_onnxruntime").RapidOCR()
    lines, _ = reader(np.stack([data.page()] * 3, axis=-1))
    text = " ".join(line for _, line, _ in lines)
    assert "Let us first determine markers of the coins and the" in text
    assert min(confidence for *_, confidence in lines) > 0.9


def test_magika_tells_kinds_of_files(runtime: str) -> None:
    folder_of("magika")
    magika: Any = importlib.import_module("magika").Magika()
    root = Path(__file__).parents[2]
    for file, kind in (
        (Path(__file__), "python"),
        (root / "native" / "pump.c", "c"),
        (root / "README.md", "markdown"),
    ):
        assert str(magika.identify_bytes(file.read_bytes()).output.label) == kind


@pytest.mark.parametrize("name", ["silero_vad.onnx", "silero_vad_16k_op15.onnx"])
def test_silero_s_network_keeps_its_state(runtime: str, name: str) -> None:
    """The streaming loop of its examples: states go back in, chunk after chunk."""
    file = folder_of("silero_vad") / "data" / name
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    state, rate = np.zeros((2, 1, 128), np.float32), np.array(16000, np.int64)
    tone = 0.3 * np.sin(np.arange(16000) * 2 * np.pi * 220 / 16000).astype(np.float32)
    context, heard = np.zeros((1, 64), np.float32), []
    for start in range(0, len(tone) - 512, 512):
        chunk = np.concatenate([context, tone[None, start : start + 512]], axis=1)
        feed = {"input": chunk, "state": state, "sr": rate}
        probability, state = session.run(None, feed)
        heard.append(float(probability[0, 0]))
        context = chunk[:, -64:]
    assert state.shape == (2, 1, 128)
    assert len(heard) == 31
    assert max(heard) < 0.5  # a tone isn't speech
