"""Whether what a task writes lies where it reads."""

from __future__ import annotations

from collections.abc import Sequence

from ..layout import ATOM, feature_views, target_views
from ..memory import Strided
from ..tasks import (
    BlockWriter,
    ConvolutionTask,
    CopyTask,
    ElementwiseTask,
    Features,
    PhaseWriter,
    PoolingTask,
    Task,
    Writer,
)


def extents(views: Sequence[Strided]) -> list[tuple[int, int, int]]:
    """(section, first byte, byte behind the last) of each view."""
    return [(view.address.section, *view.extent) for view in views]


def overlap(features: Features, writer: Writer, shape: tuple[int, int, int, int]) -> bool:
    """Whether what is read and what is written for atoms of a shape share bytes."""
    return any(
        read[0] == written[0] and read[1] < written[2] and written[1] < read[2]
        for read in extents(feature_views(features))
        for written in extents(target_views(writer, shape))
    )


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
    """Whether atoms of a task may be written over one another: which one stays is up to the order.

    For writers of blocks; others rearrange.
    """
    writer, shape = written(task)
    if not isinstance(writer, BlockWriter | PhaseWriter):
        return False
    return any(_folds(view) for view in target_views(writer, shape))


def _folds(view: Strided) -> bool:
    """Whether places of a view may share bytes: some axis steps less far than those within it."""
    reach = 1
    for stride, count in sorted(zip(map(abs, view.strides), view.shape, strict=True)):
        if count > 1:
            if stride < reach:
                return True
            reach += (count - 1) * stride
    return False


def written(task: Task) -> tuple[Writer, tuple[int, int, int, int]]:
    """What writes, and the atoms (surfaces, height, width, bytes) that it gets if it takes any."""
    match task:
        case CopyTask():
            source, (rows, columns) = task.source, task.repeats
            height, width = source.height, source.width * columns
            return task.writer, (source.surfaces * rows, height, width, source.atom)
        case PoolingTask():
            source = task.source
            return task.writer, (source.surfaces, task.height, task.width, source.atom)
        case ConvolutionTask():
            shape = task.convolution.shape
        case ElementwiseTask():
            shape = task.source.shape
        case _:
            raise AssertionError("there are no other tasks")
    writer = task.writer
    atom = writer.atom if isinstance(writer, BlockWriter | PhaseWriter) else ATOM
    lanes = max(1, atom // task.dpu.output.element.size)
    return writer, (-(-shape[0] // lanes), *shape[1:], atom)
