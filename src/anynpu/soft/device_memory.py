"""Memory that the program and the device both see: a memfd, mapped, as a DMA buffer would be.

In strict mode a cacheable buffer has two copies, the processor's and the device's, which only
flushing and invalidating bring together; otherwise both sides see the same bytes.
"""

from __future__ import annotations

import fcntl
import itertools
import mmap
import os
import threading
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import process
from .cabi.memory_views import writable
from .mapping import map_descriptor, map_new

STRICT_VARIABLE = "ANYNPU_SOFT_STRICT"
POISON = 0xA5
"""What a strict buffer shows the processor before it invalidates its cache."""

_PAGE = mmap.PAGESIZE
# <linux/fcntl.h>; Python's own module has their names from 3.12 on, some builds never.
_ADD_SEALS, _SEAL_SEAL, _SEAL_SHRINK = 1033, 0x0001, 0x0002
# No such addresses exist; they only have to be distinct and to look like a 32-bit device's.
_physical_addresses = itertools.count(0x1000_0000, 0x1_0000_0000)

Bytes = NDArray[np.uint8]
_alive: weakref.WeakSet[DeviceMemory] = weakref.WeakSet()
_alive_lock = process.lock()


def strict() -> bool:
    """Whether ``$ANYNPU_SOFT_STRICT`` asks for the vendor's sharp edges."""
    return os.environ.get(STRICT_VARIABLE, "") not in ("", "0")


class DeviceMemory:
    """A buffer: `host` is what the program sees, `device` what the device sees.

    `address` is where the program finds byte 0, `fd` the descriptor to share it by (-1 for none),
    `offset` where in the descriptor it begins. The arrays keep the mapping alive: it goes with the
    last of them, `close` only gives the descriptor back.
    """

    def __init__(
        self, host: Bytes, *, fd: int, owns_fd: bool, physical: int, cacheable: bool
    ) -> None:
        self.host = host
        self.size = host.size
        self.address = host.ctypes.data
        self.fd = fd
        self.physical = physical
        self.closed = False
        self._owns_fd = owns_fd
        self._kept: Bytes | None = None
        self._lock = threading.RLock()
        self.device: Bytes = host.copy() if strict() and cacheable else host

    @classmethod
    def allocate(cls, size: int, *, cacheable: bool = True) -> DeviceMemory:
        """A new buffer of zeros; raises OSError or ValueError where that can't be had."""
        fd = os.memfd_create("anynpu", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, -(-size // _PAGE) * _PAGE)
            # Whoever gets the descriptor can't take away what is mapped here.
            fcntl.fcntl(fd, _ADD_SEALS, _SEAL_SHRINK | _SEAL_SEAL)
            host = map_new(fd, size)
        except BaseException:
            os.close(fd)
            raise
        return cls(
            host, fd=fd, owns_fd=True, physical=next(_physical_addresses), cacheable=cacheable
        )._known()

    @classmethod
    def from_descriptor(cls, fd: int, size: int, offset: int) -> DeviceMemory:
        """A part of someone's descriptor, which stays theirs; raises OSError or ValueError."""
        whole = map_descriptor(fd, offset + size)
        return cls(
            whole[offset:],
            fd=fd,
            owns_fd=False,
            physical=next(_physical_addresses),
            cacheable=True,
        )._known()

    @classmethod
    def from_address(
        cls, address: int, size: int, physical: int, keeps: DeviceMemory | None = None
    ) -> DeviceMemory:
        """Someone's mapped memory, which they vouch for; `keeps` is the buffer it lies in."""
        host = np.frombuffer(writable(address, size), np.uint8)
        memory = cls(host, fd=-1, owns_fd=False, physical=physical, cacheable=True)
        memory._kept = keeps.host if keeps else None
        return memory

    def _known(self) -> DeviceMemory:
        """Let the buffer be found by its physical address."""
        with _alive_lock:
            _alive.add(self)
        return self

    def contains(self, physical: int, size: int) -> bool:
        """Whether a range of physical addresses lies inside this buffer."""
        return self.physical <= physical and physical + size <= self.physical + self.size

    @property
    def is_coherent(self) -> bool:
        """Whether both sides see the same bytes."""
        return self.device is self.host

    def flush(self) -> None:
        """What the program wrote reaches the device."""
        if not self.is_coherent:
            np.copyto(self.device, self.host)

    def invalidate(self) -> None:
        """What the device wrote reaches the program."""
        if not self.is_coherent:
            np.copyto(self.host, self.device)

    def poison(self) -> None:
        """The program's copy is out of date: make that visible."""
        if not self.is_coherent:
            self.host.fill(POISON)

    def scribble(self) -> None:
        """Use the buffer as scratch memory is used: nobody may count on what was there."""
        self.host.fill(POISON)

    def close(self) -> None:
        """Give the descriptor back; twice does nothing."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            if self._owns_fd:
                os.close(self.fd)
        empty: NDArray[Any] = np.empty(0, np.uint8)
        self.host = self.device = empty
        self._kept = None


def by_physical_address(physical: int, size: int) -> DeviceMemory | None:
    """The buffer that a range of physical addresses lies in, None where there is none."""
    with _alive_lock:
        buffers = list(_alive)
    return next((b for b in buffers if not b.closed and b.contains(physical, size)), None)
