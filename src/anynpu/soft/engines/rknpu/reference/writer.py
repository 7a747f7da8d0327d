"""Where results go: each writer is a rearrangement of atoms into one or more views.

How many atoms there are, and where they go, is `layout.Written`'s word alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..layout import ATOM, Written
from ..memory import Memory
from ..tasks import (
    AtomTransposer,
    BlockWriter,
    DenseWriter,
    PackedWriter,
    PhaseWriter,
    PixelTransposer,
    RowWriter,
    SurfacePacker,
)
from .features import pack_atoms


def write_channels(memory: Memory, target: Written, values: NDArray[Any]) -> None:
    """Write (C, H, W) of the output's dtype; of a reduction what it leaves."""
    writer, atom = target.writer, target.atoms[-1]
    if isinstance(writer, DenseWriter):
        numbers = np.pad(values.reshape(-1), (0, -values.size % writer.unit), "edge")
        memory.view(target.views[0], writeable=True)[...] = numbers.view(np.uint8)
        return
    padding = writer.padding if isinstance(writer, BlockWriter | PhaseWriter) else 0
    write_atoms(memory, target, pack_atoms(values, atom // values.itemsize, padding))


def write_atoms(memory: Memory, target: Written, atoms: NDArray[np.uint8]) -> None:
    """Write atoms (surfaces, height, width, bytes)."""
    assert atoms.shape == target.atoms, "as many atoms as were checked"
    surfaces, _, _, atom = atoms.shape
    writer = target.writer
    targets = [memory.view(view, writeable=True) for view in target.views]
    match writer:
        case BlockWriter():
            stream = atoms.reshape(surfaces, writer.height, writer.width, atom)
            for place, filled in enumerate(targets):
                first = place * writer.group
                filled[...] = stream[first : first + len(filled)]
        case AtomTransposer():
            targets[0][...] = atoms.transpose(2, 0, 1, 3)
        case PixelTransposer():
            targets[0][...] = _transposed(writer, atoms, targets[0].shape)
        case PackedWriter():
            kept = _packed(writer, atoms)
            targets[0][...] = kept[: len(targets[0])]
        case SurfacePacker():
            targets[0][...] = _packed_surfaces(writer, atoms)[: len(targets[0])]
        case RowWriter():
            rows = atoms.reshape(-1)[: writer.rows * writer.row].reshape(writer.rows, writer.row)
            targets[0][...] = rows[:, : writer.kept]
        case _:
            targets[0][...] = atoms


def _packed_surfaces(writer: SurfacePacker, atoms: NDArray[np.uint8]) -> NDArray[np.uint8]:
    surfaces, height, width, atom = atoms.shape
    apart = atoms.reshape(-1, writer.together, height * width, atom)
    whole = apart.transpose(0, 2, 1, 3).reshape(surfaces, height * width * atom)
    packed = whole[:, : (height * width - 1) * atom + writer.last_bytes].reshape(-1)
    size = min(writer.group_bytes, packed.size)
    groups = np.zeros((writer.groups, -(-size // ATOM) * ATOM), np.uint8)
    groups[:, :size] = packed[: writer.groups * size].reshape(writer.groups, size)
    return groups.reshape(-1)


def _packed(writer: PackedWriter, atoms: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if writer.apart > 1:
        halves = atoms.reshape(*atoms.shape[:3], writer.apart, -1)
        in_order: NDArray[np.uint8] = halves.transpose(0, 3, 1, 2, 4).reshape(-1)
        return in_order
    parts = atoms[..., : writer.atom_bytes]
    groups = [
        parts[first : first + writer.together].transpose(1, 2, 0, 3).reshape(-1)
        for first in range(0, len(parts), writer.together)
    ]
    return np.concatenate(groups)


def _transposed(
    writer: PixelTransposer, atoms: NDArray[np.uint8], shape: tuple[int, ...]
) -> NDArray[np.uint8]:
    if writer.element_size == 1:
        pixels = _filled_up(atoms.reshape(1, -1, ATOM), ATOM)
        squares: NDArray[np.uint8] = pixels.reshape(-1, ATOM, ATOM).transpose(0, 2, 1)
        if writer.pixels == ATOM:
            squares = squares.reshape(1, -1, ATOM * ATOM)
            squares = _filled_up(squares, writer.height * writer.width)
        return squares.reshape(shape)
    lanes = writer.pixels
    pixels = _filled_up(atoms.reshape(1, -1, ATOM), lanes)
    if writer.element_size == 2:
        halves = np.ascontiguousarray(pixels).view(np.uint16).reshape(-1, lanes, lanes)
        blocks = np.ascontiguousarray(halves.transpose(0, 2, 1)).view(np.uint8)
    else:
        blocks = np.ascontiguousarray(pixels)
    per_group = shape[1] * shape[2]
    return _filled_up(blocks.reshape(1, -1, lanes * ATOM), per_group).reshape(shape)


def _filled_up(rows: NDArray[np.uint8], multiple: int) -> NDArray[np.uint8]:
    """(A, N, B) with zeros after them, so that N is a multiple."""
    outer, count, size = rows.shape
    missing = -count % multiple
    if not missing:
        return rows
    return np.concatenate([rows, np.zeros((outer, missing, size), np.uint8)], axis=1)
