"""Carry a description out on a context's memory; each unit's module registers its own."""

from __future__ import annotations

from functools import singledispatch

from ..memory import Memory
from ..tasks import Task


@singledispatch
def compute(task: Task, memory: Memory) -> None:
    """Read what a task reads, and write what it writes."""
    raise TypeError(f"nothing computes {type(task).__name__}")
