"""Squares beyond float16: infinite means, as reports' logs of boards and of the simulator show."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np

from anynpu.soft.engines import ModelSource, load

FILE = Path(__file__).parents[3] / "data" / "compiled" / "overflow" / "rk3588_root_of_mean.rknn.xz"


def test_the_mean_of_squares_beyond_float16_is_infinite() -> None:
    """The root of it isn't a number: each of its ten steps divides the mean by the root so far."""
    instance = load(ModelSource(lzma.decompress(FILE.read_bytes()))).instance(0)
    (values,) = instance.inputs
    values[...] = np.random.default_rng(0).standard_normal(values.shape)
    values[:, :, 0] *= 300
    instance.run()
    mean, root = instance.outputs
    assert np.isposinf(mean[:, :, 0]).all()
    assert np.isnan(root[:, :, 0]).all()
    expected = np.square(values[:, :, 1:].astype(np.float64)).mean(1, keepdims=True)
    np.testing.assert_allclose(mean[:, :, 1:], expected, rtol=0.005)
    np.testing.assert_allclose(root[:, :, 1:], np.sqrt(expected), rtol=0.005)
