"""Atoms moved to other places, and lanes turned into pixels, by native/npu_copies.c."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .....native.library import load
from .....native.memory import address_of
from ..layout import ATOM, feature_views, target_views
from ..memory import Memory
from ..tasks import (
    AtomTransposer,
    BlockWriter,
    CopyTask,
    Features,
    PackedWriter,
    PhaseWriter,
    PixelTransposer,
    Writer,
)
from .arguments import overlap
from .steps import Plan, Step, call

_AXES = 5
_INTEGER, _POINTER = ctypes.c_int64, ctypes.c_void_p


class _Way(ctypes.Structure):
    """A way through memory, the last axis the fastest; strides are bytes."""

    _fields_ = [
        ("base", _POINTER),
        ("counts", _INTEGER * _AXES),
        ("strides", _INTEGER * _AXES),
    ]


class _Blocks(ctypes.Structure):
    """What a transposer writes."""

    _fields_ = [
        ("way", _Way),
        ("count", _INTEGER),
        ("lane", _INTEGER),
        ("line", _INTEGER),
        ("size", _INTEGER),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, which let go of the GIL; None where they can't be built."""
    loaded = load("npu_copies", ("-O3",))
    if loaded is not None:
        loaded.anynpu_npu_copy.restype = loaded.anynpu_npu_transpose.restype = None
        loaded.anynpu_npu_copy.argtypes = (*(_POINTER,) * 2, *(_INTEGER,) * 3)
        loaded.anynpu_npu_transpose.argtypes = (_POINTER, _INTEGER, _INTEGER, _POINTER)
    return loaded


def plan_rearrangement(task: CopyTask) -> Plan | None:
    """A plan for any writer, for atoms that aren't repeated."""
    source = task.source
    if library() is None or source.odd is not None or task.repeats != (1, 1):
        return None
    if isinstance(task.writer, PixelTransposer) and source.atom != ATOM:
        return None
    return _Rearrangement(source, task.writer)


class _Rearrangement(Plan):
    def __init__(self, source: Features, writer: Writer) -> None:
        self._view, self._writer = feature_views(source)[0], writer
        shape = (source.surfaces, source.height, source.width, source.atom)
        self._is_direct = not overlap(source, writer, shape)
        if not self._is_direct:
            self.scratch_bytes = prod(shape)

    def bind(self, memory: Memory, scratch: Sequence[NDArray[np.uint8]]) -> Step:
        atoms = memory.view(self._view)
        if self._is_direct:
            return write_atoms(atoms, self._writer, memory)
        kept = scratch[0][: self.scratch_bytes].reshape(atoms.shape)
        return in_order([_copy(atoms, kept), write_atoms(kept, self._writer, memory)])


def in_order(steps: Sequence[Step]) -> Step:
    """Steps one after the other."""
    if len(steps) == 1:
        return steps[0]

    def run() -> None:
        for step in steps:
            step()

    return run


def write_atoms(atoms: NDArray[np.uint8], writer: Writer, memory: Memory) -> Step:
    """Write atoms (surfaces, height, width, bytes), which lie where they are at each run."""
    surfaces, height, width, atom = atoms.shape
    views = target_views(writer, (surfaces, height, width, atom))
    targets = [memory.view(view, writeable=True) for view in views]
    match writer:
        case BlockWriter():
            places = range(0, surfaces, max(len(targets[0]), 1))
            pairs = zip(places, targets, strict=True)
            return in_order(
                [_copy(atoms[place : place + len(target)], target) for place, target in pairs]
            )
        case PhaseWriter():
            return _copy(atoms, targets[0])
        case AtomTransposer():
            return _copy(atoms.transpose(2, 0, 1, 3), targets[0])
        case PixelTransposer():
            return _transpose(atoms, writer, targets[0])
        case PackedWriter():
            return _pack(atoms, writer.atom_bytes, targets[0])
        case _:
            raise AssertionError("a dense writer takes no atoms")


def _copy(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> Step:
    """Atoms in their order; the shapes differ where pixels are broken into other rows."""
    size = source.shape[-1]
    count = prod(source.shape[:-1])
    ways = _way(source), _way(target)
    return call(_function("anynpu_npu_copy"), *ways, size, 0, count, keeps=(source, target))


def _pack(atoms: NDArray[np.uint8], size: int, target: NDArray[np.uint8]) -> Step:
    """The first `size` bytes of every atom side by side, the last of them perhaps not all."""
    count, rest = divmod(target.size, size)
    units = np.lib.stride_tricks.as_strided(target, (count + 1, size), (size, 1))
    ways = _way(atoms[..., :size]), _way(units)
    function = _function("anynpu_npu_copy")
    keeps = atoms, target
    steps = [call(function, *ways, size, 0, count, keeps=keeps)]
    if rest:
        steps.append(call(function, *ways, rest, count, 1, keeps=keeps))
    return in_order(steps)


def _transpose(
    atoms: NDArray[np.uint8], writer: PixelTransposer, target: NDArray[np.uint8]
) -> Step:
    surfaces, height, width, _ = atoms.shape
    size = writer.element_size
    # Blocks are what is addressed: without rows and lanes of bytes, or without lanes of atoms.
    first = target[:, 0, 0] if size == 1 else target[..., 0, :]
    way = _way(first)
    blocks = _Blocks(way, prod(first.shape[:-1]), writer.lane_stride, writer.line, size)
    return call(
        _function("anynpu_npu_transpose"), _way(atoms), surfaces, height * width, blocks,
        keeps=(atoms, target),
    )  # fmt: skip


def _way(units: NDArray[np.uint8]) -> _Way:
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
    missing = _AXES - len(axes)
    return _Way(
        address_of(units),
        (_INTEGER * _AXES)(*[1] * missing, *counts),
        (_INTEGER * _AXES)(*[0] * missing, *strides),
    )


def _function(name: str) -> Any:
    loaded = library()
    assert loaded is not None, "plans for kernels are only made where there are some"
    return getattr(loaded, name)
