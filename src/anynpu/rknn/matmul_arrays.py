"""NumPy arrays to and from the memory of a matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TensorError
from ..matmul_layouts import columns_from_blocks, columns_to_blocks, pack_int4
from ..native import kernels
from ..tensor import DType
from .abi import MatmulLayout
from .matmul_product import Product

Bytes = NDArray[np.uint8]


def write_a(product: Product, a: NDArray[Any], memory: Bytes, zero_point: int) -> None:
    """Write matrix A, padded to the product's columns with what counts as zero."""
    a = _converted("A", a, product.operands.a)
    columns = a.shape[1]
    is_plain = product.ac_layout is MatmulLayout.NORM and product.operands.a is not DType.INT4
    if is_plain:
        target = memory.view(a.dtype).reshape(product.m, product.k)
    else:
        target = np.empty((product.m, product.k), a.dtype)
    target[:, :columns] = a
    if columns < product.k:
        target[:, columns:] = zero_point
    if not is_plain:
        if product.ac_layout is MatmulLayout.NATIVE:
            target = columns_to_blocks(target, product.blocks.a)
        memory[:] = _bytes(target, product.operands.a)


def write_b(product: Product, b: NDArray[Any], memory: Bytes) -> None:
    """Write matrix B, padded with zeros, in the product's layout."""
    b = _converted("B", b, product.operands.b)
    if b.shape != (product.k, product.n):
        padded = np.zeros((product.k, product.n), b.dtype)
        padded[: b.shape[0], : b.shape[1]] = b
        b = padded
    blocks = product.b_blocks
    if blocks is not None:
        b = blocks.pack(b)
    elif product.b_layout is MatmulLayout.TP_NORM:
        b = b.T
    if product.operands.b is DType.INT4:
        memory[:] = _bytes(b, DType.INT4, high_first=blocks is not None)
    else:
        np.copyto(memory.view(b.dtype).reshape(b.shape), b)


def read_c(product: Product, memory: Bytes, columns: int, out: NDArray[Any] | None) -> NDArray[Any]:
    """Matrix C without its padding, as a new array or in `out`."""
    dtype = product.operands.c
    values = memory.view(np.uint16 if dtype is DType.BFLOAT16 else dtype.numpy)
    if product.ac_layout is MatmulLayout.NATIVE:
        values = columns_from_blocks(values.reshape(product.shapes["C"]), product.n)
    values = values.reshape(product.m, product.n)[:, :columns]
    if dtype is DType.BFLOAT16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    if out is None:
        return np.array(values)
    np.copyto(out, values)
    return out


def _bytes(values: NDArray[Any], dtype: DType, *, high_first: bool = False) -> Bytes:
    if dtype is DType.INT4:
        return pack_int4(values, high_first=high_first)
    flat: Bytes = values.reshape(-1).view(np.uint8)
    return flat


def _converted(name: str, array: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """A matrix in its NumPy dtype; `TensorError` for values that don't fit."""
    if dtype is DType.FLOAT16 and array.dtype == np.float32:
        rounded = np.empty(array.shape, np.float16)
        kernels.convert(array, rounded)
        return rounded
    expected = np.dtype(np.int8) if dtype is DType.INT4 else dtype.numpy
    if array.dtype != expected:
        raise TensorError(
            f"matrix {name} is {dtype.name}, an array of {expected}; found {array.dtype}"
        )
    if dtype is DType.INT4 and array.size and not -8 <= array.min() <= array.max() <= 7:
        raise TensorError(
            f"matrix {name} is INT4, with values of -8..7; found {array.min()}..{array.max()}"
        )
    return array
