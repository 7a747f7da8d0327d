"""How one architecture gives networks of several sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Multiples of an architecture's repeats and channels; channels are capped, then scaled."""

    depth: float
    width: float
    most_channels: int = 1024

    def channels(self, count: int) -> int:
        """Scaled channels, rounded up to a multiple of 8."""
        return math.ceil(min(count, self.most_channels) * self.width / 8) * 8

    def repeats(self, count: int) -> int:
        """Scaled repeats, at least one."""
        return max(round(count * self.depth), 1)
