"""Places of values in blocks that are alike: nothing of them is lost, and little is kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anynpu.soft.engines.vip.memory import Circle, Scattered, Space, wrapped
from anynpu.soft.engines.vip.places import Places
from anynpu.soft.formats.nbg.model import Source


@given(
    st.lists(st.integers(0, (1 << 31) - 1), min_size=1, max_size=24),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_any_numbers_are_kept(numbers: list[int], sizes: list[int]) -> None:
    places = Places.of(np.array(numbers, np.int64), *sizes)
    assert places.numbers().tolist() == numbers
    assert places.size == len(numbers)
    assert places.extent == (min(numbers), max(numbers))


@given(
    planes=st.integers(1, 9),
    rows=st.integers(1, 9),
    pixels=st.integers(1, 9),
    steps=st.tuples(*[st.integers(-9, 9)] * 3),
)
def test_rows_that_are_alike_are_kept_once(
    planes: int, rows: int, pixels: int, steps: tuple[int, int, int]
) -> None:
    y, x = np.arange(rows)[:, None], np.arange(pixels)
    numbers = 1000 + np.arange(planes)[:, None, None] * steps[0] + y * steps[1] + x * steps[2]
    places = Places.of(numbers, rows * pixels, pixels)
    assert places.numbers().tolist() == numbers.ravel().tolist()
    least = min(planes + rows * pixels, planes * rows + pixels)
    kept = places.blocks.size + places.inside.size
    assert kept == least or (4 * least > numbers.size and kept == numbers.size + 1)


def test_blocks_that_differ_in_the_middle_are_one() -> None:
    numbers = np.arange(64)
    numbers[20] = 70
    places = Places.of(numbers, 8)
    assert places.blocks.size == 1
    assert places.numbers().tolist() == numbers.tolist()


def test_what_a_circle_cuts_is_blocks_up_to_there() -> None:
    numbers = np.arange(2000) * 2
    numbers[1200:] -= 1500
    numbers[1800:] -= 700
    places = Places.of(numbers, 7)
    assert (places.blocks.size, places.inside.size) == (10, 200)
    assert places.numbers().tolist() == numbers.tolist()


@given(st.lists(st.integers(0, 60), min_size=1, max_size=24), st.integers(-40, 40))
def test_shifted_places_are_on_the_same_arrays(numbers: list[int], by: int) -> None:
    places = Places.of(np.array(numbers, np.int64), 4, 2)
    shifted = places.shifted(40).shifted(by)
    assert shifted.numbers().tolist() == [number + 40 + by for number in numbers]
    assert shifted.extent == (min(numbers) + 40 + by, max(numbers) + 40 + by)
    assert shifted.blocks is places.blocks
    assert shifted.inside is places.inside


@given(st.lists(st.integers(0, 60), min_size=1, max_size=24), st.integers(1, 4))
def test_whether_bytes_are_told_apart(numbers: list[int], item: int) -> None:
    every = [number + byte for number in numbers for byte in range(item)]
    places = Places.of(np.array(numbers, np.int64), 4, 2).shifted(7)
    target = Scattered(Space(Source.POOL), places, item)
    assert places.are_apart(item) == (len(set(every)) == len(every))
    whole = sorted(every) == list(range(min(every), max(every) + 1))
    assert target.is_solid == whole


@given(
    numbers=st.lists(st.integers(0, 200), min_size=1, max_size=24),
    by=st.integers(-20, 20),
    end=st.integers(1, 150),
    size=st.integers(1, 150),
)
def test_what_is_beyond_a_circle_s_end_comes_from_its_beginning(
    numbers: list[int], by: int, end: int, size: int
) -> None:
    places = Places.of(np.array(numbers, np.int64), 4, 2).shifted(by)
    turned = places.turned(end, size)
    if max(numbers) + by >= end + size:
        assert turned is None
        return
    assert turned is not None
    expected = wrapped(np.array(numbers, np.int64) + by, Circle(end, size))
    assert turned.numbers().tolist() == expected.tolist()
    assert turned.extent == (min(expected), max(expected))
    assert turned.shifted(9).numbers().tolist() == (expected + 9).tolist()
    assert turned.shifted(9).extent == (min(expected) + 9, max(expected) + 9)
    assert turned.are_apart(1) == (len(set(expected.tolist())) == len(numbers))
    assert turned.inside is places.inside


@given(st.integers(1, 40), st.integers(1, 6), st.integers(-3, 3), st.integers(0, 9))
def test_runs_are_numbers_in_the_same_steps(count: int, rows: int, step: int, gap: int) -> None:
    row = np.arange(count) * step
    inside = (row + np.arange(rows)[:, None] * (count * step + gap)).ravel().astype(np.int32)
    run, found = Places(np.zeros(1, np.int32), inside).run
    assert inside.size % run == 0
    steps = np.diff(inside.reshape(-1, run))
    assert (steps == found).all()
    assert count < 4 or run % count == 0
