"""Copies between a job's arrays and memory that stays, as a step of a program."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Sequence
from typing import Any

from . import kernels
from .pump import Slot, Step


class Direction(enum.Enum):
    """Which side is read."""

    FROM_JOB = "anynpu_copy_in"
    TO_JOB = "anynpu_copy_out"


class _Place(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("size", ctypes.c_uint64)]


class Transfers:
    """Copies to or from some places; who uses the step keeps this.

    `places` are addresses and sizes in bytes. The job's slot `slot` holds the address of an array
    with one address for each.
    """

    def __init__(self, places: Sequence[tuple[int, int]], direction: Direction, slot: int) -> None:
        self._places = (_Place * len(places))(*(_Place(*place) for place in places))
        self._callback: Any = None
        if kernels.is_built():
            function = getattr(kernels.functions(), direction.value)
        else:
            function = self._callback = _CALLBACK(_COPIES[direction])
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address, "a function has an address"
        arguments = (ctypes.addressof(self._places), len(places), Slot(slot))
        self.step = Step(_NAMES[direction], address, arguments)


def _copy_in(places: int, count: int, arrays: int) -> int:
    for place, array in _pairs(places, count, arrays):
        ctypes.memmove(place.address, array, place.size)
    return 0


def _copy_out(places: int, count: int, arrays: int) -> int:
    for place, array in _pairs(places, count, arrays):
        ctypes.memmove(array, place.address, place.size)
    return 0


def _pairs(places: int, count: int, arrays: int) -> zip[tuple[_Place, int]]:
    return zip(
        (_Place * count).from_address(places),
        (ctypes.c_uint64 * count).from_address(arrays),
        strict=True,
    )


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)
_NAMES = {Direction.FROM_JOB: "copy inputs", Direction.TO_JOB: "copy outputs"}
_COPIES = {Direction.FROM_JOB: _copy_in, Direction.TO_JOB: _copy_out}
