"""What each call that failed had logged, for whoever turns its code into an exception.

Above the C ABI a call is a number; here it is known what was said meanwhile, on which thread and
when. Only the last failures are kept.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

from .. import process
from .cabi import doors

_KEPT = 256
_LONGEST = 50
"""Lines of one call."""


@dataclass(frozen=True)
class FailedCall:
    """A call that failed, on a thread's behalf; `code` is None where its result is no code.

    `time` is when, in nanoseconds of `time.monotonic`.
    """

    name: str
    code: int | None
    thread: int
    time: int
    lines: tuple[str, ...]


class _Local(threading.local):
    lines: list[str] | None = None


_local = _Local()
_recent: deque[FailedCall] = deque(maxlen=_KEPT)
_lock = process.lock()


def begin() -> list[str] | None:
    """A call begins on this thread; what `end` gets, since one may call another."""
    outer = _local.lines
    _local.lines = []
    return outer


def end(outer: list[str] | None) -> None:
    """The call is over."""
    _local.lines = outer


def note(line: str) -> None:
    """A line was logged."""
    if _local.lines is not None:
        _local.lines.append(line)


def failed(name: str, code: int | None) -> None:
    """The call that this thread is in has failed."""
    lines = tuple((_local.lines or [])[-_LONGEST:])
    call = FailedCall(name, code, doors.calling_thread(), time.monotonic_ns(), lines)
    with _lock:
        _recent.append(call)


def take(name: str, code: int, span: tuple[int, int] | None = None) -> tuple[str, ...]:
    """What a call logged that returned a code: the last one on this thread, or in a span of time.

    It is told once. Empty where nothing is known of such a call.
    """
    thread = threading.get_ident()
    with _lock:
        for call in reversed(_recent):
            is_it = call.name == name and call.code in (code, None)
            if span is None:
                is_it = is_it and call.thread == thread
            else:
                is_it = is_it and span[0] <= call.time <= span[1]
            if is_it:
                _recent.remove(call)
                return call.lines
    return ()
