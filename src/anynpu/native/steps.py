"""native/steps.c: kernels one after another, each shared by some threads."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..structures import Structure
from .library import load

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
"""A kernel: arguments, the first unit of work, the one after the last, the thread's own space."""


class Entry(Structure):
    """One step: a kernel's address, its arguments', and how threads share its units."""

    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("units", ctypes.c_int64),
        ("grain", ctypes.c_int64),
    ]


class _Chain(Structure):
    """Steps to run, as many spaces as threads, and where it is said that they are to end."""

    _fields_ = [
        ("steps", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("scratch", ctypes.c_void_p),
        ("cancelled", ctypes.c_void_p),
    ]


@cache
def _library() -> Any:
    loaded = load("steps")
    if loaded is not None:
        run = loaded.anynpu_steps_run
        run.restype = None
        run.argtypes = (ctypes.c_void_p,)
    return loaded


def is_available() -> bool:
    """Whether there is a build."""
    return _library() is not None


class Steps:
    """Steps ready to run, on as many threads as there are scratch spaces, which runs at the same
    time share.

    An array of entries is used in place. `scratch` are addresses; whatever entries and addresses
    point to must outlive this object, which keeps what `keeps` holds. One run at a time. Once
    `cancelled` isn't 0, what hasn't begun is left out.
    """

    def __init__(
        self,
        entries: Sequence[Entry] | ctypes.Array[Entry],
        scratch: Sequence[int],
        cancelled: ctypes.c_int32,
        keeps: object = None,
    ) -> None:
        self._entries: ctypes.Array[Entry] = (
            entries if isinstance(entries, ctypes.Array) else (Entry * len(entries))(*entries)
        )
        self._scratch = (ctypes.c_void_p * len(scratch))(*scratch)
        self._kept = cancelled, keeps
        self._chain = _Chain(
            ctypes.addressof(self._entries),
            len(entries),
            len(scratch),
            ctypes.addressof(self._scratch),
            ctypes.addressof(cancelled),
        )
        # One address: small networks take hardly longer than a call with more arguments.
        self._address = ctypes.addressof(self._chain)
        self._run = _library().anynpu_steps_run

    def run(self) -> None:
        """Run all steps; lets go of the GIL."""
        self._run(self._address)
