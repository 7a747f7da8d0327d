"""Fill the shim's table from inside the interpreter that it started or joined."""

from __future__ import annotations

import atexit
import ctypes
import time

from ...structures import Structure
from ..libraries import find

_DRAIN_SECONDS = 10.0
_POLL_SECONDS = 0.005


class _Entry(Structure):
    _fields_ = [("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


class _Table(Structure):
    """What native/shim.c declares; `count` entries follow."""

    _fields_ = [
        ("closing", ctypes.c_int32),
        ("in_flight", ctypes.c_int32),
        ("count", ctypes.c_uint64),
    ]


def fill(address: int, library: str) -> None:
    """Write the addresses of a library's functions into the table at `address`."""
    table = _Table.from_address(address)
    entries = (_Entry * table.count).from_address(address + ctypes.sizeof(_Table))
    addresses = find(library).package.function_table(library)
    for entry in entries:
        entry.address = addresses[entry.name.decode()]
    atexit.register(_close, table)


def _close(table: _Table) -> None:
    """Let no call in any more, and wait for those inside: Python can't be entered while it ends."""
    table.closing = 1
    deadline = time.monotonic() + _DRAIN_SECONDS
    while table.in_flight > 0 and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
