"""What a C kernel does for a task: everything that doesn't depend on a context's memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .....native import steps
from .. import structures
from ..memory import MemoryMap, Scattered, Window
from ..planes import Planes
from ..tasks import Task
from .arguments import Arguments


class Plan(ABC):
    """A task as one call of a kernel; immutable, shared by contexts.

    `kernel` is what people call the kernel; `scratch` is what a thread needs of its own, in bytes.
    """

    __slots__ = ("scratch",)
    kernel: ClassVar[str]
    scratch: int

    @abstractmethod
    def bind(self, arguments: Arguments) -> steps.Entry:
        """The step that computes, with what it is called with in `arguments`."""


def planes_in(planes: Planes, arguments: Arguments) -> structures.Planes:
    """Planes as C has them, in each context's memory."""
    return structures.Planes(
        base=arguments.pointer(planes.space),
        offset=planes.offset,
        plane=planes.plane,
        row=planes.row,
        group=planes.group,
        end=planes.circle.end if planes.circle else 0,
        size=planes.circle.size if planes.circle else 0,
    )


def units_of(units: int, threads: int) -> int:
    """How many units a thread takes at a time."""
    return max(1, units // (4 * threads))


def is_apart(layout: MemoryMap, task: Task) -> bool:
    """Whether a task writes nothing that it reads, and nothing twice.

    Then the order in which its results are written is of no matter.
    """
    targets = list(task.writes())
    if _are_surely_apart(targets, list(task.reads())):
        return True
    written: dict[object, NDArray[np.bool_]] = {}
    for target in targets:
        _, size = layout.place(target.space)
        marks = written.setdefault(target.space, np.zeros(size, np.bool_))
        places = _places(target)
        if np.count_nonzero(marks[places]):
            return False
        marks[places] = True
    total = sum(np.count_nonzero(marks) for marks in written.values())
    if total != sum(map(_size, targets)):
        return False
    return not any(
        window.space in written and _any(written[window.space], window) for window in task.reads()
    )


def _are_surely_apart(targets: list[Window | Scattered], sources: list[Window]) -> bool:
    """The same by the ends of arrays and their strides, which is quick and not always enough."""
    ranges = []
    for target in targets:
        if not _has_no_byte_twice(target):
            return False
        ranges.append((target.space, *_range(target)))
    known = ranges + [(source.space, *_range(source)) for source in sources]
    for number, (space, low, high) in enumerate(ranges):
        for other, (other_space, other_low, other_high) in enumerate(known):
            meets = space == other_space and low < other_high and other_low < high
            if other != number and meets:
                return False
    return True


def _range(window: Window | Scattered) -> tuple[int, int]:
    low, high = window.extent
    if isinstance(window, Scattered) or window.circle is None or not window.wraps:
        return low, high
    return min(low, window.circle.end - window.circle.size), window.circle.end


def _has_no_byte_twice(window: Window | Scattered) -> bool:
    if isinstance(window, Scattered):
        return window.places.are_apart(window.item)
    reach = 1
    for stride, size in sorted(zip(window.strides, window.shape, strict=True)):
        if size > 1:
            if stride < reach:
                return False
            reach += stride * (size - 1)
    return window.circle is None or not window.wraps or reach <= window.circle.size


def _places(target: Window | Scattered) -> NDArray[np.int64]:
    if isinstance(target, Window):
        return target.offsets().ravel()
    steps_of_item = np.arange(target.item, dtype=np.int64)
    return (target.places.numbers()[:, None] + steps_of_item).ravel()


def _size(target: Window | Scattered) -> int:
    if isinstance(target, Window):
        return int(np.prod(target.shape))
    return target.places.size * target.item


def _any(marks: NDArray[np.bool_], window: Window) -> bool:
    if window.wraps:
        return bool(marks[window.offsets()].any())
    low, high = window.extent
    if not marks[low:high].any():
        return False
    view = np.lib.stride_tricks.as_strided(
        marks[window.offset :], window.shape, window.strides, writeable=False
    )
    return bool(view.any())


def fits_circle(planes: Planes, *, whole_rows: bool = False) -> bool:
    """Whether no row of pixels is longer than its circular buffer, or cut by its end."""
    for _, window in planes.windows():
        circle = window.circle
        if circle is None or not window.wraps:
            continue
        reach = (window.shape[3] - 1) * window.strides[3] + window.shape[4]
        if reach > circle.size:
            return False
        if whole_rows:
            rows = Window(window.space, window.offset, window.shape[:3], window.strides[:3], circle)
            if (rows.offsets() + reach > circle.end).any():
                return False
    return True


def rounded_up(value: int, unit: int) -> int:
    """The next whole number of units."""
    return -(-value // unit) * unit
