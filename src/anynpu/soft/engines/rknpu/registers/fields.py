"""Registers and their bit fields: what a declaration is.

A register is told apart by its number alone: the top four bits are the block.
"""

from __future__ import annotations

from typing import ClassVar

from .....errors import ModelError
from .quantities import Quantity

_HALF_SPACE = 1 << 31


def sign_extend(value: int, bits: int) -> int:
    """The two's complement number that the lowest `bits` bits of a value hold."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Field:
    """Bits `low` to `high` of a register; `values` lists what is known, None for any number.

    What it holds of a quantity is (number + `plus`) * `times`, where `signed` numbers are two's
    complement ones.
    """

    register: type[Register]
    name = ""

    def __init__(
        self,
        low: int,
        high: int,
        values: tuple[int, ...] | None,
        says: Quantity | None = None,
        *,
        signed: bool = False,
        plus: int = 0,
        times: int = 1,
    ) -> None:
        self.low = low
        self.bits = high - low + 1
        self.mask = (1 << self.bits) - 1
        self.values = values
        self.says = says
        self.is_signed, self.plus, self.times = signed, plus, times

    def __set_name__(self, owner: type[Register], name: str) -> None:
        self.register, self.name = owner, name

    def overlaps(self, other: Field) -> bool:
        """Whether two fields have a bit in common."""
        return bool(self.mask << self.low & other.mask << other.low)

    def of(self, word: int) -> int:
        """The field's bits as a number without a sign."""
        return word >> self.low & self.mask

    def value(self, word: int) -> int:
        """The quantity that the field says."""
        number = word >> self.low & self.mask
        if self.is_signed:
            number = sign_extend(number, self.bits)
        return (number + self.plus) * self.times

    def put(self, value: int) -> int:
        """A register word in which only this field's bits are set, to a number without a sign.

        Raises `ModelError` for a number that the field can't hold.
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


def bits(
    low: int,
    high: int | None = None,
    only: tuple[int, ...] | None = None,
    *,
    says: Quantity | None = None,
    signed: bool = False,
    plus: int = 0,
    times: int = 1,
) -> Field:
    """A field of one bit, or of bits `low` to `high`; `only` lists the numbers that are known."""
    last = low if high is None else high
    return Field(low, last, only, says, signed=signed, plus=plus, times=times)


class Register:
    """One register; a subclass names its number and its fields.

    A chip's own form of a register that others have is a subclass with the fields that differ; they
    replace those of their name, and those of their bits.
    Bits outside the fields have no known meaning, and a field that says nothing has no effect on
    results. `only` are the words that are known, where not all are; `reset` is what the register
    holds before anything is written to it.
    """

    number: ClassVar[int]
    title: ClassVar[str]
    reset: ClassVar[int]
    only: ClassVar[frozenset[int] | None]
    fields: ClassVar[tuple[Field, ...]]
    known_bits: ClassVar[int]

    def __init_subclass__(
        cls, number: int, title: str, only: frozenset[int] | None = None, reset: int = 0
    ) -> None:
        cls.number, cls.title, cls.only, cls.reset = number, title, only, reset
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        cls.fields = (
            *(
                field
                for base in cls.__bases__
                for field in getattr(base, "fields", ())
                if field.name not in own and not any(map(field.overlaps, own.values()))
            ),
            *own.values(),
        )
        cls.known_bits = sum(field.mask << field.low for field in cls.fields)

    @classmethod
    def problem(cls, word: int) -> str:
        """Why a word isn't understood, or nothing."""
        if cls.only is not None and word not in cls.only:
            return "the word is not known"
        if unknown := word & ~cls.known_bits:
            return f"the bits {unknown:#x} have no known meaning"
        for field in cls.fields:
            if field.times > 1 and not -_HALF_SPACE <= field.value(word) < _HALF_SPACE:
                return f"{field.name} are {field.value(word)} bytes, more than 32 bits hold"
            if field.values is not None and field.of(word) not in field.values:
                return f"{field.name} = {field.of(word)} is not known"
        return ""
