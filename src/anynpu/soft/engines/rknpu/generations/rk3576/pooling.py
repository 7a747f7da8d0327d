"""RK3576's PPU registers, which are RK3588's."""

from __future__ import annotations

from collections.abc import Mapping

from ...registers import ppu
from ...registers.fields import Register

_KEPT = frozenset(
    register.number
    for register in vars(ppu).values()
    if isinstance(register, type) and issubclass(register, Register) and register is not Register
)
POOLING_REGISTERS = _KEPT
POOLING_INERT = frozenset(
    {
        0x6008,
        0x6020,
        0x6048,  # multiples of the first padding value
        0x604C,
        0x6050,
        0x6054,
        0x6058,
        0x605C,
        0x60DC,
        0x7008,
        0x700C,
        0x7010,
        0x7014,
        0x7030,
    }
)


def translate_pooling(words: Mapping[int, int], translated: dict[int, int]) -> None:
    """All that matters is the same."""
    translated.update({number: words[number] for number in _KEPT & words.keys()})
