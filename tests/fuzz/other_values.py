"""Other values for a number: near it, at an edge, some of its bits, what another field holds."""

from __future__ import annotations

import random

_EDGES = sorted(
    {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 255, 256, 511, 512, 1023}
    | {(1 << bits) + step for bits in range(11, 33) for step in (-16, -1, 0, 1)}
)
EDITS = (1, 1, 1, 2, 2, 3, 4, 6)
"""How many numbers of an input are changed; the more often, the more often it is there."""


def other_value(source: random.Random, old: int, bits: int, another: int) -> int:
    """What takes the place of `old`, a number of `bits` bits; `another` stands elsewhere.

    It may have more bits than there is room for.
    """
    low = source.choice((0, 0, 4, 8, 10, 16, 16, 20, 24))
    mask = (1 << source.choice((4, 8, 10, 13, 16))) - 1 << low
    ways = (
        old ^ 1 << source.randrange(bits),
        old + source.randint(-40, 40),
        source.choice(_EDGES),
        old & ~mask | source.choice(_EDGES) << low & mask,
        source.choice((old << 1, old << 3, old >> 1, old >> 2, old * 3, -old)),
        another,
        source.getrandbits(bits),
    )
    return source.choice(ways)
