"""A step that makes arrays what a runtime takes: in C, and in Python where there is no C."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anynpu.native import arrangements, kernels
from anynpu.native.arrangements import Arrangement

pytestmark = pytest.mark.usefixtures("kernel_form")

STEP = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_size_t)
DTYPES = ["uint8", "float16", "float32", "int64"]


@pytest.fixture(autouse=True)
def _own_choice() -> Iterator[None]:
    yield
    arrangements.function.cache_clear()


@cache
def both() -> tuple[int, int]:
    """The addresses of the step in C and in Python."""
    arrangements.function.cache_clear()
    built = arrangements.function()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "is_built", lambda: False)
        arrangements.function.cache_clear()
        return built, arrangements.function()


def arrange(address: int, *entries: Arrangement) -> int:
    array = (Arrangement * len(entries))(*entries)
    return int(STEP(address)(ctypes.addressof(array), len(entries)))


@given(st.sampled_from(DTYPES), st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_planes_become_pixels(dtype: str, shape: list[int]) -> None:
    planes = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    for address in both():
        pixels = np.zeros((shape[0], shape[2], shape[3], shape[1]), dtype)
        how = Arrangement()
        how.interleave(planes, pixels)
        assert arrange(address, how) == 0
        np.testing.assert_array_equal(pixels, planes.transpose(0, 2, 3, 1))
        how.interleave(other := planes + planes.dtype.type(1), None)
        assert arrange(address, how) == 0
        np.testing.assert_array_equal(pixels, other.transpose(0, 2, 3, 1))


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=40),
    st.floats(-1e3, 0, width=32),
    st.floats(0, 1e3, width=32),
)
def test_values_are_limited(values: list[float], low: float, high: float) -> None:
    source = np.array(values, np.float32)
    for address in both():
        target = np.zeros_like(source)
        how = Arrangement()
        how.limit(source, target, low, high)
        assert arrange(address, how) == 0
        np.testing.assert_array_equal(target, np.clip(source, np.float32(low), np.float32(high)))


def test_several_arrays_and_one_that_stays() -> None:
    for address in both():
        planes, pixels = np.arange(24.0).reshape(1, 3, 2, 4), np.zeros((1, 2, 4, 3))
        turned, kept, limited = Arrangement(), Arrangement(), Arrangement()
        turned.interleave(planes, pixels)
        values = np.array([-2, 0.5, 2], np.float32)
        limited.limit(values, values, -1, 1)
        assert arrange(address, turned, kept, limited) == 0
        np.testing.assert_array_equal(pixels, planes.transpose(0, 2, 3, 1))
        assert values.tolist() == [-1, 0.5, 1]


def test_an_unknown_kind_is_refused() -> None:
    how = Arrangement()
    how.kind = 9  # type: ignore[assignment]
    assert arrange(both()[0], how) == -1
