"""Where RK3576's arithmetic stages take their operands from.

A stage's DMA has four bits for numbers that hold for all channels, which lie in a small tensor of
the stage, and three bits for those of each channel, which lie in another as on RK3588.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...registers.fields import bits, sign_extend
from ..base import Constants

_ADD, _WEIGHT_OFFSET, _MULTIPLY, _SHIFT = bits(1), bits(2), bits(3), bits(4)
_OF_CHANNELS = bits(8, 10)
KNOWN_USE = (
    _ADD.put(1) | _WEIGHT_OFFSET.put(1) | _MULTIPLY.put(1) | _SHIFT.put(1) | _OF_CHANNELS.put(7)
)
ADDS, OFFSETS_WEIGHTS, MULTIPLIES = bits(0), bits(1), bits(2)
"""RK3588's bits for the operands of each channel."""

_SIZES = ((_ADD, 32), (_WEIGHT_OFFSET, 16), (_MULTIPLY, 16), (_SHIFT, 16))
"""The parts of the tensor in their order, in bytes: eight channels of each."""


@dataclass(frozen=True)
class Operands:
    """Words of the numbers that hold for all channels, and RK3588's bits for the others.

    `shifts` are those of positive and of negative values.
    """

    add: int | None
    weight_offset: int | None
    multiply: int | None
    shifts: tuple[int, int]
    of_channels: int

    @property
    def adds(self) -> bool:
        return self.add is not None or bool(ADDS.of(self.of_channels))

    @property
    def multiplies(self) -> bool:
        return self.multiply is not None or bool(MULTIPLIES.of(self.of_channels))


def read_operands(use: int, address: int, constants: Constants) -> Operands:
    """The operands of a stage whose DMA has the configuration `use`; `address` is a register."""
    present = [(field, size) for field, size in _SIZES if field.of(use)]
    data = constants(address, sum(size for _, size in present)) if present else b""
    parts = {}
    for field, size in present:
        parts[field], data = data[:size], data[size:]
    shifts = parts.get(_SHIFT, bytes(2))
    return Operands(
        _word(parts.get(_ADD), 4),
        _signed(_word(parts.get(_WEIGHT_OFFSET), 2)),
        _word(parts.get(_MULTIPLY), 2),
        (shifts[0], shifts[1]),
        _OF_CHANNELS.of(use),
    )


def _word(part: bytes | None, size: int) -> int | None:
    return None if part is None else int.from_bytes(part[:size], "little")


def _signed(value: int | None) -> int | None:
    return None if value is None else sign_extend(value, 16)
