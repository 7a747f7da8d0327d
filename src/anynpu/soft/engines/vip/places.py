"""Where values lie in a space, one by one, in little memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Places:
    """A number for each value: value `i` has `blocks[i // size] + inside[i % size]`.

    `size` is the length of `inside`; both arrays are int32, and so is each sum. Values that follow
    one another in planes and rows have blocks that are alike, so that a table of every number isn't
    kept.
    """

    blocks: NDArray[np.int32]
    inside: NDArray[np.int32]

    @classmethod
    def of(cls, numbers: NDArray[np.int64] | NDArray[np.int32], *sizes: int) -> Places:
        """Numbers from 0 to 2**31 - 1 in blocks of one of the sizes, in what takes least memory.

        They are one block where no size makes all blocks alike, or saves three quarters.
        """
        flat = numbers.ravel()
        # Small blocks save little, and take a kernel long.
        kept = {
            size: count
            for size in sizes
            if size > 0
            and not flat.size % size
            and 4 * (count := flat.size // size + size) <= flat.size
        }
        for size in sorted(kept, key=lambda size: kept[size]):
            rows = flat.reshape(-1, size)
            steps = rows[0] - rows[0, 0]
            # The last row alone tells most sizes apart, without a look at the others.
            if (rows[-1] - rows[-1, 0] == steps).all() and (rows - rows[:, :1] == steps).all():
                return cls(rows[:, 0].astype(np.int32), steps.astype(np.int32))
        return cls(np.zeros(1, np.int32), flat.astype(np.int32))

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.blocks.size * self.inside.size

    @property
    def extent(self) -> tuple[int, int]:
        """The least number and the largest one; raises `ValueError` where there is no value."""
        return (
            int(self.blocks.min()) + int(self.inside.min()),
            int(self.blocks.max()) + int(self.inside.max()),
        )

    def numbers(self) -> NDArray[np.int32]:
        """Each value's number: a new array."""
        every: NDArray[np.int32] = self.blocks[:, None] + self.inside
        return every.ravel()
