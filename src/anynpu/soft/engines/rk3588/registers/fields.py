"""Registers and their bit fields: what a declaration is.

A register is told apart by its number alone: the top four bits are the block.
"""

from __future__ import annotations

from typing import ClassVar

CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA = 1, 3, 4, 5, 6, 7
BLOCKS = {CNA: "CNA", CORE: "CORE", DPU: "DPU", DPU_RDMA: "RDMA", PPU: "PPU", PPU_RDMA: "PPU_RDMA"}
"""The blocks whose registers a task may write, by the top four bits of the number."""


def sign_extend(value: int, bits: int) -> int:
    """The two's complement number that the lowest `bits` bits of a value hold."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Field:
    """Bits `low` to `high` of a register; `values` lists what is known, None for any number."""

    register: type[Register]
    name: str

    def __init__(self, low: int, high: int, values: tuple[int, ...] | None) -> None:
        self.low = low
        self.bits = high - low + 1
        self.mask = (1 << self.bits) - 1
        self.values = values

    def __set_name__(self, owner: type[Register], name: str) -> None:
        self.register, self.name = owner, name

    def of(self, word: int) -> int:
        """The field's value, without a sign."""
        return word >> self.low & self.mask

    def signed(self, word: int) -> int:
        """The field's value as a two's complement number."""
        return sign_extend(word >> self.low, self.bits)

    def put(self, value: int) -> int:
        """A register word in which only this field is set."""
        return (value & self.mask) << self.low


def bits(low: int, high: int | None = None, only: tuple[int, ...] | None = None) -> Field:
    """A field of one bit, or of bits `low` to `high`; `only` lists the values that are known."""
    return Field(low, low if high is None else high, only)


class Register:
    """One register; a subclass names its number and its fields.

    Bits outside the fields have no known meaning.
    """

    number: ClassVar[int]
    title: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]
    known_bits: ClassVar[int]

    def __init_subclass__(cls, number: int, title: str) -> None:
        cls.number, cls.title = number, title
        cls.fields = tuple(value for value in vars(cls).values() if isinstance(value, Field))
        cls.known_bits = sum(field.mask << field.low for field in cls.fields)
        REGISTERS[number] = cls
        NAMES[number] = title


REGISTERS: dict[int, type[Register]] = {}
NAMES: dict[int, str] = {}

POINTER = 0x004
"""The lowest twelve bits of each block's S_POINTER."""
