"""Pure array functions: how the RKNN matmul API lays out its matrices, and int4 in bytes.

Sources: the comments of the vendor's matmul header and tables 3-5 to 3-7 of Rockchip's user guide.
Nothing here keeps state; every function may be called from any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import TensorError

__all__ = ["BlockedB", "columns_from_blocks", "columns_to_blocks", "pack_int4", "unpack_int4"]


@dataclass(frozen=True)
class BlockedB:
    """The native layout of matrix B: (N1, K1, `block_n`, `block_k`).

    Element (k, n) of the matrix is at [n // block_n, k // block_k, n % block_n, k % block_k].
    Where `segment` is set, B's rows are cut into parts of `segment` rows, each laid out so, one
    part after the other; it is a multiple of `block_k`. What pads the last blocks is zero.
    """

    block_n: int
    block_k: int
    segment: int | None = None

    def shape(self, k: int, n: int) -> tuple[int, int, int, int]:
        """(N1, K1, block_n, block_k) of a (k, n) matrix, as if it were one part."""
        return -(-n // self.block_n), -(-k // self.block_k), self.block_n, self.block_k

    def elements(self, k: int, n: int) -> int:
        """How many elements a (k, n) matrix takes, padding included."""
        n1, k1, block_n, block_k = self.shape(k, n)
        return n1 * k1 * block_n * block_k

    def pack(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """A (k, n) matrix of any dtype as a new flat array in this layout."""
        _check_matrix(matrix)
        k, n = matrix.shape
        packed = np.zeros(self.elements(k, n), matrix.dtype)
        for rows, part in self._parts(packed, k, n):
            source = matrix[rows]
            n1, k1, block_n, block_k = part.shape
            if source.shape != (k1 * block_k, n1 * block_n):
                padded = np.zeros((k1 * block_k, n1 * block_n), matrix.dtype)
                padded[: source.shape[0], :n] = source
                source = padded
            np.copyto(part, source.reshape(k1, block_k, n1, block_n).transpose(2, 0, 3, 1))
        return packed

    def unpack(self, packed: NDArray[Any], k: int, n: int, dtype: Any = None) -> NDArray[Any]:
        """The (k, n) matrix in a flat array of this layout, cast to `dtype` where one is given.

        The result is a new array, whose columns are contiguous. Raises `TensorError` for an array
        of another size.
        """
        if packed.shape != (self.elements(k, n),):
            raise TensorError(
                f"a ({k}, {n}) matrix in blocks of ({self.block_n}, {self.block_k}) is a flat "
                f"array of {self.elements(k, n)} elements; this one has shape {packed.shape}"
            )
        n1, k1, block_n, block_k = self.shape(k, n)
        columns = np.empty((n1 * block_n, k1 * block_k), dtype or packed.dtype)
        for rows, part in self._parts(packed, k, n):
            target = columns[:, rows.start : rows.start + part.shape[1] * block_k]
            blocks = target.reshape(n1, block_n, -1, block_k)
            np.copyto(blocks.transpose(0, 2, 1, 3), part, casting="unsafe")
        matrix: NDArray[Any] = columns[:n, :k].T
        return matrix

    def _parts(self, packed: NDArray[Any], k: int, n: int) -> list[tuple[slice, NDArray[Any]]]:
        """The rows of each part, and its blocks as a 4-dimensional view."""
        parts, position = [], 0
        step = self.segment or k
        for start in range(0, k, step):
            rows = slice(start, min(start + step, k))
            shape = self.shape(rows.stop - start, n)
            size = int(np.prod(shape))
            parts.append((rows, packed[position : position + size].reshape(shape)))
            position += size
        return parts


def columns_to_blocks(matrix: NDArray[Any], block: int) -> NDArray[Any]:
    """The native layout of matrices A and C: (rows, columns) to (columns / block, rows, block).

    A new array of any dtype; columns that pad the last block are zero.
    """
    _check_matrix(matrix)
    rows, columns = matrix.shape
    blocks = np.zeros((-(-columns // block), rows, block), matrix.dtype)
    whole = columns // block
    if whole:
        full = matrix[:, : whole * block].reshape(rows, whole, block)
        np.copyto(blocks[:whole], full.transpose(1, 0, 2))
    if columns % block:
        blocks[whole, :, : columns % block] = matrix[:, whole * block :]
    return blocks


def columns_from_blocks(blocks: NDArray[Any], columns: int) -> NDArray[Any]:
    """(columns / block, rows, block) back to a new (rows, columns) matrix, without the padding.

    Raises `TensorError` where the blocks hold fewer columns.
    """
    if blocks.ndim != 3 or blocks.shape[0] * blocks.shape[2] < columns:
        raise TensorError(f"blocks of shape {blocks.shape} don't hold {columns} columns")
    count, rows, block = blocks.shape
    matrix: NDArray[Any] = blocks.transpose(1, 0, 2).reshape(rows, count * block)[:, :columns]
    return np.ascontiguousarray(matrix)


def pack_int4(values: NDArray[np.int8], *, high_first: bool = False) -> NDArray[np.uint8]:
    """Two values of -8..7 in a byte: a new flat array of ceil(size / 2) bytes.

    The first of two lies in the low nibble, or with `high_first` in the high one, as it does in
    matrix B's native layout. Values outside the range lose their upper bits.
    """
    flat: NDArray[np.uint8] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    if flat.size % 2:
        flat = np.append(flat, np.uint8(0))
    first, second = flat[0::2] & 15, flat[1::2] & 15
    low, high = (second, first) if high_first else (first, second)
    packed: NDArray[np.uint8] = np.left_shift(high, 4, dtype=np.uint8)
    np.bitwise_or(packed, low, out=packed)
    return packed


def unpack_int4(
    packed: NDArray[np.uint8], count: int, *, high_first: bool = False
) -> NDArray[np.int8]:
    """The first `count` values of packed ones: a new flat int8 array; the reverse of `pack_int4`.

    Raises `TensorError` where there are fewer.
    """
    if count > 2 * packed.size:
        raise TensorError(f"{packed.size} bytes hold {2 * packed.size} int4 values, not {count}")
    used = packed.reshape(-1)[: (count + 1) // 2].view(np.int8)
    values = np.empty(2 * used.size, np.int8)
    low, high = (values[1::2], values[0::2]) if high_first else (values[0::2], values[1::2])
    # Shifting a signed byte right repeats its sign.
    np.right_shift(used, 4, out=high)
    np.right_shift(np.left_shift(used, 4), 4, out=low)
    return values[:count]


def _check_matrix(matrix: NDArray[Any]) -> None:
    if matrix.ndim != 2:
        raise TensorError(f"a matrix has 2 dimensions; this array has shape {matrix.shape}")
