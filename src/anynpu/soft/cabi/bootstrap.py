"""Fill the shim's table from inside the interpreter that it started or joined."""

from __future__ import annotations

import ctypes
import os

from ... import soc as socs
from ...structures import Structure
from ..libraries import find


class _Entry(Structure):
    _fields_ = [("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


class _Table(Structure):
    """What native/shim.c declares; `count` entries follow."""

    _fields_ = [("count", ctypes.c_uint64)]


def fill(address: int, library: str, chip: str | None) -> None:
    """Write the addresses of a library's functions into the table at `address`.

    They are those of a chip, unless the environment names another one.
    """
    table = _Table.from_address(address)
    entries = (_Entry * table.count).from_address(address + ctypes.sizeof(_Table))
    fixed = chip if chip and not os.environ.get(socs.ENVIRONMENT_VARIABLE) else None
    soc = socs.find_any(fixed) if fixed else None
    addresses = find(library).package.function_table(library, soc)
    for entry in entries:
        entry.address = addresses[entry.name.decode()]
