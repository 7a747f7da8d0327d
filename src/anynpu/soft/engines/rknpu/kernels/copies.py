"""Atoms moved without looking into them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

from ..layout import feature_views, moved, written
from ..memory import Memory, Strided
from ..tasks import BlockWriter, CopyTask, PhaseWriter
from . import structures
from .aliasing import overlap
from .int8 import kernels
from .steps import KernelStep, Plan, Scratch

_ATOMS = (8, 16)
_WORK_OF_AN_ATOM = 200
"""In products of a dense convolution."""

_STRIDES = ctypes.c_int64 * 3


def plan_copy(task: CopyTask) -> Plan | None:
    """A plan for channel blocks, plain or un-pooled, that don't overlap."""
    source, target = task.source, written(task)
    if not isinstance(target.writer, BlockWriter | PhaseWriter) or overlap(source, target):
        return None
    views = target.views
    if len(views) != 1 or views[0].shape != target.atoms or source.atom not in _ATOMS:
        return None
    return _Copy(task, views[0])


class _Copy(Plan):
    def __init__(self, task: CopyTask, target: Strided) -> None:
        self._moves = tuple(_moves(task, target))

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        return [self._step(memory, source, target) for source, target in self._moves]

    def _step(self, memory: Memory, source: Strided, target: Strided) -> KernelStep:
        surfaces, height, width, atom = source.shape
        arguments = structures.Move(
            memory.pointer(source),
            memory.pointer(target, writeable=True),
            height,
            width,
            _STRIDES(*source.strides[:3]),
            _STRIDES(*target.strides[:3]),
            atom,
        )
        work = float(surfaces) * height * width * _WORK_OF_AN_ATOM
        return KernelStep(kernels.kernel("move"), arguments, surfaces * height, work, keeps=memory)


def _moves(task: CopyTask, target: Strided) -> Iterator[tuple[Strided, Strided]]:
    """From where to where: each view of the source once for every repetition."""
    rows, columns = task.repeats
    views = feature_views(task.source)
    surface, line, pixel, _ = target.strides
    for row in range(rows):
        for part, view in enumerate(views):
            first = row * task.source.surfaces + part
            for column in range(columns):
                place = moved(target.address, first * surface + column * pixel)
                strides = (surface * len(views), line, pixel * columns, 1)
                yield view, Strided(place, view.shape, strides)
