"""Slices of the kernels of one convolution, on one band of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..decode.context import Context
from ..layout import moved
from ..tasks import BlockWriter, ConvolutionTask, Dpu, Features, Stage, Task
from ..weights import Operand, Weights
from .alike import are_alike, is_same

_OF_A_SLICE = frozenset({"weights", "weight_offset", "channels"})
_KERNELS, _OPERAND, _OPERANDS = (
    frozenset({"kernels"}), frozenset({"operand"}), frozenset({"add", "multiply"}),
)  # fmt: skip
_STAGES = frozenset({"bs", "bn", "elementwise"})
_PLACE, _PART = frozenset({"address", "group"}), frozenset({"address", "channels"})


def is_next_slice(before: Task, task: Task) -> bool:
    """Whether a task computes the channels after those of another one, in the same way."""
    if not (isinstance(before, ConvolutionTask) and isinstance(task, ConvolutionTask)):
        return False
    one, other = before.convolution, task.convolution
    return (
        _are_next_kernels(one.weights, other.weights)
        and are_alike(one, other, but=_OF_A_SLICE)
        and _are_both_arrays(one.weight_offset, other.weight_offset)
        and _are_next_surfaces(before, task)
        and _have_same_stages(before.dpu, task.dpu)
        and _is_next_operand(before, task)
    )


class Slices:
    """Makes tasks of slices: those of all bands have the same weights and operands in the end."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[tuple[int, ...], tuple[Sequence[Any], Any]] = {}
        """By the identity of what was put together, which holds while that is kept."""

    def joined(self, parts: Sequence[Task]) -> Task:
        """One task that computes what slices do that follow one another; a single one itself."""
        slices = [part for part in parts if isinstance(part, ConvolutionTask)]
        if len(parts) == 1 or len(slices) != len(parts):
            return parts[0]
        first = slices[0]
        convolution, writer = first.convolution, first.writer
        assert isinstance(writer, BlockWriter), "others don't follow one another"
        channels = sum(part.convolution.channels for part in slices)
        layout = replace(convolution.weights.layout, kernels=channels)
        return replace(
            first,
            convolution=replace(
                convolution,
                weights=self._context.weights(convolution.weights.address, layout),
                weight_offset=self._operand([part.convolution.weight_offset for part in slices]),
                channels=channels,
            ),
            dpu=self._dpu([part.dpu for part in slices], channels),
            writer=replace(writer, group=sum(map(_surfaces, slices))),
        )

    def _dpu(self, parts: Sequence[Dpu], channels: int) -> Dpu:
        first = parts[0]
        bs, bn = self._stage([part.bs for part in parts]), self._stage([part.bn for part in parts])
        stage, operand = first.elementwise, first.features_operand
        if stage is None or operand is None:
            known: Dpu = self._once(parts, lambda: replace(first, bs=bs, bn=bn))
            return known
        if operand.channels > 1:
            stage = replace(stage, operand=replace(operand, channels=channels))
        return replace(first, bs=bs, bn=bn, elementwise=stage)

    def _stage(self, parts: Sequence[Stage | None]) -> Stage | None:
        first = parts[0]
        if first is None:
            return None
        stages = [part for part in parts if part is not None]
        result: Stage = self._once(
            stages,
            lambda: replace(
                first,
                add=self._operand([stage.add for stage in stages]),
                multiply=self._operand([stage.multiply for stage in stages]),
            ),
        )
        return result

    def _operand(self, parts: Sequence[Operand | None]) -> Operand | None:
        arrays = [part for part in parts if isinstance(part, np.ndarray)]
        if not arrays:
            return parts[0]

        def put_together() -> Operand:
            whole = np.concatenate(arrays)
            whole.flags.writeable = False
            return whole

        result: Operand = self._once(arrays, put_together)
        return result

    def _once(self, parts: Sequence[Any], make: Any) -> Any:
        key = tuple(map(id, parts))
        if key not in self._known:
            self._known[key] = parts, make()
        return self._known[key][1]


def _are_next_kernels(one: Weights, other: Weights) -> bool:
    layout = one.layout
    return (
        one.is_constant
        and other.is_constant
        and not layout.is_depthwise
        and layout.kernels % layout.kernel_group == 0
        and other.address == moved(one.address, layout.bytes)
        and are_alike(layout, other.layout, but=_KERNELS)
    )


def _are_both_arrays(one: Operand | None, other: Operand | None) -> bool:
    """Whether operands are a number for each channel, or the same one for all."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.size > 1 < other.size and one.dtype == other.dtype
    return is_same(one, other)


def _surfaces(task: ConvolutionTask) -> int:
    assert isinstance(task.writer, BlockWriter)
    size = task.dpu.output.element.size
    return -(-task.convolution.channels * size // task.writer.atom)


def _are_next_surfaces(before: ConvolutionTask, task: ConvolutionTask) -> bool:
    one, other = before.writer, task.writer
    if not (isinstance(one, BlockWriter) and isinstance(other, BlockWriter)):
        return False
    surfaces = _surfaces(before)
    is_filled = before.convolution.channels * before.dpu.output.element.size % one.atom == 0
    return (
        is_filled
        and surfaces <= one.group
        and _surfaces(task) <= other.group
        and other.address == moved(one.address, surfaces * one.surface)
        and are_alike(one, other, but=_PLACE)
    )


def _have_same_stages(one: Dpu, other: Dpu) -> bool:
    if one.reduction or not are_alike(one, other, but=_STAGES):
        return False
    return all(
        _is_same_stage(stage, next_stage)
        for stage, next_stage in ((one.bs, other.bs), (one.bn, other.bn))
    )


def _is_same_stage(one: Stage | None, other: Stage | None) -> bool:
    if one is None or other is None:
        return one is other
    return (
        are_alike(one, other, but=_OPERANDS)
        and _are_both_arrays(one.add, other.add)
        and _are_both_arrays(one.multiply, other.multiply)
    )


def _is_next_operand(before: ConvolutionTask, task: ConvolutionTask) -> bool:
    """Whether the third stages are the same, and the operand of one goes on with the other's."""
    one, other = before.dpu.elementwise, task.dpu.elementwise
    if one is None or other is None:
        return one is other
    operand, next_operand = before.dpu.features_operand, task.dpu.features_operand
    if operand is None or next_operand is None or operand.channels == 1:
        return are_alike(one, other)
    return are_alike(one, other, but=_OPERAND) and _are_next_channels(
        operand, next_operand, before, task
    )


def _are_next_channels(
    one: Features, other: Features, before: ConvolutionTask, task: ConvolutionTask
) -> bool:
    return (
        one.odd is None
        and one.channels == before.convolution.channels
        and other.channels == task.convolution.channels
        and one.channels % one.lanes == 0
        and other.address == moved(one.address, one.surfaces * one.surface)
        and are_alike(one, other, but=_PART)
    )
