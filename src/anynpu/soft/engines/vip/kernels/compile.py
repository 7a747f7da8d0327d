"""Tasks to calls: those with a plan one after another in one call of C, others by the reference."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from .....native import steps
from .....native.memory import address_of
from .....native.threads import thread_count
from ..decode.matrix_product import MatrixProduct
from ..memory import Memory, MemoryMap
from ..reference.compute import compute
from ..shaders.task import ShaderTask
from ..stream.task import StreamTask
from ..tasks import BlockTranspose, Convolution, Move, Task
from . import native
from .arguments import Arguments, Packed
from .convolution import Weights, plan_convolution
from .moves import Origins, plan_move, plan_transpose
from .plan import Plan
from .products import plan_product
from .shaders import plan_shader
from .stream import (
    NO_QUEUES,
    Program,
    QueueWalk,
    as_convolution,
    plan_stream,
    program_of_sums,
    uses_queues,
)

Call = Callable[[], None]
_Made = TypeVar("_Made")
_ALIGNMENT = 64
_TOGETHER = 64
"""Tasks that are there at a time: more of them take more memory. Other work for each task in turn
takes a third longer: what the processor's caches hold of one is gone when it comes again.
"""
REFERENCE = "reference"
"""What runs a task without a plan."""


class QueueError(Exception):
    """Some program that uses queues has no plan: the reference has to run all that do."""


class Planner:
    """Makes plans of tasks in their order, each of which may be gone when the next one comes."""

    def __init__(
        self, layout: MemoryMap, *, has_kernels: bool = True, has_queues: bool = True
    ) -> None:
        self._layout = layout
        self._has_kernels = has_kernels and native.library() is not None
        self._has_queues = has_queues
        self._count = thread_count()
        self._shared = _Shared({}, {}, {})
        self._walk = QueueWalk()

    def plan(self, task: Task) -> Plan | None:
        """None where the reference computes it; raises `QueueError`, with `has_queues`."""
        if not self._has_kernels:
            return None
        if isinstance(task, StreamTask) and uses_queues(task.flow):
            return self._plan_of_queues(task) if self._has_queues else None
        return _plan(self._layout, task, self._count, self._shared)

    def _plan_of_queues(self, task: StreamTask) -> Plan:
        queues = self._walk.next(task)
        plan = plan_stream(self._layout, task, queues, self._count, self._shared.programs)
        if plan is None:
            raise QueueError
        return plan


def _planned(
    layout: MemoryMap, make: Callable[[Planner], _Made], *, has_kernels: bool = True
) -> _Made:
    """What `make` makes with a planner, once more where the queues' programs haven't all a plan."""
    try:
        return make(Planner(layout, has_kernels=has_kernels))
    except QueueError:
        return make(Planner(layout, has_queues=False))


def plans_of(layout: MemoryMap, tasks: Sequence[Task]) -> tuple[Plan | None, ...]:
    """A plan for each task, None where the reference computes it."""
    return _planned(layout, lambda planner: tuple(map(planner.plan, tasks)))


def kernels_of(layout: MemoryMap, tasks: Sequence[Task]) -> list[str]:
    """The kernel that runs each task here, or "reference"."""
    plans = plans_of(layout, tasks)
    return [REFERENCE if plan is None else plan.kernel for plan in plans]


class _Shared(NamedTuple):
    """What tasks share."""

    weights: dict[object, Weights | None]
    programs: dict[object, Program]
    origins: dict[object, Origins]


def _plan(layout: MemoryMap, task: Task, count: int, shared: _Shared) -> Plan | None:
    if isinstance(task, Convolution):
        return plan_convolution(layout, task, count, shared.weights)
    if isinstance(task, Move):
        return plan_move(layout, task, count, shared.origins)
    if isinstance(task, BlockTranspose):
        return plan_transpose(layout, task, count)
    if isinstance(task, StreamTask):
        plan = plan_stream(layout, task, NO_QUEUES, count, shared.programs)
        return plan or _plan_of_sums(layout, task, count, shared)
    if isinstance(task, MatrixProduct):
        return plan_product(layout, task, count)
    return plan_shader(layout, task, count) if isinstance(task, ShaderTask) else None


def _plan_of_sums(layout: MemoryMap, task: StreamTask, count: int, shared: _Shared) -> Plan | None:
    """A program that takes nothing but a convolution's sums."""
    convolution = as_convolution(task)
    if convolution is None:
        return None
    program = program_of_sums(task, shared.programs)
    if program is None:
        return None
    return plan_convolution(layout, convolution, count, shared.weights, program)


@dataclass(frozen=True)
class Compiled:
    """What computes a file, for all its contexts.

    `parts` are how many steps of C follow, or a task that the reference computes. `scratch` is what
    a thread needs of its own, in bytes.
    """

    parts: tuple[Task | int, ...]
    packed: Packed
    scratch: int

    @classmethod
    def of(cls, layout: MemoryMap, tasks: Iterable[Task], *, has_kernels: bool = True) -> Compiled:
        """Plan tasks, of which those that the reference computes are kept alone.

        They are looked at a second time where the queues' programs haven't all a plan.
        """
        return _planned(
            layout, lambda planner: cls._of(layout, tasks, planner), has_kernels=has_kernels
        )

    @classmethod
    def _of(cls, layout: MemoryMap, tasks: Iterable[Task], planner: Planner) -> Compiled:
        arguments = Arguments(layout)
        parts: list[Task | int] = []
        scratch = 0
        left = iter(tasks)
        while some := list(islice(left, _TOGETHER)):
            for task, plan in zip(some, list(map(planner.plan, some)), strict=True):
                if plan is None:
                    parts.append(task)
                    continue
                arguments.step(plan.bind(arguments))
                scratch = max(scratch, plan.scratch)
                if parts and isinstance(parts[-1], int):
                    parts[-1] += 1
                else:
                    parts.append(1)
        return cls(tuple(parts), arguments.packed(), scratch)


class Calls:
    """What computes a file in one `memory`: one run at a time; any thread may call `cancel`."""

    def __init__(self, compiled: Compiled, memory: Memory) -> None:
        self._cancelled = ctypes.c_int32(0)
        self._compiled = compiled
        size = compiled.scratch + _ALIGNMENT
        self._spaces = [np.empty(size, np.uint8) for _ in range(thread_count())]
        self._scratch = [-(-address_of(s) // _ALIGNMENT) * _ALIGNMENT for s in self._spaces]
        self.memory = memory
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
                yield _reference(part, self.memory)
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
