"""The DPU's stages as the kernels' structures, and which short way leads through them."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ......native.memory import address_of
from ...elements import Element
from ...memory import Memory
from ...rounding import INT32, Ties
from ...tasks import Dpu, Elementwise, Features, LookupTable, Operation, Output, Stage
from ...weights import StoredOperand
from .. import structures
from ..arguments import features_of, shared_entries, table_of
from ..structures import Follow, KernelOperation
from ..value_ranges import Magnitude, Reach, exact_reach, largest_operand, offset_fits
from .fused_tables import Results, tabulate

_OPERATIONS = {
    operation: KernelOperation[operation.name]
    for operation in (
        Operation.ADD, Operation.SUBTRACT, Operation.MAX, Operation.MIN, Operation.MULTIPLY,
    )
}  # fmt: skip
_SHORT_WAYS = frozenset(
    {
        Follow.NOTHING,
        Follow.SPLIT | Follow.LEAK,
        Follow.LEAK,
        Follow.SECOND,
        Follow.ADDITION,
        Follow.INDEX,
        Follow.INDEX | Follow.SECOND,
    }
)
_WHOLE_WAYS = frozenset({Follow.NOTHING, Follow.SPLIT | Follow.LEAK, Follow.LEAK, Follow.ADDITION})
_NEAREST, _VALUES = 1.5 * 2.0**52, 2.0**50
"""What rounds a double that it is added to, and how large that may be."""
_SHORT, _MOST_SHIFTED = 2.0**29, 31

_LANES = (8, 16)
_NO_LIMITS = (-math.inf, math.inf)
_FITS = 2.0**30
_IDENTITY = Output(Element.INT32, 1, 0, 0, 1.0)


def stage_arguments(
    dpu: Dpu, shape: tuple[int, int, int], lanes: int, largest: Magnitude
) -> DpuArguments | None:
    """The stages for (C, H, W) inputs of a magnitude, a number or (C,).

    None where the kernels don't know them, or they may not stay exact.
    """
    if not is_supported(dpu, shape, lanes):
        return None
    reach = exact_reach(dpu, largest)
    return None if reach is None else DpuArguments(dpu, shape[0], lanes, reach, largest)


def signature(dpu: Dpu) -> Hashable:
    """What tells supported stages apart, but for where their operand lies and how high it is.

    Arrays are told apart by their identity, which holds while they are kept.
    """
    parts = dpu.bs, dpu.bn, dpu.elementwise
    return tuple([part and _fields(part) for part in parts]), dpu.output


def _fields(part: Stage | Elementwise | LookupTable) -> Hashable:
    return tuple(
        [
            id(value)
            if isinstance(value, np.ndarray)
            else _fields(value)
            if isinstance(value, LookupTable)
            else Features
            if isinstance(value, Features)
            else value
            for value in vars(part).values()
        ]
    )


def operand_of(dpu: Dpu) -> Features | None:
    """The features that the third stage reads, if it does."""
    stage = dpu.elementwise
    return None if stage is None or stage.operation is None else dpu.features_operand


class DpuArguments:
    """The stages' parameters as arrays of doubles, shared by contexts and a convolution's tasks.

    `largest` is the magnitude of what enters the stages, `reach` says what becomes of it.
    """

    def __init__(
        self, dpu: Dpu, channels: int, lanes: int, reach: Reach, largest: Magnitude
    ) -> None:
        self._reach, self._largest = reach, largest
        self._arrays: list[NDArray[Any]] = []
        self._padded = -(-channels // lanes) * lanes
        self._results: Results | None = None
        self._template = self._build(dpu)

    def bind(self, memory: Memory, operand: Features | None) -> structures.Dpu:
        """The structure for one context's memory, and a task's operand; this object outlives it."""
        result = structures.Dpu.from_buffer_copy(self._template)
        if operand is not None:
            result.operand = features_of(operand, memory)
            if (operand.height, operand.width) == (1, 1):
                # One pixel for all.
                result.operand.line = result.operand.pixel = 0
                result.operand.width = 1 << 62
        return result

    def _build(self, dpu: Dpu) -> structures.Dpu:
        dpu = replace(dpu, bn=_multiplied_out(dpu.bn))
        result = structures.Dpu()
        reach = self._reach
        for name, stage, saturates in (
            ("bs", dpu.bs, reach.bs_saturates),
            ("bn", dpu.bn, reach.bn_saturates),
        ):
            if stage:
                setattr(result, name, self._stage(stage, saturates))
                setattr(result, f"has_{name}", 1)
        result.lowest, result.highest = _NO_LIMITS
        if dpu.elementwise:
            self._elementwise(result, dpu.elementwise)
        output = dpu.output
        result.scale, result.offset = output.scale * 2.0**-output.shift, output.offset
        result.output_away = output.ties is Ties.AWAY
        self._simplify(result, dpu)
        result.short_way.is_whole = self._is_whole(result, dpu)
        return result

    def _simplify(self, result: structures.Dpu, dpu: Dpu) -> None:
        """Take a short way where most stages leave nothing to do."""
        bs, bn = dpu.bs, dpu.bn
        if not bs or not bs.adds_first or bs.multiply_negatives:
            return
        fits = self._reach.largest < _FITS and dpu.output.ties is Ties.EVEN
        if bn and _is_at_most_limits(bn) and not bs.is_limited:
            # BS can do it.
            bs, bn = replace(bs, lower=bn.lower, upper=bn.upper), None
            result.bs.lowest, result.bs.highest = _limits(bs, self._reach.bs_saturates)
            result.has_bn = 0
        if bs.is_limited:
            is_simple = bs.shift_positive == bs.shift_negative and bs.lower == 0
            result.short_way.is_positive = fits and is_simple and not (bn or dpu.elementwise)
            return
        follow = self._follow(result, dpu, bs, bn)
        if follow in _SHORT_WAYS and (follow & Follow.LEAK or self._stays_within_int32):
            way = result.short_way
            way.follow = follow
            way.is_linear = self._tabulate(way, dpu) if follow & Follow.INDEX else fits

    def _is_whole(self, result: structures.Dpu, dpu: Dpu) -> bool:
        """Whether `run_whole` of native/npu_stages.h may take the place of a short way.

        It adds a sum to BS's addend as int32, leaves limits for after the output's conversion, and
        has results in the low half of a double: all of that has to fit, and to be whole numbers. It
        takes sums 2^52 + 2^31 too great, which the first product makes up for by another addend:
        its factor is to have few digits.
        """
        way, bs = result.short_way, dpu.bs
        if bs is None or not (way.is_positive or way.is_linear) or way.follow not in _WHOLE_WAYS:
            return False
        addend = np.asarray(0 if bs.add is None else bs.add, np.float64).reshape(-1)
        factor = np.asarray(1 if bs.multiply is None else bs.multiply, np.float64).reshape(-1)
        shift = min(bs.shift_positive, bs.shift_negative)
        are_short = _are_short(factor, bs.shift_positive)
        entering = self._largest + np.abs(addend)
        values = float(np.max(entering * np.abs(factor))) * 2.0**-shift + 1
        if way.follow & Follow.LEAK:
            values = -INT32[0]
        whole = [*addend, result.offset, result.scale * _NEAREST]
        if way.follow & Follow.ADDITION:
            assert dpu.elementwise is not None, "that is where the operand is"
            values += largest_operand(dpu.elementwise) or math.inf
            whole.append(result.operand_offset)
            how = dpu.elementwise.conversion
            if result.operand_away or (how and not _are_short(how.scale, how.shift)):
                return False
        fits = values < _VALUES and values * result.scale + abs(result.offset) < INT32[1]
        is_int32 = float(np.max(entering)) < INT32[1]
        is_exact = are_short and 0 < result.scale <= 1 and not np.any(np.mod(whole, 1))
        return fits and is_int32 and is_exact

    @property
    def _stays_within_int32(self) -> bool:
        """Whether neither BS nor BN has to keep results there, as the way with a leak does."""
        return not (self._reach.bs_saturates or self._reach.bn_saturates)

    def _follow(
        self, result: structures.Dpu, dpu: Dpu, bs: Stage, bn: Stage | None
    ) -> Follow | None:
        """What comes after a bias and a factor, None where a short way can't lead through it."""
        follow = Follow.NOTHING
        if bs.shift_positive != bs.shift_negative:
            follow |= Follow.SPLIT
        if bn:
            if not (_is_leaky(bn) or _is_linear(bn)):
                return None
            follow |= Follow.LEAK if _is_leaky(bn) else Follow.SECOND
        if stage := dpu.elementwise:
            if stage.table and not result.operation:
                follow |= Follow.INDEX
            elif result.operation == KernelOperation.ADD and not stage.table:
                follow |= Follow.ADDITION
            elif result.operation or result.has_limits or stage.table:
                return None
        return follow

    def _tabulate(self, way: structures.ShortWay, dpu: Dpu) -> bool:
        """Give the results of all places of the table, if they are few."""
        before = exact_reach(replace(dpu, elementwise=None, output=_IDENTITY), self._largest)
        stage = dpu.elementwise
        if before is None or before.largest >= _FITS or stage is None or stage.table is None:
            return False
        found = tabulate(stage, stage.table, dpu.output)
        if found is None:
            return False
        self._results = found
        way.results = address_of(found.results)
        way.first, way.count = found.first, found.results.size
        return True

    def _stage(self, stage: Stage, saturates: bool) -> structures.Stage:
        add: Any = 0 if stage.add is None else stage.add
        lowest, highest = _limits(stage, saturates)
        return structures.Stage(
            add=self._channels(-add if stage.subtracts else add),
            multiply=self._channels(1 if stage.multiply is None else stage.multiply),
            lowest=lowest,
            highest=highest,
            positive=2.0**-stage.shift_positive,
            negative=2.0**-stage.shift_negative,
            multiply_first=not stage.adds_first,
            only_negatives=stage.multiply_negatives,
        )

    def _channels(self, values: Any) -> structures.Operand:
        array = np.zeros(self._padded)
        flat = np.asarray(values, np.float64).reshape(-1)
        array[: flat.size if flat.size > 1 else None] = flat
        self._arrays.append(array)
        return structures.Operand(address_of(array))

    def _elementwise(self, result: structures.Dpu, stage: Elementwise) -> None:
        if stage.table:
            result.table = self._table(stage.table)
            result.has_table = 1
        lowest, highest = _limits(stage, self._reach.elementwise_saturates)
        if isinstance(stage.operand, Features) and stage.operation:
            result.operation = _OPERATIONS[stage.operation]
            how = stage.conversion
            result.operand_offset = how.offset if how else 0
            result.operand_scale = how.scale * 2.0**-how.shift if how else 1
            result.operand_away = how is not None and how.ties is Ties.AWAY
            result.product = 2.0**-stage.product_shift
        elif stage.operation is Operation.MAX:
            # The ReLU and its limit come after it.
            operand = stage.operand
            lowest = max(lowest, 0.0 if isinstance(operand, Features) else float(operand or 0))
            highest = max(highest, lowest)
        result.lowest, result.highest = lowest, highest
        result.has_limits = (lowest, highest) != _NO_LIMITS

    def _table(self, table: LookupTable) -> structures.Table:
        self._arrays.append(entries := shared_entries(table))
        return table_of(table, entries)


