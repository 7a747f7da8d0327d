"""An operation on its way to a description: its command, its operands' addresses, its registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

from ...formats.nbg.model import (
    NN_KINDS,
    Executable,
    Nbg,
    Operation,
    OperationKind,
    Patch,
    PatchedPlace,
    Source,
)
from .coefficients import Kernels, KernelShape, read_kernels
from .commands.sp import SpProgram, program_of, sent_words
from .memory import Circle, MemoryMap, Space, space_of
from .metering import MOST_AT_LOAD, Meter
from .places import Places
from .refusal import Unknown
from .stream.evaluation import Binding
from .stream.flow import Flow, flow_of

T527, A733, V853 = 0x10000016, 0x1000003B, 0xEE
CORES = {T527: 6, A733: 8, V853: 3}
"""The NN cores by target: how many streams a blob of coefficients has."""

_OFFSET_BITS = 0x3FFFFFF
"""What of a word says where a circular buffer ends; other bits beside it belong to others."""


@dataclass(frozen=True)
class Address:
    """A byte of a space."""

    space: Space
    offset: int


@dataclass
class Shared:
    """What operations of a file have in common, decoded once, such as the kernels of a blob.

    What is still there of `at_end` is called when all of them are decoded.
    """

    kernels: dict[tuple[int, KernelShape], Kernels] = field(default_factory=dict)
    programs: dict[tuple[int, ...], SpProgram] = field(default_factory=dict)
    flows: dict[object, Flow] = field(default_factory=dict)
    circles: dict[tuple[int, int], Circle] = field(default_factory=dict)
    bindings: dict[object, Binding] = field(default_factory=dict)
    places: dict[object, Places] = field(default_factory=dict)
    meter: Meter = field(default_factory=lambda: Meter(MOST_AT_LOAD))
    at_end: list[WeakMethod[Callable[[], None]]] = field(default_factory=list)

    def let_go(self) -> None:
        """All are decoded: give up what was for that. They may be decoded again."""
        while self.at_end:
            still_there = self.at_end.pop()()
            if still_there is not None:
                still_there()
        self.meter = Meter(MOST_AT_LOAD)
        space_of.cache_clear()


@dataclass(frozen=True)
class OperationContext:
    """Everything that a decoder may ask about operation `number` of a file."""

    model: Nbg
    executable: Executable
    layout: MemoryMap
    number: int
    shared: Shared

    @property
    def operation(self) -> Operation:
        return self.model.operations[self.number]

    @property
    def target(self) -> int:
        return self.model.target

    @property
    def layer(self) -> str:
        """The layer's name; empty for operations of no layer."""
        layer = self.operation.layer
        return "" if layer is None else self.model.layers[layer].name

    @property
    def title(self) -> str:
        """How messages name the operation."""
        named = f" of layer {self.layer!r}" if self.layer else ""
        return f"operation {self.number}{named} ({self.operation.unit})"

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The command."""
        kind, index = self.operation.kind, self.operation.index
        if kind in NN_KINDS:
            row = self.executable.nn[index]
        elif kind == OperationKind.TP:
            row = self.executable.tp[index]
        else:
            raise Unknown("it has no command")
        return tuple(row.tolist())

    @cached_property
    def state(self) -> NDArray[np.uint8]:
        """The registers that the operation loads, as the file has them."""
        states = self.executable.states
        if not 0 <= self.operation.state < len(states):
            raise Unknown(f"it loads registers {self.operation.state} of {len(states)}")
        return states[self.operation.state]

    def patches(self, place: PatchedPlace) -> Mapping[int, Patch]:
        """The addresses in a place of the operation, by the byte that they are put at."""
        return self._patches[place]

    @cached_property
    def _patches(self) -> dict[int, dict[int, Patch]]:
        found: dict[int, dict[int, Patch]] = {place: {} for place in PatchedPlace}
        for number in self.operation.patches:
            patch = self.executable.patches[number]
            if patch.place not in found:
                raise Unknown(f"patch {number} is of kind {patch.place}")
            if patch.source != Source.COMMAND:
                found[patch.place][patch.offset] = patch
        return found

    def has(self, byte: int) -> bool:
        """Whether the command has an address at a byte."""
        return byte in self._patches[PatchedPlace.COMMAND]

    def address(self, byte: int) -> Address:
        """The operand whose address the command has at a byte."""
        patch = self._patches[PatchedPlace.COMMAND].get(byte)
        if patch is None:
            raise Unknown(f"the address at byte {byte} of the command isn't there")
        space = space_of(patch.source, patch.number)
        offset = patch.base
        is_blob = space.source is Source.COEFFICIENTS
        if self.executable.has_offsets_in_commands and not patch.is_transformed and not is_blob:
            offset += self.words[byte // 4]
        return Address(space, offset)

    def kernels(self, space: Space, shape: KernelShape) -> Kernels:
        """A blob's kernels; the tiles of a layer have the same ones."""
        key = space.number, shape
        known = self.shared.kernels
        if key not in known:
            known[key] = read_kernels(self.layout.blob(space), shape)
        return known[key]

    def program(self) -> SpProgram:
        """The stream processor's program that the operation's registers send."""
        words = sent_words(self.state.tobytes())
        known = self.shared.programs
        if words not in known:
            known[words] = program_of(words)
        return known[words]

    def flow(self, program: SpProgram, vectors: int, registers: Mapping[int, np.float32]) -> Flow:
        """What a program computes on rows of so many vectors; only what it writes itself of the
        registers makes a difference.
        """
        own = program.targets
        begins = tuple((number, value) for number, value in registers.items() if number in own)
        key = id(program), vectors, begins
        known = self.shared.flows
        if key not in known:
            known[key] = flow_of(program, vectors, dict(begins))
        return known[key]

    def circle(self, byte: int, blocks: int, space: Space) -> Circle | None:
        """The circular buffer of `blocks` blocks of 64 bytes in `space`, which ends as told there.

        None where the operand isn't in one.
        """
        patch = self._patches[PatchedPlace.COMMAND].get(byte)
        if patch is None or not blocks or space_of(patch.source, patch.number) != space:
            return None
        end = patch.base
        if self.executable.has_offsets_in_commands:
            end += self.words[byte // 4] & _OFFSET_BITS
        place = end, blocks << 6
        return self.shared.circles.setdefault(place, Circle(*place))
