"""Atoms moved to other places, and lanes turned into pixels, by native/npu_copies.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from .....native import steps
from .....native.forms import load_kernels
from .....native.memory import address_of
from ..layout import ATOM, Written, feature_views, written
from ..memory import Memory
from ..tasks import (
    AtomTransposer,
    BlockWriter,
    CopyTask,
    Features,
    PackedWriter,
    PhaseWriter,
    PixelTransposer,
    SurfacePacker,
    Writer,
)
from .aliasing import overlap
from .steps import KernelStep, Plan, Scratch
from .structures import AXES, Copy, Transposition, Way

_ROW = 8
"""Atoms of a block of bytes that lie in one row."""

_AXES_OF_ROWS = 4
"""Of what such a transposer writes: groups, rows, atoms, bytes."""

_INTEGER = ctypes.c_int64
_WORK = {"copy": 120, "transpose": 1200}
"""What a unit costs, in products of a dense convolution."""


@cache
def library() -> ctypes.CDLL | None:
    """The kernels; None where they, or what runs them, can't be built."""
    return load_kernels("npu_copies") if steps.is_available() else None


def plan_rearrangement(task: CopyTask) -> Plan | None:
    """A plan for any writer, for atoms that aren't repeated."""
    source = task.source
    if library() is None or not is_known_writer(task.writer):
        return None
    if source.odd is not None or task.repeats != (1, 1):
        return None
    if isinstance(task.writer, PixelTransposer) and source.atom != ATOM:
        return None
    if isinstance(task.writer, SurfacePacker) and source.line != source.width * source.atom:
        return None
    return _Rearrangement(source, written(task))


def is_known_writer(writer: Writer) -> bool:
    """Whether `write_atoms` takes a writer."""
    if isinstance(writer, PixelTransposer):
        if writer.element_size == ATOM:
            return writer.pixels <= ATOM
        return writer.element_size == 1 or writer.pixels == _ROW
    if isinstance(writer, SurfacePacker):
        return writer.together == 1
    return isinstance(writer, BlockWriter | PhaseWriter | AtomTransposer | PackedWriter)


class _Rearrangement(Plan):
    def __init__(self, source: Features, target: Written) -> None:
        self._view, self._target = feature_views(source)[0], target
        self._is_direct = not overlap(source, target)
        if not self._is_direct:
            self.shared_bytes = prod(target.atoms)

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        atoms = memory.view(self._view)
        if self._is_direct:
            return write_atoms(atoms, self._target, memory)
        kept = scratch.shared[: self.shared_bytes].reshape(atoms.shape)
        return [copy_units(atoms, kept), *write_atoms(kept, self._target, memory)]


def write_atoms(atoms: NDArray[np.uint8], target: Written, memory: Memory) -> Sequence[KernelStep]:
    """Write atoms (surfaces, height, width, bytes), which lie where they are at each run."""
    assert atoms.shape == target.atoms, "as many atoms as were checked"
    surfaces, writer = len(atoms), target.writer
    targets = [memory.view(view, writeable=True) for view in target.views]
    match writer:
        case BlockWriter():
            places = range(0, surfaces, len(targets[0]))
            return [
                copy_units(atoms[place : place + len(filled)], filled)
                for place, filled in zip(places, targets, strict=True)
            ]
        case PhaseWriter():
            return [copy_units(atoms, targets[0])]
        case AtomTransposer():
            return [copy_units(atoms.transpose(2, 0, 1, 3), targets[0])]
        case PixelTransposer():
            return [_transpose(atoms, writer, targets[0])]
        case PackedWriter():
            return _pack(atoms, writer, targets[0])
        case SurfacePacker():
            return _pack_surfaces(atoms, writer, targets[0])
        case _:
            raise AssertionError("a dense writer takes no atoms")


def copy_units(
    source: NDArray[np.uint8],
    target: NDArray[np.uint8],
    mask: NDArray[np.uint64] | None = None,
) -> KernelStep:
    """Units (..., bytes) in their order; pixels may be broken into other rows.

    Of units of whole words those bits are kept that `mask` has; there are kernels (see `library`).
    """
    count, size = prod(source.shape[:-1]), source.shape[-1]
    assert mask is None or mask.nbytes == size, "a mask is as wide as units"
    kept = None if mask is None else address_of(mask)
    copy = Copy(_way(source), _way(target), size, 0, 0, kept)
    return _step("copy", copy, count, (source, target, mask))


