"""Where nested counters put values, against counting one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anynpu.soft.engines.vip.decode.loops import Loops, Tile, places


def counted(loops: Loops, tiles: list[Tile], planes: int) -> list[int]:
    """Each step of the counters on its own."""
    counters = [0] * 7
    found = []

    def carry(number: int) -> None:
        while number < 7:
            counters[number] += 1
            if not loops.counts[number] or counters[number] < loops.counts[number]:
                return
            counters[number] = 0
            number += 1

    def begin_anew(below: int) -> None:
        if any(counters[:below]):
            counters[:below] = [0] * below
            carry(below)

    for _ in range(planes):
        for tile in tiles:
            for row in range(tile.height):
                for _ in range(tile.width):
                    found.append(
                        sum(c * i for c, i in zip(counters, loops.increments, strict=True))
                    )
                    carry(0)
                if loops.resets[0]:
                    begin_anew(2)
                if row == tile.height - 1:
                    if loops.resets[1]:
                        begin_anew(3)
                    if loops.resets[2]:
                        begin_anew(4)
    return found


@given(
    counts=st.lists(st.integers(0, 4), min_size=6, max_size=6),
    increments=st.lists(st.integers(-9, 9), min_size=7, max_size=7),
    resets=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    tiles=st.lists(
        st.builds(Tile, st.just(0), st.just(0), st.integers(1, 4), st.integers(1, 5)),
        min_size=1,
        max_size=3,
    ),
    planes=st.integers(1, 3),
)
def test_places(
    counts: list[int],
    increments: list[int],
    resets: tuple[bool, bool, bool],
    tiles: list[Tile],
    planes: int,
) -> None:
    loops = Loops((*counts, 0), tuple(increments), resets)
    assert places(loops, tiles, planes).tolist() == counted(loops, tiles, planes)
