"""The least and the greatest value that leaves a stage, on chips that have registers for both."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..registers.fields import Register
from ..task_registers import TaskRegisters, number
from .settings import NO_LOWER, NO_UPPER, Limits

Words = tuple[int, int]
NO_LIMITS: Words = (NO_LOWER, NO_UPPER)
POSITIVE: Words = (0, NO_UPPER)


@dataclass(frozen=True)
class LimitRegisters:
    """Where a stage's limits are."""

    lowest: type[Register]
    highest: type[Register]

    def words(self, task: TaskRegisters) -> Words:
        """Both, as they are."""
        return task.word(self.lowest), task.word(self.highest)


def limits(
    task: TaskRegisters, words: Words, registers: LimitRegisters, *, is_float: bool
) -> Limits:
    """A stage's limits; raises `ModelError` where nothing lies between them."""
    lowest, highest = words
    if value(lowest, is_float) > value(highest, is_float):
        raise task.error(
            registers.lowest,
            f"it limits values to {value(highest, is_float)} and more than that, "
            f"{value(lowest, is_float)}",
        )
    return Limits(None if lowest == NO_LOWER else lowest, None if highest == NO_UPPER else highest)


def from_order(words: Words) -> Words:
    """Words of floats that are told by their place in the order of floats, a number with a sign."""
    lowest, highest = (w if w <= NO_LOWER else NO_LOWER | (-w & NO_UPPER) for w in words)
    return lowest, highest


def within(one: Words, other: Words, *, is_float: bool) -> Words:
    """What both limits leave."""
    lowest = max(one[0], other[0], key=lambda word: value(word, is_float))
    highest = min(one[1], other[1], key=lambda word: value(word, is_float))
    return lowest, highest


def value(word: int, is_float: bool) -> float:
    """The number that limits."""
    if word in NO_LIMITS:
        return -math.inf if word == NO_LOWER else math.inf
    return number(word, is_float)