def _are_short(factors: Any, shift: int) -> bool:
    """Whether factors / 2^shift times 2^52 + 2^31, taken from `_NEAREST`, have room in a double."""
    are_whole = not np.any(np.mod(factors, 1))
    return are_whole and float(np.max(np.abs(factors))) < _SHORT and 0 <= shift <= _MOST_SHIFTED


def _limits(stage: Stage | Elementwise, saturates: bool) -> tuple[float, float]:
    """What a stage's results are kept within."""
    lowest, highest = INT32 if saturates else _NO_LIMITS
    return (
        lowest if stage.lower is None else stage.lower,
        highest if stage.upper is None else stage.upper,
    )


def _multiplied_out(stage: Stage | None) -> Stage | None:
    """A second stage that adds first as x * m + a * m, which has a short way and the same results.

    Both are exact: that sums and products stay whole numbers in a double is known.
    """
    if stage is None or not stage.adds_first or stage.multiply_negatives or stage.multiply is None:
        return stage
    add: Any = stage.add
    return replace(stage, add=None if add is None else add * stage.multiply, adds_first=False)


def _is_at_most_limits(stage: Stage) -> bool:
    shifts = stage.shift_positive or stage.shift_negative
    return stage.add is None and stage.multiply is None and not shifts


def _is_leaky(stage: Stage) -> bool:
    """Whether a second stage only multiplies negatives."""
    shifts = stage.shift_positive or stage.shift_negative
    return stage.multiply_negatives and stage.add is None and not shifts and not stage.is_limited


