"""From task descriptions to the kernels' structures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .....native.memory import address_of
from ..elements import Element
from ..layout import feature_views, target_views
from ..memory import Memory, Strided
from ..tasks import (
    BlockWriter,
    Dpu,
    Elementwise,
    Features,
    Image,
    LookupTable,
    Operation,
    PhaseWriter,
    Stage,
    Writer,
)
from ..weights import StoredOperand
from . import kernels
from .bounds import offset_fits

_OPERATIONS = {
    Operation.ADD: 1,
    Operation.SUBTRACT: 2,
    Operation.MAX: 3,
    Operation.MIN: 4,
    Operation.MULTIPLY: 5,
}
_LANES = (8, 16)
_NO_LIMITS = (-math.inf, math.inf)
_FITS = 2.0**30


def features_of(
    features: Features | Image, memory: Memory, valid: int | None = None
) -> kernels.Features:
    """Features, or a picture as one block of few channels; channels from `valid` on are zero."""
    base = memory.pointer(features.address)
    if isinstance(features, Image):
        lanes = features.channels
        return kernels.Features(
            base,
            None,
            0,
            features.line,
            lanes,
            1,
            lanes,
            features.height,
            features.width,
            lanes,
        )
    odd = memory.pointer(features.odd) if features.odd else None
    return kernels.Features(
        base,
        odd,
        features.surface,
        features.line,
        features.atom,
        features.surfaces,
        features.lanes,
        features.height,
        features.width,
        features.channels if valid is None else valid,
    )


def writer_of(
    writer: BlockWriter | PhaseWriter, channels: int, width: int, memory: Memory
) -> kernels.Writer:
    """A writer of int8 in rows of `width`."""
    base, padding, lanes = memory.pointer(writer.address), writer.padding & 0xFF, writer.atom
    surfaces = -(-channels // lanes)
    if isinstance(writer, PhaseWriter):
        return kernels.Writer(
            base, writer.line, writer.pixel, writer.surface, surfaces, 0, width, channels, lanes,
            padding,
        )  # fmt: skip
    return kernels.Writer(
        base, writer.line, writer.atom, writer.surface, writer.group, writer.group_stride,
        writer.width, channels, lanes, padding,
    )  # fmt: skip


class DpuArguments:
    """The stages' parameters as arrays of doubles, shared by all contexts.

    `reach` is how large results get before their offset (`bounds.exact_reach`).
    """

    def __init__(self, dpu: Dpu, channels: int, lanes: int, reach: float) -> None:
        self._reach = reach
        self._arrays: list[NDArray[Any]] = []
        self._padded = -(-channels // lanes) * lanes
        self._operand: Features | None = None
        self._template = self._build(dpu)

    def bind(self, memory: Memory) -> kernels.Dpu:
        """The structure for one context's memory; this object outlives it."""
        result = kernels.Dpu.from_buffer_copy(self._template)
        if operand := self._operand:
            result.operand = features_of(operand, memory)
            if (operand.height, operand.width) == (1, 1):
                # One pixel for all.
                result.operand.line = result.operand.pixel = 0
                result.operand.width = 1 << 62
        return result

    def _build(self, dpu: Dpu) -> kernels.Dpu:
        result = kernels.Dpu()
        for name, stage in (("bs", dpu.bs), ("bn", dpu.bn)):
            if stage:
                setattr(result, name, self._stage(stage))
                setattr(result, f"has_{name}", 1)
        result.lowest, result.highest = _NO_LIMITS
        if dpu.elementwise:
            self._elementwise(result, dpu.elementwise)
        output = dpu.output
        result.scale, result.offset = output.scale * 2.0**-output.shift, output.offset
        self._simplify(result, dpu)
        return result

    def _simplify(self, result: kernels.Dpu, dpu: Dpu) -> None:
        """Take a short way where most stages leave nothing to do."""
        bs, bn = dpu.bs, dpu.bn
        if not bs or bs.multiply_first or bs.multiply_negatives or result.has_table:
            return
        if bn and _is_only_a_relu(bn) and not bs.relu:
            # BS can do it.
            result.bs.lowest, result.bs.highest = _limits(bn)
            result.has_bn = 0
        is_split = bs.shift_positive != bs.shift_negative
        has_limits = (result.bs.lowest, result.bs.highest) != _NO_LIMITS
        if not dpu.elementwise:
            result.is_positive = (
                not result.has_bn
                and result.bs.lowest == 0
                and not is_split
                and 0 <= result.bs.highest * result.scale < _FITS
            )
        if self._reach < _FITS and not has_limits:
            result.is_linear = (
                not result.has_bn and not is_split
                if result.operation == _OPERATIONS[Operation.ADD]
                else not result.operation
                and not result.has_limits
                and (_is_leaky(bn) if bn and result.has_bn else not is_split)
            )

    def _stage(self, stage: Stage) -> kernels.Stage:
        add: Any = 0 if stage.add is None else stage.add
        return kernels.Stage(
            self._channels(-add if stage.subtracts else add),
            self._channels(1 if stage.multiply is None else stage.multiply),
            2.0**-stage.shift_positive,
            2.0**-stage.shift_negative,
            *_limits(stage),
            stage.multiply_first,
            stage.multiply_negatives,
        )

    def _channels(self, values: Any) -> int:
        array = np.zeros(self._padded)
        flat = np.asarray(values, np.float64).reshape(-1)
        array[: flat.size if flat.size > 1 else None] = flat
        self._arrays.append(array)
        return address_of(array)

    def _elementwise(self, result: kernels.Dpu, stage: Elementwise) -> None:
        if stage.table:
            result.table = self._table(stage.table)
            result.has_table = 1
        lowest, highest = _limits(stage)
        if isinstance(stage.operand, Features) and stage.operation:
            result.operation = _OPERATIONS[stage.operation]
            self._operand = stage.operand
            how = stage.conversion
            result.operand_offset = how.offset if how else 0
            result.operand_scale = how.scale * 2.0**-how.shift if how else 1
            result.product = 2.0**-stage.product_shift
        elif stage.operation is Operation.MAX:
            # The ReLU and its limit come after it.
            operand = stage.operand
            lowest = max(lowest, 0.0 if isinstance(operand, Features) else float(operand or 0))
            highest = max(highest, lowest)
        result.lowest, result.highest = lowest, highest
        result.has_limits = (lowest, highest) != _NO_LIMITS

    def _table(self, table: LookupTable) -> kernels.Table:
        self._arrays += [table.negative, table.positive]
        return kernels.Table(
            address_of(table.negative),
            address_of(table.positive),
            table.negative_start,
            table.positive_start,
            table.positive_end,
            *(2.0**-step for step in table.steps),
            *(slope * 2.0**-shift for slope, shift in zip(table.slopes, table.shifts, strict=True)),
        )


