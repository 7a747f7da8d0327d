"""The product itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....native import kernels
from ....native.matmul import Int8Product, Weights, multiply_half, multiply_int8
from ....rknn.matmul_product import Product
from ....tensor import DType
from ...device_memory import Bytes
from .operands import Converted, a_view, b_view, c_view, load_a, load_b, load_real, store_c
from .scaling import PLAIN, Scaling

_LARGEST_PRODUCT = 128 * 128
"""Of two int8."""
_FEW_ROWS = 8
"""With more it pays to convert a float16 B and to keep it."""
_SAFE_ROWS = (2**31 - 1) // _LARGEST_PRODUCT // 32 * 32
"""This many products sum to an int32."""


def in_place(
    product: Product, memory: Mapping[str, Bytes], scalings: Mapping[str, Scaling]
) -> Int8Product | None:
    """The product of matrices where they lie, None where something is made of them or of C.

    It may be computed as often as wanted, by who keeps the memory.
    """
    types = product.operands
    out = _place_of_sums(product, memory, scalings)
    if out is None or types.a is not DType.INT8 or types.b is not DType.INT8:
        return None
    return Int8Product(a_view(product, memory["A"]), b_view(product, memory["B"]), out)


def multiply(
    product: Product,
    memory: Mapping[str, Bytes],
    scalings: Mapping[str, Scaling],
    converted: Converted,
) -> None:
    """Compute C from A and B, each the bytes of its memory."""
    scaling_a, scaling_b, scaling_c = (scalings.get(name, PLAIN) for name in "ABC")
    if not product.operands.are_integers or product.is_per_group:
        real = _real_a(product, memory["A"], scaling_a)
        values = _real_product(product, real, memory["B"], scaling_b, converted)
        values = _scaled(values, scaling_a, scaling_c)
        store_c(product, _as_float(values, product.operands.c), memory["C"])
        return
    weights = load_b(product, memory["B"], converted)
    place = _place_of_sums(product, memory, scalings)
    if place is not None:
        multiply_int8(a_view(product, memory["A"]), weights, place)
        return
    a = load_a(product, memory["A"])
    sums = _sums(a, weights)
    if scaling_a.is_shifted or scaling_b.is_shifted:
        sums = _without_zero_points(a, weights, sums, scaling_a, scaling_b)
    store_c(product, _finished(product, sums, scaling_a, scaling_b, scaling_c), memory["C"])


def normal_scale(scaling: Scaling) -> float:
    """What C's integers are multiples of, over A's scale, where B's columns have scales."""
    return float(scaling.scales.max())


def _normalises(product: Product, scaling: Scaling) -> bool:
    """Whether C's integers are brought to one scale for all columns."""
    return product.operands.c is DType.INT32 and not scaling.is_uniform


def _place_of_sums(
    product: Product, memory: Mapping[str, Bytes], scalings: Mapping[str, Scaling]
) -> NDArray[np.int32] | None:
    """C's memory, where it is sums of A's and B's integers that fit; else None."""
    scaling_a, scaling_b = scalings.get("A", PLAIN), scalings.get("B", PLAIN)
    if not product.operands.are_integers or product.is_per_group or product.k > _SAFE_ROWS:
        return None
    if scaling_a.is_shifted or scaling_b.is_shifted or _normalises(product, scaling_b):
        return None
    return c_view(product, memory["C"])


def _sums(a: NDArray[np.int8], weights: Weights) -> NDArray[Any]:
    """Exact sums: int32, or int64 where they may need it."""
    part = np.empty((a.shape[0], weights.n), np.int32)
    if weights.k <= _SAFE_ROWS:
        multiply_int8(a, weights, part)
        return part
    total = np.zeros(part.shape, np.int64)
    matrix = weights.matrix()
    for start in range(0, weights.k, _SAFE_ROWS):
        rows = np.ascontiguousarray(matrix[start : start + _SAFE_ROWS])
        columns = np.ascontiguousarray(a[:, start : start + _SAFE_ROWS])
        multiply_int8(columns, Weights(rows, rows.shape[0], weights.n), part)
        np.add(total, part, out=total)
    return total


def _without_zero_points(
    a: NDArray[np.int8],
    weights: Weights,
    sums: NDArray[Any],
    scaling_a: Scaling,
    scaling_b: Scaling,
) -> NDArray[np.int64]:
    """Sums of (a - zero point) * (b - zero point) from sums of a * b."""
    zero_a = scaling_a.zero_point
    zero_b = scaling_b.zero_points.astype(np.int64)
    result = sums.astype(np.int64)
    result -= a.sum(axis=1, dtype=np.int64)[:, np.newaxis] * zero_b
    if zero_a:
        of_b = _sums(np.ones((1, weights.k), np.int8), weights)
        result -= zero_a * of_b.astype(np.int64)
        result += weights.k * zero_a * zero_b
    return result


def _finished(
    product: Product, sums: NDArray[Any], scaling_a: Scaling, scaling_b: Scaling, scaling_c: Scaling
) -> NDArray[Any]:
    """Integer sums as C has them."""
    dtype = product.operands.c
    scales_b = scaling_b.scales.astype(np.float64)
    if dtype is DType.INT8:
        factor = scaling_a.scale * scales_b / scaling_c.scale
        return _saturated(np.rint(sums * factor) + scaling_c.zero_point, dtype)
    if dtype in (DType.INT32, DType.INT16):
        if _normalises(product, scaling_b):
            sums = np.rint(sums * (scales_b / normal_scale(scaling_b)))
        return _saturated(sums, dtype)
    return _as_float(sums * (scaling_a.scale * scales_b / scaling_c.scale), dtype)


def _real_product(
    product: Product,
    a: NDArray[np.float32],
    source: Bytes,
    scaling_b: Scaling,
    converted: Converted,
) -> NDArray[np.float32]:
    """Sums of float32 products. Few rows of A are multiplied by a float16 B where it lies."""
    if product.operands.b is DType.FLOAT16 and product.m <= _FEW_ROWS and scaling_b.is_plain:
        values = np.empty((product.m, product.n), np.float32)
        if multiply_half(a, load_b(product, source, converted), values):
            return values
    return a @ load_real(product, source, scaling_b, converted)


def _real_a(product: Product, source: Bytes, scaling: Scaling) -> NDArray[np.float32]:
    a = load_a(product, source)
    real = np.empty(a.shape, np.float32)
    kernels.convert(a, real)
    if scaling.zero_point:
        real -= np.float32(scaling.zero_point)
    return real


def _scaled(
    values: NDArray[np.float32], scaling_a: Scaling, scaling_c: Scaling
) -> NDArray[np.float32]:
    factor = scaling_a.scale / scaling_c.scale
    return values if factor == 1 else np.multiply(values, np.float32(factor), out=values)


def _saturated(values: NDArray[Any], dtype: DType) -> NDArray[Any]:
    limits = np.iinfo(dtype.numpy)
    saturated: NDArray[Any] = np.clip(values, limits.min, limits.max).astype(dtype.numpy)
    return saturated


def _as_float(values: NDArray[Any], dtype: DType) -> NDArray[Any]:
    if dtype is not DType.BFLOAT16:
        return values.astype(dtype.numpy)
    return _bfloat16_bits(values.astype(np.float32))


def _bfloat16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The upper halves of float32 numbers, rounded to nearest, ties to even."""
    bits = values.view(np.uint32)
    # What is no number stays none: rounding could make it infinite.
    rounded = bits + (0x7FFF + (bits >> 16 & 1)).astype(np.uint32)
    upper = np.where(np.isnan(values), bits | 0x400000, rounded) >> 16
    return upper.astype(np.uint16)
