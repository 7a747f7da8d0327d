"""Map what a descriptor holds into the process, for as long as an array needs it.

Python's own mmap keeps a second descriptor for each mapping, and the number of descriptors that a
program may have is limited.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
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
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_void_p,
)
_FAILED = ctypes.c_void_p(-1).value
_FIXED = 0x10
"""MAP_FIXED, which Python's mmap hasn't: at that address, in place of what is there."""
_TO_A_PLACE = 3
"""MREMAP_MAYMOVE and MREMAP_FIXED."""

_COLLAPSE = 25
"""MADV_COLLAPSE of Linux 6.1, which Python's mmap hasn't."""
_LARGE_PAGE = 2 << 20
"""Bytes of x86-64's, and of aarch64's where pages have 4 KiB."""
_MOST_IN_LARGE_PAGES = 256 << 20
"""Large pages take memory at once, others when they are written to."""

Extent = tuple[int, int]
"""The first byte and the one after the last."""


class _Mapping:
    """The owner of a mapping: arrays made of it keep it, and it goes with the last of them."""

    def __init__(
        self,
        fd: int,
        size: int,
        tail: int = 0,
        *,
        is_writable: bool = True,
        offset: int = 0,
        alignment: int = 0,
    ) -> None:
        self._size = 0
        self._offset = offset
        self._address: int | None = None
        self._unmap = _libc.munmap
        self._protection = mmap.PROT_READ | (mmap.PROT_WRITE if is_writable else 0)
        if tail:
            # Room for both, of which the descriptor then gets the first part.
            self._map(size + tail, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
            self._size = size + tail
            self._map(size, mmap.MAP_SHARED | _FIXED, fd)
        elif alignment:
            self._reserve(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE, alignment)
            self._size = size
            self._map(size, mmap.MAP_SHARED | _FIXED, fd)
        elif fd < 0:
            self._map(size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, fd)
            self._size = size
        else:
            self._map(size, mmap.MAP_SHARED if is_writable else mmap.MAP_PRIVATE, fd)
            self._size = size

    def _map(self, size: int, flags: int, fd: int) -> None:
        address = _libc.mmap(self._address, size, self._protection, flags, fd, self._offset)
        if address == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self._address = address

    def _reserve(self, size: int, alignment: int) -> None:
        """Find a place for whole pages at a multiple of the alignment."""
        self._map(size + alignment, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        found: int = self._address or 0
        self._address = place = -(-found // alignment) * alignment
        for begin, end in ((found, place), (place + size, found + size + alignment)):
            if begin < end:
                self._unmap(begin, end - begin)

    def move(self, address: int) -> None:
        """Take the place of as much of another mapping, whose owner unmaps it."""
        moved = _libc.mremap(self._address, self._size, self._size, _TO_A_PLACE, address)
        if moved == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self._size = 0

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


def map_new(fd: int, size: int) -> NDArray[np.uint8]:
    """The first `size` bytes of a descriptor that nobody has written to, shared and writable.

    Where there are some megabytes they lie in large pages, if Linux has such (from 6.1 on, whatever
    /sys/kernel/mm/transparent_hugepage says): a product that reads a matrix once after a pause
    takes half as long there, and filling them a tenth. Raises OSError where they can't be mapped.
    """
    whole = size // _LARGE_PAGE * _LARGE_PAGE
    if not _LARGE_PAGE <= size <= _MOST_IN_LARGE_PAGES:
        return map_descriptor(fd, size)
    memory = np.asarray(_Mapping(fd, size, alignment=_LARGE_PAGE))
    # Linux makes a large page of one in which there is something.
    memory[:whole:_LARGE_PAGE] = 0
    _libc.madvise(memory.ctypes.data, whole, _COLLAPSE)
    return memory


def private_pages(fd: int, start: int, end: int) -> NDArray[np.uint8]:
    """The first `end` bytes of a file as they are now, in memory of the process's own.

    Those before `start` aren't read. Raises OSError where the file can't be read, ValueError where
    it has fewer.
    """
    return np.asarray(_private(fd, start, (0, end)))


def _private(fd: int, start: int, extent: Extent) -> _Mapping:
    """What a file has in `extent`, but for what lies before `start`."""
    low, end = extent
    mapping = _Mapping(-1, end - low)
    memory = memoryview(np.asarray(mapping).data)
    start = max(start, low)
    while start < end:
        count = os.preadv(fd, [memory[start - low :]], start)
        if not count:
            raise ValueError(f"the file has {start} bytes, not {end}")
        start += count
    return mapping


def gaps_between(kept: Iterable[Extent], size: int) -> list[Extent]:
    """The whole pages of `size` bytes that hold none of `kept`; the last page may be begun only."""
    page = mmap.PAGESIZE
    gaps, low = [], 0
    for first, end in sorted([*kept, (size, size)]):
        high = first if first == size else first // page * page
        if high > low:
            gaps.append((low, high))
        low = max(low, -(-end // page) * page)
    return gaps


def show_file(pages: NDArray[np.uint8], fd: int, extents: Iterable[Extent]) -> None:
    """Put a file's own pages where `private_pages` has its bytes, at the same addresses.

    `extents` are whole pages, up to the last one. They take no memory until they are looked at,
    and all processes that map the file share them. Reading what the file has lost since ends the
    process. Raises OSError where files can't be mapped.
    """
    _exchange(
        pages,
        {
            (low, end): _Mapping(fd, end - low, is_writable=False, offset=low)
            for low, end in extents
        },
    )


def show_private(pages: NDArray[np.uint8], fd: int, start: int, extents: Iterable[Extent]) -> None:
    """The reverse: what the file has now, in memory of the process's own.

    Raises as `private_pages` does; nothing has changed then.
    """
    _exchange(pages, {extent: _private(fd, start, extent) for extent in extents})


def _exchange(pages: NDArray[np.uint8], mappings: dict[Extent, _Mapping]) -> None:
    """Move mappings to where pages are; each comes in one step for all threads."""
    address = pages.__array_interface__["data"][0]
    for (low, _), mapping in mappings.items():
        mapping.move(address + low)


def give_back_heap() -> None:
    """Give what the C library keeps of freed memory back to the system, where it can."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)
