"""Thresholds in integers say what thresholds of dequantised values would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anynpu.errors import TensorError
from anynpu.layouts import dequantize_affine, nchw_to_nc1hwc2
from anynpu.tensor import Quantization
from anynpu.vision.cells import (
    Activation,
    BlockedCells,
    PlanarCells,
    is_no_opinion,
    least_integer,
)

SCALES = st.floats(1e-4, 3.0).map(np.float32).map(float)
SCORES = st.floats(0.001, 1.0)


@settings(max_examples=150, deadline=None)
@given(SCALES, st.integers(-128, 127), SCORES, st.sampled_from(Activation))
def test_the_least_integer_divides_those_that_reach_a_score(
    scale: float, zero_point: int, score: float, activation: Activation
) -> None:
    dtype = np.dtype(np.int8)
    integers = np.arange(-128, 128).astype(dtype)
    reals = activation.apply(dequantize_affine(integers, scale, zero_point))
    least = least_integer(score, activation, dtype, Quantization(scale, zero_point))
    np.testing.assert_array_equal(integers >= least, reals >= np.float32(score))


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 30), st.sampled_from([4, 8, 16]), st.data(),
    st.integers(0, 2**32 - 1), SCORES,
)  # fmt: skip
def test_cells_that_reach_a_score(
    channels: int, count: int, c2: int, data: st.DataObject, seed: int, score: float
) -> None:
    """Planes, rows and blocks, integers and floats, against comparing everything."""
    start = data.draw(st.integers(0, channels - 1))
    own = slice(start, data.draw(st.integers(start + 1, channels)))
    quantization = Quantization(1 / 256, -128)
    values = np.random.default_rng(seed).integers(-128, 128, (channels, count)).astype(np.int8)
    reals = dequantize_affine(values, quantization.scale, quantization.zero_point)
    expected = np.flatnonzero((reals[own] >= np.float32(score)).any(axis=0))
    blocks = nchw_to_nc1hwc2(values.reshape(1, channels, 1, count), c2)
    for cells in (
        PlanarCells(values, quantization),
        PlanarCells(np.ascontiguousarray(values.T).T, quantization),
        BlockedCells(blocks, channels, quantization),
        PlanarCells(reals, None),
    ):
        assert (cells.channels, cells.count) == (channels, count)
        found = cells.reaching(own, score, Activation.NONE)
        np.testing.assert_array_equal(found, expected)
        best, scores = cells.best(own, found, Activation.NONE)
        np.testing.assert_array_equal(scores, reals[own].max(axis=0)[expected])
        np.testing.assert_array_equal(best, reals[own].argmax(axis=0)[expected])
        np.testing.assert_array_equal(cells.all_real(), reals)


def test_a_score_that_no_integer_reaches_finds_nothing() -> None:
    cells = PlanarCells(np.full((1, 3), 127, np.int8), Quantization(0.001, 0))
    assert not len(cells.reaching(slice(0, 1), 0.5, Activation.NONE))


def test_no_opinion_is_known_by_its_integer() -> None:
    """sigmoid(0) comes back as 0.5 or a little more; 0.51 is above it."""
    int8 = np.dtype(np.int8)
    for quantization, activation in (
        (Quantization(1 / 255, -128), Activation.NONE),  # 0.50196
        (Quantization(1 / 256, -128), Activation.NONE),  # 0.5
        (Quantization(0.1, 7), Activation.SIGMOID),  # 0.5
    ):
        assert is_no_opinion(0.5, activation, int8, quantization)
        assert not is_no_opinion(0.51, activation, int8, quantization)
        assert not is_no_opinion(0.25, activation, int8, quantization)
    assert is_no_opinion(0.501, Activation.NONE, int8, Quantization(1 / 255, -128))


def test_wide_integers_are_refused() -> None:
    with pytest.raises(TensorError, match="int32"):
        least_integer(0.5, Activation.NONE, np.dtype(np.int32), Quantization(1.0, 0))
