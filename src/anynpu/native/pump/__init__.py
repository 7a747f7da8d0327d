"""Workers that run requests with no Python between them: `Pump`, in C where that can be built.

Devices stay busy while Python thinks, since the C pump's threads never need the GIL.
"""

from __future__ import annotations

from . import c_threads
from .interface import (
    ANY_WORKER,
    MASKED_WORKERS,
    MAX_STEPS,
    MAX_WORKERS,
    Answer,
    Pump,
    RequestRecord,
    Slot,
    State,
    Step,
)

__all__ = [
    "ANY_WORKER",
    "MASKED_WORKERS",
    "MAX_STEPS",
    "MAX_WORKERS",
    "Answer",
    "Pump",
    "RequestRecord",
    "Slot",
    "State",
    "Step",
    "open_pump",
]


def open_pump(workers: int, capacity: int, most_unseen: int) -> Pump:
    """A pump whose queue holds `capacity` requests; `most_unseen` may be done and not confirmed.

    Without a build of the C pump and without a compiler it is one of Python threads, after a
    warning. Raises RuntimeError where the system has no threads left, as `threading` does.
    """
    if c_threads.is_built():
        return c_threads.NativePump(workers, capacity, most_unseen)
    from .python_threads import PythonPump

    return PythonPump(workers, capacity, most_unseen)
