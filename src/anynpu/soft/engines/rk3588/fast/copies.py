"""Atoms moved without looking into them, as assignments between views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..layout import feature_views, target_views
from ..memory import Memory, Strided
from ..tasks import BlockWriter, CopyTask, PhaseWriter
from .arguments import overlap
from .steps import Plan, Step

_WORDS = {16: np.dtype(np.complex128), 8: np.dtype(np.uint64)}
"""What carries an atom of so many bytes; no arithmetic is done with it."""


def plan_copy(task: CopyTask) -> Plan | None:
    """A plan for channel blocks, plain or un-pooled, that don't overlap."""
    source, writer, (rows, columns) = task.source, task.writer, task.repeats
    shape = (source.surfaces * rows, source.height, source.width * columns, source.atom)
    if not isinstance(writer, BlockWriter | PhaseWriter) or overlap(source, writer, shape):
        return None
    targets = target_views(writer, shape)
    if len(targets) != 1 or targets[0].shape != shape or source.atom not in _WORDS:
        return None
    return _Copy(task, targets[0])


class _Copy(Plan):
    def __init__(self, task: CopyTask, target: Strided) -> None:
        self._task, self._target = task, target

    def bind(self, memory: Memory, scratch: Sequence[NDArray[np.uint8]]) -> Step:
        word = _WORDS[self._task.source.atom]
        target = memory.view(self._target, writeable=True).view(word)[..., 0]
        views = [memory.view(view).view(word)[..., 0] for view in feature_views(self._task.source)]
        rows, columns = self._task.repeats
        surfaces = self._task.source.surfaces
        moves = []
        for row in range(rows):
            for part, view in enumerate(views):
                into = target[row * surfaces + part : (row + 1) * surfaces : len(views)]
                moves += [(into[:, :, column::columns], view) for column in range(columns)]

        def run() -> None:
            for into, view in moves:
                np.copyto(into, view)

        return run
