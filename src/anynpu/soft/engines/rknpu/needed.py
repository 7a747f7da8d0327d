"""Which bytes of internal memory somebody will still read: a graph gone through backwards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .layout import read, written
from .memory import INTERNAL, Strided
from .tasks import Task

_UNIT = 8
"""Bytes that are told apart: no atom has fewer. Where some of them are read, all are needed; where
not all are written, none is taken for written."""


class NeededBytes:
    """What is read after a place in a graph, before something else is written there."""

    def __init__(self, memory_bytes: int) -> None:
        self._needed = np.zeros(-(-memory_bytes // _UNIT), np.bool_)

    def read(self, start: int, end: int) -> None:
        """Bytes that are read from here on."""
        self._needed[start // _UNIT : -(-end // _UNIT)] = True

    def read_all(self) -> None:
        """Somebody may read anything."""
        self._needed[:] = True

    def go_before(self, tasks: Sequence[Task], written_by: Sequence[Task]) -> None:
        """Go back over tasks that run as one, of which only `written_by` write."""
        for task in written_by:
            for view in written(task).views:
                units = self._units(view)
                if units is not None and view.shape[-1] % _UNIT == 0:
                    units[...] = False
        for task in tasks:
            for view in read(task):
                units = self._units(view)
                if units is not None:
                    units[...] = True
                elif view.address.section == INTERNAL:
                    self.read(*view.extent)

    def are_needed(self, views: Sequence[Strided], but: Sequence[Strided]) -> bool:
        """Whether any byte of some views is needed that isn't one of the others."""
        kept: list[tuple[NDArray[np.bool_], NDArray[np.bool_]]] = []
        for view in but:
            units = self._units(view)
            if units is not None and view.shape[-1] % _UNIT == 0:
                kept.append((units, units.copy()))
                units[...] = False
        found = False
        for view in views:
            units = self._units(view)
            found = found or units is None or bool(units.any())
        for units, before in reversed(kept):
            units[...] = before
        return found

    def _units(self, view: Strided) -> NDArray[np.bool_] | None:
        """The flags of a view of internal memory; None where there are none of its own."""
        *strides, last = view.strides
        places = (view.address.offset, *strides)
        if view.address.section != INTERNAL or last != 1 or any(n % _UNIT for n in places):
            return None
        flags: NDArray[np.bool_] = np.ndarray(
            (*view.shape[:-1], -(-view.shape[-1] // _UNIT)),
            np.bool_,
            self._needed,
            view.address.offset // _UNIT,
            (*(stride // _UNIT for stride in strides), 1),
        )
        return flags
