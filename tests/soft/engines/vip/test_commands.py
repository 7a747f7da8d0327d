"""Commands: bits without a meaning are refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from anynpu.soft.engines.vip.commands.fields import Command
from anynpu.soft.engines.vip.commands.nn import NnCommand, TransposeCommand
from anynpu.soft.engines.vip.commands.tp import TpCommand
from anynpu.soft.engines.vip.refusal import Unknown
from anynpu.soft.formats.nbg.model import Patch, Patches


@pytest.mark.parametrize("command", [NnCommand, TransposeCommand, TpCommand])
def test_no_bit_belongs_to_two_fields(command: type[Command]) -> None:
    seen = [0] * command.length
    for field in command.fields:
        for word, low, high in field.parts:
            mask = ((1 << (high - low + 1)) - 1) << low
            assert not seen[word] & mask, f"{field} of {command.__name__}"
            seen[word] |= mask


def words(**set_words: int) -> list[int]:
    found = [0] * 48
    found[4] = 1 << 14
    for name, value in set_words.items():
        found[int(name[1:])] |= value
    return found


def test_fields_of_several_parts_are_joined() -> None:
    command = NnCommand(words(w5=1 << 26, w0=3 << 6, w24=5))
    assert command.KERNEL_DEPTH == (1 << 14) + 3
    assert command.INPUT_GROUP == 6


@pytest.mark.parametrize(
    ("set_words", "message"),
    [
        ({"w2": 1 << 8}, "word 2 of the command is 0x00000100: the bits 0x00000100"),
        ({"w47": 1}, "word 47"),
        ({"w0": 2 << 27}, r"POOLING \(word 0 bits 27 to 28\) is 2"),
        ({"w27": 1 << 19}, "COMPUTED_KERNELS"),
        ({"w0": 1}, "LAYER_TYPE"),
    ],
)
def test_what_is_not_known_is_refused(set_words: dict[str, int], message: str) -> None:
    with pytest.raises(Unknown, match=message):
        NnCommand(words(**set_words))


def test_addresses_are_those_of_their_words() -> None:
    patches = Patches(np.arange(21, dtype=np.int32).reshape(3, 7))
    made = [Patch(*range(start, start + 7)) for start in (0, 7, 14)]
    assert list(patches) == made
    assert list(patches[1:]) == made[1:]
    assert len(patches) == 3
    with pytest.raises(IndexError):
        patches[3]
