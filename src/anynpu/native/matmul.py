"""Matrix products on B as it lies in memory: in C where it is built, else with NumPy.

The C functions let go of the GIL. Any thread may call these, each with arrays of its own.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..matmul_layouts import BlockedB, columns_from_blocks, columns_to_blocks
from ..structures import Structure
from .forms import load_kernels
from .memory import address_of
from .threads import thread_count

_EXACT_COLUMNS = 2**24 // 128**2
"""This many products of two int8 add up to no more than float32 holds exactly."""


_DIMENSIONS_OF_BLOCKS = 3

_PRODUCTS_FOR_A_THREAD = 2**23
"""Work of some tenths of a millisecond, of which starting a thread takes one or two."""


class Product(Structure):
    """C (m, n) = A (m, k) times B, on some threads.

    B lies in parts of `segment` rows, each (n / block_n, rows / block_k, block_n, block_k); or,
    where `block_k` is 0, as (k, n). A lies as (k / a_block, m, a_block) and C as
    (n / c_block, m, c_block), where these aren't 0.
    """

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("m", "k", "n", "segment", "block_n", "block_k")),
        *((name, ctypes.c_int64) for name in ("threads", "a_block", "c_block")),
    ]


@dataclass(frozen=True)
class Weights:
    """A matrix B of (`k`, `n`), int8 or float16, as it lies in memory: `data` has any shape.

    It lies as (k, n), as (n, k) where `is_transposed`, or in `blocks`.
    """

    data: NDArray[Any]
    k: int
    n: int
    is_transposed: bool = False
    blocks: BlockedB | None = None

    def for_rows(self, rows: int) -> Product:
        """What C has to know to multiply so many rows of A by it."""
        how = Product(rows, self.k, self.n, threads=_threads(rows * self.k * self.n))
        if self.blocks is not None:
            how.block_n, how.block_k = self.blocks.block_n, self.blocks.block_k
            how.segment = self.blocks.segment or self.k
        elif self.is_transposed:
            how.segment, how.block_n, how.block_k = self.k, 1, self.k
        return how

    def matrix(self) -> NDArray[Any]:
        """B as a (k, n) array: a view where it isn't in blocks."""
        if self.blocks is not None:
            return self.blocks.unpack(self.data.reshape(-1), self.k, self.n)
        if self.is_transposed:
            columns: NDArray[Any] = self.data.reshape(self.n, self.k).T
            return columns
        rows: NDArray[Any] = self.data.reshape(self.k, self.n)
        return rows


def multiply_int8(a: NDArray[np.int8], b: Weights, out: NDArray[np.int32]) -> None:
    """Write a (m, k) times b (k, n) to out (m, n), all C-contiguous; the sums fit into int32.

    Either may lie in blocks of columns instead: a as (k / block, m, block), out as
    (n / block, m, block). B isn't converted where there is a C compiler and the shapes are of
    whole blocks.
    """
    if not Int8Product(a, b, out).is_computed():
        multiply_with_numpy(a, b, out)


class Int8Product:
    """`multiply_int8` of matrices that stay where they are, made ready to be computed often.

    It doesn't keep their memory: whoever has it computed does.
    """

    def __init__(self, a: NDArray[np.int8], b: Weights, out: NDArray[np.int32]) -> None:
        self._function = _function("anynpu_multiply_int8")
        self._arguments = _arguments(a, b, out)

    def is_computed(self) -> bool:
        """Write it; False, and nothing is written, without C or for shapes not of whole blocks."""
        return _is_written(self._function, self._arguments)


def multiply_with_numpy(a: NDArray[np.int8], b: Weights, out: NDArray[np.int32]) -> None:
    """The same by float32 products of so few columns that every sum is exact."""
    if a.ndim == _DIMENSIONS_OF_BLOCKS:
        a = columns_from_blocks(a, b.k)
    matrix = b.matrix()
    sums = np.zeros((a.shape[0], b.n), np.int32)
    for start in range(0, b.k, _EXACT_COLUMNS):
        columns = slice(start, start + _EXACT_COLUMNS)
        product = a[:, columns].astype(np.float32) @ matrix[columns].astype(np.float32)
        np.add(sums, product.astype(np.int32), out=sums)
    in_blocks = out.ndim == _DIMENSIONS_OF_BLOCKS
    np.copyto(out, columns_to_blocks(sums, out.shape[2]) if in_blocks else sums)


def is_built() -> bool:
    """Whether the C functions are there."""
    return _library() is not None


def multiply_half(a: NDArray[np.float32], b: Weights, out: NDArray[np.float32]) -> bool:
    """Write a (m, k) times float16 b (k, n) to out (m, n), all C-contiguous, summed in float32.

    For few rows of A: B is read once. False, and nothing is written, where the processor can't, or
    there is no C compiler: the caller has other ways then.
    """
    return _is_written(_function("anynpu_multiply_half"), _arguments(a, b, out))


def _arguments(a: NDArray[Any], b: Weights, out: NDArray[Any]) -> tuple[Any, ...]:
    """What C functions get: they keep no array alive."""
    how = b.for_rows(a.shape[-2])
    how.a_block, how.c_block = _block(a), _block(out)
    return ctypes.byref(how), address_of(a), address_of(b.data), address_of(out)


def _function(name: str) -> Any:
    """A C function, None where there is none."""
    library = _library()
    return None if library is None else getattr(library, name)


def _is_written(function: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a C function is there and has done it."""
    return function is not None and function(*arguments) == 0


def _block(matrix: NDArray[Any]) -> int:
    """The columns in a block; 0 where a matrix lies in rows."""
    return int(matrix.shape[2]) if matrix.ndim == _DIMENSIONS_OF_BLOCKS else 0


def _threads(products: int) -> int:
    """How many threads are worth it: as many as there may be, where there is work."""
    return min(thread_count(), products // _PRODUCTS_FOR_A_THREAD + 1)


@cache
def _library() -> ctypes.CDLL | None:
    library = load_kernels("matmul")
    if library is not None:
        for function in (library.anynpu_multiply_int8, library.anynpu_multiply_half):
            function.restype, function.argtypes = ctypes.c_int32, (ctypes.c_void_p,) * 4
    return library
