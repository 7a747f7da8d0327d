"""C memory as Python sees it."""

from __future__ import annotations

import ctypes

_READ, _WRITE = 0x100, 0x200
_from_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_from_memory.restype = ctypes.py_object
_from_memory.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


def readable(address: int, size: int) -> memoryview:
    """`size` bytes at `address`, shared, read only. The caller vouches for both."""
    view: memoryview = _from_memory(address, size, _READ)
    return view


def writable(address: int, size: int) -> memoryview:
    """`size` bytes at `address`, shared, writable. The caller vouches for both."""
    view: memoryview = _from_memory(address, size, _WRITE)
    return view