def _is_linear(stage: Stage) -> bool:
    """Whether a second stage only multiplies and adds, with one shift."""
    return not (
        stage.multiply_negatives
        or stage.is_limited
        or stage.adds_first
        or stage.shift_positive != stage.shift_negative
    )


def is_supported(dpu: Dpu, shape: tuple[int, int, int], lanes: int) -> bool:
    """Whether the kernels know all of the stages for (C, H, W)."""
    if dpu.is_float or dpu.reduction or dpu.output.element is not Element.INT8:
        return False
    if lanes not in _LANES or not offset_fits(dpu.output.offset):
        return False
    operands = [
        value for stage in (dpu.bs, dpu.bn) if stage for value in (stage.add, stage.multiply)
    ]
    if any(isinstance(value, StoredOperand) for value in operands):
        return False
    return dpu.elementwise is None or _is_supported_elementwise(dpu.elementwise, shape, lanes)


def _is_supported_elementwise(stage: Elementwise, shape: tuple[int, int, int], lanes: int) -> bool:
    operand = stage.operand
    if isinstance(operand, Features) and operand.shape not in (shape, (shape[0], 1, 1)):
        # One a pixel or a column, which the int8 kernels don't know.
        return False
    if stage.operation is None:
        return True
    if not isinstance(operand, Features):
        # Without a limit: a limit below the operand would come last.
        return stage.operation is Operation.MAX and stage.upper is None
    return (
        stage.operation in _OPERATIONS
        and operand.element is Element.INT8
        and operand.lanes == lanes
        and operand.shape != (1, 1, 1)
    )
