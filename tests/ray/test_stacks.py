"""Frames in stacks and results out of them, without Ray."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anynpu.ray.stacks import FEWEST, MOST, apart, stacked, together


def same(found: Any, given: Any) -> bool:
    if isinstance(given, dict):
        return list(found) == list(given) and all(same(found[k], given[k]) for k in given)
    if isinstance(given, (list, tuple)):
        return len(found) == len(given) and all(map(same, found, given))
    return bool(found.dtype == given.dtype and np.array_equal(found, given))


FEEDS = st.lists(
    st.sampled_from([
        np.arange(6, dtype=np.uint8).reshape(1, 6),
        np.ones((1, 6), np.float32),
        {"x": np.ones((1, 2), np.int8)},
        {"x": np.ones((1, 2), np.int8), "z": np.zeros(3, np.int64)},
        {"z": np.zeros(3, np.int64), "x": np.ones((1, 2), np.int8)},
        [np.ones((1, 2), np.float16), np.zeros((4, 1), np.int8)],
        (np.ones((1, 3), np.float16), np.zeros((4, 1), np.int8)),
    ]),
    max_size=40,
)  # fmt: skip


@given(FEEDS, st.integers(1, 9) | st.none())
def test_stacks_hold_the_feeds_in_their_order(feeds: list[Any], size: int | None) -> None:
    stacks = list(stacked(iter(feeds), size))
    found = [feed for stack in stacks for feed in stack.feeds()]
    assert len(found) == len(feeds)
    assert all(map(same, found, feeds))
    assert all(1 <= stack.count <= (size or MOST) for stack in stacks)


@pytest.mark.parametrize(
    ("shape", "count"),
    [((1, 3, 4, 4), MOST), ((1, 3, 224, 224), 27), ((1, 3, 640, 640), FEWEST)],
)
def test_the_size_follows_the_frames(shape: tuple[int, ...], count: int) -> None:
    stack = next(stacked((np.zeros(shape, np.uint8) for _ in range(200)), None))
    assert stack.count == count


def test_frames_are_read_only_as_far_as_a_stack_needs() -> None:
    read = []

    def frames() -> Any:
        for number in range(100):
            read.append(number)
            yield np.zeros((1, 3), np.float32)

    next(stacked(frames(), 4))
    assert len(read) == 5  # the first of the next one ended it


@given(st.integers(1, 6), st.integers(1, 3))
def test_results_come_apart_as_they_were(frames: int, outputs: int) -> None:
    given = [
        [np.full((2, place + 1), frame * 10 + place, np.float32) for place in range(outputs)]
        for frame in range(frames)
    ]
    found = list(apart(together(given)))
    assert len(found) == frames
    assert all(map(same, found, given))
    found[0][0] += 1
    assert found[0][0].flags.owndata
