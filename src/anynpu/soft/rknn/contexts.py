"""The table of contexts: an `rknn_context` is a small integer, valid in 32 bits, never reused."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from ...rknn.abi import CoreMask, ErrorCode, InitFlag
from ...soc import Soc
from ..device import Device
from ..engines import Instance, Program
from .failure import Failure

_PRIORITY_BITS = 0b11


class Context:
    """The state behind one handle. Its lock is held during every call on it."""

    def __init__(self, program: Program, device: Device, flags: InitFlag) -> None:
        self.lock = threading.RLock()
        self.closed = False
        self.program = program
        self.instance: Instance = program.instance()
        self.device = device
        self.flags = flags
        self.priority = int(flags) & _PRIORITY_BITS
        self.core_mask = CoreMask.AUTO
        self.inputs_set: set[int] = set()
        self.run_microseconds: int | None = None
        self.lent: dict[int, NDArray[Any]] = {}

    @property
    def soc(self) -> Soc:
        return self.device.soc

    def close(self) -> None:
        """Let go of the model and of every output buffer that was lent."""
        self.closed = True
        self.lent.clear()
        self.instance.close()


_contexts: dict[int, Context] = {}
_handles = itertools.count(1)


def add(context: Context) -> int:
    """Give a context a handle."""
    handle = next(_handles)
    _contexts[handle] = context
    return handle


@contextmanager
def borrow(handle: int) -> Iterator[Context]:
    """The context of a handle, locked for the block; CTX_INVALID for one that isn't alive."""
    context = _contexts.get(handle)
    if context is None:
        raise _invalid(handle)
    with context.lock:
        if context.closed:
            raise _invalid(handle)
        yield context


def remove(handle: int) -> None:
    """Destroy the context of a handle, after the call that it is in; CTX_INVALID if not alive."""
    context = _contexts.pop(handle, None)
    if context is None:
        raise _invalid(handle)
    with context.lock:
        context.close()


def _invalid(handle: int) -> Failure:
    return Failure(ErrorCode.CTX_INVALID, f"context {handle:#x} is not alive")
