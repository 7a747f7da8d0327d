"""Bands of rows of one convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..elements import Address
from ..layout import moved
from ..tasks import BlockWriter, Convolution, ConvolutionTask, Features, Image, Task
from .alike import are_alike

_OF_A_BAND = frozenset({"source", "padding", "height"})
_PLACE = frozenset({"address", "odd", "height"})
_STAGE, _OPERAND = frozenset({"elementwise"}), frozenset({"operand"})


def stacked(bands: Sequence[ConvolutionTask]) -> ConvolutionTask:
    """One task that computes what bands do that follow one another."""
    first, last = bands[0], bands[-1]
    assert isinstance(first.writer, BlockWriter), "others don't follow one another"
    height = sum(band.convolution.height for band in bands)
    above = sum(_rows(band.convolution) for band in bands[:-1])
    dpu, operand = first.dpu, _banded_operand(first)
    if operand is not None and dpu.elementwise is not None:
        stage = replace(dpu.elementwise, operand=replace(operand, height=height))
        dpu = replace(dpu, elementwise=stage)
    source = replace(first.convolution.source, height=above + last.convolution.source.height)
    return replace(
        first,
        convolution=replace(first.convolution, source=source, height=height),
        dpu=dpu,
        writer=replace(first.writer, height=height),
    )


def is_next_band(before: Task, task: Task) -> bool:
    """Whether a task computes the rows below those of another one, in the same way."""
    if not (isinstance(before, ConvolutionTask) and isinstance(task, ConvolutionTask)):
        return False
    one, other = before.convolution, task.convolution
    if one.weights is not other.weights:
        return False
    return (
        are_alike(one, other, but=_OF_A_BAND)
        and other.padding == (0, one.padding[1])
        and not any(one.inserted)
        and _sees_no_end(one, other)
        and _is_below(one.source, other.source, _rows(one))
        and not before.dpu.reduction
        and _have_same_stages(before, task)
        and _is_written_below(before, task)
    )


def _rows(convolution: Convolution) -> int:
    """How many rows of its input lie above the next band's."""
    return convolution.height * convolution.stride[0] - convolution.padding[0]


def _sees_no_end(one: Convolution, other: Convolution) -> bool:
    """Whether a band sees rows that it has alone, and all of them with the next band's.

    Padding takes the place of rows that a task doesn't have.
    """
    reach = (one.weights.layout.height - 1) * one.dilation[0] + 1
    needed = (one.height - 1) * one.stride[0] + reach - one.padding[0]
    return 0 < needed <= min(one.source.height, _rows(one) + other.source.height)


def _is_below(one: Features | Image, other: Features | Image, rows: int) -> bool:
    """Whether what is read begins so many rows further on, in the same picture."""
    if type(one) is not type(other) or rows <= 0 or not are_alike(one, other, but=_PLACE):
        return False
    distance = rows * one.line
    return other.address == moved(one.address, distance) and _odd(other) == _odd(one, distance)


def _odd(source: Features | Image, distance: int = 0) -> Address | None:
    """The place so far from that of the odd surfaces, where they lie elsewhere."""
    odd = source.odd if isinstance(source, Features) else None
    return None if odd is None else moved(odd, distance)


def _is_written_below(before: ConvolutionTask, task: ConvolutionTask) -> bool:
    one, other = before.writer, task.writer
    if not (isinstance(one, BlockWriter) and isinstance(other, BlockWriter)):
        return False
    return (
        (one.height, one.width) == before.convolution.shape[1:]
        and (other.height, other.width) == task.convolution.shape[1:]
        and other.address == moved(one.address, one.height * one.line)
        and are_alike(one, other, but=_PLACE)
    )


def _have_same_stages(before: ConvolutionTask, task: ConvolutionTask) -> bool:
    one, other = before.dpu, task.dpu
    operand, next_operand = _banded_operand(before), _banded_operand(task)
    if operand is None or next_operand is None:
        # Of one row it isn't known whether the next one has the same operand.
        is_known = before.convolution.height > 1 or one.features_operand is None
        return operand is next_operand and is_known and are_alike(one, other)
    stage, next_stage = one.elementwise, other.elementwise
    return (
        stage is not None
        and next_stage is not None
        and are_alike(one, other, but=_STAGE)
        and are_alike(stage, next_stage, but=_OPERAND)
        and _is_below(operand, next_operand, before.convolution.height)
    )


def _banded_operand(task: ConvolutionTask) -> Features | None:
    """The second operand of the stages, where it has the results' rows and columns."""
    operand, (_, *picture) = task.dpu.features_operand, task.convolution.shape
    return operand if operand and [operand.height, operand.width] == picture != [1, 1] else None
