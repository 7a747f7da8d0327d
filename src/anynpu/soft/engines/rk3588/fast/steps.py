"""What a plan is, and how kernel calls become a step on one or more threads."""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory

Step = Callable[[], None]

MOST_THREADS = 4
_WORTH_A_THREAD = 1e7
"""Products that are worth handing to another thread: about a fifth of a millisecond."""

WORK_OF_A_RESULT = 64
"""What the stages behind a sum cost, in products of a dense convolution."""


class Plan(ABC):
    """How to run one task, prepared: shared by contexts, which bind it to their memory."""

    scratch_bytes = 0
    """What each thread needs for itself during a run."""

    @abstractmethod
    def bind(self, memory: Memory, scratch: Sequence[NDArray[np.uint8]]) -> Step:
        """What runs the task in a memory, with one scratch space a thread, shared with other tasks.

        The step keeps the plan and its structures; the memory's arrays must outlive it.
        """


def thread_count() -> int:
    """Threads that work on one task."""
    return min(MOST_THREADS, len(os.sched_getaffinity(0)))


def shares(count: int, multiple: int, work: float, threads: int) -> list[tuple[int, int]]:
    """(first, behind the last) of each thread's part of `count`: one part if it isn't worth more.

    All parts but the last are multiples of `multiple`.
    """
    parts = max(1, min(threads, int(work / _WORTH_A_THREAD), -(-count // multiple)))
    size = -(-count // (parts * multiple)) * multiple
    return [(first, min(first + size, count)) for first in range(0, count, size)]


def call(function: Any, *arguments: Any, keeps: object) -> Step:
    """A call with fixed arguments: structures by their address, numbers as they are."""
    addresses = [
        ctypes.addressof(value) if isinstance(value, ctypes.Structure) else value
        for value in arguments
    ]

    def run(_alive: object = (arguments, keeps)) -> None:
        function(*addresses)

    return run


def together(steps: Sequence[Step]) -> Step:
    """Steps at the same time, the first one on the calling thread."""
    if len(steps) == 1:
        return steps[0]
    first, *others = steps

    def run() -> None:
        futures = [_submit(other) for other in others]
        try:
            first()
        finally:
            for future in futures:
                future.result()

    return run


def _submit(step: Step) -> Future[None]:
    try:
        return _workers().submit(step)
    except RuntimeError:
        # The interpreter is shutting down and starts no threads any more.
        done: Future[None] = Future()
        step()
        done.set_result(None)
        return done


_pool: ThreadPoolExecutor | None = None


def _workers() -> ThreadPoolExecutor:
    """Threads for the process; they only ever run kernels, so none waits for another."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="anynpu-npu")
    return _pool


def _forget_workers() -> None:
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget_workers)
