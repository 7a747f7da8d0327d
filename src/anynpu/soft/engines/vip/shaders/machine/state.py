"""What running a program works on: work items' registers, memory, and what was touched of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .....formats.nbg.model import Source as Origin
from ...memory import Space
from ...refusal import Unknown
from .instructions import Group, Instruction, Source
from .launch import Launch
from .products import Products
from .ranges import SLACK, Bytes, Contents, Range
from .types import DTYPES, Kind

Array = NDArray[Any]
Words = NDArray[np.uint32]
Items = NDArray[np.int64] | slice
"""Which work items: their numbers, or all."""

ALL_ITEMS = slice(None)

SCRATCH_BYTES = 1 << 14
"""What a group may use of the memory that it has for itself; programs use some hundred bytes."""
_F32 = np.dtype(np.float32)
_WORDS_OF = {kind: np.dtype(np.int32) for kind in (Kind.S32, Kind.S16, Kind.S8)} | {
    kind: np.dtype(np.uint32) for kind in (Kind.U32, Kind.U16, Kind.U8)
}


def word_dtype(kind: Kind) -> np.dtype[Any]:
    """A component of 32 bits, as an instruction of a type takes it."""
    return _WORDS_OF.get(kind, _F32)


@dataclass(frozen=True, eq=False)
class ImageOf:
    """An image as a program sees it."""

    range: Range
    start: int
    row: int
    width: int
    height: int
    dtype: np.dtype[np.generic]
    values: int
    """Of a pixel; where there is one, those side by side are read together."""
    components: int
    """Values of 32 bits that an instruction stores, whatever its mask says."""
    is_clamped: bool
    """Whether pixels outside are the edge's; otherwise reading them changes nothing."""


@dataclass(frozen=True, eq=False)
class Program:
    """A program, resolved for one operation: its instructions with what their operands name.

    `uniforms` are (number, component); `images` are by the uniform that describes them;
    `products` are by instruction. `scratch` is what each group has for itself, with what is
    there at first, or None for unknown bytes.
    """

    instructions: tuple[Instruction, ...]
    launch: Launch
    uniforms: Words
    images: Mapping[int, ImageOf]
    products: Mapping[int, Products]
    ranges: tuple[Range, ...]
    scratch: Mapping[Space, Bytes | None]


class Touched:
    """Bytes of a space that were touched: which, and between which ends."""

    def __init__(self, size: int) -> None:
        self.low, self.high = size, 0
        self._are = np.zeros(size, np.bool_)

    def add(self, places: NDArray[np.int64], size: int) -> None:
        """Values of `size` bytes each, at places."""
        self.low = min(self.low, int(places.min()))
        self.high = max(self.high, int(places.max()) + size)
        for byte in range(size):
            self._are[places + byte] = True

    def forget(self, low: int, high: int) -> None:
        """Bytes that don't count as touched."""
        self._are[low:high] = False

    def bytes(self) -> NDArray[np.bool_]:
        """Which bytes are, from `low` on."""
        return self._are[self.low : self.high]


@dataclass
class Watch:
    """What a run touches, by space."""

    stored: dict[Space, Touched] = field(default_factory=dict)
    loaded: dict[Space, Touched] = field(default_factory=dict)


