"""The matrices in the caller's memory as arrays, and back."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....matmul_layouts import columns_from_blocks, columns_to_blocks, unpack_int4
from ....native import kernels
from ....native.matmul import Weights
from ....rknn.abi import MatmulLayout
from ....rknn.matmul_product import Product
from ....tensor import DType
from ...device_memory import Bytes
from .scaling import PLAIN, Scaling


class Converted:
    """An array made of B's bytes; made anew whenever they have changed, at the price of a look.

    Clients may write to B's memory between two runs, so a copy of the bytes is kept beside it.
    """

    def __init__(self) -> None:
        self._source: Bytes | None = None
        self._key: object = None
        self._value: NDArray[Any] | None = None

    def get(
        self, source: Bytes, key: object, convert: Callable[[Bytes], NDArray[Any]]
    ) -> NDArray[Any]:
        """`convert` of the bytes, made before for the same bytes and key, or now."""
        if self._value is None or key != self._key or not _same(self._source, source):
            self._source, self._key = source.copy(), key
            self._value = convert(self._source)
        return self._value


def load_a(product: Product, source: Bytes) -> NDArray[Any]:
    """A as a C-contiguous (m, k) array of int8 or float16: a view where it lies so."""
    elements = a_view(product, source)
    is_native = product.ac_layout is MatmulLayout.NATIVE
    return columns_from_blocks(elements, product.k) if is_native else elements


def a_view(product: Product, source: Bytes) -> NDArray[Any]:
    """A's elements in the shape in which they lie; int4 one to a byte, the others a view."""
    shape = product.shapes["A"]
    return _elements(source, product.operands.a, math.prod(shape)).reshape(shape)


def load_b(product: Product, source: Bytes, converted: Converted) -> Weights:
    """B as it lies in memory; int4 one to a byte."""
    if product.operands.b is not DType.INT4:
        return b_view(product, source)
    data = converted.get(source, product, lambda source: _b_elements(product, source))
    return _weights(product, data)


def b_view(product: Product, source: Bytes) -> Weights:
    """B's elements where they lie; not for int4."""
    return _weights(product, _b_elements(product, source))


def load_real(
    product: Product, source: Bytes, scaling: Scaling, converted: Converted
) -> NDArray[np.float32]:
    """B as real numbers: a (k, n) array with contiguous rows or columns."""
    key = (product, scaling)
    return converted.get(source, key, lambda source: _to_real(product, source, scaling))


def store_c(product: Product, values: NDArray[Any], target: Bytes) -> None:
    """Write (m, n) values of C's dtype, bfloat16 as its bits, to the memory in C's layout."""
    memory = target.view(values.dtype)
    if product.ac_layout is MatmulLayout.NATIVE:
        values = columns_to_blocks(values, product.c_block)
    np.copyto(memory.reshape(values.shape), values)


def c_view(product: Product, target: Bytes) -> NDArray[np.int32] | None:
    """C's memory as the array that a product may write to, in the shape in which it lies.

    None where its elements aren't int32, or not all of them are C's.
    """
    shape = product.shapes["C"]
    is_plain = product.operands.c is DType.INT32 and math.prod(shape) == product.m * product.n
    return target.view(np.int32).reshape(shape) if is_plain else None


def _weights(product: Product, data: NDArray[Any]) -> Weights:
    is_transposed = product.b_layout is MatmulLayout.TP_NORM
    return Weights(data, product.k, product.n, is_transposed, product.b_blocks)


def _b_elements(product: Product, source: Bytes) -> NDArray[Any]:
    blocks = product.b_blocks
    k, n = product.k, product.n
    count = blocks.elements(k, n) if blocks else k * n
    return _elements(source, product.operands.b, count, high_first=blocks is not None)


def _elements(source: Bytes, dtype: DType, count: int, *, high_first: bool = False) -> NDArray[Any]:
    if dtype is DType.INT4:
        return unpack_int4(source, count, high_first=high_first)
    elements: NDArray[Any] = source.view(dtype.numpy)
    return elements


def _to_real(product: Product, source: Bytes, scaling: Scaling) -> NDArray[np.float32]:
    elements = _b_elements(product, source)
    k, n = product.k, product.n
    real: NDArray[np.float32] = np.empty(elements.shape, np.float32)
    if elements.dtype == np.int8:
        kernels.dequantize(elements, 1, 0, real)
    else:
        kernels.convert(elements, real)
    if product.b_blocks is not None:
        real = product.b_blocks.unpack(real, k, n)
    else:
        is_transposed = product.b_layout is MatmulLayout.TP_NORM
        real = real.reshape(n, k).T if is_transposed else real.reshape(k, n)
    rows = product.group_size if product.is_per_group and scaling is not PLAIN else k
    zero_points = scaling.zero_points.astype(np.float32).reshape(k // rows, -1)
    scales = scaling.scales.reshape(k // rows, -1)
    for group, (zero_point, scale) in enumerate(zip(zero_points, scales, strict=True)):
        part = real[group * rows : (group + 1) * rows]
        if np.any(zero_point):
            np.subtract(part, zero_point, out=part)
        if np.any(scale != 1):
            np.multiply(part, scale, out=part)
    return real


@cache
def _compare() -> Any:
    function = ctypes.CDLL(None).memcmp
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    return function


def _same(first: Bytes | None, second: Bytes) -> bool:
    if first is None or first.size != second.size:
        return False
    return bool(_compare()(first.ctypes.data, second.ctypes.data, first.size) == 0)