def _pack(
    atoms: NDArray[np.uint8], writer: PackedWriter, target: NDArray[np.uint8]
) -> Sequence[KernelStep]:
    """The first bytes of every atom side by side, the last of them perhaps not all."""
    size, together = writer.atom_bytes, writer.together
    surfaces, height, width, atom = atoms.shape
    whole = surfaces // together * together
    parts = [
        part.transpose(0, 2, 3, 1, 4)[..., :size]
        for part in (atoms[:whole].reshape(-1, together, height, width, atom), atoms[None, whole:])
    ]
    if writer.apart > 1:
        size = atom // writer.apart
        halves = atoms.reshape(surfaces, height, width, writer.apart, size)
        parts = [halves.transpose(0, 3, 1, 2, 4)]
    steps: list[KernelStep] = []
    place = 0
    for units in parts:
        count = prod(units.shape[:-1])
        full, rest = divmod(min(target.size - place, count * size), size)
        into = np.lib.stride_tricks.as_strided(target[place:], (full + 1, size), (size, 1))
        for bytes_, first, number in ((size, 0, full), (rest, full, 1 if rest else 0)):
            if number:
                copy = Copy(_way(units), _way(into), bytes_, first, first)
                steps.append(_step("copy", copy, number, (atoms, target)))
        place += full * size + rest
    return steps


def _pack_surfaces(
    atoms: NDArray[np.uint8], writer: SurfacePacker, target: NDArray[np.uint8]
) -> Sequence[KernelStep]:
    """Surfaces without gaps between rows as one stream of bytes, broken into groups."""
    surfaces, height, width, atom = atoms.shape
    surface = (height * width - 1) * atom + writer.last_bytes
    stream = np.lib.stride_tricks.as_strided(
        atoms, (surfaces, surface, 1), (atoms.strides[0], 1, 1)
    )
    size = min(writer.group_bytes, surfaces * surface)
    padded = -(-size // ATOM) * ATOM
    whole, rest = divmod(target.size, padded)
    groups = target[: whole * padded].reshape(whole, padded, 1)
    last = target[whole * padded :].reshape(1, rest, 1)
    zero = np.broadcast_to(np.zeros((1, 1, 1), np.uint8), (whole + 1, padded, 1))
    steps = []
    for into, first in ((groups, 0), (last, whole * size)):
        kept = into[:, :size]
        if kept.size:
            ways = _way(stream), _way(kept)
            copy = Copy(*ways, 1, first, 0)
            steps.append(_step("copy", copy, kept.size, (atoms, target)))
        if into[:, size:].size:
            steps.append(copy_units(zero[: len(into), : into.shape[1] - size], into[:, size:]))
    return steps


def _transpose(
    atoms: NDArray[np.uint8], writer: PixelTransposer, target: NDArray[np.uint8]
) -> KernelStep:
    surfaces, height, width, _ = atoms.shape
    in_rows = target.ndim == _AXES_OF_ROWS
    # Blocks are what is addressed: without rows and lanes of bytes, or without lanes of atoms.
    first = target[:, 0, 0] if in_rows else target[..., 0, :]
    arguments = Transposition(
        _way(atoms),
        surfaces * height * width,
        ATOM if in_rows else writer.pixels,
        _way(first),
        writer.lane_stride,
        writer.line if in_rows else writer.lane_stride * _ROW,
        writer.element_size,
    )
    return _step("transpose", arguments, prod(first.shape[:-1]), (atoms, target))


def _step(name: str, arguments: ctypes.Structure, units: int, keeps: object) -> KernelStep:
    loaded = library()
    assert loaded is not None, "plans for kernels are only made where there are some"
    kernel = getattr(loaded, f"anynpu_npu_{name}")
    return KernelStep(kernel, arguments, units, float(units) * _WORK[name], keeps=keeps)


def _way(units: NDArray[np.uint8]) -> Way:
    """The way through units (..., bytes) in their order, with as few axes as there can be."""
    axes: list[tuple[int, int]] = []
    for count, stride in zip(units.shape[:-1], units.strides[:-1], strict=True):
        if count == 1:
            continue
        if axes and axes[-1][1] == count * stride:
            axes[-1] = (axes[-1][0] * count, stride)
        else:
            axes.append((count, stride))
    counts = [count for count, _ in axes]
    strides = [stride for _, stride in axes]
    missing = AXES - len(axes)
    return Way(
        address_of(units),
        (_INTEGER * AXES)(*[1] * missing, *counts),
        (_INTEGER * AXES)(*[0] * missing, *strides),
    )
