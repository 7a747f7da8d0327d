"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import anynpu
from anynpu.rknn import Matmul


def _whole(shape: tuple[int, int], seed: int) -> NDArray[np.int8]:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def of_bytes(b_layout: str, ac_layout: str, rows: int = 4) -> dict[str, Any]:
    """int8 products for two matrices A with one B, and what NumPy makes of them."""
    b = _whole((64, 32), 2)
    with Matmul(rows, 64, 32, b_layout=b_layout, ac_layout=ac_layout) as product:
        product.set_b(b)
        matrices = [_whole((rows, 64), seed) for seed in (3, 4)]
        found = [np.array(product.run(a)) for a in matrices]
    expected = [a.astype(np.int64) @ b.astype(np.int64) for a in matrices]
    return {"found": np.stack(found), "expected": np.stack(expected)}


def of_halves() -> dict[str, Any]:
    """The same of float16 numbers whose products and sums are exact."""
    a, b = _whole((4, 64), 5).astype(np.float16), _whole((64, 32), 6).astype(np.float16)
    with Matmul(4, 64, 32, type="FLOAT16_MM_FLOAT16_TO_FLOAT32") as product:
        product.set_b(b)
        found = np.array(product.run(a))
    return {"found": found, "expected": a.astype(np.float64) @ b.astype(np.float64)}


def in_one_call(k: int) -> dict[str, Any]:
    """`anynpu.matmul`."""
    a, b = _whole((4, k), 7), _whole((k, 32), 8)
    expected = a.astype(np.int64) @ b.astype(np.int64)
    return {"found": anynpu.matmul(a, b), "expected": expected}
