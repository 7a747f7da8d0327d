"""What a runtime does to real values before it quantises them: means and deviations in the model.

No query of the C API tells them, so they are read from the file; whatever doesn't look as expected
there means that nothing is known.
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

from . import file_tables
from .onnx_metadata import read_metadata

_NORMALIZATIONS = 4
_MEANS, _DEVIATIONS, _ORDER = 0, 1, 2
"""Slots of a graph's table and a normalisation's."""


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

    None stands for "not known": of files that can't be read, or that aren't known well enough.
    """
    try:
        data = model if isinstance(model, bytes) else file_tables.mapped(Path(model))
        found = list(_read(data, names))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error):
        found = []
    return tuple(found) if len(found) == len(names) else (None,) * len(names)


def _read(data: bytes, names: Sequence[str]) -> Iterator[Normalization]:
    onnx = file_tables.onnx_of(data)
    return _of_tables(file_tables.of_file(data)) if onnx is None else _of_onnx(onnx, names)


def _of_tables(data: memoryview) -> Iterator[Normalization]:
    graph = file_tables.elements(data, file_tables.root(data), file_tables.GRAPHS)[0]
    for table in file_tables.elements(data, graph, _NORMALIZATIONS):
        order = file_tables.numbers(data, table, _ORDER, "i")
        if order != tuple(range(len(order))):
            raise ValueError("channels in another order")
        yield Normalization(
            file_tables.numbers(data, table, _MEANS, "f"),
            file_tables.numbers(data, table, _DEVIATIONS, "f"),
        )


# ------------------------------------------------------------------------------ ONNX's metadata


def _of_onnx(data: bytes, names: Sequence[str]) -> Iterator[Normalization]:
    """What a soft model's metadata says."""
    entries = read_metadata(data)
    means, deviations = (json.loads(entries.get(f"anynpu.{key}", "{}")) for key in ("mean", "std"))
    for name in names:
        mean, std = means.get(name), deviations.get(name)
        count = len(mean or std or [0])
        yield Normalization(tuple(mean or [0.0] * count), tuple(std or [1.0] * count))
