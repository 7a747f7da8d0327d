"""Copies of the tensor processor and of block transposes by the C kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .....native import steps
from .. import structures
from ..memory import Circle, MemoryMap, Space, Window
from ..places import Places
from ..reference.table import look_up
from ..reference.tp import moved_bytes
from ..rounding import TABLE_BITS, nearest
from ..tasks import BlockTranspose, Move
from . import native
from .arguments import Arguments
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

    def bind(self, arguments: Arguments) -> steps.Entry:
        source, target = self._spaces
        call = structures.Move(
            source=arguments.pointer(source) + self._origins.offset,
            target=arguments.pointer(target) + self._places.offset,
            origins=_structure(self._origins, arguments),
            places=_structure(self._places, arguments),
            table=None if self._table is None else arguments.constant(self._table),
            border=self._border,
            item=self._item,
            count=self._places.size,
            unit=_UNIT,
        )
        units = math.ceil(self._places.size / _UNIT)
        return steps.Entry(
            native.address("anynpu_vip_move"),
            arguments.put(call),
            units,
            units_of(units, self._threads),
        )


def _structure(places: Places, arguments: Arguments) -> structures.Places:
    is_there = places.inside != structures.NOWHERE
    # Values that aren't there have no places, but would be steps of 0.
    run, step = places.run if is_there.all() else (1, 0)
    made = structures.Places(
        blocks=arguments.constant(places.blocks),
        inside=arguments.constant(places.inside),
        size=places.inside.size,
        run=run,
        step=step,
    )
    if places.turn is not None:
        there = places.inside[is_there]
        made.least, made.most = int(there.min(initial=0)), int(there.max(initial=0))
        # What a kernel gets as the first byte has the offset.
        made.end, made.turn = places.turn.end - places.offset, places.turn.size
    return made


def plan_move(
    layout: MemoryMap, task: Move, threads: int, known: dict[object, Origins]
) -> MovePlan | None:
    """Bytes without a maximum: each result depends on one byte, so that a table has them all.

    What tiles have in common is in `known`.
    """
    if task.pooling is not None or task.is_wide or task.input_is_float or task.output_is_float:
        return None
    if task.normalization is not None:
        return None
    if task.planes_before or task.planes_after or not is_apart(layout, task):
        return None
    (_, window), *others = task.source.windows()
    if others:
        return None
    origins = _origins_of(task, window, known)
    border, table = 0, _table(task)
    if origins.leave_the_image:
        border = int(task.border or 0) ^ (128 if task.input_flips else 0)
        if table is not None:
            border = int(table[border])
    return MovePlan(
        window.space, task.target.space, origins.places, task.target.places, 1, threads,
        table, border,
    )  # fmt: skip


class Origins(NamedTuple):
    """Where a copy's values come from, and whether some are the border."""

    places: Places
    leave_the_image: bool


def _origins_of(task: Move, window: Window, known: dict[object, Origins]) -> Origins:
    """Where values come from: those of tiles that are alike are on the same arrays."""
    found = _relative_origins(task, replace(window, offset=0, circle=None), known)
    circle = window.circle
    if circle is None or not window.wraps:
        return Origins(found.places.shifted(window.offset), found.leave_the_image)
    turned = found.places.shifted(window.offset).turned(circle.end, circle.size)
    if turned is not None:
        return Origins(turned, found.leave_the_image)
    own = Circle(circle.end - window.offset, circle.size)
    found = _relative_origins(task, replace(window, offset=0, circle=own), known)
    return Origins(found.places.shifted(window.offset), found.leave_the_image)


def _relative_origins(task: Move, window: Window, known: dict[object, Origins]) -> Origins:
    """The same of a window that begins at 0."""
    key = (
        window, task.window, task.border is None, task.mirrors, task.order,
        task.target.places.inside.size,
    )  # fmt: skip
    if key not in known:
        known[key] = _origins(task, window)
    return known[key]


def _table(task: Move) -> NDArray[np.uint8] | None:
    """What becomes of each byte; None where it stays as it is."""
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
    return None if (table == np.arange(256)).all() else np.ascontiguousarray(table)


def _origins(task: Move, window: Window) -> Origins:
    """The same of a window, in the order of a task's values."""
    left, top, right, bottom = task.window
    rows, pixels = np.arange(top, bottom + 1), np.arange(left, right + 1)
    inside_y, inside_x = task.nearest_pixels()
    offsets = window.offsets()[:, 0, :, :, 0]
    if not _is_in_order(inside_y, offsets.shape[1]) or not _is_in_order(inside_x, offsets.shape[2]):
        offsets = offsets[:, inside_y[:, None], inside_x]
    order = task.order.numbers()
    ordered = offsets.reshape(offsets.shape[0], -1)
    if not _is_in_order(order, ordered.shape[1]):
        ordered = ordered[:, order]
    is_beyond = (rows != inside_y)[:, None] | (pixels != inside_x)
    if task.border is None or not is_beyond.any():
        sizes = order.size, task.order.inside.size, task.target.places.inside.size
        return Origins(Places.of(ordered, *sizes), False)
    # Planes have the same pixels beyond the image, their rows haven't.
    origins = Places.of_planes(ordered, order.size)
    planes = origins.inside.reshape(-1, order.size).copy()
    planes[:, is_beyond.ravel()[order]] = structures.NOWHERE
    return Origins(Places(origins.blocks, planes.ravel()), True)


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
