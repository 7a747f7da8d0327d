"""A session's steps write and read what `formats` says, whatever the dtype and quantisation."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from anynpu import DType, Layout, Quantization, TensorInfo
from anynpu.backends.viplite.conversion import Conversion, ResultPlan
from anynpu.native import transfers
from anynpu.native.memory import address_of
from anynpu.native.transfers import Transfer
from anynpu.viplite import formats

MOVE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
QUANTISABLE = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.INT4,
               DType.UINT4)  # fmt: skip
REAL = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64)
WHOLE = (DType.INT64, DType.UINT64, DType.INT32, DType.UINT32, DType.INT16, DType.INT8, DType.BOOL)


@st.composite
def tensors(draw: st.DrawFn) -> TensorInfo:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=9))
    how = None
    if draw(st.booleans()):
        dtype = draw(st.sampled_from(QUANTISABLE))
        how = draw(
            st.one_of(
                st.builds(Quantization.fixed_point, st.integers(-2, 12)),
                st.builds(Quantization, st.sampled_from([0.5, 0.01, 3.0]), st.integers(0, 9)),
            )
        )
    else:
        dtype = draw(st.sampled_from([*REAL, *WHOLE]))
    size = formats.size_of(shape, dtype)
    return TensorInfo(0, "t", shape, dtype, Layout.UNDEFINED, how, size, size)


def values_for(info: TensorInfo, seed: int) -> np.ndarray:
    """Real values, or whole numbers of the tensor's dtype where they stand for themselves."""
    rng = np.random.default_rng(seed)
    if info.quantization is None and info.dtype in WHOLE:
        values: np.ndarray = rng.integers(0, 2, info.shape).astype(info.dtype.numpy)
        return values
    return rng.normal(0, 4, info.shape).astype(np.float32)


def memory_of(info: TensorInfo) -> np.ndarray:
    shape = formats.stored_shape(info.shape, info.dtype)
    return np.zeros(shape, formats.stored_dtype(info.dtype))


def move(address: int, conversion: Conversion, array: np.ndarray, memory: np.ndarray) -> None:
    transfer = Transfer()
    conversion.describe(transfer)
    transfer.array = address_of(array)
    places = (ctypes.c_void_p * 1)(address_of(memory))
    assert MOVE(address)(ctypes.addressof(transfer), ctypes.addressof(places), 1) == 0


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@given(tensors(), st.integers(0, 2**32))
def test_inputs(info: TensorInfo, seed: int) -> None:
    values = values_for(info, seed)
    expected = memory_of(info)
    formats.encode(values, info, expected)
    conversion = Conversion.to_memory(values.dtype, info)
    memory = memory_of(info)
    if conversion is not None:
        move(transfers.functions().send, conversion, values, memory)
    else:
        move(transfers.functions().send, Conversion.stored(info), expected, memory)
    assert memory.tobytes() == expected.tobytes()


@given(tensors(), st.integers(0, 2**32), st.booleans())
def test_outputs(info: TensorInfo, seed: int, is_float: bool) -> None:
    memory = memory_of(info)
    formats.encode(values_for(info, seed), info, memory)
    plan = ResultPlan.of(info, is_float=is_float, is_interleaved=False)
    result = np.empty(plan.shape, plan.dtype)
    move(transfers.functions().receive, plan.conversion, result, memory)
    found = plan.finish(result)
    assert found.shape == info.shape
    if is_float:
        expected = np.empty(info.shape, np.float32)
        formats.decode(memory, info, expected)
        assert found.dtype == np.float32
        same(found, expected)
    else:
        same(found, formats.own_values(memory, info))


def test_which_tensors_the_kernels_convert() -> None:
    """Pictures and scores of every model that the vendor's toolkit makes."""
    kinds = [
        (DType.UINT8, Quantization(0.5, 3)), (DType.INT8, Quantization(0.5, -3)),
        (DType.INT16, Quantization.fixed_point(8)), (DType.FLOAT16, None), (DType.FLOAT32, None),
    ]  # fmt: skip
    for dtype, how in kinds:
        info = TensorInfo(0, "t", (2, 3), dtype, Layout.UNDEFINED, how, 6, 6)
        for given_dtype in (np.dtype(np.float32), dtype.numpy):
            assert Conversion.to_memory(given_dtype, info) is not None
            assert Conversion.from_memory(info, given_dtype) is not None
