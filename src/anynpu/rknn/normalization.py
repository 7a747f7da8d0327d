"""What a runtime does to real values before it quantises them: means and deviations in the model.

No query of the C API tells them, so they are read from the file. A compiled file's body is a
FlatBuffer of a schema that nobody published; only the way to this table is followed here, and
whatever doesn't look as expected means that nothing is known.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .model_file import HEADER, MAGIC
from .onnx_metadata import read_metadata

_GRAPHS, _NORMALIZATIONS = 2, 4
_MEANS, _DEVIATIONS, _ORDER = 0, 1, 2
"""Slots of the root table, a graph's and a normalisation's."""

_BODY = HEADER.size
_IDENTIFIERS = slice(_BODY + 4, _BODY + 8)
_COMPILED, _SOFT = b"RKNN", b"ANPU"
_SMALL_CONTAINER = 0x1004
_SMALL_DATA = 0x80
_SMALL_HEADER = struct.Struct("<7I")
_SOFT_ONNX = _BODY + 16
_MOST_NUMBERS = 1 << 12


@dataclass(frozen=True)
class Normalization:
    """(x - mean) / std, with a number for each channel or one for all.

    Files have at least four numbers; those for channels that an input hasn't mean nothing.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def is_identity(self) -> bool:
        """Whether values stay what they are."""
        return not any(self.mean) and all(value == 1 for value in self.std)

    def for_channels(self, count: int) -> Normalization:
        """The numbers of an input's channels; raises ValueError where there are too few."""
        if len(set(self.mean)) == len(set(self.std)) == 1:
            return Normalization(self.mean[:1], self.std[:1])
        if min(len(self.mean), len(self.std)) < count:
            raise ValueError(f"{len(self.mean)} means for {count} channels")
        return Normalization(self.mean[:count], self.std[:count])

    def apply(self, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """Values whose last axis is the channels, as float32: a new array."""
        own = self.for_channels(pixels.shape[-1])
        result: NDArray[np.float32] = np.subtract(
            pixels, np.array(own.mean, np.float32), dtype=np.float32
        )
        np.divide(result, np.array(own.std, np.float32), out=result)
        return result


NONE = Normalization((0.0,), (1.0,))


def read_normalizations(
    model: str | os.PathLike[str] | bytes, names: Sequence[str]
) -> tuple[Normalization | None, ...]:
    """For each input, in the model's order with these names, what is done to it.

    None stands for "not known": of files that can't be read, or that nobody has described.
    """
    try:
        data = model if isinstance(model, bytes) else Path(model).read_bytes()
        found = list(_read(data, names))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error):
        found = []
    return tuple(found) if len(found) == len(names) else (None,) * len(names)


def _read(data: bytes, names: Sequence[str]) -> Iterator[Normalization]:
    if data[: len(MAGIC)] != MAGIC:
        return _of_onnx(data, 0, names)
    _, _, version, _ = HEADER.unpack_from(data)
    if version == _SMALL_CONTAINER:
        lengths = _SMALL_HEADER.unpack_from(data, _BODY)
        description, tasks, _, commands, _, weights, extra = lengths
        start = _SMALL_DATA + tasks + commands + extra + weights
        return _of_tables(memoryview(data)[start : start + description])
    if data[_IDENTIFIERS] == _SOFT:
        return _of_onnx(data, _SOFT_ONNX, names)
    if data[_IDENTIFIERS] == _COMPILED:
        return _of_tables(memoryview(data)[_BODY:])
    raise ValueError("an unknown container")


# --------------------------------------------------------------------------- FlatBuffer's tables


def _of_tables(data: memoryview) -> Iterator[Normalization]:
    graph = _elements(data, _number(data, 0), _GRAPHS)[0]
    for table in _elements(data, graph, _NORMALIZATIONS):
        order = _numbers(data, table, _ORDER, "i")
        if order != tuple(range(len(order))):
            raise ValueError("channels in another order")
        means, deviations = (_numbers(data, table, slot, "f") for slot in (_MEANS, _DEVIATIONS))
        yield Normalization(means, deviations)


def _number(data: memoryview, position: int, code: str = "I") -> int:
    return int(struct.unpack_from(f"<{code}", data, position)[0])


def _vector(data: memoryview, table: int, slot: int) -> tuple[int, int]:
    """(where a vector's elements begin, how many there are)."""
    fields = table - _number(data, table, "i")
    place = 4 + 2 * slot
    if place >= _number(data, fields, "H"):
        raise ValueError("the field is absent")
    position = table + _number(data, fields + place, "H")
    start = position + _number(data, position)
    count = _number(data, start)
    if count > _MOST_NUMBERS:
        raise ValueError("too many elements")
    return start + 4, count


def _elements(data: memoryview, table: int, slot: int) -> list[int]:
    """Where the tables of a vector are."""
    start, count = _vector(data, table, slot)
    places = range(start, start + 4 * count, 4)
    return [place + _number(data, place) for place in places]


def _numbers(data: memoryview, table: int, slot: int, code: str) -> tuple[Any, ...]:
    start, count = _vector(data, table, slot)
    return struct.unpack_from(f"<{count}{code}", data, start)


# ------------------------------------------------------------------------------ ONNX's metadata


def _of_onnx(data: bytes, start: int, names: Sequence[str]) -> Iterator[Normalization]:
    """What a soft model's metadata says."""
    entries = read_metadata(data[start:])
    means, deviations = (json.loads(entries.get(f"anynpu.{key}", "{}")) for key in ("mean", "std"))
    for name in names:
        mean, std = means.get(name), deviations.get(name)
        count = len(mean or std or [0])
        yield Normalization(tuple(mean or [0.0] * count), tuple(std or [1.0] * count))
