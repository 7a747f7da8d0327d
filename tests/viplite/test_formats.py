"""Values to memory and back, for every element format."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import anynpu
from anynpu import DType, Layout, Quantization, TensorInfo
from anynpu.viplite import formats
from anynpu.viplite.abi import BufferFormat

LIMITS = {
    DType.INT4: (-8, 7), DType.UINT4: (0, 15), DType.INT8: (-128, 127), DType.UINT8: (0, 255),
    DType.INT16: (-(2**15), 2**15 - 1), DType.UINT16: (0, 2**16 - 1),
    DType.INT32: (-(2**31), 2**31 - 1), DType.UINT32: (0, 2**32 - 1),
}  # fmt: skip
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, max_side=7)
REALS = st.floats(-1000, 1000, width=32)


def tensor(
    shape: tuple[int, ...], dtype: DType, quantization: Quantization | None = None
) -> TensorInfo:
    size = formats.size_of(shape, dtype)
    return TensorInfo(0, "t", shape, dtype, Layout.UNDEFINED, quantization, size, size)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def stored(info: TensorInfo) -> np.ndarray:
    return np.zeros(formats.stored_shape(info.shape, info.dtype), formats.stored_dtype(info.dtype))


def there_and_back(values: np.ndarray, info: TensorInfo) -> np.ndarray:
    memory, real = stored(info), np.full(info.shape, np.nan, np.float32)
    formats.encode(values, info, memory)
    assert memory.nbytes == info.size
    formats.decode(memory, info, real)
    return real


@st.composite
def quantised(draw: st.DrawFn) -> tuple[TensorInfo, np.ndarray]:
    dtype = draw(st.sampled_from(list(LIMITS)))
    low, high = LIMITS[dtype]
    if draw(st.booleans()):
        how = Quantization.fixed_point(draw(st.integers(-4, 20)))
    else:
        zero_point = draw(st.integers(max(low, -(2**15)), min(high, 2**15)))
        how = Quantization(draw(st.floats(2**-12, 8, width=32)), zero_point)
    info = tensor(draw(SHAPES), dtype, how)
    return info, draw(hnp.arrays(np.float32, info.shape, elements=REALS))


@given(quantised())
def test_quantised_values_are_the_nearest_ones(case: tuple[TensorInfo, np.ndarray]) -> None:
    info, values = case
    low, high = LIMITS[info.dtype]
    exact = np.clip(np.rint(values.astype(np.float64) / info.scale) + info.zero_point, low, high)
    expected = (exact - info.zero_point) * info.scale
    # The kernels divide in float32, so a value in the middle between two may become either.
    off = np.abs(there_and_back(values, info) - expected)
    middle = np.abs(values.astype(np.float64) / info.scale % 1 - 0.5) < 1e-3
    tolerance = np.where(middle, info.scale, 0) + np.abs(expected) * 1e-6
    assert (off <= tolerance).all()


@given(quantised(), st.randoms())
def test_the_tensor_s_own_dtype_passes_as_it_is(
    case: tuple[TensorInfo, np.ndarray], random: object
) -> None:
    info, values = case
    own = {DType.INT4: np.int8, DType.UINT4: np.uint8}.get(info.dtype) or info.dtype.numpy
    low, high = LIMITS[info.dtype]
    whole = np.clip(values, low, high).astype(own)
    memory = stored(info)
    formats.encode(whole, info, memory)
    np.testing.assert_array_equal(formats.own_values(memory, info), whole)
    real = np.empty(info.shape, np.float32)
    formats.decode(memory, info, real)
    expected = (whole.astype(np.float64) - info.zero_point) * info.scale
    np.testing.assert_allclose(real, expected, rtol=1e-6)


@given(hnp.arrays(np.float32, SHAPES, elements=REALS))
def test_floats_are_rounded_to_the_nearest(values: np.ndarray) -> None:
    shape = values.shape
    np.testing.assert_array_equal(there_and_back(values, tensor(shape, DType.FLOAT32)), values)
    np.testing.assert_array_equal(there_and_back(values, tensor(shape, DType.FLOAT64)), values)
    half = there_and_back(values, tensor(shape, DType.FLOAT16))
    np.testing.assert_array_equal(half, values.astype(np.float16).astype(np.float32))
    brain = there_and_back(values, tensor(shape, DType.BFLOAT16))
    assert (np.abs(brain - values) <= np.abs(values) * 2.0**-8 + 2.0**-133).all()
    assert not (brain.view(np.uint32) & 0xFFFF).any()


def test_what_is_no_number_stays_so() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0], np.float32)
    for dtype in (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16):
        np.testing.assert_array_equal(there_and_back(values, tensor((4,), dtype)), values)
    for dtype, (low, high) in LIMITS.items():
        info = tensor((4,), dtype, Quantization(1.0, 1))
        found = there_and_back(values, info)
        np.testing.assert_allclose(found, floats(low - 1, high - 1, low - 1, 0), rtol=1e-6)


@pytest.mark.parametrize(
    "dtype", [DType.INT64, DType.UINT64, DType.INT32, DType.UINT32, DType.BOOL]
)
def test_whole_numbers_without_a_quantisation(dtype: DType) -> None:
    values = np.array([[0, 1], [1, 0]], dtype.numpy)
    np.testing.assert_array_equal(there_and_back(values, tensor((2, 2), dtype)), values)


def test_rows_of_four_bits_begin_with_a_byte() -> None:
    """Three elements take two bytes, the first one in the low half."""
    info = tensor((2, 3), DType.UINT4)
    memory = stored(info)
    formats.encode(np.array([[1, 2, 3], [4, 5, 15]], np.uint8), info, memory)
    assert memory.tobytes() == bytes([0x21, 0x03, 0x54, 0x0F])
    signed = tensor((3,), DType.INT4)
    memory = stored(signed)
    formats.encode(np.array([-1, -8, 7], np.int8), signed, memory)
    assert memory.tobytes() == bytes([0x8F, 0x07])
    np.testing.assert_array_equal(
        formats.own_values(memory, signed), np.array([-1, -8, 7], np.int8)
    )


def test_bfloat16_is_the_upper_half_of_float32() -> None:
    info = tensor((3,), DType.BFLOAT16)
    memory = stored(info)
    formats.encode(floats(1.0, -2.5, 1.0 + 2.0**-8), info, memory)
    assert memory.tolist() == [0x3F80, 0xC020, 0x3F80]
    np.testing.assert_array_equal(formats.own_values(memory, info), floats(1, -2.5, 1))


def test_every_format_has_a_dtype() -> None:
    assert set(formats.DTYPES) == set(BufferFormat)
    for form, dtype in formats.DTYPES.items():
        bits = {BufferFormat.INT4: 4, BufferFormat.UINT4: 4}.get(form)
        assert dtype.bits == (bits or formats.stored_dtype(dtype).itemsize * 8)
        assert formats.size_of((2, 6), dtype) == math.ceil(12 * dtype.bits / 8)


def test_another_shape_is_refused() -> None:
    info = tensor((2, 3), DType.UINT8)
    with pytest.raises(anynpu.TensorError, match=r"\(2, 3\); found \(3, 2\)"):
        formats.encode(np.zeros((3, 2)), info, stored(info))
