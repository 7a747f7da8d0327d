"""Damaged compiled files: a few fields of a sound one, changed."""

from __future__ import annotations

import lzma
import random
from functools import cache
from pathlib import Path

import numpy as np

from .fields import Field, Kind, Target, apply, current
from .other_values import EDITS, other_value

FOLDER = Path(__file__).parents[1] / "data" / "compiled"

_MOST_BYTES = 200_000
_WEIGHTS = {
    Kind.VALUE: 12,
    Kind.REGISTER: 1,
    Kind.TASK: 1,
    Kind.RELOCATION: 3,
    Kind.SCALAR: 2,
    Kind.VECTOR: 3,
    Kind.REFERENCE: 1,
}
"""How often each kind of field is chosen."""
_CUT_ONE_OF = 40


@cache
def files(folder: Path = FOLDER) -> tuple[tuple[str, bytes], ...]:
    """The small files of all chips, in tests/data/compiled: names and bytes."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as archive:
            if "compiled" in archive:
                found.append((path.stem, lzma.decompress(archive["compiled"].tobytes())))
    for path in sorted(folder.glob("*/*.rknn.xz")):
        found.append((f"{path.parent.name}_{path.stem}", lzma.decompress(path.read_bytes())))
    for path in sorted(folder.glob("*/*.rknn")):
        if path.stat().st_size < _MOST_BYTES:
            found.append((f"{path.parent.name}_{path.stem}", path.read_bytes()))
    return tuple(found)


@cache
def targets(folder: Path = FOLDER) -> tuple[Target, ...]:
    """The files with the places of their fields."""
    return tuple(Target.of(name, data) for name, data in files(folder))


def damaged(source: random.Random, folder: Path = FOLDER) -> tuple[str, bytes]:
    """A file's name, and its bytes with one to six fields changed."""
    target = source.choice(targets(folder))
    edits = []
    for _ in range(source.choice(EDITS)):
        field = _field(source, target)
        edits.append((field, _value(source, target, field)))
    changed = apply(target.data, edits)
    if source.randrange(_CUT_ONE_OF) == 0:
        # Everything behind some place is gone.
        changed = changed[: source.randrange(len(changed))]
    return target.name, changed


def _value(source: random.Random, target: Target, field: Field) -> int:
    other = source.choice(target.fields[source.choice(target.kinds)])
    return other_value(
        source, current(target.data, field), 8 * field.width, current(target.data, other)
    )


def _field(source: random.Random, target: Target) -> Field:
    weights = [_WEIGHTS[kind] for kind in target.kinds]
    (kind,) = source.choices(target.kinds, weights)
    if kind is Kind.VALUE:
        # Each register as often as the others, however many tasks write it.
        return source.choice(target.registers[source.choice(target.register_numbers)])
    return source.choice(target.fields[kind])
