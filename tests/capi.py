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


def interleaved(array: np.ndarray) -> np.ndarray:
    """An image in the model's order as NHWC, which boards take; other arrays as they are."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if array.ndim == 4 else array


def set_input(npu: RknnLibrary, context: int, array: np.ndarray, **fields: int) -> int:
    """The code of rknn_inputs_set with one input; in the model's order, unless `fmt` is given."""
    if "fmt" not in fields:
        array, fields = interleaved(array), {"fmt": abi.TensorFormat.NHWC, **fields}
    return npu.rknn_inputs_set(context, 1, ctypes.byref(one_input(array, **fields)))


def set_inputs(npu: RknnLibrary, context: int, *arrays: np.ndarray) -> int:
    """The code of rknn_inputs_set with the first inputs, each in the model's order."""
    given = [interleaved(array) for array in arrays]
    structs = (abi.Input * len(given))(
        *(one_input(array, index=i, fmt=abi.TensorFormat.NHWC) for i, array in enumerate(given))
    )
    return npu.rknn_inputs_set(context, len(given), structs)


def get_output(
    npu: RknnLibrary, context: int, like: np.ndarray, *, want_float: int = 1, index: int = 0
) -> np.ndarray:
    """One output, written into a new array like `like`; those before it come with it."""
    array = np.empty_like(like)
    wanted = (abi.Output * (index + 1))()
    last = wanted[index]
    last.want_float, last.is_prealloc = want_float, 1
    last.buf, last.size = array.ctypes.data, array.nbytes
    assert npu.rknn_outputs_get(context, index + 1, wanted, None) == SUCC
    assert (last.size, last.index) == (array.nbytes, index)
    assert npu.rknn_outputs_release(context, index + 1, wanted) == SUCC
    return array


def infer(
    npu: RknnLibrary, context: int, array: np.ndarray, like: np.ndarray, **fields: int
) -> np.ndarray:
    """Set the only input, run, get the only output as float32."""
    assert set_input(npu, context, array, **fields) == SUCC
    assert npu.rknn_run(context, None) == SUCC
    return get_output(npu, context, like)
