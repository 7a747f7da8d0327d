"""The least and the greatest value that leaves a stage, on chips that have registers for both.

RK3588 has a ReLU and a greatest value; its notation has a register of its own for the least one.
"""

from __future__ import annotations

import math

from .....errors import ModelError
from ..registers.dpu import (
    DpuBn,
    DpuBnLowest,
    DpuBnRelux,
    DpuBs,
    DpuBsLowest,
    DpuBsRelux,
    DpuEw,
    DpuEwLowest,
    DpuEwRelux,
)
from ..registers.fields import sign_extend
from ..task_registers import single

LOWEST, HIGHEST = 1 << 31, (1 << 31) - 1
NO_LIMITS = LOWEST, HIGHEST
"""The words that stand for no limit, of floats as well."""

Limits = tuple[int, int]
Limited = type[DpuBs] | type[DpuBn] | type[DpuEw]

_REGISTERS = {
    DpuBs: (DpuBsLowest, DpuBsRelux),
    DpuBn: (DpuBnLowest, DpuBnRelux),
    DpuEw: (DpuEwLowest, DpuEwRelux),
}


def translate_limits(
    words: dict[int, int], stage: Limited, limits: Limits, *, is_float: bool
) -> int:
    """Put limits into RK3588's registers; the ReLU bits of the stage's configuration."""
    lowest, highest = limits
    if _value(lowest, is_float) > _value(highest, is_float):
        raise ModelError(
            f"{stage.title} limits values to {_value(highest, is_float)} and more than that, "
            f"{_value(lowest, is_float)}"
        )
    if limits == NO_LIMITS:
        return stage.RELU_BYPASS.put(1)
    least, greatest = _REGISTERS[stage]
    words[least.number], words[greatest.number] = lowest, highest
    return stage.RELUX_EN.put(highest != HIGHEST)


def from_order(limits: Limits) -> Limits:
    """Words of floats that are told by their place in the order of floats, a number with a sign."""
    lowest, highest = (w if w <= LOWEST else LOWEST | (-w & HIGHEST) for w in limits)
    return lowest, highest


def within(one: Limits, other: Limits, *, is_float: bool) -> Limits:
    """What both limits leave."""
    lowest = max(one[0], other[0], key=lambda word: _value(word, is_float))
    highest = min(one[1], other[1], key=lambda word: _value(word, is_float))
    return lowest, highest


def _value(word: int, is_float: bool) -> float:
    if word in NO_LIMITS:
        return -math.inf if word == LOWEST else math.inf
    return single(word) if is_float else sign_extend(word, 32)
