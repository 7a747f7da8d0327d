"""Workers that run requests with no Python between them: `Pump`, in C where that can be built.

A worker runs a request's program: steps, each a C function with integer arguments, constants or the
request's slots. The C pump's threads never need the GIL, so devices stay busy while Python thinks.
native/pump.c says what every function does.
"""

from __future__ import annotations

import ctypes
import enum
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..structures import Structure
from .library import load

MAX_ARGUMENTS = 8
MAX_STEPS = 32
MAX_SLOTS = 8
MAX_WORKERS = 64
FOREVER = -1


@dataclass(frozen=True)
class Slot:
    """An argument that each request brings: the number of one of its slots."""

    number: int


@dataclass(frozen=True)
class Step:
    """A call of the C function at `address`, which returns 0 or a code that ends the request.

    `is_entry`: only when the worker's program before was another one, or failed.
    """

    name: str
    address: int
    arguments: tuple[int | Slot, ...]
    is_entry: bool = False


class State(enum.IntEnum):
    """Where a request stands."""

    IDLE = 0
    WAITING = 1
    RUNNING = 2
    DONE = 3
    CANCELLED = 4


class Answer(enum.IntEnum):
    """Whether a request was accepted; FINISHED: it also ran on the caller's thread."""

    ACCEPTED = 0
    FULL = 1
    CLOSED = 2
    FINISHED = 3


_ANSWERS = tuple(Answer)


class RequestRecord(Structure):
    """What a worker runs a program on; its owner keeps it until it is done.

    The first fields are the submitter's: slots, a bit mask of the workers that may run it, the
    program's number, whether `Pump.next` gives it when it is done, whether it counts in `order`,
    and whether it may enter a full queue. The others are the pump's; times are nanoseconds of
    `time.monotonic`, `ends` when each step was over.
    """

    _fields_ = [
        ("slots", ctypes.c_uint64 * MAX_SLOTS),
        ("workers", ctypes.c_uint64),
        ("program", ctypes.c_uint32),
        ("is_reported", ctypes.c_uint32),
        ("is_ordered", ctypes.c_uint32),
        ("is_urgent", ctypes.c_uint32),
        ("state", ctypes.c_int32),
        ("result", ctypes.c_int32),
        ("step", ctypes.c_uint32),
        ("worker", ctypes.c_uint32),
        ("order", ctypes.c_uint64),
        ("submitted", ctypes.c_int64),
        ("started", ctypes.c_int64),
        ("ends", ctypes.c_int64 * MAX_STEPS),
        ("next", ctypes.c_void_p),
    ]


class Pump(ABC):
    """Workers and their queue. Any thread may call any method; timeouts are in seconds."""

    workers: int

    @abstractmethod
    def add_program(self, steps: Sequence[Sequence[Step]]) -> int:
        """Add a program, one list of steps for each worker; returns its number."""

    @abstractmethod
    def set_schedule(self, masks: Sequence[int]) -> None:
        """Let request number n run on the workers of the bit mask ``masks[n % len(masks)]``."""

    @abstractmethod
    def set_pacing(self, is_paced: bool) -> None:
        """Accept requests no faster than the workers do them."""

    @abstractmethod
    def submit(self, request: RequestRecord, timeout: float | None) -> Answer:
        """Let a request run as soon as a worker is free; 0 waits for nothing."""

    @abstractmethod
    def run(self, request: RequestRecord, timeout: float | None) -> Answer:
        """The same, and on this thread where a worker is idle: FINISHED, not ACCEPTED."""

    @abstractmethod
    def wait(self, requests: Sequence[RequestRecord], timeout: float | None) -> int:
        """Wait until one of the requests is finished; its place, or -1 after the timeout."""

    @abstractmethod
    def next(self, timeout: float | None) -> int:
        """The address of the reported request that was done first.

        0 after the timeout, and at the end: when the pump is closed and all that were given are
        confirmed.
        """

    @abstractmethod
    def confirm(self, count: int) -> None:
        """Say that reported requests were dealt with."""

    @abstractmethod
    def cancel(self, request: RequestRecord) -> bool:
        """Take a request back that still waits; whether it did."""

    @abstractmethod
    def close(self, *, cancel: bool) -> None:
        """Accept nothing more; what waits is cancelled, or still run."""

    @abstractmethod
    def join(self) -> None:
        """Wait for the workers of a closed pump to end; once."""


def open_pump(workers: int, capacity: int, most_unseen: int) -> Pump:
    """A pump whose queue holds `capacity` requests; `most_unseen` may be done and not confirmed.

    Without a build of the C pump and without a compiler it is one of Python threads, after a
    warning. Raises RuntimeError where the system has no threads left, as `threading` does.
    """
    if _functions() is not None:
        return NativePump(workers, capacity, most_unseen)
    from .python_pump import PythonPump

    return PythonPump(workers, capacity, most_unseen)


