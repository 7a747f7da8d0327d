"""An operation of the stream processor, resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..memory import Window
from ..planes import Planes
from ..tasks import Sums, Task
from .evaluation import Binding
from .flow import Flow

Stored = np.dtype[np.uint8] | np.dtype[np.int16] | np.dtype[np.float16] | np.dtype[np.float32]
"""How values lie in memory."""


@dataclass(frozen=True, slots=True)
class RealInput:
    """An operand whose values are taken as they are stored."""

    source: Planes
    dtype: Stored


@dataclass(frozen=True, slots=True)
class RealOutput:
    """Where results go: every `stride`-th is kept; integers are rounded, then get `zero_point`.

    Halves go to even numbers, with `halves_go_away` away from zero.
    """

    target: Planes
    dtype: Stored
    zero_point: int
    stride: int
    halves_go_away: bool


@dataclass(frozen=True, eq=False, slots=True)
class StreamTask(Task):
    """A program over `rows` rows of `length` elements: lines of an image, or whole planes.

    `inputs` are what it reads in turn; none where elements come from a queue. `output` is None for
    a program that only leaves something in the queues.
    """

    flow: Flow
    binding: Binding
    inputs: tuple[Sums | RealInput, ...]
    output: RealOutput | None
    shape: tuple[int, int, int]
    rows: int
    length: int

    @property
    def macs(self) -> int:
        sums = sum(part.macs for part in self.inputs if isinstance(part, Sums))
        return sums + self.rows * self.length * len(self.flow.nodes)

    def reads(self) -> Iterator[Window]:
        for part in self.inputs:
            for _, window in part.source.windows():
                yield window

    def writes(self) -> Iterator[Window]:
        if self.output is not None:
            for _, window in self.output.target.windows():
                yield window
