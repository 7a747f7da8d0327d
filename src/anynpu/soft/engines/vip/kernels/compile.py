"""Tasks to calls: those with a plan one after another in one call of C, others by the reference."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from .....native import steps
from .....native.memory import address_of
from .....native.threads import thread_count
from ..memory import Memory, MemoryMap
from ..reference.compute import compute
from ..shaders.task import ShaderTask
from ..stream.task import StreamTask
from ..tasks import BlockTranspose, Convolution, Move, Task
from . import native
from .arguments import Arguments
from .convolution import Weights, plan_convolution
from .half import plan_shader
from .moves import Origins, plan_move, plan_transpose
from .plan import Plan
from .stream import Program, StreamPlan, as_convolution, plans_of_streams, program_of_sums

Call = Callable[[], None]
_ALIGNMENT = 64
REFERENCE = "reference"
"""What runs a task without a plan."""


def plans_of(layout: MemoryMap, tasks: Sequence[Task]) -> tuple[Plan | None, ...]:
    """A plan for each task, None where the reference computes it."""
    if native.library() is None:
        return (None,) * len(tasks)
    count = thread_count()
    programs: dict[object, Program] = {}
    streams = dict(plans_of_streams(layout, tasks, count, programs))
    shared = _Shared({}, programs, streams, {})
    return tuple(_plan(layout, task, count, n, shared) for n, task in enumerate(tasks))


def kernels_of(layout: MemoryMap, tasks: Sequence[Task]) -> list[str]:
    """The kernel that runs each task here, or "reference"."""
    plans = plans_of(layout, tasks)
    return [REFERENCE if plan is None else plan.kernel for plan in plans]


class _Shared(NamedTuple):
    """What tasks share, and the plans of those that depend on others."""

    weights: dict[object, Weights | None]
    programs: dict[object, Program]
    streams: Mapping[int, StreamPlan]
    origins: dict[object, Origins]


def _plan(layout: MemoryMap, task: Task, count: int, number: int, shared: _Shared) -> Plan | None:
    if isinstance(task, Convolution):
        return plan_convolution(layout, task, count, shared.weights)
    if isinstance(task, Move):
        return plan_move(layout, task, count, shared.origins)
    if isinstance(task, BlockTranspose):
        return plan_transpose(layout, task, count)
    if isinstance(task, StreamTask):
        return shared.streams.get(number) or _plan_of_sums(layout, task, count, shared)
    if isinstance(task, ShaderTask):
        return plan_shader(layout, task, count)
    return None


def _plan_of_sums(layout: MemoryMap, task: StreamTask, count: int, shared: _Shared) -> Plan | None:
    """A program that takes nothing but a convolution's sums."""
    convolution = as_convolution(task)
    if convolution is None:
        return None
    program = program_of_sums(task, shared.programs)
    if program is None:
        return None
    return plan_convolution(layout, convolution, count, shared.weights, program)


class Compiled:
    """What computes a file, for all its contexts: steps of C, and what the reference computes."""

    def __init__(
        self, layout: MemoryMap, tasks: Sequence[Task], plans: Sequence[Plan | None]
    ) -> None:
        arguments = Arguments(layout)
        self.scratch = max((plan.scratch for plan in plans if plan is not None), default=0)
        self.parts: list[Task | int] = []
        for is_planned, run in groupby(zip(tasks, plans, strict=True), key=lambda p: bool(p[1])):
            if not is_planned:
                self.parts.extend(task for task, _ in run)
                continue
            bound = [plan.bind(arguments) for _, plan in run if plan]
            for entry in bound:
                arguments.step(entry)
            self.parts.append(len(bound))
        self.packed = arguments.packed()


class Calls:
    """What computes a file in one memory. One run at a time; `cancel` may come from any thread."""

    def __init__(self, compiled: Compiled, memory: Memory) -> None:
        self._cancelled = ctypes.c_int32(0)
        self._compiled = compiled
        size = compiled.scratch + _ALIGNMENT
        self._spaces = [np.empty(size, np.uint8) for _ in range(thread_count())]
        self._scratch = [-(-address_of(s) // _ALIGNMENT) * _ALIGNMENT for s in self._spaces]
        self._memory = memory
        self._bound = compiled.packed.bound(memory)
        self.calls: list[Call] = list(self._made())

    @cached_property
    def single(self) -> list[Call]:
        """A call for each task, which only a profile needs."""
        return list(self._made(most=1))

    def _made(self, most: int | None = None) -> Iterator[Call]:
        """Calls of at most so many steps."""
        first = 0
        for part in self._compiled.parts:
            if isinstance(part, Task):
                yield _reference(part, self._memory)
                continue
            for start in range(first, first + part, most or part):
                entries = self._bound.steps(start, min(start + (most or part), first + part))
                yield steps.Steps(entries, self._scratch, self._cancelled, self._bound).run
            first += part

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.value != 0

    def allow(self) -> None:
        """Forget a `cancel` from before."""
        self._cancelled.value = 0

    def cancel(self) -> None:
        """Leave out what hasn't begun."""
        self._cancelled.value = 1


def _reference(task: Task, memory: Memory) -> Call:
    return lambda: compute(task, memory)
