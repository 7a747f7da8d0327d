"""What a plan is, and how a node's kernels become calls on one or more threads."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from .....native.memory import address_of, aligned_bytes
from .....native.steps import Entry, Steps
from ..memory import Memory

_WORTH_A_PART = 4e5
"""Products that a thread takes at a time, at least: a few microseconds."""

_WORTH_THREADS = 4e6
_MOST_PARTS = 32

WORK_OF_A_RESULT = 40
"""What the stages behind a sum cost, in products of a dense convolution."""


class KernelStep:
    """A kernel's call: units of work, which threads may share in multiples of `multiple`.

    `work` is what all of it costs, in products of a dense convolution. The step keeps its arguments
    and what `keeps` holds.
    """

    def __init__(
        self,
        kernel: Any,
        arguments: ctypes.Structure,
        units: int,
        work: float,
        *,
        multiple: int = 1,
        keeps: object = None,
    ) -> None:
        self.work = work
        self._kept = (kernel, arguments, keeps)
        parts = max(1, min(int(work / _WORTH_A_PART), -(-units // multiple), _MOST_PARTS))
        # Two threads are the most frequent.
        parts += parts > 1 and parts % 2
        self.entry = Entry(
            ctypes.cast(kernel, ctypes.c_void_p).value,
            ctypes.addressof(arguments),
            units,
            -(-units // (parts * multiple)) * multiple,
        )


class KernelKind(Enum):
    """What runs a task: int8 or general kernels, those that move atoms, or the reference."""

    INT8 = "int8"
    GENERAL = "general"
    COPIES = "copies"
    REFERENCE = "reference"


Step = KernelStep | Callable[[], None]


class Scratch:
    """What kernels need besides a context's memory: a space for each thread, and one for all.

    Steps run one after another, so that all share it.
    """

    def __init__(self, own_bytes: int, shared_bytes: int, threads: int) -> None:
        self.own = [aligned_bytes(own_bytes) for _ in range(threads)]
        self.shared = aligned_bytes(shared_bytes)


class Plan(ABC):
    """How to run one task, prepared: shared by contexts, which bind it to their memory."""

    kind: KernelKind
    """Which kernels run it; `plan_task` says so."""

    own_bytes = 0
    """What each thread needs for itself during a run."""

    shared_bytes = 0
    """What threads need together."""

    @abstractmethod
    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[Step]:
        """What runs the task in a memory, in order.

        Steps keep the plan and its structures; the memory's and scratch arrays must outlive them.
        """


def chained(
    steps: Sequence[Step], scratch: Scratch, cancelled: ctypes.c_int32
) -> list[Callable[[], None]]:
    """The steps as calls, kernels that follow one another as a single one.

    Once `cancelled` isn't 0, kernels that haven't begun are left out.
    """
    calls: list[Callable[[], None]] = []
    kernels: list[KernelStep] = []
    for step in (*steps, None):
        if isinstance(step, KernelStep):
            kernels.append(step)
            continue
        if kernels:
            calls.append(_chain(kernels, scratch, cancelled))
            kernels = []
        if step is not None:
            calls.append(step)
    return calls


def _chain(
    steps: Sequence[KernelStep], scratch: Scratch, cancelled: ctypes.c_int32
) -> Callable[[], None]:
    """Kernels as one call. One thread at a time."""
    is_worth_it = sum(step.work for step in steps) >= _WORTH_THREADS
    own = [address_of(space) for space in scratch.own]
    entries = [step.entry for step in steps]
    return Steps(
        entries, own if is_worth_it else own[:1], cancelled, keeps=(list(steps), scratch)
    ).run
