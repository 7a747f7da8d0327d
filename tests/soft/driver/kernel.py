"""The NPU's kernel interface as a program sees it: requests by their numbers, structures by hand.

The driver's library is loaded into the process; nothing here knows of it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
)
_libc.ioctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)

_READ_WRITE = 3
DRM, MISC, HEAP = ord("d"), ord("r"), ord("H")
ACTION, SUBMIT, CREATE, MAP, DESTROY, SYNC = range(6)
VERSION, UNIQUE, CLOSE, FLINK, OPEN_NAME, TO_FD, FROM_FD = 0x00, 0x01, 0x09, 0x0A, 0x0B, 0x2D, 0x2E
_COMMANDS = 0x40


class RequestError(OSError):
    """A request that failed; `errno` says why."""


def request(
    descriptor: int, kind: int, number: int, data: bytes, *, at: int | None = None
) -> bytes:
    """Make a request with a structure's bytes, or at an address; what they are afterwards."""
    space = ctypes.create_string_buffer(data, max(len(data), 1))
    code = _READ_WRITE << 30 | len(data) << 16 | kind << 8 | number
    address = ctypes.addressof(space) if at is None else at
    if _libc.ioctl(descriptor, code, address) != 0:
        error = ctypes.get_errno()
        raise RequestError(error, os.strerror(error))
    return space.raw[: len(data)]


@dataclass
class Memory:
    """A memory object, mapped."""

    handle: int
    size: int
    name: int
    address: int
    data: NDArray[np.uint8]


class Device:
    """The NPU's device, opened."""

    def __init__(self, path: str = "/dev/dri/card1", kind: int = DRM) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._kind = kind
        self._first = _COMMANDS if kind == DRM else 0

    def npu(self, number: int, layout: str, *values: int) -> tuple[int, ...]:
        """A request of the NPU's own, with the structure of that layout."""
        data = struct.pack(layout, *values)
        answer = request(self.descriptor, self._kind, self._first + number, data)
        return struct.unpack(layout, answer)

    def drm(self, number: int, layout: str, *values: int) -> tuple[int, ...]:
        """A request of DRM's."""
        answer = request(self.descriptor, DRM, number, struct.pack(layout, *values))
        return struct.unpack(layout, answer)

    def action(self, number: int, value: int = 0) -> int:
        return self.npu(ACTION, "<II", number, value)[1]

    def create(self, size: int, flags: int = 0, handle: int = 0) -> Memory:
        """A memory object, mapped."""
        answer = self.npu(CREATE, "<IIQQQQiI", handle, flags, size, 0, 0, 0, 0, 0)
        handle, _, whole, name, address, *_ = answer
        offset = self.npu(MAP, "<IIQ", handle, 0, 0)[2]
        return Memory(handle, whole, name, address, self.map(offset, whole))

    def map(self, offset: int, size: int) -> NDArray[np.uint8]:
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        where = _libc.mmap(None, size, protection, mmap.MAP_SHARED, self.descriptor, offset)
        if where == ctypes.c_void_p(-1).value:
            error = ctypes.get_errno()
            raise RequestError(error, os.strerror(error))
        space: Any = (ctypes.c_uint8 * size).from_address(where)
        return np.frombuffer(space, np.uint8)

    def destroy(self, memory: Memory) -> None:
        self.npu(DESTROY, "<IIQ", memory.handle, 0, memory.name)

    def submit(
        self,
        tasks: Memory,
        lists: Sequence[tuple[int, int]],
        *,
        cores: int = 0,
        job_range: tuple[int, int] = (0, 0),
        flags: int = 5,
    ) -> tuple[int, ...]:
        """Submit the sub lists (start, number), which are filled up to five."""
        five = [*lists, *[(0, 0)] * (5 - len(lists))]
        values = [flags, 6000, *job_range, 0, 0, tasks.name, 0, 0, 0, 0, cores, -1]
        flat = [number for pair in five for number in pair]
        return self.npu(SUBMIT, "<IIIIIiQIIQqIi10I", *values, *flat)