class Part:
    """Work items of some groups: their registers, and the memory that they see."""

    def __init__(
        self,
        program: Program,
        contents: Contents,
        groups: int,
        registers: Words,
        unknown: int,
        watch: Watch | None,
    ) -> None:
        self.program = program
        self.registers = registers
        self.count = registers.shape[1]
        self.unknown = unknown
        self.watch = watch
        self._contents = contents
        self._items_of_group = self.count // groups
        self._scratch = {
            space: _copies(content, groups, unknown) for space, content in program.scratch.items()
        }

    def size(self, items: Items) -> int:
        return self.count if isinstance(items, slice) else items.size

    def numbers(self, items: Items) -> NDArray[np.int64]:
        return np.arange(self.count) if isinstance(items, slice) else items

    def raw(self, source: Source, items: Items) -> Words:
        """A source's 32-bit components, as (items, 4), or (1, 4) if all have the same."""
        if source.group is Group.IMMEDIATE:
            return np.full((1, 4), source.number, np.uint32)
        if source.group is Group.UNIFORM:
            taken: Words = self.program.uniforms[source.number, list(source.swizzle)][None]
            return taken
        content = self.registers[source.number][items]
        if source.swizzle != (0, 1, 2, 3):
            content = content[:, list(source.swizzle)]
        components: Words = np.ascontiguousarray(content)
        return components

    def words(self, source: Source, kind: Kind, items: Items) -> Array:
        """A source's components as 32-bit values of a type."""
        values = self.raw(source, items).view(word_dtype(kind))
        return _signed(source, values)

    def values(self, instruction: Instruction, source: Source, items: Items) -> Array:
        """A source as an instruction takes it: components, or packed lanes."""
        kind = instruction.kind
        if not instruction.is_packed or DTYPES[kind].itemsize == 4:
            return self.words(source, kind, items)
        return _signed(source, self.raw(source, items).view(DTYPES[kind]))

    def octets(self, source: Source, items: Items) -> Bytes:
        """A source's 16 bytes, one row an item or one for all."""
        return self.raw(source, items).view(np.uint8)

    def put(self, instruction: Instruction, values: Array, items: Items) -> None:
        """Write the components that an instruction's mask names, of values of 32 bits or lanes."""
        size = self.size(items)
        bits = np.ascontiguousarray(values).view(np.uint32)
        self.put_words(instruction, np.broadcast_to(bits, (size, 4)), items)

    def put_words(self, instruction: Instruction, bits: Array, items: Items) -> None:
        target = self.target(instruction)
        for component in instruction.mask:
            target[items, component] = bits[:, component]

    def target(self, instruction: Instruction) -> Words:
        assert instruction.target is not None, "an operation with a target"
        target: Words = self.registers[instruction.target]
        return target

    def put_lanes(self, instruction: Instruction, values: Array, items: Items) -> None:
        """Write lanes from the first one on, of the instruction's type; others stay."""
        lanes = self.target(instruction).view(DTYPES[instruction.kind])
        first = instruction.first_lane
        lanes[items, first : first + values.shape[1]] = values

    def _places(self, addresses: NDArray[np.int64]) -> tuple[Range, NDArray[np.int64]]:
        """The range that all addresses are in, and their places in it."""
        if not addresses.size:
            raise Unknown("an access to no components")
        first = int(addresses.flat[0])
        for found in self.program.ranges:
            if found.start <= first <= found.start + found.size + SLACK:
                return found, addresses - found.start
        raise Unknown(f"an address ({first:#x}) that isn't any operand's")

    def load(self, addresses: NDArray[np.int64], dtype: np.dtype[Any], items: Items) -> Array:
        """The values at addresses, of any shape whose first axis is items."""
        range_, places = self._places(addresses)
        low, high = int(places.min()), int(places.max()) + dtype.itemsize
        own = self._scratch.get(range_.space)
        if low < 0 or high > (range_.size + SLACK if own is None else SCRATCH_BYTES):
            raise Unknown(f"bytes {low} to {high} of {range_.space} are read")
        if own is not None:
            return _gathered(own.reshape(-1), self._of_groups(places, items), dtype)
        if self.watch is not None:
            touched = self.watch.loaded.setdefault(range_.space, Touched(range_.size + SLACK))
            touched.add(places, dtype.itemsize)
        content = self._contents(range_.space)
        if high <= range_.size:
            return _gathered(content, places, dtype)
        is_inside = places + dtype.itemsize <= range_.size
        found = np.full((*places.shape, dtype.itemsize), self.unknown, np.uint8).view(dtype)[..., 0]
        found[is_inside] = _gathered(content, places[is_inside], dtype)
        return found

    def store(self, addresses: NDArray[np.int64], values: Array, items: Items) -> None:
        """Store values at addresses, in their order."""
        if not addresses.size:
            return
        range_, places = self._places(addresses)
        size = values.dtype.itemsize
        low, high = int(places.min()), int(places.max()) + size
        own = self._scratch.get(range_.space)
        if low < 0 or high > (range_.size if own is None else SCRATCH_BYTES):
            raise Unknown(f"bytes {low} to {high} of {range_.space} are written")
        if range_.space.source is Origin.COEFFICIENTS:
            raise Unknown(f"{range_.space} is written to")
        if own is not None:
            _scatter(own.reshape(-1), self._of_groups(places, items), values)
            return
        if self.watch is not None:
            self.watch.stored.setdefault(range_.space, Touched(range_.size)).add(places, size)
        _scatter(self._contents(range_.space), places, values)

    def _of_groups(self, places: NDArray[np.int64], items: Items) -> NDArray[np.int64]:
        """Places in the memory that each group has for itself."""
        starts = self.numbers(items) // self._items_of_group * SCRATCH_BYTES
        found: NDArray[np.int64] = places + starts.reshape((-1,) + (1,) * (places.ndim - 1))
        return found


def _copies(content: Bytes | None, groups: int, unknown: int) -> Bytes:
    """A space for each group."""
    found = np.full((groups, SCRATCH_BYTES), unknown, np.uint8)
    if content is not None:
        found[:, : content.size] = content
    return found


def _gathered(content: Bytes, places: NDArray[np.int64], dtype: np.dtype[Any]) -> Array:
    size = dtype.itemsize
    if size == 1:
        return content[places].view(dtype)
    octets = np.empty((*places.shape, size), np.uint8)
    for byte in range(size):
        octets[..., byte] = content[places + byte]
    values: Array = octets.view(dtype)[..., 0]
    return values


def _scatter(content: Bytes, places: NDArray[np.int64], values: Array) -> None:
    octets = np.ascontiguousarray(values)[..., None].view(np.uint8)
    for byte in range(values.dtype.itemsize):
        content[places + byte] = octets[..., byte]


def _signed(source: Source, values: Array) -> Array:
    return -values if source.is_negated else values
