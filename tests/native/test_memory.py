"""Where arrays lie in memory."""

from __future__ import annotations

import pytest

from anynpu.native.memory import address_of, aligned_bytes


@pytest.mark.parametrize("size", [0, 1, 63, 64, 100_000])
def test_aligned_bytes_begin_with_a_line_of_the_cache(size: int) -> None:
    arrays = [aligned_bytes(size) for _ in range(20)]
    assert all(array.shape == (size,) for array in arrays)
    assert all(address_of(array) % 64 == 0 for array in arrays if size)
