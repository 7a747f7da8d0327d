"""What ends a process, and what a fork of it leaves behind.

A process ends in stages: sessions first, which finish what was submitted to them, then contexts,
and the device that computes last. In a forked process there are none of the threads that sessions
and devices need: what was opened before the fork can't be used there, and locks that other threads
held would stay locked.
"""

from __future__ import annotations

import atexit
import ctypes
import enum
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from .errors import StateError


class Stage(enum.IntEnum):
    """The order in which things end."""

    SESSIONS = 0
    CONTEXTS = 1
    DEVICE = 2


_at_exit: dict[Stage, list[Callable[[], None]]] = {stage: [] for stage in Stage}
_in_child: list[Callable[[], None]] = []
_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_LockT = TypeVar("_LockT", bound=Any)


def at_exit(stage: Stage, function: Callable[[], None]) -> None:
    """Call a function when the interpreter ends, after those of the stages before."""
    _at_exit[stage].append(function)


def in_child(function: Callable[[], None]) -> None:
    """Call a function in every process that is forked from this one by Python."""
    _in_child.append(function)


def is_alone() -> bool:
    """Whether no other thread of Python's is alive: at the end of the interpreter, no daemon."""
    others = (each for each in threading.enumerate() if each is not threading.current_thread())
    return all(isinstance(each, threading._DummyThread) for each in others)


def refuse(problem: str) -> None:
    """Let nothing be opened in this process on the device that runs in it: `problem` says why."""
    global _problem
    _problem = problem


def check() -> None:
    """Raise `StateError` where nothing can be opened on the device that runs in this process."""
    if _problem:
        raise StateError(_problem)


_problem = ""


def keep_for_ever(thing: object) -> None:
    """Never take something apart: in a forked process, what would wait for others' threads."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def forkable(lock: _LockT) -> _LockT:
    """The lock (a Lock, an RLock or a Condition), which nobody holds in a forked process."""
    _locks.add(lock)
    return lock


def lock() -> threading.RLock:
    """A lock that nobody holds in a forked process, for things that are closed when forgotten.

    The garbage collector runs wherever something is allocated, also under the lock, and what it
    closes may need the lock again on the same thread.
    """
    return forkable(threading.RLock())


_FOREIGN = "this was opened before a fork: open it in the process that uses it"


class Inherited:
    """What is of no use in a forked process: there `is_inherited` says so of what was made before.

    Subclasses call `super().__init__()`.
    """

    is_inherited = False

    def __init__(self) -> None:
        _inheritable.add(self)

    def check_inherited(self) -> None:
        """Raise `StateError` where this was made before a fork."""
        if self.is_inherited:
            raise StateError(_FOREIGN)


_inheritable: weakref.WeakSet[Inherited] = weakref.WeakSet()


def _exit() -> None:
    for stage in Stage:
        for function in _at_exit[stage]:
            function()


def _forked() -> None:
    for each in list(_locks):
        each._at_fork_reinit()
    for inherited in list(_inheritable):
        inherited.is_inherited = True
    _inheritable.clear()
    for function in _in_child:
        function()


# Registered before anything is opened: what a program registers afterwards still finds all open.
atexit.register(_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
