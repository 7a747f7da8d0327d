"""The `.nb` file (a network binary graph) as plain data: tensors, layers, operations, commands.

An index of dimensions counts from the innermost. What the operations' commands mean is the matter
of whoever runs them; here they are words.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ....viplite.abi import BufferFormat
from ....viplite.formats import DTYPES, size_of

COMMAND_WORDS = 48
"""Words that a command of the NN core, the stream processor or the tensor processor takes."""


class OperationKind(enum.IntEnum):
    """The units of the chip, by the number that an operation's entry has."""

    SHADER = 1
    NN = 2
    TP = 3
    SOFTWARE = 4
    SP = 6
    NN_TABLE = 7
    """The NN core with a table or a negative slope after the coefficients (2.x)."""
    NN_TRANSPOSE = 8
    """The NN core as a copier of blocks (2.x)."""
    SOFT = 0x414E
    """An operation of a soft file; no NPU has it."""
    FINAL = 0xFFFE
    """What older files end with."""
    INITIALISATION = 0xFFFF
    """What comes before all layers."""

    @property
    def title(self) -> str:
        return _TITLES[self]

    @property
    def is_computed(self) -> bool:
        """Whether the operation computes something; others set a chip up."""
        return self not in (OperationKind.FINAL, OperationKind.INITIALISATION)


_TITLES = {
    OperationKind.SHADER: "shader",
    OperationKind.NN: "NN",
    OperationKind.TP: "TP",
    OperationKind.SOFTWARE: "software",
    OperationKind.SP: "SP",
    OperationKind.NN_TABLE: "NN with a table",
    OperationKind.NN_TRANSPOSE: "NN block transpose",
    OperationKind.SOFT: "soft",
    OperationKind.FINAL: "final",
    OperationKind.INITIALISATION: "initialisation",
}

NN_KINDS = frozenset(
    {
        OperationKind.NN,
        OperationKind.SP,
        OperationKind.NN_TABLE,
        OperationKind.NN_TRANSPOSE,
    }
)
"""The kinds whose command lies among those of the NN core."""


@dataclass(frozen=True)
class Tensor:
    """An input or output.

    `dims` are innermost first; `format` and `quantization` are numbers of `vip_buffer_format_e` and
    `vip_buffer_quantize_format_e`. `fixed_point_pos` counts where the quantisation is dynamic fixed
    point (a real value is q / 2 ** fixed_point_pos), `scale` and `zero_point` where it is affine.
    """

    name: str
    dims: tuple[int, ...]
    format: int
    quantization: int
    fixed_point_pos: int = 0
    scale: float = 1.0
    zero_point: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes outermost first, as arrays have them."""
        return self.dims[::-1]

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def size(self) -> int:
        """Bytes; buffers have no padding."""
        return size_of(self.shape, DTYPES[BufferFormat(self.format)])


@dataclass(frozen=True)
class Layer:
    """A layer; `operations` is the count that the file gives, which splitting may exceed."""

    name: str
    id: int
    operations: int
    uid: int


@dataclass(frozen=True, slots=True)
class Operation:
    """What the hardware executes in one go.

    `kind` is a number of `OperationKind`, or another one; `index` is the number among the commands
    of its unit. `layer` is the layer's number, None for what sets the chip up. `state` is the
    number of the registers that it loads, `patches` are those that belong to it.
    """

    kind: int
    index: int
    layer: int | None
    state: int = 0
    patches: range = range(0)

    @property
    def unit(self) -> str:
        """The unit's title; of a kind that isn't known its number."""
        known = self.kind in OperationKind.__members__.values()
        return OperationKind(self.kind).title if known else f"type {self.kind}"


@dataclass(frozen=True)
class Section:
    """A part of the file; `number` is its place in the table (1.x) or its type (2.x)."""

    number: int
    name: str
    offset: int
    size: int


class PatchedPlace(enum.IntEnum):
    """Where a patch puts its address."""

    STATES = 0
    COMMAND = 1


class Source(enum.IntEnum):
    """What an address points into, by the number that a patch has."""

    COMMAND = 0
    INPUT = 1
    OUTPUT = 2
    POOL = 3
    POOL_TOO = 4
    COEFFICIENTS = 5
    CONSTANTS = 6
    CONSTANTS_WRITTEN = 7
    VIP_SRAM = 8


class Patch(NamedTuple):
    """An address that a driver fills in: at byte `offset` of an operation's `place`.

    It is byte `base` of `number` of what `source` says. `is_transformed` says that the
    hardware gets it shifted or merged with other bits.
    """

    place: int
    offset: int
    source: int
    number: int
    base: int
    is_transformed: int
    last: int


class Patches(Sequence[Patch]):
    """A file's, made when they are asked for: `words` are (patches, 7), int32."""

    def __init__(self, words: NDArray[np.int32]) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    @overload
    def __getitem__(self, number: int) -> Patch: ...

    @overload
    def __getitem__(self, number: slice) -> Patches: ...

    def __getitem__(self, number: int | slice) -> Patch | Patches:
        if isinstance(number, slice):
            return Patches(self._words[number])
        return Patch(*self._words[number].tolist())


@dataclass(frozen=True, eq=False)
class Executable:
    """What the chip executes, as read-only arrays.

    `nn` and `tp` are the units' commands, a row of 32-bit words each. `coefficients` are the blobs
    that commands of the NN core and the tensor processor refer to, `constants` those of shaders,
    `states` the register loads. `has_offsets_in_commands` says that an operand's offset is in the
    command's own word, as older files have it, not in the patch. `shader_programs` are the machine
    code of each command of the shader unit; the oldest files have none here.
    """

    nn: NDArray[np.uint32]
    tp: NDArray[np.uint32]
    patches: Sequence[Patch]
    coefficients: tuple[NDArray[np.uint8], ...]
    constants: tuple[NDArray[np.uint8], ...]
    states: tuple[NDArray[np.uint8], ...]
    has_offsets_in_commands: bool
    shader_programs: tuple[NDArray[np.uint8], ...] = ()


@dataclass(frozen=True)
class Nbg:
    """What a file says of itself.

    `target` is the number of the NPU that the file is for. `memory_pool_size` is what intermediate
    tensors take in memory, `vip_sram_size` what they take on the chip. `onnx` is the ONNX file
    inside a soft file, None in a compiled one, which has an `executable`.
    """

    name: str
    version: int
    target: int
    size: int
    cores: int
    memory_pool_size: int
    vip_sram_size: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    operations: tuple[Operation, ...]
    sections: tuple[Section, ...]
    onnx: bytes | None = field(default=None, repr=False)
    executable: Executable | None = field(default=None, repr=False, compare=False)
