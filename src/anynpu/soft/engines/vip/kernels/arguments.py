"""What kernels are called with, put together once for all contexts of a program."""

from __future__ import annotations

import ctypes
import hashlib
import zlib
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .....native import steps
from .....native.memory import address_of, passing_bytes, private_bytes
from ..memory import Memory, MemoryMap, Space

_ALIGNMENT = 64
_CHUNK = 1 << 20
"""Bytes of constants that lie together; pages that nothing was put into take no memory."""
_LARGE = 256 << 10
"""Bytes from which on constants stay where they are."""
_SMALL = 1 << 10
"""Bytes up to which it is quicker to look at a content than to remember an array."""
_DIGEST = 16
_AT_ONCE = 64 << 10
"""Bytes that are unpacked at a time."""

_MEMORY, _OWN, *_QUEUES = (base << 60 for base in range(1, 5))
_HALF = 1 << 59
"""No address of a process is as large as half of a base, and nothing reaches as far from one."""


class Constants:
    """Arrays that kernels read, each content once, in few pieces of memory."""

    def __init__(self) -> None:
        self._chunk = np.empty(0, np.uint8)
        self._used = 0
        self._kept: list[NDArray[Any]] = []
        self._seen: dict[int, tuple[object, int]] = {}
        self._addresses: dict[bytes, int] = {}

    def address(self, values: NDArray[Any]) -> int:
        """Where the content of an array is that nobody writes to any more."""
        if values.nbytes <= _SMALL:
            return self._copied(values.tobytes())
        known = self._seen.get(id(values))
        if known is not None:
            return known[1]
        is_large = values.nbytes >= _LARGE
        address = self._kept_at(values) if is_large else self._copied(values.tobytes())
        self._seen[id(values)] = values, address
        return address

    def address_of_structures(self, *structures: ctypes.Structure) -> int:
        """Where copies of structures are, which have no address in a context's memory."""
        # An array of ctypes would be a type of its own for each length, and stay.
        return self._copied(b"".join(map(bytes, structures)))

    def finish(self) -> list[NDArray[Any]]:
        """What has to be kept; there can't be more."""
        self._seen, self._addresses = {}, {}
        return self._kept

    def _kept_at(self, values: NDArray[Any]) -> int:
        self._kept.append(np.ascontiguousarray(values))
        return address_of(self._kept[-1])

    def _copied(self, content: bytes) -> int:
        size = len(content)
        key = hashlib.blake2b(content, digest_size=_DIGEST).digest()
        if key not in self._addresses:
            if self._used + size > self._chunk.size:
                self._chunk = private_bytes(max(_CHUNK, size))
                self._used = 0
                self._kept.append(self._chunk)
            self._chunk[self._used : self._used + size] = np.frombuffer(content, np.uint8)
            self._addresses[key] = address_of(self._chunk) + self._used
            self._used += -(-size // _ALIGNMENT) * _ALIGNMENT
        return self._addresses[key]


class Arguments:
    """Structures and steps on their way to C. An address in a context's memory isn't known yet:
    it is told as the distance from a base, and `Packed.bound` puts the address in its place.
    """

    def __init__(self, layout: MemoryMap) -> None:
        self._layout = layout
        self._constants = Constants()
        self._known: dict[object, int] = {}
        self._content = bytearray()
        self._pointers = array("q")
        self._steps = array("q")
        self._queue_sizes = [0] * len(_QUEUES)

    def pointer(self, space: Space) -> int:
        """A space's first byte, in the memory of a context."""
        start, _ = self._layout.place(space)
        return _MEMORY + start

    def queue_values(self, queue: int, size: int) -> int:
        """What kernels have in the place of a queue, 0 or 1, so many values."""
        self._queue_sizes[queue] = max(self._queue_sizes[queue], size)
        return _QUEUES[queue]

    def constant(self, values: NDArray[Any]) -> int:
        """An array's content, which all contexts read."""
        return self._constants.address(values)

    def constant_structures(self, *structures: ctypes.Structure) -> int:
        """Structures of which all contexts read the same, one behind the other."""
        return self._constants.address_of_structures(*structures)

    def once(self, key: object, make: Callable[[], int]) -> int:
        """What `make` gave for the same key the first time."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def put(self, structure: ctypes.Structure | ctypes.Array[Any]) -> int:
        """A structure of each context's own; copied."""
        start = len(self._content)
        self._content += bytes(structure)
        self._pointers.frombytes((pointers_of(type(structure)) + start).tobytes())
        return _OWN + start

    def step(self, entry: steps.Entry) -> None:
        """The next step."""
        self._steps.frombytes(bytes(entry))

    def packed(self) -> Packed:
        """All of it; nothing can be added any more."""
        content = np.array(self._content, np.uint8)
        words = content.view(np.int64)
        places = np.array(self._pointers, np.int64) // words.itemsize
        entries = np.array(self._steps, np.int64).reshape(-1, len(steps.Entry._fields_))
        first, second = self._queue_sizes
        found = {}
        for base, start in ((_MEMORY, 0), (_OWN, 0), (_QUEUES[0], 0), (_QUEUES[1], 4 * first)):
            of = places[np.abs(words[places] - base) < _HALF]
            words[of] += start - base
            found[base] = of.astype(np.int32)
        entries[:, _ARGUMENTS] -= _OWN
        return Packed(
            zlib.compress(content.data, 1),
            content.size,
            in_memory=found[_MEMORY],
            in_queues=np.concatenate([found[base] for base in _QUEUES]),
            in_arguments=found[_OWN],
            entries=entries,
            queue_values=first + second,
            constants=tuple(self._constants.finish()),
        )


_ARGUMENTS = [field[0] for field in steps.Entry._fields_].index("arguments")


class Packed(NamedTuple):
    """Structures without their addresses, and steps; immutable, shared by contexts.

    `compressed` are the structures of `size` bytes, in a fraction of that. `in_memory`, `in_queues`
    and `in_arguments` are the words of them that addresses are to be added to. `constants` keep
    what kernels read.
    """

    compressed: bytes
    size: int
    in_memory: NDArray[np.int32]
    in_queues: NDArray[np.int32]
    in_arguments: NDArray[np.int32]
    entries: NDArray[np.int64]
    queue_values: int
    constants: tuple[NDArray[Any], ...]

    def bound(self, memory: Memory) -> Bound:
        """The same for a memory: copies."""
        arguments, entries = self._arguments(), self.entries.copy()
        words, queues = arguments.view(np.int64), memory.queue_values(self.queue_values)
        words[self.in_memory] += address_of(memory.array)
        words[self.in_queues] += address_of(queues)
        words[self.in_arguments] += address_of(arguments)
        entries[:, _ARGUMENTS] += address_of(arguments)
        return Bound(entries, (arguments, queues, memory.array, self.constants))

    def _arguments(self) -> NDArray[np.uint8]:
        """The structures: a new array, of whose making nothing large stays in the heap."""
        arguments = passing_bytes(self.size)
        unpacking, start, packed = zlib.decompressobj(), 0, self.compressed
        while start < self.size:
            part = np.frombuffer(unpacking.decompress(packed, _AT_ONCE), np.uint8)
            arguments[start : start + part.size] = part
            start, packed = start + part.size, unpacking.unconsumed_tail
        return arguments


class Bound(NamedTuple):
    """Steps of one context, and what they need to stay alive."""

    entries: NDArray[np.int64]
    alive: object

    def steps(self, first: int, last: int) -> ctypes.Array[steps.Entry]:
        """Some of them, in place."""
        return (steps.Entry * (last - first)).from_buffer(self.entries[first:last].data)


@cache
def pointers_of(kind: type[ctypes.Structure | ctypes.Array[Any]]) -> NDArray[np.int64]:
    """Where a structure, or an array of structures, has addresses, in bytes."""
    return np.array(_pointers(kind, 0), np.int64)


def _pointers(kind: Any, start: int) -> list[int]:
    if kind is ctypes.c_void_p:
        return [start]
    if issubclass(kind, ctypes.Array):
        size = ctypes.sizeof(kind._type_)
        return [
            place
            for number in range(kind._length_)
            for place in _pointers(kind._type_, start + number * size)
        ]
    if not issubclass(kind, ctypes.Structure):
        return []
    return [
        place
        for name, type_of, *_ in kind._fields_
        for place in _pointers(type_of, start + getattr(kind, name).offset)
    ]
