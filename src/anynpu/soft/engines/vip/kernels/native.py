"""native/vip.c as functions."""

from __future__ import annotations

import ctypes
from functools import cache

from .....native import steps
from .....native.forms import load_kernels

_ADDRESS_BYTES = 8
"""`arguments.py` puts together what kernels are called with in words of this size."""


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, None where there is no build of what is needed, or addresses are short."""
    if ctypes.sizeof(ctypes.c_void_p) != _ADDRESS_BYTES:
        return None
    loaded = load_kernels("vip")
    if loaded is None or not steps.is_available():
        return None
    return loaded


def address(name: str) -> int:
    """Where a kernel is."""
    loaded = library()
    assert loaded is not None, "the kernels are there"
    found = ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value
    assert found is not None, "a function has an address"
    return found


def call(name: str, *arguments: int) -> None:
    """Call a function of addresses and int64."""
    loaded = library()
    assert loaded is not None, "the kernels are there"
    getattr(loaded, name)(*map(ctypes.c_int64, arguments))
