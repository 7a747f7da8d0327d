"""From task descriptions to the kernels' structures."""

from __future__ import annotations

import ctypes
import math
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ......native.memory import address_of
from ...elements import Element
from ...layout import operand_view
from ...memory import Memory
from ...rounding import INT32, Ties
from ...tasks import (
    Dpu,
    Elementwise,
    Features,
    LookupTable,
    Operation,
    Stage,
)
from ...weights import Operand, OperandBlock, StoredOperand
from .. import structures
from ..arguments import features_of, shared_entries, shared_floats, table_of
from ..structures import KernelOperation, OperandKind
from ..value_ranges import exact_reach

_INTEGER_OPERATIONS = (
    Operation.ADD,
    Operation.SUBTRACT,
    Operation.MAX,
    Operation.MIN,
    Operation.MULTIPLY,
)
_NO_LIMITS = -math.inf, math.inf
_INTEGER_OUTPUTS = (Element.INT8, Element.INT16, Element.INT32, Element.FLOAT16)
_EXTREMES = {
    "add": np.array([-(2.0**31), 2.0**31]),
    "multiply": np.array([-(2.0**15), 2.0**15]),
}
_STORED = {
    np.dtype(np.float32): Element.FLOAT32,
    np.dtype(np.float16): Element.FLOAT16,
    np.dtype(np.int32): Element.INT32,
    np.dtype(np.int16): Element.INT16,
}


def is_known(features: Features) -> bool:
    """Whether the kernels' groups hold whole atoms of such features."""
    return features.lanes > 0 and structures.GROUP % features.lanes == 0


