"""The array functions, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import anynpu

DTYPES = st.sampled_from(["int8", "uint8", "int16", "float16", "float32"])
SIZES = st.integers(1, 6)


@given(data=st.data(), n=SIZES, c=st.integers(1, 40), h=SIZES, w=SIZES, c2=st.integers(1, 20))
def test_packing_and_unpacking_by_hand(
    data: st.DataObject, n: int, c: int, h: int, w: int, c2: int
) -> None:
    dtype = data.draw(DTYPES)
    extra = data.draw(st.integers(0, 2))
    nchw = np.random.default_rng(0).integers(0, 100, (n, c, h, w)).astype(dtype)
    c1 = -(-c // c2) + extra
    packed = anynpu.nchw_to_nc1hwc2(nchw, c2, c1)
    assert packed.shape == (n, c1, h, w, c2)
    assert packed.dtype == dtype
    for channel in range(c1 * c2):
        block = packed[:, channel // c2, :, :, channel % c2]
        np.testing.assert_array_equal(block, nchw[:, channel] if channel < c else 0)
    np.testing.assert_array_equal(anynpu.nc1hwc2_to_nchw(packed, c), nchw)


def test_unpacking_the_readme_s_example() -> None:
    """The flat index of the Rust crate: ((c1 * H + h) * W + w) * C2 + c2."""
    raw = np.arange(1 * 2 * 3 * 4 * 16, dtype=np.int16)
    unpacked = anynpu.nc1hwc2_to_nchw(raw.reshape(1, 2, 3, 4, 16), 20)
    for c in range(20):
        for h in range(3):
            for w in range(4):
                assert unpacked[0, c, h, w] == raw[((c // 16 * 3 + h) * 4 + w) * 16 + c % 16]


@pytest.mark.parametrize(
    "call",
    [
        lambda: anynpu.nc1hwc2_to_nchw(np.zeros((1, 2, 3, 4)), 3),
        lambda: anynpu.nc1hwc2_to_nchw(np.zeros((1, 2, 3, 4, 8)), 17),
        lambda: anynpu.nc1hwc2_to_nchw(np.zeros((1, 2, 3, 4, 8)), 0),
        lambda: anynpu.nchw_to_nc1hwc2(np.zeros((1, 2, 3)), 8),
        lambda: anynpu.nchw_to_nc1hwc2(np.zeros((1, 9, 3, 3)), 8, 1),
        lambda: anynpu.nchw_to_nc1hwc2(np.zeros((1, 9, 3, 3)), 0),
        lambda: anynpu.quantize_affine(np.zeros(3), 0.0, 0),
        lambda: anynpu.quantize_affine(np.zeros(3), float("nan"), 0),
        lambda: anynpu.quantize_affine(np.zeros(3), 1.0, 0, np.int32),
    ],
)
def test_what_does_not_fit(call: object) -> None:
    with pytest.raises(anynpu.TensorError):
        call()  # type: ignore[operator]


@given(
    values=hnp.arrays(np.float32, hnp.array_shapes(), elements=st.floats(-1e6, 1e6, width=32)),
    scale=st.floats(2**-10, 100, width=32),
    zero_point=st.integers(-128, 127),
    dtype=st.sampled_from(["int8", "uint8", "int16", "uint16"]),
)
def test_quantising(values: np.ndarray, scale: float, zero_point: int, dtype: str) -> None:
    limits = np.iinfo(dtype)
    quantized = anynpu.quantize_affine(values, scale, zero_point, dtype)
    assert quantized.dtype == dtype
    assert quantized.shape == values.shape
    expected = np.clip(
        np.rint(values / np.float32(scale)) + np.float32(zero_point), limits.min, limits.max
    )
    np.testing.assert_array_equal(quantized, expected)
    again = np.empty_like(quantized)
    assert anynpu.quantize_affine(values, scale, zero_point, out=again) is again
    np.testing.assert_array_equal(again, quantized)


@given(
    raw=hnp.arrays(np.int8, hnp.array_shapes()),
    scale=st.floats(2**-10, 100, width=32),
    zero_point=st.integers(-128, 127),
)
def test_dequantising_is_undone_by_quantising(
    raw: np.ndarray, scale: float, zero_point: int
) -> None:
    real = anynpu.dequantize_affine(raw, scale, zero_point)
    assert real.dtype == np.float32
    expected = (raw.astype(np.float32) - zero_point) * np.float32(scale)
    np.testing.assert_array_equal(real, expected)
    np.testing.assert_array_equal(anynpu.quantize_affine(real, scale, zero_point), raw)
    out = np.empty(raw.shape, np.float32)
    assert anynpu.dequantize_affine(raw, scale, zero_point, out) is out


def test_values_that_are_no_numbers_saturate() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 3e38], np.float32)
    np.testing.assert_array_equal(anynpu.quantize_affine(values, 0.1, 5), [-128, 127, -128, 127])


def test_ties_round_to_even() -> None:
    np.testing.assert_array_equal(
        anynpu.quantize_affine([0.5, 1.5, 2.5, -0.5, -1.5], 1.0, 0), [0, 2, 2, 0, -2]
    )
