"""Strategies for damaged compiled files: a few fields of a sound one, changed."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from .fields import Field, Kind, Target, apply, current

FOLDER = Path(__file__).parents[1] / "data" / "compiled"

_EDGES = sorted(
    {0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 127, 128, 255, 256, 511, 512, 1023}
    | {(1 << bits) + step for bits in range(11, 33) for step in (-16, -1, 0, 1)}
)
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


@cache
def targets(folder: Path = FOLDER) -> tuple[Target, ...]:
    """The small files of all chips, in tests/data/compiled."""
    found = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as archive:
            if "compiled" in archive:
                data = lzma.decompress(archive["compiled"].tobytes())
                found.append(Target.of(path.stem, data))
    for path in sorted(folder.glob("*/*.rknn.xz")):
        found.append(
            Target.of(f"{path.parent.name}_{path.stem}", lzma.decompress(path.read_bytes()))
        )
    for path in sorted(folder.glob("*/*.rknn")):
        if path.stat().st_size < 200_000:
            found.append(Target.of(f"{path.parent.name}_{path.stem}", path.read_bytes()))
    return tuple(found)


@st.composite
def _value(draw: st.DrawFn, target: Target, field: Field) -> int:
    """Another value: near the old one, at an edge, some of its bits, another field's."""
    old, bits = current(target.data, field), 8 * field.width
    low = draw(st.sampled_from([0, 0, 4, 8, 10, 16, 16, 20, 24]))
    mask = (1 << draw(st.sampled_from([4, 8, 10, 13, 16]))) - 1 << low
    kind = draw(st.sampled_from(sorted(target.fields, key=lambda kind: kind.name)))
    ways = (
        st.integers(0, bits - 1).map(lambda bit: old ^ 1 << bit),
        st.integers(-40, 40).map(lambda step: old + step),
        st.sampled_from(_EDGES),
        st.sampled_from(_EDGES).map(lambda edge: old & ~mask | edge << low & mask),
        st.sampled_from([old << 1, old << 3, old >> 1, old >> 2, old * 3, -old]),
        st.sampled_from(target.fields[kind]).map(lambda other: current(target.data, other)),
        st.integers(0, (1 << bits) - 1),
    )
    return draw(draw(st.sampled_from(ways)))


@st.composite
def _field(draw: st.DrawFn, target: Target) -> Field:
    kinds = [kind for kind in target.fields for _ in range(_WEIGHTS[kind])]
    kind = draw(st.sampled_from(kinds))
    if kind is Kind.VALUE:
        # Each register as often as the others, however many tasks write it.
        register = draw(st.sampled_from(sorted(target.registers)))
        return draw(st.sampled_from(target.registers[register]))
    return draw(st.sampled_from(target.fields[kind]))


@st.composite
def damaged(draw: st.DrawFn, folder: Path = FOLDER) -> tuple[str, bytes]:
    """A file's name, and its bytes with one to six fields changed."""
    target = draw(st.sampled_from(targets(folder)))
    edits = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 6]))):
        field = draw(_field(target))
        edits.append((field, draw(_value(target, field))))
    if draw(st.integers(0, 39)) == 0:
        # Everything behind some place is gone.
        end = draw(st.integers(0, len(target.data) - 1))
        return target.name, apply(target.data, edits)[:end]
    return target.name, apply(target.data, edits)
