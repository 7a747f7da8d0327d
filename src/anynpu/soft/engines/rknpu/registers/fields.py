"""Registers and their bit fields: what a declaration is.

A register is told apart by its number alone: the top four bits are the block.
"""

from __future__ import annotations

from typing import ClassVar

from .....errors import ModelError

CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA = 1, 3, 4, 5, 6, 7
BLOCKS = {CNA: "CNA", CORE: "CORE", DPU: "DPU", DPU_RDMA: "RDMA", PPU: "PPU", PPU_RDMA: "PPU_RDMA"}
"""The blocks whose registers a task may write, by the top four bits of the number."""


def sign_extend(value: int, bits: int) -> int:
    """The two's complement number that the lowest `bits` bits of a value hold."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def signed_word(value: int) -> int:
    """The 32 bits of a two's complement number; raises `ModelError` where that takes more."""
    if sign_extend(value, 32) != value:
        raise ModelError(f"{value} doesn't fit into a register of 32 bits")
    return value & 0xFFFFFFFF


class Field:
    """Bits `low` to `high` of a register; `values` lists what is known, None for any number."""

    register: type[Register]
    name = ""

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
        """A register word in which only this field is set.

        Raises `ModelError` for a value that the field can't hold.
        """
        if not 0 <= value <= self.mask:
            raise ModelError(f"{self}: {value} doesn't fit into {self.bits} bits")
        return value << self.low

    def put_signed(self, value: int) -> int:
        """The same for a two's complement number."""
        if sign_extend(value, self.bits) != value:
            raise ModelError(f"{self}: {value} doesn't fit into {self.bits} bits with a sign")
        return (value & self.mask) << self.low

    def __str__(self) -> str:
        if self.name:
            return f"register {self.register.title} ({self.register.number:#06x}), {self.name}"
        return f"bits {self.low} to {self.low + self.bits - 1} of a register"


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
