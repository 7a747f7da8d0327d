"""`Memory`: what the program and the NPU both see, as NumPy arrays that share it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import ClosedError, InUseError, StateError
from ..lifetime import Closeable
from ..shared_arrays import SharedArrays
from . import abi
from .handle import ContextHandle


class Memory(Closeable):
    """One `rknn_tensor_mem`, made by the `create_memory` methods of `Context`.

    `size` counts bytes. Arrays from `array` share the memory and keep it alive: `close` raises
    `InUseError` as long as there is one. Without `close` the memory goes with its last reference.
    Any thread may use it, one at a time.
    """

    def __init__(self, handle: ContextHandle, pointer: Any, mapping: Any = None) -> None:
        self._handle = handle
        self._pointer = pointer
        # What keeps the address valid that a runtime was given.
        self._mapping = mapping
        handle.keep(pointer)
        self._arrays = SharedArrays()
        self._finalizer = weakref.finalize(self, handle.destroy_memory, pointer)
        # When the interpreter ends, threads may still write to arrays: the memory goes with it.
        self._finalizer.atexit = False

    @property
    def pointer(self) -> Any:
        """The C pointer; raises `ClosedError` after `close`."""
        if not self._finalizer.alive:
            raise ClosedError("this memory is closed: use it before close(), or create another one")
        return self._pointer

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.pointer.contents.size)

    @property
    def fd(self) -> int:
        """The descriptor by which others can map it, -1 where there is none."""
        return int(self.pointer.contents.fd)

    @property
    def offset(self) -> int:
        """Where in the descriptor it begins."""
        return int(self.pointer.contents.offset)

    @property
    def physical_address(self) -> int:
        """The address that the device uses."""
        return int(self.pointer.contents.phys_addr)

    @property
    def address(self) -> int:
        """Where its first byte is in this process. `virt_addr` of C leaves the offset out.

        Raises `StateError` where that wasn't said.
        """
        contents = self.pointer.contents
        if not contents.virt_addr:
            raise StateError(
                "this memory has no address in this process; pass it when you make the memory"
            )
        return int(contents.virt_addr) + int(contents.offset)

    def array(
        self, shape: Sequence[int] | None = None, dtype: DTypeLike = np.uint8
    ) -> NDArray[Any]:
        """An array that shares the memory from its first byte: no copy, writable.

        Without a shape it is flat and as long as fits. Raises `TensorError` for a shape that the
        memory is too small for.
        """
        return self._arrays.array(self, self.address, self.size, shape, dtype)

    def sync(self, mode: abi.SyncMode) -> None:
        """Bring the processor's cache and the memory together: `rknn_mem_sync`.

        TO_DEVICE after writing here and before the NPU reads, FROM_DEVICE after the NPU wrote.
        Needed only for cacheable memory and where the runtime was told not to do it by itself. A
        library before 1.6 does it always, and lacks the function: then this does nothing.
        """
        if not self._handle.library.has("rknn_mem_sync"):
            return
        code = self._handle.library.rknn_mem_sync(self._handle.value, self.pointer, int(mode))
        self._handle.library.check("rknn_mem_sync", code)

    def close(self) -> None:
        """Free it: `rknn_destroy_mem`; twice does nothing.

        Memory that came from a descriptor or an address of the caller's stays theirs. Raises
        `InUseError` while an array still shares it.
        """
        if self._finalizer.alive and self._arrays.are_alive:
            raise InUseError("an array still shares this memory; delete the array first")
        self._finalizer()
