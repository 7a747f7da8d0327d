"""Windows of spaces: circular buffers, and what leaves a space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anynpu.soft.engines.vip.memory import Circle, Space, Window, check_extent, space_of
from anynpu.soft.engines.vip.refusal import Unknown
from anynpu.soft.formats.nbg.model import Source

POOL = Space(Source.POOL)


@given(
    offset=st.integers(0, 300),
    shape=st.tuples(*(st.integers(1, 4),) * 3),
    strides=st.tuples(*(st.integers(0, 60),) * 3),
    size=st.integers(1, 100),
    start=st.integers(0, 100),
)
def test_addresses_behind_the_end_of_a_circle_are_lower_by_its_size(
    offset: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int, start: int
) -> None:
    window = Window(POOL, offset, shape, strides, Circle(start + size, size))
    expected = []
    for index in np.ndindex(*shape):
        address = offset + sum(i * s for i, s in zip(index, strides, strict=True))
        while address >= start + size:
            address -= size
        expected.append(address)
    assert window.offsets().ravel().tolist() == expected
    if window.wraps and offset >= 0:
        check_extent(window, max(start + size, 1))


@given(
    shape=st.tuples(*(st.integers(1, 5),) * 3),
    strides=st.tuples(*(st.integers(-40, 60),) * 3),
    size=st.integers(1, 100),
    beyond=st.integers(0, 300),
)
def test_pieces_are_what_wraps(
    shape: tuple[int, ...], strides: tuple[int, ...], size: int, beyond: int
) -> None:
    lowest = Window(POOL, 0, shape, strides).extent[0]
    window = Window(POOL, 50 - lowest + beyond, shape, strides, Circle(50 + size, size))
    content = np.random.default_rng(beyond).integers(0, 256, 1000).astype(np.uint8)
    taken = np.zeros(shape, np.uint8)
    for place, piece in window.pieces():
        assert not piece.wraps
        taken[place] = content[piece.offsets()]
    assert (taken == content[window.offsets()]).all()


@pytest.mark.parametrize(
    "window",
    [
        Window(POOL, 0, (101,), (1,)),
        Window(POOL, -1, (1,), (1,)),
        Window(POOL, 50, (2, 2), (50, 1)),
        Window(POOL, 0, (200,), (1,), Circle(128, 64)),
        Window(POOL, 10, (200,), (1,), Circle(90, 100)),
    ],
)
def test_what_leaves_a_space_is_refused(window: Window) -> None:
    with pytest.raises(Unknown, match="which has 100"):
        check_extent(window, 100)


def test_a_space_that_is_not_known() -> None:
    assert space_of(4, 3) == POOL
    with pytest.raises(Unknown, match="memory of kind 9"):
        space_of(9, 0)
