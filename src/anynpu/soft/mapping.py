"""Map a descriptor's memory into the process, for as long as an array needs it.

Python's own mmap keeps a second descriptor for each mapping, and the number of descriptors that a
program may have is limited.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value
_FIXED = 0x10
"""MAP_FIXED, which Python's mmap hasn't: at that address, in place of what is there."""


class _Mapping:
    """The owner of a mapping: arrays made of it keep it, and it goes with the last of them."""

    def __init__(self, fd: int, size: int, tail: int = 0) -> None:
        self._size = 0
        self._address = None
        self._unmap = _libc.munmap
        if tail:
            # Room for both, of which the descriptor then gets the first part.
            self._map(size + tail, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
            self._size = size + tail
            self._map(size, mmap.MAP_SHARED | _FIXED, fd)
        else:
            self._map(size, mmap.MAP_SHARED, fd)
            self._size = size

    def _map(self, size: int, flags: int, fd: int) -> None:
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(self._address, size, protection, flags, fd, 0)
        if address == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self._address = address

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "typestr": "|u1",
            "shape": (self._size,),
            "data": (self._address, False),
        }

    def __del__(self) -> None:
        if self._size:
            self._unmap(self._address, self._size)


def map_descriptor(fd: int, size: int, tail: int = 0) -> NDArray[np.uint8]:
    """The first `size` bytes of a descriptor, shared and writable, and `tail` zeros after them.

    With a tail `size` is whole pages; the last one of the file may be begun only. Raises OSError
    where they can't be mapped, ValueError where the file has fewer: reading beyond its end would
    end the process.
    """
    # A DMA buffer tells its size only to those who seek its end.
    length = os.fstat(fd).st_size or os.lseek(fd, 0, os.SEEK_END)
    reachable = -(-length // mmap.PAGESIZE) * mmap.PAGESIZE if tail else length
    if size > reachable:
        raise ValueError(f"the descriptor has {length} bytes, not {size}")
    return np.asarray(_Mapping(fd, size, tail))
