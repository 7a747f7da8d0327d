"""Tasks that are parts of one convolution, as one task.

A chip's buffer holds some rows of a picture and some kernels, so compilers cut convolutions into
bands of rows, and each band into slices of kernels. Each result is computed alone: it is all the
same to kernels how many they are told of at a time. One task in place of a hundred is planned and
followed once, and threads share it better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .....errors import ModelError
from ..decode.context import Context
from ..kernels.aliasing import in_place, share_bytes
from ..layout import feature_views, features_read, written
from ..tasks import ConvolutionTask, Dpu, Task
from ..weights import StoredOperand
from ..work import check_room
from .bands import is_next_band, stacked
from .slices import Slices, is_next_slice

__all__ = ["join"]


def join(
    tasks: Iterable[Task], context: Context, is_known: Callable[[Task], object]
) -> Iterator[Task]:
    """A node's tasks in order, with one in place of those that are parts of one convolution.

    The parts stay where one of them may read what an earlier one has written, where the reference
    has no room for the whole, and where `is_known` isn't true of it.
    """
    slices = Slices(context)
    rows = [(slices.joined(parts), parts) for parts in _runs(tasks, is_next_slice)]
    for bands in _runs(rows, lambda one, other: is_next_band(one[0], other[0])):
        parts = [part for _, of_band in bands for part in of_band]
        whole = _whole([band for band, _ in bands]) if len(parts) > 1 else None
        if whole is not None and _stands_for_parts(whole) and is_known(whole):
            yield whole
        else:
            yield from parts


def _runs(items: Iterable[Any], follows: Callable[[Any, Any], bool]) -> Iterator[list[Any]]:
    """Things in order, those together that follow one another."""
    run: list[Any] = []
    for item in items:
        if run and not follows(run[-1], item):
            yield run
            run = []
        run.append(item)
    if run:
        yield run


def _whole(bands: Sequence[Task]) -> ConvolutionTask | None:
    parts = [band for band in bands if isinstance(band, ConvolutionTask)]
    return stacked(parts) if len(parts) == len(bands) else None


def _stands_for_parts(task: ConvolutionTask) -> bool:
    if _has_computed_operands(task.dpu) or not task.convolution.weights.is_constant:
        return False
    try:
        check_room(task, is_planned=False)
    except ModelError:
        return False
    return not _reads_own_results(task)


def _has_computed_operands(dpu: Dpu) -> bool:
    """Whether tasks compute some of the operands: these might."""
    stages = (stage for stage in (dpu.bs, dpu.bn) if stage)
    operands = [operand for stage in stages for operand in (stage.add, stage.multiply)]
    return any(isinstance(operand, StoredOperand) for operand in operands)


def _reads_own_results(task: ConvolutionTask) -> bool:
    """Whether a task may read what it writes elsewhere than where it writes that."""
    views, operand = list(features_read(task)), task.dpu.features_operand
    if operand is not None and in_place(operand, task.writer):
        views = views[: -len(feature_views(operand))]
    return share_bytes(views, written(task).views)