class DpuArguments:
    """The stages' parameters, shared by all contexts."""

    def __init__(self, dpu: Dpu, shape: tuple[int, int, int]) -> None:
        self._arrays: list[NDArray[Any]] = []
        self._is_float = dpu.is_float
        self._number = np.float32 if dpu.is_float else np.float64
        self._padded = -(-shape[0] // structures.GROUP) * structures.GROUP
        self._stored: list[tuple[str, str, StoredOperand]] = []
        self._operand: Features | None = None
        self._shape = shape
        self._after: DpuArguments | None = None
        self._template = self._build(dpu)

    def followed_by(self, after: Dpu) -> DpuArguments:
        """The same with stages without numbers in memory, which run on the floats of these."""
        result = copy(self)
        result._after = DpuArguments(after, self._shape)
        result._template = structures.Dpu.from_buffer_copy(self._template)
        result._template.after = ctypes.addressof(result._after._template)
        return result

    def bind(self, memory: Memory) -> structures.Dpu:
        """The structure for one context's memory; this object outlives it."""
        result = structures.Dpu.from_buffer_copy(self._template)
        for stage, name, operand in self._stored:
            field = getattr(getattr(result, stage), name)
            field.stored = memory.pointer(operand_view(operand)) + (field.stored or 0)
        if self._operand:
            result.operand = features_of(self._operand, memory)
            if self._operand.height < self._shape[1]:
                # One row for all.
                result.operand.line = 0
        return result

    def _build(self, dpu: Dpu) -> structures.Dpu:
        result = structures.Dpu()
        for name, stage in (("bs", dpu.bs), ("bn", dpu.bn)):
            if stage:
                setattr(result, name, self._stage(name, stage))
                setattr(result, f"has_{name}", 1)
        result.lowest, result.highest = -math.inf, math.inf
        if dpu.elementwise:
            self._elementwise(result, dpu.elementwise)
        result.element = dpu.output.element.value
        output = dpu.output
        result.factor, result.addend = output.factor, output.addend
        result.scale, result.offset = output.scale * 2.0**-output.shift, output.offset
        result.output_away = output.ties is Ties.AWAY
        result.is_integer = not dpu.is_float
        return result

    def _stage(self, name: str, stage: Stage) -> structures.Stage:
        return structures.Stage(
            self._channels(name, "add", stage.add),
            self._channels(name, "multiply", stage.multiply),
            *self._limits(stage),
            2.0**-stage.shift_positive,
            2.0**-stage.shift_negative,
            stage.subtracts,
            not stage.adds_first,
            stage.multiply_negatives,
        )

    def _channels(self, stage: str, name: str, value: Operand | None) -> structures.Operand:
        if value is None:
            return structures.Operand()
        if isinstance(value, StoredOperand):
            self._stored.append((stage, name, value))
            return _stored(value.block, value.part)
        array = np.zeros(self._padded, self._number)
        flat = np.asarray(value, self._number).reshape(-1)
        array[: flat.size if flat.size > 1 else None] = flat
        self._arrays.append(array)
        return structures.Operand(address_of(array))

    def _elementwise(self, result: structures.Dpu, stage: Elementwise) -> None:
        if stage.table:
            result.table = self._table(stage.table)
            result.has_table = 1
        if stage.operation:
            result.operation = KernelOperation[stage.operation.name]
        result.operand_offset, result.operand_scale = 0, 1
        result.product = 2.0**-stage.product_shift
        if isinstance(stage.operand, Features):
            self._operand = stage.operand
            is_shared = stage.operand.channels < self._shape[0]
            result.has_operand = OperandKind.ONE_A_PIXEL if is_shared else OperandKind.ONE_A_RESULT
            if how := stage.conversion:
                result.operand_offset, result.operand_scale = (
                    how.offset,
                    how.scale * 2.0**-how.shift,
                )
                result.operand_away = how.ties is Ties.AWAY
        else:
            result.number = stage.operand or 0
        result.lowest, result.highest = self._limits(stage)
        result.has_limits = stage.is_limited or not self._is_float

    def _limits(self, stage: Stage | Elementwise) -> tuple[float, float]:
        """What a stage's results are kept within."""
        lowest, highest = _NO_LIMITS if self._is_float else INT32
        return (
            lowest if stage.lower is None else stage.lower,
            highest if stage.upper is None else stage.upper,
        )

    def _table(self, table: LookupTable) -> structures.Table:
        self._arrays.append(entries := shared_entries(table))
        floats = shared_floats(table, entries) if self._is_float else None
        if floats is not None:
            self._arrays.append(floats.lines)
        return table_of(table, entries, floats)


def _stored(block: OperandBlock, part: str) -> structures.Operand:
    """Where a part's numbers lie; `stored` counts from the block's address."""
    sizes = {name: kind.itemsize for name, kind in block.parts}
    kind = dict(block.parts)[part]
    group = block.channels if len(sizes) == 1 else block.group
    names = list(sizes)
    before = sum(sizes[name] for name in names[: names.index(part)])
    return structures.Operand(
        None, group * before, group, group * sum(sizes.values()), _STORED[kind].value,
        block.channels,
    )  # fmt: skip


def is_supported(dpu: Dpu, shape: tuple[int, int, int]) -> bool:
    """Whether the kernels know all of the stages for features of a shape (C, H, W)."""
    stage = dpu.elementwise
    operand = stage.operand if stage else None
    if isinstance(operand, Features):
        if operand.element.is_float != dpu.is_float or operand.shape not in _shared_by(shape):
            return False
        if not is_known(operand):
            return False
    if dpu.is_float:
        return not (stage and (stage.conversion or stage.product_shift))
    return _knows_integers(dpu, shape)


def _shared_by(shape: tuple[int, int, int]) -> tuple[tuple[int, int, int], ...]:
    """Shapes of operands: one a result, a channel, a pixel or a column, or one for all."""
    channels, height, width = shape
    return shape, (channels, 1, 1), (1, height, width), (1, 1, width), (1, 1, 1)


def _knows_integers(dpu: Dpu, shape: tuple[int, int, int]) -> bool:
    if dpu.output.element not in _INTEGER_OUTPUTS:
        return False
    stage = dpu.elementwise
    if stage is None or stage.operation is None:
        return True
    operand = stage.operand
    if (
        isinstance(operand, Features)
        and operand.element is Element.INT32
        and operand.shape != shape
    ):
        return False
    if stage.product_shift and stage.operation is not Operation.MULTIPLY:
        return False
    return stage.operation in _INTEGER_OPERATIONS


def stages_are_exact(dpu: Dpu, largest: float) -> bool:
    """Whether stages in double give what integers up to a magnitude give; floats always do."""
    if dpu.is_float:
        return True
    stages = [stage for stage in (dpu.bs, dpu.bn) if stage]
    operands = [value for stage in stages for value in (stage.add, stage.multiply)]
    if any(isinstance(value, StoredOperand) for value in operands):
        if any(isinstance(value, np.ndarray) for value in operands):
            # The extremes of one would have to meet each channel of the other.
            return False
        bs, bn = (stage and _with_extremes(stage) for stage in (dpu.bs, dpu.bn))
        dpu = replace(dpu, bs=bs, bn=bn)
    return exact_reach(dpu, largest) is not None


def _with_extremes(stage: Stage) -> Stage:
    """The stage with the extremes of what memory may hold in place of that."""
    add, multiply = (
        _EXTREMES[operand.part] if isinstance(operand, StoredOperand) else operand
        for operand in (stage.add, stage.multiply)
    )
    return replace(stage, add=add, multiply=multiply)
