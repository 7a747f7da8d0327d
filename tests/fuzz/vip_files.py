"""Damaged compiled `.nb` files: a few words of a sound one changed, by what they are for."""

from __future__ import annotations

import lzma
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anynpu.errors import ModelError
from anynpu.soft.engines.vip.commands import fields
from anynpu.soft.engines.vip.commands.nn import NnCommand
from anynpu.soft.engines.vip.commands.tp import TpCommand
from anynpu.soft.formats import nbg

from ..shared import NBG_SAMPLES
from . import known_operations
from .compiled_files import FOLDER
from .other_values import EDITS, other_value

_MOST_BYTES = 60_000
_WORD = 4
_HEADER = "header"
_COMMANDS: dict[str, type[fields.Command]] = {
    "NN operations": NnCommand,
    "TP operations": TpCommand,
}
"""Sections of commands, and what declares their bits."""

_WEIGHTS = {
    "NN operations": 24,
    "TP operations": 16,
    "states": 8,
    "patches": 8,
    "coefficients": 8,
    "shader programs": 8,
    "constants": 4,
    "inputs": 2,
    "outputs": 2,
    "operations": 2,
    "LCD": 4,
}
"""How often a word of a section is changed, where that isn't once."""
_HEADS = 512
"""Bytes of a section's beginning that are changed more often than others: headers of blobs."""


@dataclass(frozen=True)
class Target:
    """A sound file, and where its sections lie."""

    name: str
    data: bytes
    sections: Mapping[str, range]


@cache
def targets() -> tuple[Target, ...]:
    """The small files of tests/data/compiled, and of the samples where they are there."""
    packed = [*FOLDER.glob("**/*.nb.xz")]
    paths = [*FOLDER.glob("**/*.nb"), *NBG_SAMPLES.glob("**/*.nb"), *packed]
    files = ((path.stem, _content(path)) for path in sorted(paths))
    small = ((name, data) for name, data in files if len(data) < _MOST_BYTES)
    return tuple(_target(name, data) for name, data in small if _is_executed(data))


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _is_executed(data: bytes) -> bool:
    """Whether every operation is known; of the samples some aren't."""
    try:
        known_operations.learn(nbg.read(data))
    except ModelError:
        return False
    return True


def _target(name: str, data: bytes) -> Target:
    sections = {s.name: range(s.offset, s.offset + s.size) for s in nbg.read(data).sections}
    sections[_HEADER] = range(min(places.start for places in sections.values()))
    return Target(name, data, sections)


def damaged(source: random.Random) -> tuple[str, bytes]:
    """A file's name, and its bytes with one to six words changed."""
    target = source.choice(targets())
    changed = bytearray(target.data)
    names = sorted(name for name, places in target.sections.items() if len(places) >= _WORD)
    weights = [_WEIGHTS.get(name, 1) for name in names]
    for _ in range(source.choice(EDITS)):
        (name,) = source.choices(names, weights)
        if name in _COMMANDS and source.randrange(2):
            _change_field(source, changed, target.sections[name], _COMMANDS[name])
        else:
            _change_word(source, changed, target.sections[name])
    return target.name, bytes(changed)


def _change_word(source: random.Random, changed: bytearray, places: range) -> None:
    within = min(len(places), source.choice((_HEADS, len(places)))) // _WORD
    place = places.start + _WORD * source.randrange(within)
    another = places.start + _WORD * source.randrange(len(places) // _WORD)
    old = _word(changed, place)
    _put(changed, place, other_value(source, old, 32, _word(changed, another)))


def _change_field(
    source: random.Random, changed: bytearray, places: range, kind: type[fields.Command]
) -> None:
    """A declared field's bits: near what they are, at an edge, or any others."""
    size = _WORD * kind.length
    if len(places) < size:
        return
    command = places.start + size * source.randrange(len(places) // size)
    word, low, high = source.choice(source.choice(kind.fields).parts)
    place, mask = command + _WORD * word, (1 << high - low + 1) - 1
    old = _word(changed, place)
    value = other_value(source, old >> low & mask, high - low + 1, source.getrandbits(4))
    _put(changed, place, old & ~(mask << low) | (value & mask) << low)


def _word(data: bytes | bytearray, place: int) -> int:
    return int.from_bytes(data[place : place + _WORD], "little")


def _put(changed: bytearray, place: int, value: int) -> None:
    changed[place : place + _WORD] = (value & 0xFFFFFFFF).to_bytes(_WORD, "little")
