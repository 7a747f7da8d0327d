"""What a shader's addresses point into: each space has a range of numbers of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .....formats.nbg.model import Source
from ...memory import MemoryMap, Space
from ...refusal import Unknown

Bytes = NDArray[np.uint8]

_GAP, _FIRST, _MOST = 1 << 16, 1 << 16, (1 << 31) - (1 << 20)
"""Numbers between two ranges, where the first begins, and where the last has to end."""

SLACK = 256
"""Bytes behind a range that a program may read: vectors go on beyond what they are for. What is
there is unknown."""


@dataclass(frozen=True)
class Range:
    """A space and the number of its first byte."""

    space: Space
    start: int
    size: int


def ranges_of(layout: MemoryMap, spaces: Sequence[Space]) -> Mapping[Space, Range]:
    """A range for each space; raises `Unknown` where they don't fit into 31 bits."""
    found: dict[Space, Range] = {}
    start = _FIRST
    for space in spaces:
        if space in found:
            continue
        if space.source is Source.COEFFICIENTS:
            size = layout.blob(space).size
        else:
            _, size = layout.place(space)
        found[space] = Range(space, start, size)
        start += -(-size // _GAP) * _GAP + _GAP
    if start > _MOST:
        raise Unknown("operands that don't fit into 31 bits together")
    return found


Contents = Callable[[Space], Bytes]
"""The bytes of a space, in place."""