class NativePump(Pump):
    """The pump of native/pump.c."""

    def __init__(self, workers: int, capacity: int, most_unseen: int) -> None:
        functions = _functions()
        assert functions is not None, "open_pump looks whether there is a library"
        self.workers = workers
        self._waiting, self._quick = functions
        self._pump = self._quick.anynpu_pump_new(workers, capacity, most_unseen)
        started = self._quick.anynpu_pump_started(self._pump) if self._pump else 0
        if not self._pump or started < workers:
            if self._pump:
                _dispose(self._waiting, self._pump)
            raise RuntimeError(f"can't start {workers} threads; the system gave {started}")
        # At exit a thread may still be inside; the process's end frees the memory.
        self._finalizer = weakref.finalize(self, _dispose, self._waiting, self._pump)
        self._finalizer.atexit = False

    def add_program(self, steps: Sequence[Sequence[Step]]) -> int:
        count = len(steps[0])
        array = (_Step * (count * self.workers))()
        for entry, step in zip(array, (step for each in steps for step in each), strict=True):
            _fill(entry, step)
        number: int = self._quick.anynpu_pump_add_program(self._pump, array, count)
        if number < 0:
            raise MemoryError(f"no memory for a program of {count} steps")
        return number

    def set_schedule(self, masks: Sequence[int]) -> None:
        array = (ctypes.c_uint64 * len(masks))(*masks)
        if self._quick.anynpu_pump_set_schedule(self._pump, array, len(masks)) < 0:
            raise MemoryError("no memory for the schedule")

    def set_pacing(self, is_paced: bool) -> None:
        self._quick.anynpu_pump_set_pacing(self._pump, is_paced)

    def submit(self, request: RequestRecord, timeout: float | None) -> Answer:
        functions = self._waiting if timeout is None or timeout > 0 else self._quick
        submit = functions.anynpu_pump_submit
        code: int = submit(self._pump, ctypes.addressof(request), _nanoseconds(timeout))
        return _ANSWERS[code]

    def run(self, request: RequestRecord, timeout: float | None) -> Answer:
        run = self._waiting.anynpu_pump_run
        code: int = run(self._pump, ctypes.addressof(request), _nanoseconds(timeout))
        return _ANSWERS[code]

    def wait(self, requests: Sequence[RequestRecord], timeout: float | None) -> int:
        functions = self._waiting if timeout is None or timeout > 0 else self._quick
        array = (ctypes.c_void_p * len(requests))(*map(ctypes.addressof, requests))
        wait = functions.anynpu_pump_wait
        place: int = wait(self._pump, array, len(requests), _nanoseconds(timeout))
        return place

    def next(self, timeout: float | None) -> int:
        functions = self._waiting if timeout is None or timeout > 0 else self._quick
        return functions.anynpu_pump_next(self._pump, _nanoseconds(timeout)) or 0

    def confirm(self, count: int) -> None:
        self._quick.anynpu_pump_confirm(self._pump, count)

    def cancel(self, request: RequestRecord) -> bool:
        return bool(self._quick.anynpu_pump_cancel(self._pump, ctypes.addressof(request)))

    def close(self, *, cancel: bool) -> None:
        self._quick.anynpu_pump_close(self._pump, cancel)

    def join(self) -> None:
        self._waiting.anynpu_pump_join(self._pump)


def _dispose(functions: ctypes.CDLL, pump: int) -> None:
    """Free a pump that nobody uses any more."""
    functions.anynpu_pump_close(pump, True)
    functions.anynpu_pump_join(pump)
    functions.anynpu_pump_free(pump)


def _nanoseconds(seconds: float | None) -> int:
    return FOREVER if seconds is None else int(seconds * 1e9)


class _Argument(Structure):
    _fields_ = [("is_slot", ctypes.c_uint64), ("value", ctypes.c_uint64)]


class _Step(Structure):
    _fields_ = [
        ("function", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
        ("is_entry", ctypes.c_uint32),
        ("arguments", _Argument * MAX_ARGUMENTS),
    ]


def _fill(entry: _Step, step: Step) -> None:
    entry.function, entry.count, entry.is_entry = step.address, len(step.arguments), step.is_entry
    for target, argument in zip(entry.arguments, step.arguments, strict=False):
        if isinstance(argument, Slot):
            target.is_slot, target.value = 1, argument.number
        else:
            target.is_slot, target.value = 0, argument


_POINTER, _NUMBER, _CODE, _TIME = (
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.c_int32,
    ctypes.c_int64,
)
_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "anynpu_pump_new": (_POINTER, (_NUMBER, _NUMBER, _NUMBER)),
    "anynpu_pump_started": (_NUMBER, (_POINTER,)),
    "anynpu_pump_add_program": (_CODE, (_POINTER, _POINTER, _NUMBER)),
    "anynpu_pump_set_schedule": (_CODE, (_POINTER, _POINTER, _NUMBER)),
    "anynpu_pump_set_pacing": (None, (_POINTER, _CODE)),
    "anynpu_pump_submit": (_CODE, (_POINTER, _POINTER, _TIME)),
    "anynpu_pump_run": (_CODE, (_POINTER, _POINTER, _TIME)),
    "anynpu_pump_wait": (_CODE, (_POINTER, _POINTER, _NUMBER, _TIME)),
    "anynpu_pump_next": (_POINTER, (_POINTER, _TIME)),
    "anynpu_pump_confirm": (None, (_POINTER, _NUMBER)),
    "anynpu_pump_cancel": (_CODE, (_POINTER, _POINTER)),
    "anynpu_pump_close": (None, (_POINTER, _CODE)),
    "anynpu_pump_join": (None, (_POINTER,)),
    "anynpu_pump_free": (None, (_POINTER,)),
}


@cache
def _functions() -> tuple[ctypes.CDLL, ctypes.PyDLL] | None:
    """The functions twice: those that may wait let go of the GIL, the quick ones don't.

    Letting go costs a switch interval (5 ms) to come back while another thread computes.
    """
    library = load("pump")
    if library is None:
        return None
    quick = ctypes.PyDLL(library._name)
    for functions in (library, quick):
        for name, (result, arguments) in _PROTOTYPES.items():
            function = getattr(functions, name)
            function.restype, function.argtypes = result, arguments
    return library, quick
