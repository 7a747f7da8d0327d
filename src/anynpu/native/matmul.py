"""Exact integer matrix products on B as it lies in memory: in C where it is built, else NumPy.

The C functions let go of the GIL. Any thread may call these, each with arrays of its own.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..matmul_layouts import BlockedB
from .library import load
from .memory import address_of

_EXACT_COLUMNS = 2**24 // 128**2
"""Sums of so many products of two int8 don't exceed what float32 holds exactly."""


class _Product(ctypes.Structure):
    """What native/matmul.c declares."""

    _fields_ = [(name, ctypes.c_int64) for name in ("m", "k", "n", "segment", "block_n", "block_k")]


@dataclass(frozen=True)
class Int8Weights:
    """An int8 matrix B of (`k`, `n`) as it lies in memory: `data` is flat, or in any shape.

    It lies as (k, n), as (n, k) where `is_transposed`, or in `blocks`.
    """

    data: NDArray[np.int8]
    k: int
    n: int
    is_transposed: bool = False
    blocks: BlockedB | None = None

    def matrix(self) -> NDArray[Any]:
        """B as a (k, n) array: a view where it isn't in blocks."""
        if self.blocks is not None:
            return self.blocks.unpack(self.data.reshape(-1), self.k, self.n)
        if self.is_transposed:
            columns: NDArray[Any] = self.data.reshape(self.n, self.k).T
            return columns
        rows: NDArray[Any] = self.data.reshape(self.k, self.n)
        return rows


def multiply_int8(a: NDArray[np.int8], b: Int8Weights, out: NDArray[np.int32]) -> None:
    """Write a (m, k) times b (k, n) to out (m, n), all C-contiguous; the sums fit into int32.

    B isn't converted where there is a C compiler and its shape is one of whole blocks.
    """
    if not _multiplied_in_c(a, b, out):
        multiply_with_numpy(a, b, out)


def multiply_with_numpy(a: NDArray[np.int8], b: Int8Weights, out: NDArray[np.int32]) -> None:
    """The same by float32 products of so many columns that every sum is exact."""
    matrix = b.matrix()
    out.fill(0)
    for start in range(0, b.k, _EXACT_COLUMNS):
        columns = slice(start, start + _EXACT_COLUMNS)
        product = a[:, columns].astype(np.float32) @ matrix[columns].astype(np.float32)
        np.add(out, product.astype(np.int32), out=out)


def is_built() -> bool:
    """Whether the C functions are there."""
    return _library() is not None


def _multiplied_in_c(a: NDArray[np.int8], b: Int8Weights, out: NDArray[np.int32]) -> bool:
    library = _library()
    if library is None:
        return False
    how = _Product(a.shape[0], b.k, b.n)
    if b.blocks is not None:
        how.block_n, how.block_k = b.blocks.block_n, b.blocks.block_k
        how.segment = b.blocks.segment or b.k
    elif b.is_transposed:
        how.segment, how.block_n, how.block_k = b.k, 1, b.k
    code: int = library.anynpu_multiply_int8(
        ctypes.addressof(how), address_of(a), address_of(b.data), address_of(out)
    )
    return code == 0


_POINTER = ctypes.c_void_p


@cache
def _library() -> ctypes.CDLL | None:
    library = load("matmul", ("-O3",))
    if library is not None:
        library.anynpu_multiply_int8.restype = ctypes.c_int32
        library.anynpu_multiply_int8.argtypes = (_POINTER,) * 4
    return library
