"""The C kernels give what NumPy gives, for every dtype, shape and special value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anynpu.native import kernels, numpy_kernels

pytestmark = pytest.mark.usefixtures("kernel_form")

COPIED = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32", "bool"]
QUANTIZED = ["int8", "uint8", "int16", "uint16"]
SIZES = st.integers(1, 40)
BLOCKS = st.sampled_from([1, 2, 3, 4, 8, 16, 32, 48])
SCALES = st.floats(2.0**-20, 2.0**20, width=32)


def random_bits(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Any bits, what is no number included; bools are 0 and 1."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    bits = np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), np.uint8).copy()
    values: np.ndarray = bits.view(dtype).reshape(shape)
    return values


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """The same bits, but for what is no number."""
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


def test_the_kernels_are_there() -> None:
    assert kernels.is_built()


@st.composite
def blocks(draw: st.DrawFn) -> tuple[tuple[int, ...], int]:
    """The shape of an NC1HWC2 array, and how many of its channels there are."""
    c2, h, w = draw(BLOCKS), draw(SIZES), draw(SIZES)
    channels = draw(st.integers(1, 3 * c2))
    c1 = -(-channels // c2) + draw(st.integers(0, 2))
    return (draw(st.integers(1, 2)), c1, h, w, c2), channels


@given(blocks(), st.sampled_from(COPIED), st.integers(0, 2**32))
def test_unpacking(shape: tuple[tuple[int, ...], int], dtype: str, seed: int) -> None:
    (n, c1, h, w, c2), channels = shape
    source = random_bits((n, c1, h, w, c2), dtype, seed)
    found, expected = (np.empty((n, channels, h, w), dtype) for _ in "12")
    kernels.unpack(source, found)
    numpy_kernels.unpack(source, expected)
    assert_same(found, expected)


@given(blocks(), st.sampled_from(QUANTIZED), SCALES, st.integers(-128, 128), st.integers(0, 2**32))
def test_unpacking_to_real_values(
    shape: tuple[tuple[int, ...], int], dtype: str, scale: float, zero_point: int, seed: int
) -> None:
    (n, c1, h, w, c2), channels = shape
    source = random_bits((n, c1, h, w, c2), dtype, seed)
    found, expected = (np.empty((n, channels, h, w), np.float32) for _ in "12")
    kernels.unpack(source, found, scale, zero_point)
    plain = np.empty(expected.shape, dtype)
    numpy_kernels.unpack(source, plain)
    numpy_kernels.dequantize(plain, scale, zero_point, expected)
    assert_same(found, expected)


@given(blocks(), st.sampled_from([("float16", "float32"), ("float32", "float16")]), st.integers(0))
def test_unpacking_and_packing_with_another_precision(
    shape: tuple[tuple[int, ...], int], dtypes: tuple[str, str], seed: int
) -> None:
    (n, c1, h, w, c2), channels = shape
    source = random_bits((n, c1, h, w, c2), dtypes[0], seed)
    found = np.empty((n, channels, h, w), dtypes[1])
    kernels.unpack(source, found)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = source.astype(dtypes[1])
    plain = np.empty_like(found)
    numpy_kernels.unpack(expected, plain)
    assert_same(found, plain)
    packed = np.empty((n, c1, h, w, c2), dtypes[0])
    kernels.pack(found, packed)
    back = np.empty_like(packed)
    with np.errstate(over="ignore", invalid="ignore"):
        numpy_kernels.pack(found.astype(dtypes[0]), back)
    assert_same(packed, back)


@given(blocks(), st.sampled_from(COPIED), st.integers(0, 2**32))
def test_packing(shape: tuple[tuple[int, ...], int], dtype: str, seed: int) -> None:
    (n, c1, h, w, c2), channels = shape
    source = random_bits((n, channels, h, w), dtype, seed)
    found, expected = (random_bits((n, c1, h, w, c2), dtype, seed) for _ in "12")
    kernels.pack(source, found)
    numpy_kernels.pack(source, expected)
    assert_same(found, expected)


@given(
    st.integers(0, 3000),
    st.sampled_from(QUANTIZED),
    SCALES,
    st.integers(-128, 255),
    st.integers(0, 2**32),
)
def test_quantising_any_bits(
    count: int, dtype: str, scale: float, zero_point: int, seed: int
) -> None:
    source = random_bits((count,), "float32", seed)
    found, expected = (np.empty(count, dtype) for _ in "12")
    kernels.quantize(source, scale, zero_point, found)
    numpy_kernels.quantize(source, scale, zero_point, expected)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", QUANTIZED)
def test_ties_are_rounded_to_even(dtype: str) -> None:
    source = (np.arange(-3000, 3000) / 2).astype(np.float32)
    found = np.empty(source.shape, dtype)
    kernels.quantize(source, 1.0, 1, found)
    limits = np.iinfo(dtype)
    expected = np.clip(np.round(source) + 1, limits.min, limits.max)
    np.testing.assert_array_equal(found, expected)


@given(st.integers(0, 3000), st.sampled_from(QUANTIZED), SCALES, st.integers(-128, 255))
def test_dequantising(count: int, dtype: str, scale: float, zero_point: int) -> None:
    source = random_bits((count,), dtype, count)
    found, expected = (np.empty(count, np.float32) for _ in "12")
    kernels.dequantize(source, scale, zero_point, found)
    numpy_kernels.dequantize(source, scale, zero_point, expected)
    assert_same(found, expected)


def test_every_float16_becomes_the_same_float32() -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    found, expected = (np.empty(halves.shape, np.float32) for _ in "12")
    kernels.convert(halves, found)
    numpy_kernels.convert(halves, expected)
    assert_same(found, expected)


@given(st.integers(0, 2**32), st.integers(0, 2000))
def test_any_float32_becomes_the_same_float16(seed: int, count: int) -> None:
    floats = random_bits((count,), "float32", seed)
    # Bits at random seldom lie where float16 has values.
    floats[::2] = np.random.default_rng(seed).normal(0, 1e-4, floats[::2].shape)
    found, expected = (np.empty(count, np.float16) for _ in "12")
    kernels.convert(floats, found)
    numpy_kernels.convert(floats, expected)
    assert_same(found, expected)


@given(
    st.tuples(st.integers(1, 2), SIZES, SIZES, st.integers(1, 20)),
    st.integers(0, 9),
    st.sampled_from(COPIED),
)
def test_channels_last(shape: tuple[int, int, int, int], extra: int, dtype: str) -> None:
    n, h, w, c = shape
    source = random_bits((n, c, h, w), dtype, w).transpose(0, 2, 3, 1)
    found, expected = (np.zeros((n, h, w + extra, c), dtype) for _ in "12")
    kernels.copy_channels_last(source, found[:, :, :w])
    expected[:, :, :w] = source
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("order", [lambda a: a[::-1], lambda a: a.T.copy().T, lambda a: a[:, ::2]])
def test_arrays_that_are_not_contiguous(order: Callable[[Any], Any]) -> None:
    source = order(random_bits((64, 64), "int8", 0))
    found = np.empty(source.shape, np.float32)
    kernels.dequantize(source, 0.5, 3, found)
    np.testing.assert_array_equal(found, (source.astype(np.float32) - 3) * np.float32(0.5))
    halves = order(random_bits((64, 64), "float16", 1))
    kernels.convert(halves, found)
    np.testing.assert_array_equal(found, halves.astype(np.float32))


def test_without_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_library", lambda: None)
    source = random_bits((1, 2, 30, 30, 16), "int8", 0)
    found = np.empty((1, 20, 30, 30), np.float32)
    kernels.unpack(source, found, 0.5, -3)
    plain = np.empty(found.shape, np.int8)
    numpy_kernels.unpack(source, plain)
    np.testing.assert_array_equal(found, (plain.astype(np.float32) + 3) * np.float32(0.5))
    copied = np.empty_like(source)
    kernels.copy(source, copied)
    np.testing.assert_array_equal(copied, source)


@given(
    st.integers(1, 6), st.integers(1, 700), st.sampled_from([1, 2, 3, 4, 8, 16, 85, 1024, 1025]),
    st.sampled_from([*QUANTIZED, "float32"]), st.data(), st.integers(0, 2**32),
)  # fmt: skip
def test_cells_that_reach_a_threshold(
    blocks: int, cells: int, lanes: int, dtype: str, data: st.DataObject, seed: int
) -> None:
    """Few that do, all of them, and none; thresholds at both ends of what a dtype holds."""
    first = data.draw(st.integers(0, blocks * lanes - 1))
    last = data.draw(st.integers(first + 1, blocks * lanes))
    rng = np.random.default_rng(seed)
    low, high = (-9, 9) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = np.full((blocks, cells, lanes), low, dtype)
    places = rng.integers(0, values.size, data.draw(st.sampled_from([0, 1, 9, values.size])))
    values.reshape(-1)[places] = rng.integers(low, high + 1, len(places))
    least = np.dtype(dtype).type(
        data.draw(st.sampled_from([low, low + 1, (low + high) // 2, high]))
    )
    found = kernels.cells_reaching(values, first, last, least)
    channels = values.transpose(0, 2, 1).reshape(blocks * lanes, cells)
    expected = np.flatnonzero((channels[first:last] >= least).any(axis=0))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        numpy_kernels.cells_reaching(values, first, last, least), expected
    )
    assert found.dtype == np.intp
