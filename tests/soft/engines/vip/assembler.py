"""Instructions of shaders as the words that a file has, for programs of a few lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

F32, S32, U8 = 0, 1, 7
"""Types."""

ADD, MOV, BRANCH, BARRIER, LOAD, STORE = 0x01, 0x09, 0x16, 0x2A, 0x32, 0x33
IMAGE_LOAD, IMAGE_STORE = 0x79, 0x7A

LESS = 2
"""A condition."""

PLAIN, OF_MEMORY, PACKED = 1 << 2, 1 << 10, 0
"""Bits of the second word."""

Source = tuple[int, int, int]
"""A number, which components, and a group."""

ALL, FIRST = 0xE4, 0x00
"""Components: each in its place, or the first in all."""


def register(number: int, components: int = ALL) -> Source:
    return number, components, 0


def uniform(number: int, components: int = ALL) -> Source:
    return number, components, 2


def whole(value: int) -> Source:
    """An immediate value."""
    return value & 511, value >> 9 & 255, 7


def instruction(
    operation: int,
    kind: int,
    sources: Sequence[Source | None] = (),
    *,
    target: int | None = None,
    mask: int = 15,
    lanes: tuple[int, int] | None = None,
    condition: int = 0,
    flags: int = PLAIN,
    jump: int = 0,
) -> list[int]:
    """Four words."""
    first = operation & 63 | condition << 6
    if target is not None:
        first |= 1 << 12 | target << 16
    if lanes is not None:
        first |= lanes[0] << 23 | lanes[1] << 27
    elif target is not None or operation in (STORE, IMAGE_STORE):
        first |= mask << 23
    second = flags | (kind >> 2) << 21
    third = (operation >> 6) << 16 | (kind & 3) << 30
    fourth = jump << 7
    given = [*sources, None, None, None][:3]
    if (source := given[0]) is not None:
        number, components, group = source
        second |= 1 << 11 | number << 12 | components << 22
        third |= group << 3 | (2 if group == 7 else 0)
    if (source := given[1]) is not None:
        number, components, group = source
        third |= 1 << 6 | number << 7 | components << 17 | ((2 if group == 7 else 0) << 27)
        fourth |= group
    if (source := given[2]) is not None:
        number, components, group = source
        fourth |= 1 << 3 | number << 4 | components << 14 | group << 28
        fourth |= (2 if group == 7 else 0) << 25
    return [first, second, third, fourth]


def assembled(*instructions: Sequence[int]) -> NDArray[np.uint8]:
    """A program as a file has it."""
    return np.array(instructions, "<u4").reshape(-1).view(np.uint8)
