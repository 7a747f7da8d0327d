"""Map what a descriptor holds into the process, for as long as an array needs it.

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
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_FAILED = ctypes.c_void_p(-1).value
_FIXED = 0x10
"""MAP_FIXED, which Python's mmap hasn't: at that address, in place of what is there."""


class _Mapping:
    """The owner of a mapping: arrays made of it keep it, and it goes with the last of them."""

    def __init__(self, fd: int, size: int, tail: int = 0, *, is_writable: bool = True) -> None:
        self._size = 0
        self._address = None
        self._unmap = _libc.munmap
        self._protection = mmap.PROT_READ | (mmap.PROT_WRITE if is_writable else 0)
        if tail:
            # Room for both, of which the descriptor then gets the first part.
            self._map(size + tail, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
            self._size = size + tail
            self._map(size, mmap.MAP_SHARED | _FIXED, fd)
        else:
            self._map(size, mmap.MAP_SHARED if is_writable else mmap.MAP_PRIVATE, fd)
            self._size = size

    def _map(self, size: int, flags: int, fd: int) -> None:
        address = _libc.mmap(self._address, size, self._protection, flags, fd, 0)
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
            "data": (self._address, not self._protection & mmap.PROT_WRITE),
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


def map_file(fd: int, size: int) -> NDArray[np.uint8]:
    """The first `size` bytes of a file, which has as many, to be read only.

    They are read from the file when they are looked at, and all processes that map it share them.
    Raises OSError where they can't be mapped.
    """
    return np.asarray(_Mapping(fd, size, is_writable=False))


def give_back(mapped: NDArray[np.uint8]) -> None:
    """Take no memory for what `map_file` gave until it is looked at again."""
    address = mapped.__array_interface__["data"][0]
    _libc.madvise(address, mapped.size, mmap.MADV_DONTNEED)


def give_back_heap() -> None:
    """Give what the C library keeps of freed memory back to the system, where it can."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)