def _limits(stage: Stage | Elementwise) -> tuple[float, float]:
    if not stage.relu:
        return _NO_LIMITS
    return 0.0, math.inf if stage.limit is None else stage.limit


def _is_only_a_relu(stage: Stage) -> bool:
    shifts = stage.shift_positive or stage.shift_negative
    return stage.add is None and stage.multiply is None and not shifts


def _is_leaky(stage: Stage) -> bool:
    """Whether a second stage only multiplies negatives."""
    shifts = stage.shift_positive or stage.shift_negative
    return stage.multiply_negatives and stage.add is None and not shifts and not stage.relu


def is_supported(dpu: Dpu, lanes: int) -> bool:
    """Whether the kernels know all of the stages."""
    if dpu.is_float or dpu.reduction or dpu.output.element is not Element.INT8:
        return False
    if lanes not in _LANES or not offset_fits(dpu.output.offset):
        return False
    operands = [
        value for stage in (dpu.bs, dpu.bn) if stage for value in (stage.add, stage.multiply)
    ]
    if any(isinstance(value, StoredOperand) for value in operands):
        return False
    return dpu.elementwise is None or _is_supported_elementwise(dpu.elementwise, lanes)


def _is_supported_elementwise(stage: Elementwise, lanes: int) -> bool:
    if stage.operation is None:
        return True
    operand = stage.operand
    if not isinstance(operand, Features):
        # Without a limit: a limit below the operand would come last.
        return stage.operation is Operation.MAX and stage.limit is None
    return (
        stage.operation in _OPERATIONS
        and operand.element is Element.INT8
        and operand.lanes == lanes
        and operand.shape != (1, 1, 1)
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
