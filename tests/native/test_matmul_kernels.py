"""The integer products in C give what NumPy gives, for every layout and shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anynpu.matmul_layouts import BlockedB, columns_to_blocks
from anynpu.native import matmul
from anynpu.native.matmul import Weights, multiply_half, multiply_int8, multiply_with_numpy
from anynpu.native.threads import ENVIRONMENT_VARIABLE

pytestmark = pytest.mark.usefixtures("kernel_form")


def test_it_is_there() -> None:
    assert matmul.is_built()


def weights_in(form: str, b: np.ndarray, layout: BlockedB) -> Weights:
    """B in rows or columns, or else in a layout's blocks."""
    k, n = b.shape
    if form == "rows":
        return Weights(b, k, n)
    if form == "columns":
        return Weights(np.ascontiguousarray(b.T), k, n, is_transposed=True)
    return Weights(layout.pack(b), k, n, blocks=layout)


@st.composite
def products(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, Weights]:
    """A, B, and B as it lies in memory; shapes of whole blocks and others."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    block_n, block_k = draw(
        st.sampled_from([(16, 32), (32, 32), (64, 64), (4, 16), (8, 16), (8, 24), (3, 5), (1, 8)])
    )
    k = block_k * draw(st.integers(1, 9))
    n = block_n * draw(st.integers(1, 6))
    m = draw(st.integers(1, 27))
    low = draw(st.sampled_from([-128, 126]))
    a = rng.integers(low, 128, (m, k)).astype(np.int8)
    b = rng.integers(low, 128, (k, n)).astype(np.int8)
    form = draw(st.sampled_from(["rows", "columns", "blocks", "parts"]))
    layout = BlockedB(block_n, block_k, 2 * block_k if form == "parts" else None)
    return a, b, weights_in(form, b, layout)


@settings(max_examples=300)
@given(products(), st.sampled_from([0, 4, 5, 8, 16, 32]), st.sampled_from([0, 4, 8]))
def test_products(case: tuple[np.ndarray, np.ndarray, Weights], a_block: int, c_block: int) -> None:
    """Also where A and C lie in blocks of columns."""
    a, b, weights = case
    expected = a.astype(np.int64) @ b.astype(np.int64)
    if a_block:
        a = columns_to_blocks(a, a_block)
    if c_block:
        expected = columns_to_blocks(expected, c_block)
    for multiply in (multiply_int8, multiply_with_numpy):
        out = np.full(expected.shape, 77, np.int32)
        multiply(a, weights, out)
        np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(weights.matrix(), b)


@settings(max_examples=200)
@given(case=products())
def test_products_of_halves(kernel_form: str, case: tuple[np.ndarray, np.ndarray, Weights]) -> None:
    """Whole numbers, so that float32 sums are exact in any order."""
    a, b, weights = case
    halves = Weights(
        weights.data.astype(np.float16), weights.k, weights.n, weights.is_transposed, weights.blocks
    )
    out = np.full((a.shape[0], weights.n), np.nan, np.float32)
    if multiply_half(a.astype(np.float32), halves, out):
        assert kernel_form != "plain"
        np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))
    else:
        assert np.isnan(out).all()


@pytest.mark.parametrize("m", [1, 5, 8])
@pytest.mark.parametrize("form", ["rows", "columns", "blocks", "parts"])
def test_large_ones_of_halves(m: int, form: str) -> None:
    """On several threads."""
    rng = np.random.default_rng(m)
    k, n = 4096 + 64, 2048 + 96
    layout = BlockedB(16, 32, 1024 if form == "parts" else None)
    a = rng.integers(-8, 9, (m, k)).astype(np.float32)
    b = rng.integers(-8, 9, (k, n)).astype(np.float16)
    out = np.empty((m, n), np.float32)
    if not multiply_half(a, weights_in(form, b, layout), out):
        pytest.skip("this form doesn't convert halves")
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("form", ["rows", "columns", "blocks"])
def test_halves_without_numbers(form: str) -> None:
    """What is infinite or no number stays so; subnormal halves count."""
    a, b = np.ones((1, 64), np.float32), np.zeros((64, 32), np.float16)
    b[0] = 2.0**-24
    b[5, :3] = [np.inf, -np.inf, np.nan]
    layout = BlockedB(16, 32)
    weights = weights_in(form, b, layout)
    out = np.empty((1, 32), np.float32)
    if not multiply_half(a, weights, out):
        pytest.skip("this form doesn't convert halves")
    np.testing.assert_array_equal(out[0, :4], [np.inf, -np.inf, np.nan, 2.0**-24])


@pytest.mark.parametrize("m", [1, 2, 4, 5, 8, 16])
@pytest.mark.parametrize("form", ["rows", "columns", "blocks", "parts"])
def test_a_large_one(m: int, form: str) -> None:
    """More rows of B than a panel has, more columns than are added at once."""
    rng = np.random.default_rng(m)
    k, n = 1024 + 32, 2048 + 96
    layout = BlockedB(32, 32, 512 if form == "parts" else None)
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    weights = weights_in(form, b, layout)
    out = np.empty((m, n), np.int32)
    multiply_int8(a, weights, out)
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("m", [1, 3, 8])
def test_wide_rows(monkeypatch: pytest.MonkeyPatch, m: int, threads: int) -> None:
    """More columns than threads read at a time, and rows that no number of rows divides."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(threads))
    rng = np.random.default_rng(m)
    k, n = 1024 + 36, 4096 + 80
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    out = np.empty((m, n), np.int32)
    multiply_int8(a, Weights(b, k, n), out)
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("form", ["rows", "columns", "blocks"])
@pytest.mark.parametrize("m", [23, 300])
def test_more_than_fits_at_once(m: int, form: str) -> None:
    """More rows of A than meet a panel of B, and more rows of B than a panel has."""
    rng = np.random.default_rng(m)
    k, n, layout = 4096 + 64, 256 + 48, BlockedB(16, 32, 1024)
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    weights = weights_in(form, b, layout)
    out = np.empty((n // 4, m, 4), np.int32)
    multiply_int8(columns_to_blocks(a, 16), weights, out)
    expected = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32)
    np.testing.assert_array_equal(out, columns_to_blocks(expected, 4))


def test_without_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_library", lambda: None)
    a, b = np.full((2, 4096), -128, np.int8), np.full((4096, 16), -128, np.int8)
    out = np.empty((2, 16), np.int32)
    multiply_int8(a, Weights(b, 4096, 16), out)
    assert (out == 2**14 * 4096).all()
    half = Weights(b.astype(np.float16), 4096, 16)
    assert not multiply_half(a.astype(np.float32), half, np.empty((2, 16), np.float32))
