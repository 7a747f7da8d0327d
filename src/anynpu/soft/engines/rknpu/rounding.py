"""How integers are rounded and kept within 32 bits, in one place: what boards do, and what not.

*Measured* is what explains every byte that a board gave; *stated* is the RK3588 manual (part 1,
section 36.4); *likeness* is not examined, but taken from another chip or a similar unit.
Three projects measured boards: open-rknpu RV1103, rocket-userspace RK3576 and RK3588,
rockchip-npu-notes RK3588. For RK3562, RK3566, RK3568, RV1106 and RV1126B all is likeness.

| unit | rule | RV1103 | RK3576 | RK3588 |
|---|---|---|---|---|
| BS: the shift | ties to even | measured | likeness | likeness |
| BN: the shift; EW: that of a product | ties to even | likeness | likeness | likeness |
| output converter, mode bit 0 | ties to even | measured | measured | stated |
| the same, mode bit 1 | ties away from zero | measured | likeness | stated |
| its offset | before the shift, so ties look at the sum | measured | likeness | likeness |
| its offset, to float16 | before the exponent | likeness | likeness | measured |
| operand converter | as the output's | likeness | likeness | stated |
| input converter | ties to even, mode bit 1: half up | likeness | likeness | stated |
| its offset, if it multiplies first | behind the shift | see below | files | the vendor's runtime |
| PPU: averages | ties to even | measured | measured | likeness |
| between entries of a table | low bits are dropped | measured | likeness | likeness |
| beyond a table's ends | low bits are dropped | likeness | likeness | likeness |
| at a table's upper end | what lies beyond it | likeness | measured | likeness |
| what leaves BS | within int32 | stated by open-rknpu | measured | likeness |
| what leaves BN and EW | within int32 | likeness | likeness | likeness |

An RK3588 was seen to round to the nearest: of 2304 bytes of a convolution none differs, where
truncation would change 1260; none of them is a tie. Whether an RV1103 drops a table's bits by
rounding down or towards zero was not told apart; shifting is rounding down. BN and EW have limits
of 32 bits behind them, as BS has, so what leaves them can't be wider. Files for RV1103 and RV1106
have an input's offset shifted up already, those for RV1126B that of what isn't a picture multiplied
already: such are added before the shift.

Of floats only this is known: an output's offset has its exponent where float16 is written, seen on
an RK3588 with the bit that adds first. A sum that is exactly zero came out as 2^(17 - MINUS_EXP)
there, in four tries; files add 1, so that few are, and here it stays 0.

The vendor's simulator rounds once, at the end of a node: `SIMULATOR`. It can't tell these rules
from others, but agrees with them a little better than with halves that go away from zero.
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


def shifted(
    values: NDArray[np.int64], count: int, ties: Ties = Ties.EVEN, offset: int = 0
) -> NDArray[np.int64]:
    """Values / 2^count + offset as the nearest whole numbers: ties look at the sum."""
    if count == 0:
        return values + offset if offset else values
    count = min(count, _MOST_BITS)
    below = (values >> count) + offset
    rest = values & ((1 << count) - 1)
    half = 1 << (count - 1)
    match ties:
        case Ties.EVEN:
            rises: Any = below & 1 == 1
        case Ties.AWAY:
            rises = below >= 0
        case Ties.UP:
            rises = True
    nearest: NDArray[np.int64] = below + ((rest > half) | ((rest == half) & rises))
    return nearest


def whole(values: NDArray[np.float64], ties: Ties) -> NDArray[np.float64]:
    """Floats (in float64, of float32's digits) as the nearest whole ones; NaN stays."""
    nearest: NDArray[np.float64]
    match ties:
        case Ties.EVEN:
            nearest = np.rint(values)
        case Ties.AWAY:
            nearest = np.trunc(values + np.copysign(0.5, values))
        case Ties.UP:
            nearest = np.floor(values + 0.5)
    return nearest


class Rounding:
    """What becomes of the digits of integers on their way through the DPU and the PPU.

    Here it is what boards do. Values are int64 arrays.
    """

    def shift(self, values: NDArray[Any], count: int, ties: Ties = Ties.EVEN) -> NDArray[Any]:
        """Values / 2^count."""
        return shifted(values, count, ties)

    def convert(self, values: NDArray[Any], count: int, offset: int, ties: Ties) -> NDArray[Any]:
        """Values / 2^count + offset, as whole numbers."""
        return shifted(values, count, ties, offset)

    def average(self, values: NDArray[np.int64], count: int) -> NDArray[Any]:
        """Sums times reciprocals / 2^count, as whole numbers."""
        return shifted(values, count)

    def interpolated(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Exact values between a table's entries and beyond its ends."""
        return np.floor(values).astype(np.int64)

    def leaving_stage(self, values: NDArray[Any]) -> NDArray[Any]:
        """What leaves a stage for the next one."""
        kept: NDArray[Any] = np.clip(values, *INT32)
        return kept


class Simulator(Rounding):
    """The vendor's simulator: exact numbers, rounded once, at the end of a node.

    In between they are fractions in float64, and nothing is kept within 32 bits.
    """

    def shift(self, values: NDArray[Any], count: int, ties: Ties = Ties.EVEN) -> NDArray[Any]:
        exact: NDArray[Any] = values * 2.0**-count
        return exact

    def convert(self, values: NDArray[Any], count: int, offset: int, ties: Ties) -> NDArray[Any]:
        return self.average(values, count) + offset

    def average(self, values: NDArray[np.int64], count: int) -> NDArray[Any]:
        rounded: NDArray[Any] = np.rint(values * 2.0**-count)
        return rounded

    def interpolated(self, values: NDArray[np.float64]) -> NDArray[Any]:
        return values

    def leaving_stage(self, values: NDArray[Any]) -> NDArray[Any]:
        return values


SILICON = Rounding()
SIMULATOR = Simulator()
