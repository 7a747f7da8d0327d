"""Whether what a task writes lies where it reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..layout import Written, feature_views, written
from ..memory import Strided
from ..tasks import BlockWriter, Features, Task, Writer


def share_bytes(views: Iterable[Strided], others: Iterable[Strided]) -> bool:
    """Whether some of the ones and some of the others may have bytes in common."""
    filled = _extents(others)
    return any(
        section == other and low < end and first < high
        for section, low, high in _extents(views)
        for other, first, end in filled
    )


def _extents(views: Iterable[Strided]) -> list[tuple[int, int, int]]:
    """(section, first byte, byte past the last) of each view."""
    return [(view.address.section, *view.extent) for view in views]


def overlap(features: Features, target: Written) -> bool:
    """Whether what is read and what is written share bytes."""
    return share_bytes(feature_views(features), target.views)


def in_place(features: Features, writer: Writer) -> bool:
    """Whether each atom is written where it was read."""
    return (
        isinstance(writer, BlockWriter)
        and features.odd is None
        and writer.group >= features.surfaces
        and (features.address, features.height, features.width)
        == (writer.address, writer.height, writer.width)
        and (features.line, features.surface, features.atom)
        == (writer.line, writer.surface, writer.atom)
    )


def writes_twice(task: Task) -> bool:
    """Whether a task may write bytes more than once: which stay is up to the order."""
    target = written(task)
    first, *others = target.views
    axes = list(zip(map(abs, first.strides), first.shape, strict=True))
    if others:
        assert isinstance(target.writer, BlockWriter), "others fill one view"
        axes.append((abs(target.writer.group_stride), 1 + len(others)))
    return _folds(axes)


def _folds(axes: Sequence[tuple[int, int]]) -> bool:
    """Whether places may share bytes: some axis steps less far than those within it.

    `axes` are strides and counts.
    """
    reach = 1
    for stride, count in sorted(axes):
        if count > 1:
            if stride < reach:
                return True
            reach += (count - 1) * stride
    return False
