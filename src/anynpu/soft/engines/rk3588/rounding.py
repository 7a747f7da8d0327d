"""How whole numbers are rounded and kept within 32 bits, in one place.

What a board was seen to do is *measured*: every byte of its outputs is explained. *Stated* is the
RK3588 manual (part 1, section 36.4); *likeness* is what nobody looked at, taken from the same unit
of another chip. Boards were measured by three projects: RV1103 by open-rknpu, RK3576 and RK3588 by
rocket-userspace and rockchip-npu-notes.

| unit | rule here | RV1103, RV1106 | RK3576 | RK3588 | the others |
|---|---|---|---|---|---|
| BS shift | ties to even | measured | likeness | likeness | likeness |
| BN shift, shift of a product | ties to even | likeness | likeness | likeness | likeness |
| output converter, mode bit 0 | ties to even | measured | measured | stated | likeness |
| output converter, mode bit 1 | ties away from zero | measured | likeness | stated | likeness |
| where its offset comes in | before the shift | measured | likeness | likeness | likeness |
| its offset where float16 is written | before the exponent | likeness | likeness | measured | likeness |
| operand converter | as the output's bits | likeness | likeness | stated | likeness |
| input converter, mode bit 0 and 1 | ties to even, half up | likeness | likeness | stated | likeness |
| averages of the PPU | ties to even | measured | measured | likeness | likeness |
| between entries of a table | low bits are dropped | measured | likeness | likeness | likeness |
| beyond a table's ends | the same | likeness | likeness | likeness | likeness |
| what leaves BS | kept within int32 | likeness | measured | likeness | likeness |
| what leaves BN and EW | the same | likeness | likeness | likeness | likeness |

On an RK3588, 2304 bytes of a convolution were seen to be rounded to the nearest (truncated, 1260 of
them would differ); none was a tie. Whether a table drops its low bits by rounding down or towards
zero was not told apart on RV1103; here they are shifted out, which is down. BN and EW have limits
of 32 bits behind them, as BS has, and so are taken to keep their results within those.

Zero that is written as float16 with an exponent (MINUS_EXP) came out of an RK3588 as
2^(17 - MINUS_EXP) instead, in four tries. Files add 1 before, so that there is none; here it is 0.

The vendor's simulator computes in floating point and rounds once at the end of a node: `Simulator`.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

INT32 = -(1 << 31), (1 << 31) - 1
"""The least and the greatest number that leaves a stage."""

_MOST_BITS = 62
"""Numbers stay below 2^61, so that a shift by so many gives zero, as any greater one does."""


class Ties(Enum):
    """Where a number goes that lies halfway between two whole ones."""

    EVEN = "to the even one"
    AWAY = "away from zero"
    UP = "to the greater one"


class Rounding:
    """What happens to bits that are dropped: the rules of boards.

    Values are int64 arrays where nothing else is said.
    """

    def shift(
        self, values: NDArray[Any], count: int, ties: Ties = Ties.EVEN
    ) -> NDArray[Any]:
        """Values / 2^count."""
        return _shift(values, count, 0, ties)

    def convert(
        self, values: NDArray[Any], count: int, offset: int, ties: Ties
    ) -> NDArray[Any]:
        """Values / 2^count + offset: ties look at the sum."""
        return _shift(values, count, offset, ties)

    def average(self, values: NDArray[np.int64], count: int) -> NDArray[Any]:
        """Sums times reciprocals / 2^count."""
        return _shift(values, count, 0, Ties.EVEN)

    def interpolated(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Exact values between a table's entries, and beyond its ends, as whole numbers."""
        return np.floor(values).astype(np.int64)

    def leaving_stage(self, values: NDArray[Any]) -> NDArray[Any]:
        """What leaves a stage for the next one."""
        return np.clip(values, *INT32)


class Simulator(Rounding):
    """The vendor's simulator: exact numbers, rounded once at the end of a node.

    Numbers between stages are fractions in float64, and nothing saturates.
    """

    def shift(
        self, values: NDArray[Any], count: int, ties: Ties = Ties.EVEN
    ) -> NDArray[Any]:
        return values * 2.0**-count

    def convert(
        self, values: NDArray[Any], count: int, offset: int, ties: Ties
    ) -> NDArray[Any]:
        return np.rint(values * 2.0**-count) + offset

    def average(self, values: NDArray[np.int64], count: int) -> NDArray[Any]:
        return np.rint(values * 2.0**-count)

    def interpolated(self, values: NDArray[np.float64]) -> NDArray[Any]:
        return values

    def leaving_stage(self, values: NDArray[Any]) -> NDArray[Any]:
        return values


SILICON = Rounding()
SIMULATOR = Simulator()


def whole(values: NDArray[np.float64], ties: Ties) -> NDArray[np.float64]:
    """Floating-point values to whole ones; NaN stays. What is below 2^51 must be a float32."""
    rounded: NDArray[np.float64]
    if ties is Ties.EVEN:
        rounded = np.rint(values)
    else:
        rounded = np.trunc(values + np.copysign(0.5, values))
    return rounded


def _shift(values: NDArray[np.int64], count: int, offset: int, ties: Ties) -> NDArray[np.int64]:
    """Values / 2^count + offset."""
    if count == 0:
        return values + offset if offset else values
    count = min(count, _MOST_BITS)
    below = (values >> count) + offset
    rest = values & ((1 << count) - 1)
    half = 1 << (count - 1)
    rounded: NDArray[np.int64] = below + ((rest > half) | ((rest == half) & _goes_up(below, ties)))
    return rounded


def _goes_up(below: NDArray[np.int64], ties: Ties) -> Any:
    """Whether what lies halfway above a whole number becomes the next one."""
    match ties:
        case Ties.EVEN:
            return below & 1 == 1
        case Ties.AWAY:
            return below >= 0
        case Ties.UP:
            return True
