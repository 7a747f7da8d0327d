"""Values that are probably wrong are warned of once: NaN, and 0..1 where pixels are 0..255."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu import InferenceSession, Model

from . import models

PIXELS = {"anynpu.mean": '{"x": [127, 127, 127]}', "anynpu.std": '{"x": [128, 128, 128]}'}
UNITS = {"anynpu.mean": '{"x": [0.4, 0.4, 0.4]}', "anynpu.std": '{"x": [0.2, 0.2, 0.2]}'}
SHAPE = (1, 3, 4, 5)
HALVES = np.full(SHAPE, 0.5, np.float32)


def said(run: Callable[[], object], times: int = 40) -> list[str]:
    """The warnings of some runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(times):
            run()
    assert all(warning.category is anynpu.errors.InputWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


def test_values_of_0_to_1_for_a_model_of_pixels() -> None:
    with InferenceSession(models.add_one(metadata=PIXELS)) as session:
        (message,) = said(lambda: session.run(None, [HALVES]))
        for part in ("'x'", "0..255", "0.5..0.5", "multiply them by 255", "uint8"):
            assert part in message
        assert said(lambda: session.run(None, [HALVES])) == []
    with Model(models.add_one(metadata=PIXELS)) as model:
        assert len(said(lambda: model.run(HALVES))) == 1


@pytest.mark.parametrize(
    "values",
    [
        HALVES * 255,
        np.zeros(SHAPE, np.float32),
        np.eye(5, dtype=np.float32)[None, None, :4].repeat(3, 1),
        -HALVES,
        np.ones(SHAPE, np.uint8),
        np.where(HALVES > 0, 0.5, 0) + np.eye(5, dtype=np.float32)[:4] * 200,
    ],
)
def test_other_values_are_fine(values: np.ndarray) -> None:
    with InferenceSession(models.add_one(metadata=PIXELS)) as session:
        assert said(lambda: session.run(None, [values])) == []


@pytest.mark.parametrize("metadata", [UNITS, None])
def test_other_models_take_them(metadata: dict[str, str] | None) -> None:
    with InferenceSession(models.add_one(metadata=metadata)) as session:
        assert said(lambda: session.run(None, [HALVES])) == []


def test_a_quantised_model_of_pixels() -> None:
    """Its range tells, where it has no mean and deviation."""
    for scale, count in ((1.0, 1), (1 / 255, 0)):
        with InferenceSession(models.quantized(SHAPE, scale=scale, zero_point=-128)) as session:
            assert len(said(partial(session.run, None, [HALVES]))) == count
    with InferenceSession(models.quantized((1, 60), scale=1.0, zero_point=-128)) as session:
        assert said(lambda: session.run(None, [HALVES.reshape(1, 60)])) == []


def test_a_compiled_model_of_pixels(compiled_sample: Callable[[str], Path]) -> None:
    with InferenceSession(compiled_sample("rk3588/conv3x3_rgb_i8_ms")) as session:
        values = np.full((1, 3, 32, 32), 0.25, np.float32)
        assert len(said(lambda: session.run(None, [values]))) == 1


def test_nan() -> None:
    values = HALVES.copy()
    values[0, 1, 2, 3] = np.nan
    with InferenceSession(models.add_one()) as session:
        (message,) = said(lambda: session.run(None, [values]))
        assert "1 of the 60 given are NaN" in message
    with Model(models.add_one()) as model:
        assert len(said(lambda: model.run(values))) == 1


def test_what_comes_later_is_seen_too() -> None:
    """Not every feed is looked at, but one that goes on being wrong is."""
    with InferenceSession(models.add_one()) as session:
        assert said(lambda: session.run(None, [HALVES]), 20) == []
        assert len(said(lambda: session.run(None, [HALVES * np.nan]), 20)) == 1
