"""Where an array is in memory, for C, and arrays over memory that C named."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LINE = 64
_LARGE = 256 << 10
"""Bytes that are worth a call of the operating system."""

_byte_at: Any = ctypes.c_char.from_buffer
_address = ctypes.addressof


def address_of(array: NDArray[Any]) -> int:
    """The address of an array's first element. The caller keeps the array."""
    try:
        # A third of the time of the array's own ways to tell, where it may be written to.
        return _address(_byte_at(array))
    except (TypeError, ValueError, BufferError):
        address: int = array.__array_interface__["data"][0]
        return address


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """An array of bytes, not initialised, that begins with a line of the cache.

    Vectors as long as a line take twice as long where they cross from one into the next.
    """
    room = np.empty(size + _LINE - 1, np.uint8)
    start = -address_of(room) % _LINE
    return room[start : start + size]


def passing_bytes(size: int) -> NDArray[np.uint8]:
    """An array of zeros that is soon done with: a large one's memory goes back at once.

    What an allocator gets back it keeps, between what lives on.
    """
    return np.zeros(size, np.uint8) if size < _LARGE else private_bytes(size)


def private_bytes(size: int) -> NDArray[np.uint8]:
    """An array of zeros in pages of its own, which take no memory before they are written to."""
    # A forked process is to have its own copy: by itself Python shares what has no file.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.frombuffer(mmap.mmap(-1, size, flags), np.uint8)


def array_at(address: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """A flat array over memory that the caller vouches for."""
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    array: NDArray[Any] = np.frombuffer(memoryview(memory), dtype)
    return array
