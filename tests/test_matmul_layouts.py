"""The layouts of the matrix products, against the formula for an element's place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anynpu import TensorError
from anynpu.matmul_layouts import (
    BlockedB,
    columns_from_blocks,
    columns_to_blocks,
    pack_int4,
    unpack_int4,
)

SMALL = st.integers(1, 40)
DTYPES = st.sampled_from(["int8", "float16", "int32"])


@st.composite
def blocked(draw: st.DrawFn) -> tuple[BlockedB, np.ndarray]:
    """A layout, and a matrix of any shape: whole blocks or not."""
    block_n, block_k = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    segment = draw(st.sampled_from([None, block_k, 2 * block_k, 3 * block_k]))
    k, n = draw(SMALL), draw(SMALL)
    matrix = np.arange(1, k * n + 1).reshape(k, n).astype(draw(DTYPES))
    return BlockedB(block_n, block_k, segment), matrix


@given(blocked())
def test_b_by_the_formula(case: tuple[BlockedB, np.ndarray]) -> None:
    layout, b = case
    k, n = b.shape
    expected = np.zeros(layout.elements(k, n), b.dtype)
    for row in range(k):
        start = row // (layout.segment or k) * (layout.segment or k)
        rows = min(layout.segment or k, k - start)
        blocks = -(-rows // layout.block_k)
        before = start * -(-n // layout.block_n) * layout.block_n
        for column in range(n):
            r = row - start
            block = column // layout.block_n * blocks + r // layout.block_k
            place = block * layout.block_n + column % layout.block_n
            expected[before + place * layout.block_k + r % layout.block_k] = b[row, column]
    packed = layout.pack(b)
    np.testing.assert_array_equal(packed, expected)
    assert packed.dtype == b.dtype


@given(blocked())
def test_b_there_and_back(case: tuple[BlockedB, np.ndarray]) -> None:
    layout, b = case
    k, n = b.shape
    np.testing.assert_array_equal(layout.unpack(layout.pack(b), k, n), b)
    wide = layout.unpack(layout.pack(b), k, n, np.float64)
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, b)


@given(SMALL, SMALL, st.integers(1, 9), DTYPES)
def test_a_and_c(rows: int, columns: int, block: int, dtype: str) -> None:
    matrix = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    blocks = columns_to_blocks(matrix, block)
    assert blocks.shape == (-(-columns // block), rows, block)
    for column in range(columns):
        np.testing.assert_array_equal(blocks[column // block, :, column % block], matrix[:, column])
    assert not blocks[-1, :, columns % block or block :].any(), "the padding is zero"
    np.testing.assert_array_equal(columns_from_blocks(blocks, columns), matrix)


@given(st.lists(st.integers(-8, 7), max_size=50), st.booleans())
def test_int4(numbers: list[int], high_first: bool) -> None:
    values = np.array(numbers, np.int8)
    packed = pack_int4(values, high_first=high_first)
    assert packed.size == (len(numbers) + 1) // 2
    for place, number in enumerate(numbers):
        is_low = (place % 2 == 0) != high_first
        assert packed[place // 2] >> (0 if is_low else 4) & 15 == number % 16
    found = unpack_int4(packed, values.size, high_first=high_first)
    np.testing.assert_array_equal(found, values)


def test_what_doesn_t_fit() -> None:
    layout = BlockedB(4, 4)
    with pytest.raises(TensorError, match="flat array of 16 elements"):
        layout.unpack(np.zeros(15, np.int8), 4, 4)
    with pytest.raises(TensorError, match="2 dimensions"):
        layout.pack(np.zeros(16))
    with pytest.raises(TensorError, match="don't hold 9 columns"):
        columns_from_blocks(np.zeros((2, 3, 4)), 9)
    with pytest.raises(TensorError, match="2 dimensions"):
        columns_to_blocks(np.zeros(16), 4)
    with pytest.raises(TensorError, match="1 bytes hold 2"):
        unpack_int4(np.zeros(1, np.uint8), 3)
