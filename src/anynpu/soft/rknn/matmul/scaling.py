"""What a matrix's integers stand for: scales and zero points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Scaling:
    """real = (integer - zero point) * scale, with one of each, or as many as B's way asks for.

    Only an object itself is equal to it.
    """

    scales: NDArray[np.float32]
    zero_points: NDArray[np.int32]

    @cached_property
    def is_shifted(self) -> bool:
        """Whether there is a zero point that isn't 0."""
        return bool(self.zero_points.any())

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all scales are the same."""
        return not np.ptp(self.scales)

    @cached_property
    def is_plain(self) -> bool:
        """Whether integers stand for themselves."""
        return not self.is_shifted and self.is_uniform and self.scale == 1

    @property
    def scale(self) -> float:
        """The scale of a matrix that has one."""
        return float(self.scales[0])

    @property
    def zero_point(self) -> int:
        """The zero point of a matrix that has one."""
        return int(self.zero_points[0])


PLAIN = Scaling(np.ones(1, np.float32), np.zeros(1, np.int32))
"""Of a matrix whose parameters weren't set."""
