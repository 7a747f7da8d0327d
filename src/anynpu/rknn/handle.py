"""The C context behind a `Context` and its memories: destroyed when the last of them is done."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from .. import process
from ..errors import ClosedError
from ..process import Inherited, Stage
from .library import RknnLibrary


class ContextHandle(Inherited):
    """An `rknn_context` value, and the memories created for it that are still alive.

    `close` asks for its end; `rknn_destroy`, or the function named `destroy`, follows at once, or
    with the last memory, so that no array of a person's ever loses the memory it shares. Any thread
    may call it.
    """

    def __init__(self, library: RknnLibrary, value: int, destroy: str = "rknn_destroy") -> None:
        super().__init__()
        self.library = library
        self._destroy = destroy
        self._value = value
        self._lock = threading.RLock()
        self._memories: set[int] = set()
        self._closing = self._destroyed = False
        self._kept: list[Any] = []
        _alive.add(self)

    @property
    def value(self) -> int:
        """The value to pass to C; raises `ClosedError` once `close` was called.

        Raises `StateError` in a process that was forked since.
        """
        self.check_inherited()
        if self._closing:
            raise ClosedError("this context is closed: use it before close(), or open another one")
        return self._value

    def keep(self, pointer: Any) -> None:
        """Remember a memory (a pointer to its `rknn_tensor_mem`)."""
        with self._lock:
            self._memories.add(ctypes.addressof(pointer.contents))

    def keep_alive(self, objects: Sequence[Any]) -> None:
        """Hold on to what C calls or reads until the context is destroyed."""
        self._kept.extend(objects)

    def destroy_memory(self, pointer: Any) -> None:
        """`rknn_destroy_mem`, once for each memory, and what was waiting for it."""
        if self.is_inherited:
            return
        with self._lock:
            address = ctypes.addressof(pointer.contents)
            if address in self._memories:
                self._memories.remove(address)
                self.library.rknn_destroy_mem(self._value, pointer)
            self._destroy_if_due()

    def close(self) -> None:
        """Ask for the end; twice does nothing, nor in a forked process."""
        if self.is_inherited:
            return
        with self._lock:
            self._closing = True
            self._destroy_if_due()

    def end(self) -> None:
        """The interpreter ends: destroy the context, whose memory goes with it on the soft NPU.

        Where other threads may write to that memory it stays, until the process has ended.
        """
        with self._lock:
            self._closing = True
            if self.library.is_soft and process.is_alone():
                self._destroy_now()
            else:
                self._destroy_if_due()

    def _destroy_if_due(self) -> None:
        if self._closing and not self._memories:
            self._destroy_now()

    def _destroy_now(self) -> None:
        if not self._destroyed:
            self._destroyed = True
            getattr(self.library, self._destroy)(self._value)
            self._kept.clear()


_alive: weakref.WeakSet[ContextHandle] = weakref.WeakSet()


def _end_all() -> None:
    for handle in list(_alive):
        if not handle.is_inherited:
            handle.end()


process.at_exit(Stage.CONTEXTS, _end_all)
