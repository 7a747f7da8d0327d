"""One program, one network, two vendors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import anynpu
from anynpu.soft.build import BuildOptions, build_file

from . import models

SHAPE = (1, 3, 16, 16)
FILES = {"rk3588": "classifier.rknn", "t527": "classifier.t527.nb", "a733": "classifier.a733.nb"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quantised classifier, compiled for each chip."""
    folder = tmp_path_factory.mktemp("vendors")
    samples = folder / "samples"
    samples.mkdir()
    rng = np.random.default_rng(3)
    for number in range(8):
        np.save(samples / f"{number}.npy", rng.normal(size=SHAPE).astype(np.float32))
    for chip, name in FILES.items():
        build_file(models.classifier(), folder / name, BuildOptions(soc=chip, quantize=samples))
    return folder


def picture(number: int) -> np.ndarray:
    return np.random.default_rng(100 + number).normal(size=SHAPE).astype(np.float32)


def top_five(scores: np.ndarray) -> list[int]:
    return [int(place) for place in np.argsort(-scores.ravel(), kind="stable")[:5]]


def test_the_same_five_best_classes(files: Path) -> None:
    source = onnxruntime.InferenceSession(models.classifier(), providers=["CPUExecutionProvider"])
    sessions = {chip: anynpu.InferenceSession(files / name) for chip, name in FILES.items()}
    loaded = {chip: anynpu.Model(files / name) for chip, name in FILES.items()}
    for number in range(10):
        feed = {"x": picture(number)}
        results = {chip: session.run(None, feed)[0] for chip, session in sessions.items()}
        for chip, model in loaded.items():
            model.run(feed["x"])
            np.testing.assert_array_equal(model.output_f32(0), results[chip])
        best = {chip: top_five(scores) for chip, scores in results.items()}
        assert best["t527"] == best["a733"] == best["rk3588"]
        (real,) = source.run(None, feed)
        assert best["t527"][0] in top_five(real)
    for each in (*sessions.values(), *loaded.values()):
        each.close()


def test_the_same_description(files: Path) -> None:
    shown = {}
    for chip, name in FILES.items():
        with anynpu.InferenceSession(files / name) as session:
            (arg,) = session.get_inputs()
            (scores,) = session.get_outputs()
            # int8 and uint8 stand for the same values, 128 apart.
            zero_point = arg.zero_point + (128 if chip == "rk3588" else 0)
            shown[chip] = (arg.name, arg.shape, arg.type, arg.layout, arg.scale, zero_point,
                           scores.name, scores.shape)  # fmt: skip
    assert shown["rk3588"] == shown["t527"] == shown["a733"]
