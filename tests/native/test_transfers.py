"""Steps that move arrays to memory and back: in C, and in Python where there is no C."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anynpu.native import kernels, numpy_kernels, transfers
from anynpu.native.memory import address_of
from anynpu.native.transfers import Conversion, Functions, Transfer

pytestmark = pytest.mark.usefixtures("kernel_form")

MOVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
EACH = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
)


@contextmanager
def without_kernels() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "is_built", lambda: False)
        transfers.functions.cache_clear()
        try:
            yield
        finally:
            transfers.functions.cache_clear()


@cache
def both() -> tuple[Functions, Functions]:
    transfers.functions.cache_clear()
    with_kernels = transfers.functions()
    with without_kernels():
        return with_kernels, transfers.functions()


def numbered(number: int, array: np.ndarray, scale: float, zero_point: int) -> Transfer:
    return Transfer(number, kernels.Affine(scale, zero_point), address_of(array), array.size)


def described(conversion: Conversion, array: np.ndarray) -> Transfer:
    transfer = Transfer(array=address_of(array))
    conversion.describe(transfer)
    return transfer


def move(address: int, entries: list[Transfer], memories: list[np.ndarray]) -> int:
    array = (Transfer * len(entries))(*entries)
    places = (ctypes.c_void_p * len(memories))(*map(address_of, memories))
    return int(MOVE(address)(ctypes.addressof(array), ctypes.addressof(places), len(entries)))


@st.composite
def values(draw: st.DrawFn, dtype: np.dtype) -> np.ndarray:
    count = draw(st.integers(1, 70))
    raw = np.random.default_rng(draw(st.integers(0, 2**32))).bytes(count * dtype.itemsize)
    bits: np.ndarray = np.frombuffer(raw, np.uint8).copy().view(dtype)
    if dtype.kind == "f":
        bits[~np.isfinite(bits)] = 1.5
    return bits


@given(st.data(), st.integers(0, len(kernels.CONVERSIONS) - 1), st.integers(-8, 15))
def test_arrays_are_converted_as_numpy_does(
    data: st.DataObject, number: int, binary_point: int
) -> None:
    """Every conversion both ways, among them 16-bit dynamic fixed point."""
    source_dtype, target_dtype = kernels.CONVERSIONS[number]
    arrays = [data.draw(values(source_dtype)) for _ in range(2)]
    scale = 2.0**-binary_point
    zero_point = data.draw(st.integers(-3, 3))
    for functions in both():
        sent = [np.zeros(array.size, target_dtype) for array in arrays]
        entries = [numbered(number, array, scale, zero_point) for array in arrays]
        assert move(functions.send, entries, sent) == 0
        received = [np.zeros(array.size, target_dtype) for array in arrays]
        entries = [numbered(number, array, scale, zero_point) for array in received]
        assert move(functions.receive, entries, arrays) == 0
        for array, there, back in zip(arrays, sent, received, strict=True):
            expected = np.zeros(array.size, target_dtype)
            if source_dtype.kind in "iu" and target_dtype.kind == "f":
                numpy_kernels.dequantize(array, scale, zero_point, expected)
            elif source_dtype.kind == "f" and target_dtype.kind in "iu":
                numpy_kernels.quantize(array, scale, zero_point, expected)
            else:
                numpy_kernels.convert(array, expected)
            np.testing.assert_array_equal(there, expected)
            np.testing.assert_array_equal(back, expected)


@given(
    st.integers(1, 2), st.integers(1, 40), st.integers(1, 5), st.integers(1, 40),
    st.sampled_from([4, 8, 16]), st.integers(0, 3),
)  # fmt: skip
def test_channel_blocks_go_and_come(
    n: int, channels: int, h: int, w: int, block: int, padding: int
) -> None:
    """Quantised into memory whose pixels are padded, and back."""
    shape = (n, channels, h, w)
    memory_shape = (n, -(-channels // block), 1, h * w + padding, block)
    values = np.random.default_rng(channels).integers(-50, 50, shape).astype(np.float32) / 2
    affine = kernels.Affine(0.5, 3)
    quantise, restore = (
        kernels.conversion(np.dtype(a), np.dtype(b), is_quantized=True)
        for a, b in (("f4", "i1"), ("i1", "f4"))
    )
    assert quantise is not None
    assert restore is not None
    # Kept: a transfer has the address of what they say.
    packing = Conversion.blocks(quantise, shape, memory_shape, affine)
    unpacking = Conversion.blocks(restore, shape, memory_shape, affine)
    for functions in both():
        memory = np.full(memory_shape, 99, np.int8)
        sent = described(packing, values)
        assert move(functions.send, [sent], [memory]) == 0
        expected = np.zeros((n, memory_shape[1] * block, h * w), np.int8)
        expected[:, :channels] = (values * 2 + 3).reshape(n, channels, -1)
        found = memory.transpose(0, 1, 4, 2, 3).reshape(n, -1, h * w + padding)
        np.testing.assert_array_equal(found[:, :, : h * w], expected)
        assert (found[:, :, h * w :] == 99).all()
        result = np.zeros(shape, np.float32)
        received = described(unpacking, result)
        assert move(functions.receive, [received], [memory]) == 0
        np.testing.assert_array_equal(result, values)


@given(
    st.integers(1, 2), st.integers(1, 5), st.integers(1, 5), st.integers(1, 40),
    st.integers(0, 3), st.sampled_from(["u1", "f4"]),
)  # fmt: skip
def test_planes_become_pixels_of_padded_rows(
    n: int, channels: int, h: int, w: int, padding: int, dtype: str
) -> None:
    values = np.random.default_rng(w).integers(0, 200, (n, channels, h, w)).astype(dtype)
    for functions in both():
        memory = np.full((n, h, w + padding, channels), 77, dtype)
        how = Conversion.pixels(values.shape, w + padding, values.itemsize)
        entry = described(how, values)
        assert move(functions.send, [entry], [memory]) == 0
        np.testing.assert_array_equal(memory[:, :, :w], values.transpose(0, 2, 3, 1))
        assert (memory[:, :, w:] == 77).all()
        assert move(functions.receive, [entry], [memory]) != 0


@pytest.mark.parametrize("place", [0, 1])
def test_each_handle_is_called_until_one_fails(place: int) -> None:
    functions = both()[place]
    seen = []

    def called(handle: int, argument: int) -> int:
        seen.append((handle, argument))
        return -7 if handle == 0x3000 else 0

    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(called)
    handles = (ctypes.c_void_p * 4)(0x1000, 0x2000, 0x3000, 0x4000)
    address = ctypes.cast(function, ctypes.c_void_p).value
    call = EACH(functions.each)
    assert call(address, ctypes.addressof(handles), 2, 5) == 0
    assert seen == [(0x1000, 5), (0x2000, 5)]
    assert call(address, ctypes.addressof(handles), 4, 6) == -7
    assert len(seen) == 5


def test_an_unknown_conversion_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    array = np.zeros(4, np.float32)
    entry = numbered(len(kernels.CONVERSIONS), array, 1, 0)
    for functions in both():
        assert move(functions.send, [entry], [array]) != 0
        assert move(functions.receive, [entry], [array]) != 0
    assert "IndexError" in capsys.readouterr().err


def test_which_conversion_is_which() -> None:
    float32, float16, int8 = np.dtype("f4"), np.dtype("f2"), np.dtype("i1")
    assert kernels.CONVERSIONS[kernels.conversion(float32, float16) or 0] == (float32, float16)
    for source, target in ((float32, int8), (int8, float32)):
        number = kernels.conversion(source, target, is_quantized=True)
        assert number is not None
        assert kernels.CONVERSIONS[number] == (source, target)
        assert kernels.conversion(source, target) is None
    assert kernels.conversion(int8, int8) == kernels.conversion(int8, int8, is_quantized=True) == 0
    assert kernels.conversion(np.dtype("f8"), np.dtype("f8")) is None
