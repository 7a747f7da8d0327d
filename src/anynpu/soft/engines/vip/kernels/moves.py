"""Copies of the tensor processor and of block transposes by the C kernel."""

from __future__ import annotations

import ctypes
import math

import numpy as np
from numpy.typing import NDArray

from .....native import steps
from .....native.memory import address_of
from .. import structures
from ..memory import Memory, MemoryMap, Space, Window
from ..places import Places
from ..reference.table import look_up
from ..reference.tp import moved_bytes
from ..rounding import TABLE_BITS, nearest
from ..tasks import BlockTranspose, Move
from . import native
from .plan import Plan, is_apart, units_of

_UNIT = 4096
"""Places that a unit of work has."""


class MovePlan(Plan):
    """Bytes from places to places as one call."""

    kernel = "copies"

    def __init__(
        self,
        source: Space,
        target: Space,
        origins: Places,
        places: Places,
        item: int,
        threads: int,
        table: NDArray[np.uint8] | None = None,
        border: int = 0,
    ) -> None:
        self.scratch = 0
        self._spaces = source, target
        self._origins, self._places, self._item = origins, places, item
        self._table, self._border, self._threads = table, border, threads

    def bind(self, memory: Memory) -> tuple[steps.Entry, object]:
        source, target = self._spaces
        call = structures.Move(
            source=memory.pointer(source),
            target=memory.pointer(target),
            origins=_structure(self._origins),
            places=_structure(self._places),
            table=None if self._table is None else address_of(self._table),
            border=self._border,
            item=self._item,
            count=self._places.size,
            unit=_UNIT,
        )
        units = math.ceil(self._places.size / _UNIT)
        entry = steps.Entry(
            native.address("anynpu_vip_move"),
            ctypes.addressof(call),
            units,
            units_of(units, self._threads),
        )
        return entry, (call, self._origins, self._places, self._table)


def _structure(places: Places) -> structures.Places:
    return structures.Places(
        address_of(places.blocks), address_of(places.inside), places.inside.size
    )


def plan_move(layout: MemoryMap, task: Move, threads: int) -> MovePlan | None:
    """Bytes without a maximum: each result depends on one byte, so that a table has them all."""
    if task.pooling is not None or task.is_wide or task.input_is_float or task.output_is_float:
        return None
    if task.planes_before or task.planes_after or not is_apart(layout, task):
        return None
    values = np.arange(256, dtype=np.float64) - task.input_zero_point
    if task.table is not None:
        values = nearest(look_up(task.table, values), TABLE_BITS)
    if task.scale is not None:
        values = values * task.scale
    table = moved_bytes(values, task.output_zero_point)
    flipped = np.arange(256) ^ 128
    if task.input_flips:
        table = table[flipped]
    if task.output_flips:
        table = table ^ np.uint8(128)
    left, top, right, bottom = task.window
    rows, pixels = np.arange(top, bottom + 1), np.arange(left, right + 1)
    inside_y, inside_x = task.nearest_pixels()
    (_, window), *others = task.source.windows()
    if others:
        return None
    offsets = window.offsets()[:, 0, :, :, 0]
    if not _is_in_order(inside_y, offsets.shape[1]) or not _is_in_order(inside_x, offsets.shape[2]):
        offsets = offsets[:, inside_y[:, None], inside_x]
    order = task.order.numbers()
    ordered = offsets.reshape(offsets.shape[0], -1)
    if not _is_in_order(order, ordered.shape[1]):
        ordered = ordered[:, order]
    is_beyond = (rows != inside_y)[:, None] | (pixels != inside_x)
    border = 0
    if task.border is None or not is_beyond.any():
        origins = Places.of(
            ordered, order.size, task.order.inside.size, task.target.places.inside.size
        )
    else:
        # Planes have the same pixels beyond the image, their rows haven't.
        origins = Places.of_planes(ordered, order.size)
        planes = origins.inside.reshape(-1, order.size).copy()
        planes[:, is_beyond.ravel()[order]] = structures.NOWHERE
        origins = Places(origins.blocks, planes.ravel())
        border = int(task.border) ^ (128 if task.input_flips else 0)
    return MovePlan(
        window.space, task.target.space, origins, task.target.places, 1, threads,
        np.ascontiguousarray(table), border,
    )  # fmt: skip


def _is_in_order(places: NDArray[np.integer], count: int) -> bool:
    """Whether places are all of so many, one after another."""
    return places.size == count and bool((places == np.arange(count)).all())


def plan_transpose(layout: MemoryMap, task: BlockTranspose, threads: int) -> MovePlan | None:
    """Blocks that aren't cut by the end of a circular buffer."""
    if not is_apart(layout, task):
        return None
    item = task.source.shape[3]
    sides = []
    for window in (task.source, task.target):
        blocks = Window(
            window.space, window.offset, window.shape[:3], window.strides[:3], window.circle
        ).offsets()
        if window.circle is not None and (blocks + item > window.circle.end).any():
            return None
        rows, pixels = window.shape[1:3]
        sides.append(Places.of(blocks, rows * pixels, pixels))
    return MovePlan(task.source.space, task.target.space, sides[0], sides[1], item, threads)
