"""Tensors in POSIX shared memory, as Triton's extension has them.

A client makes a segment, registers it under a name, and names it in requests instead of sending
elements. The segment is read and written by calls, not mapped: a client that makes it shorter
meanwhile gets an error, where a mapping would end the server with SIGBUS. An input is copied once,
from the segment to where the device takes it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import TensorError
from . import tensors
from .answers import Answer, Refusal

_FOLDER = Path("/dev/shm")
_MOST_REGIONS = 256
_MOST_NAME = 255


@dataclass(frozen=True)
class Place:
    """Where a tensor lies: bytes of a region."""

    region: str
    size: int
    offset: int


@dataclass(frozen=True)
class Region:
    """A part of a segment; `fd` is the server's own descriptor of it."""

    name: str
    key: str
    offset: int
    byte_size: int
    fd: int


class Regions:
    """The regions that clients have registered. One thread, the event loop's, uses them."""

    def __init__(self, *, is_allowed: bool) -> None:
        self.is_allowed = is_allowed
        self._regions: dict[str, Region] = {}

    def register(self, name: str, key: str, offset: int, size: int) -> None:
        """Take up a part of the segment `key`; `Refusal` where that can't be."""
        self._check_allowed()
        if not name or len(name) > _MOST_NAME:
            raise Refusal(Answer.WRONG, "a region takes a name of 1 to 255 characters")
        if name in self._regions:
            raise Refusal(Answer.WRONG, f"region {name!r} is registered already: unregister it")
        if len(self._regions) >= _MOST_REGIONS:
            raise Refusal(Answer.WRONG, f"{_MOST_REGIONS} regions are registered: unregister some")
        fd = _open(key)
        there = os.fstat(fd)
        if not stat.S_ISREG(there.st_mode) or size < 1 or offset + size > there.st_size:
            os.close(fd)
            raise Refusal(
                Answer.WRONG,
                f"region {name!r} takes {size} bytes from {offset} of segment {key!r}, which has "
                f"{there.st_size}",
            )
        self._regions[name] = Region(name, key, offset, size, fd)

    def unregister(self, name: str = "") -> None:
        """Forget a region, or all without a name."""
        self._check_allowed()
        for region in self.status(name):
            os.close(self._regions.pop(region.name).fd)

    def status(self, name: str = "") -> list[Region]:
        """A region, or all without a name; `Refusal` for an unknown one."""
        self._check_allowed()
        return [self._find(name)] if name else list(self._regions.values())

    def close(self) -> None:
        """Forget all."""
        while self._regions:
            os.close(self._regions.popitem()[1].fd)

    def read(self, name: str, datatype: str, shape: Any, place: Place) -> NDArray[Any]:
        """A tensor's elements, copied."""
        region = self._part(name, place)
        expected = tensors.size_in_bytes(
            tensors.stored_dtype_of(datatype, name), tensors.shape_of(shape, name)
        )
        if place.size != expected:
            raise TensorError(
                f"tensor {name!r} is {datatype} of the shape {list(shape)}, which takes {expected} "
                f"bytes; found a shared_memory_byte_size of {place.size}"
            )
        data = np.empty(place.size, np.uint8)
        view, done = data.data, 0
        while done < place.size:
            count = os.preadv(region.fd, [view[done:]], region.offset + place.offset + done)
            if not count:
                raise TensorError(f"the segment of region {region.name!r} has become shorter")
            done += count
        return tensors.from_bytes(name, datatype, shape, data)

    def write(self, name: str, array: NDArray[Any], place: Place) -> None:
        """Put a tensor's elements into its place; `TensorError` where it is too small."""
        region = self._part(name, place)
        if array.nbytes > place.size:
            raise TensorError(
                f"output {name!r} takes {array.nbytes} bytes; its shared_memory_byte_size is "
                f"{place.size}"
            )
        start = region.offset + place.offset
        if os.fstat(region.fd).st_size < start + array.nbytes:
            raise TensorError(f"the segment of region {region.name!r} has become shorter")
        view, done = np.ascontiguousarray(array).data.cast("B"), 0
        while done < array.nbytes:
            done += os.pwrite(region.fd, view[done:], start + done)

    def _part(self, name: str, place: Place) -> Region:
        region = self._find(place.region)
        if place.offset < 0 or place.size < 0 or place.offset + place.size > region.byte_size:
            raise TensorError(
                f"tensor {name!r} takes {place.size} bytes from {place.offset} of region "
                f"{region.name!r}, which has {region.byte_size}"
            )
        return region

    def _find(self, name: str) -> Region:
        self._check_allowed()
        if name not in self._regions:
            raise Refusal(
                Answer.NOT_FOUND, f"there is no shared memory region {name!r}: register it first"
            )
        return self._regions[name]

    def _check_allowed(self) -> None:
        if not self.is_allowed:
            raise Refusal(
                Answer.FORBIDDEN,
                "shared memory is for programs of the server's machine: it is off where the server "
                "is reached from others, or was told so",
            )


def place_of(parameters: Mapping[str, Any], name: str) -> Place | None:
    """Where a tensor's parameters say that it lies; None where not in shared memory."""
    region = parameters.get("shared_memory_region")
    if region is None:
        return None
    size, offset = (
        parameters.get(f"shared_memory_{key}", default)
        for key, default in (("byte_size", None), ("offset", 0))
    )
    if not isinstance(region, str) or not tensors.is_count(size) or not tensors.is_count(offset):
        raise TensorError(
            f"tensor {name!r} takes a shared_memory_region, a name, with its "
            f"shared_memory_byte_size and offset, whole numbers"
        )
    return Place(region, size, offset)


def _open(key: str) -> int:
    """A descriptor of a segment. Its key is a name among the segments, never a path."""
    name = key.removeprefix("/")
    if not name or len(name) > _MOST_NAME or "/" in name or "\0" in name or name in (".", ".."):
        raise Refusal(Answer.WRONG, f"{key[:60]!r} is no key of a segment: it takes a name")
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(_FOLDER / name, flags)
    except OSError as error:
        raise Refusal(Answer.WRONG, f"segment {key!r} can't be opened: {error.strerror}") from None
    except ValueError:  # a surrogate, which no file's name has
        raise Refusal(Answer.WRONG, f"{key[:60]!r} is no key of a segment") from None
