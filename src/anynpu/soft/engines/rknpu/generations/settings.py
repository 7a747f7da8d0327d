"""What registers say of the DPU's stages, in terms that all chips share.

Words are as registers have them: 32 bits of a float or of a two's complement number, 16 bits of a
factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, auto

from ..registers.fields import Field, Register
from ..tasks import Operation

NO_LOWER, NO_UPPER = 1 << 31, (1 << 31) - 1
"""The words that stand for no limit, of floats as well."""


class FromMemory(Enum):
    """Where an operand comes from, if it isn't in a register."""

    BLOCK = auto()
    """One number a channel, in the stage's block of operands."""

    FEATURES = auto()
    COLUMNS = auto()


class OperandKind(IntEnum):
    """What the element-wise stage's operand in memory has a number for."""

    PER_CHANNEL = 0
    PER_RESULT = 1
    PER_PIXEL = 2
    PER_COLUMN = 3


class Sum(Enum):
    """What a stage does with its addend."""

    ADD = auto()
    SUBTRACT = auto()
    MAXIMUM = auto()


@dataclass(frozen=True)
class Limits:
    """What values are kept within: words, None for no limit."""

    lower: int | None = None
    upper: int | None = None


@dataclass(frozen=True)
class StageSettings:
    """The first (BS) or second (BN) stage, where it isn't off.

    `shifts` are those of positive and of negative values. `block` says which operands of each
    channel lie in memory: 1 addends, 2 weight offsets, 4 factors. `where` names the registers that
    say so, for messages: that of the addend, of the factor, of either shift.
    """

    sum: Sum
    add: int | FromMemory | None
    multiply: int | FromMemory | None
    adds_first: bool
    multiplies_negatives: bool
    shifts: tuple[int, int]
    limits: Limits
    block: int
    where: StageNames
    weight_offset: int | FromMemory | None = None


@dataclass(frozen=True)
class StageNames:
    """The registers of a stage that messages name."""

    add: Field | type[Register]
    multiply: Field | type[Register]
    shifts: tuple[Field | type[Register], Field | type[Register]]


@dataclass(frozen=True)
class ElementwiseSettings:
    """The third stage, where it isn't off.

    `offset_first` says that an operand's offset is added before it is scaled, `ties_away` how that
    is rounded; both where it `converts`.
    """

    looks_up: bool
    operation: Operation | None
    operand: int | FromMemory
    converts: bool
    offset_first: bool
    ties_away: bool
    limits: Limits
    where: Field | type[Register]
