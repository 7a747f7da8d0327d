"""RK3576's registers of the look-up tables in RK3588's notation.

The range may be split in four, each with its own straight lines outside; files use one for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...registers.dpu import (
    DpuLut,
    DpuLutInfo,
    DpuLutLeScale,
    DpuLutLeShift,
    DpuLutLeStart,
    DpuLutLoEnd,
    DpuLutLoScale,
    DpuLutLoShift,
    DpuLutLoStart,
)
from ..base import unknown, unknown_number

_CONFIG, _INFO = 0x4108, 0x410C
_STARTS, _ENDS = range(0x4110, 0x4120, 4), range(0x4140, 0x4150, 4)
_SLOPES_BELOW, _SHIFTS_BELOW = range(0x4150, 0x4158, 4), 0x4160
_SLOPES_ABOVE, _SHIFTS_ABOVE = range(0x4170, 0x4178, 4), 0x4184

TABLE_REGISTERS = frozenset(
    {
        _CONFIG,
        _INFO,
        *_STARTS,
        *_ENDS,
        *_SLOPES_BELOW,
        _SHIFTS_BELOW,
        *_SLOPES_ABOVE,
        _SHIFTS_ABOVE,
    }
)
TABLE_INERT = frozenset({*range(0x4188, 0x4198, 4)})
"""The outermost entries, which the tables have as well."""

_TWO_TABLES = 0x2000006
_LOADS = 0xFF0000


def translate_table(words: Mapping[int, int], translated: dict[int, int]) -> None:
    """Where the tables begin and end, and how they go on."""
    config = words.get(_CONFIG, 0)
    if not config or config == _LOADS:
        return
    if config != _TWO_TABLES:
        raise unknown(DpuLut, config)
    translated[DpuLutInfo.number] = words.get(_INFO, 0)
    translated[DpuLutLeStart.number] = _same(words, _STARTS)
    translated[DpuLutLoStart.number] = 0
    translated[DpuLutLoEnd.number] = _same(words, _ENDS)
    below, above = (_half(words, slopes) for slopes in (_SLOPES_BELOW, _SLOPES_ABOVE))
    translated[DpuLutLeScale.number] = DpuLutLeScale.UFLOW_SCALE.put(below)
    translated[DpuLutLoScale.number] = DpuLutLoScale.OFLOW_SCALE.put(above)
    below, above = (_byte(words, shifts) for shifts in (_SHIFTS_BELOW, _SHIFTS_ABOVE))
    translated[DpuLutLeShift.number] = DpuLutLeShift.UFLOW_SHIFT.put(below)
    translated[DpuLutLoShift.number] = DpuLutLoShift.OFLOW_SHIFT.put(above)


def _same(words: Mapping[int, int], numbers: Sequence[int]) -> int:
    first = words.get(numbers[0], 0)
    for number in numbers:
        if words.get(number, 0) != first:
            raise unknown_number(number, words.get(number, 0))
    return first


def _half(words: Mapping[int, int], numbers: Sequence[int]) -> int:
    word = _same(words, numbers)
    if word >> 16 != word & 0xFFFF:
        raise unknown_number(numbers[0], word)
    return word & 0xFFFF


def _byte(words: Mapping[int, int], number: int) -> int:
    word = words.get(number, 0)
    if word != (word & 0xFF) * 0x01010101:
        raise unknown_number(number, word)
    return word & 0xFF
