"""What a plan is, and how a kernel call becomes a step."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..memory import Memory

Step = Callable[[], None]


class Plan(ABC):
    """How to run one task, prepared: shared by contexts, which bind it to their memory."""

    scratch_floats = 0
    """float32 elements that a run needs for itself."""

    @abstractmethod
    def bind(self, memory: Memory, scratch: NDArray[np.float32]) -> Step:
        """What runs the task in a memory, with scratch space that other tasks share.

        The step keeps the plan and its structures; the memory's arrays must outlive it.
        """


def step(function: Any, *arguments: Any, keeps: object) -> Step:
    """A call with fixed arguments: structures by their address, numbers as they are."""
    addresses = [
        ctypes.addressof(value) if isinstance(value, ctypes.Structure) else value
        for value in arguments
    ]

    def run(_alive: object = (arguments, keeps)) -> None:
        function(*addresses)

    return run
