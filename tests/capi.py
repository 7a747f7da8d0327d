"""A C client's steps, through a bound library: what the tests of the C ABI are written with."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary

SUCC = abi.ErrorCode.SUCC


def init(npu: RknnLibrary, model: bytes, flags: int = 0) -> tuple[int, int]:
    """(code, context) of rknn_init from memory."""
    context = abi.Handle(0xDEAD)
    code = npu.rknn_init(ctypes.byref(context), model, len(model), flags, None)
    return code, context.value


@contextmanager
def opened(npu: RknnLibrary, model: bytes, flags: int = 0) -> Iterator[int]:
    """A context that lives for the block."""
    code, context = init(npu, model, flags)
    assert code == SUCC
    try:
        yield context
    finally:
        assert npu.rknn_destroy(context) == SUCC


def query(npu: RknnLibrary, context: int, command: int, info: ctypes.Structure) -> int:
    """The code of rknn_query with the structure's own size."""
    return npu.rknn_query(context, command, ctypes.byref(info), ctypes.sizeof(info))


def attribute(npu: RknnLibrary, context: int, command: int, index: int = 0) -> abi.TensorAttr:
    """A tensor's attributes."""
    attr = abi.TensorAttr(index=index)
    assert query(npu, context, command, attr) == SUCC
    return attr


def one_input(
    array: np.ndarray,
    *,
    index: int = 0,
    fmt: int = abi.TensorFormat.NCHW,
    kind: int | None = None,
    size: int | None = None,
    pass_through: int = 0,
) -> abi.Input:
    """An rknn_input for an array, which must outlive it."""
    assert array.flags.c_contiguous
    return abi.Input(
        index=index,
        buf=array.ctypes.data,
        size=array.nbytes if size is None else size,
        pass_through=pass_through,
        type=abi.TensorType[array.dtype.name.upper()] if kind is None else kind,
        fmt=fmt,
    )


def set_input(npu: RknnLibrary, context: int, array: np.ndarray, **fields: int) -> int:
    """The code of rknn_inputs_set with one input."""
    return npu.rknn_inputs_set(context, 1, ctypes.byref(one_input(array, **fields)))


def get_output(
    npu: RknnLibrary, context: int, like: np.ndarray, *, want_float: int = 1, index: int = 0
) -> np.ndarray:
    """One output, written into a new array like `like`."""
    array = np.empty_like(like)
    wanted = abi.Output(
        want_float=want_float,
        is_prealloc=1,
        index=index,
        buf=array.ctypes.data,
        size=array.nbytes,
    )
    assert npu.rknn_outputs_get(context, 1, ctypes.byref(wanted), None) == SUCC
    assert wanted.size == array.nbytes
    return array


def infer(
    npu: RknnLibrary, context: int, array: np.ndarray, like: np.ndarray, **fields: int
) -> np.ndarray:
    """Set the only input, run, get the only output as float32."""
    assert set_input(npu, context, array, **fields) == SUCC
    assert npu.rknn_run(context, None) == SUCC
    return get_output(npu, context, like)
