"""The doors through which calls reach the soft NPU's Python: native/door.c says what they do.

Without a C compiler there are none: calls then reach it directly, and what a signal's handler
raises on the main thread in the middle of a call ends that call.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from ... import process
from ...native.library import load
from ...process import Stage
from ...structures import Structure

_GRACE = 10**9
"""Nanoseconds for which calls may go on when the interpreter ends; then they are cancelled."""
_PATIENCE = 10 * _GRACE

_hurriers: list[Callable[[], None]] = []


class _Python(Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("ensure", "check", "save", "restore")]


def through(address: int, refusal: int | None) -> int:
    """The address of a door to a C function, which returns `refusal` to calls that may not begin.

    Calls may begin until the process ends, and in a forked process where no other thread was
    inside when it was forked.
    """
    library = _library()
    if library is None:
        return address
    door: int = library.anynpu_door_new(address, (refusal or 0) & 0xFFFF_FFFF_FFFF_FFFF)
    return door or address


def calling_thread() -> int:
    """Whose call this thread makes, by `threading.get_ident`: its own, but for helpers."""
    library = _library()
    if library is None:
        return threading.get_ident()
    caller: int = library.anynpu_door_caller()
    return caller


def at_hurry(function: Callable[[], None]) -> None:
    """Call a function when the process ends and calls inside should end soon; from any thread."""
    _hurriers.append(function)


def watch_end() -> None:
    """At the process's end wait for the calls inside, before anything loaded by now is taken apart.

    In a process forked from this one nothing of that is taken apart: it ends at once. To be called
    after a library was loaded whose destructors may not run under a call, or without its threads.
    """
    library = _library()
    if library is not None:
        library.anynpu_door_watch_end(1)


def _hurry() -> None:
    for function in _hurriers:
        function()


_hurry_callback = ctypes.CFUNCTYPE(None)(_hurry)


def _end(library: Any) -> None:
    """The interpreter ends: no call begins any more, and those inside end or are cancelled."""
    library.anynpu_door_close()
    end = time.monotonic_ns() + _GRACE + _PATIENCE
    while not library.anynpu_door_drain(_GRACE) and time.monotonic_ns() < end:
        # A call that prepares a run has nothing yet that could be cancelled: it is told again.
        _hurry()
    library.anynpu_door_end()


def _reopen(library: Any) -> None:
    if not library.anynpu_door_reopen():
        process.refuse(
            "this process was forked while another thread was in a call of the soft NPU, which "
            "can't be used here: start it by spawn or forkserver, or fork it between calls"
        )


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def _library() -> Any:
    library = load("door")
    if library is None:
        return None
    library.anynpu_door_new.restype = ctypes.c_uint64
    library.anynpu_door_new.argtypes = (ctypes.c_uint64, ctypes.c_uint64)
    library.anynpu_door_caller.restype = ctypes.c_size_t
    library.anynpu_door_caller.argtypes = ()
    library.anynpu_door_begin.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
    library.anynpu_door_drain.argtypes = (ctypes.c_int64,)
    api = ctypes.pythonapi
    python = _Python(
        *(
            _address(function)
            for function in (
                api.PyGILState_Ensure,
                api.PyGILState_Check,
                api.PyEval_SaveThread,
                api.PyEval_RestoreThread,
            )
        )
    )
    library.anynpu_door_begin(
        ctypes.byref(python), threading.main_thread().ident, _address(_hurry_callback)
    )
    library.anynpu_door_watch_end(0)
    process.at_exit(Stage.DEVICE, lambda: _end(library))
    process.in_child(lambda: _reopen(library))
    return library
