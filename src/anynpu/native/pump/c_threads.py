"""The pump of native/pump.c, whose threads never need the GIL."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any

from ...structures import Structure
from ..library import load
from .interface import MAX_ARGUMENTS, Answer, Pump, RequestRecord, Slot, Step

_FOREVER = -1
_ANSWERS = tuple(Answer)


def is_built() -> bool:
    """Whether there is the C library, or a compiler that made it."""
    return _functions() is not None


class NativePump(Pump):
    """The pump of native/pump.c."""

    def __init__(self, workers: int, capacity: int, most_unseen: int) -> None:
        functions = _functions()
        assert functions is not None, "a pump is made where `is_built`"
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
    """Free a pump that isn't used any more."""
    functions.anynpu_pump_close(pump, True)
    functions.anynpu_pump_join(pump)
    functions.anynpu_pump_free(pump)


def _nanoseconds(seconds: float | None) -> int:
    return _FOREVER if seconds is None else int(seconds * 1e9)


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
