"""A task's registers, asked by field: what is unknown raises an error that names it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from ....errors import ModelError
from .addresses import AddressSpace
from .command_stream import TaskState
from .elements import Address
from .registers.fields import NAMES, REGISTERS, Field, Register, sign_extend
from .registers.inert import ALWAYS_ZERO, INERT


class TaskRegisters:
    """The registers of one task, in RK3588's notation, and where its addresses point.

    `field_bits` are the fields of which the chip has fewer bits than the notation.
    """

    def __init__(
        self,
        state: TaskState,
        words: Mapping[int, int],
        addresses: AddressSpace,
        field_bits: Mapping[Field, int] = {},
    ) -> None:
        self.state = state
        self._words = words
        self._addresses = addresses
        self._check(field_bits)

    def __getitem__(self, field: Field) -> int:
        return field.of(self._words.get(field.register.number, 0))

    def signed(self, field: Field) -> int:
        """A field's value as a two's complement number."""
        return field.signed(self._words.get(field.register.number, 0))

    def word(self, register: type[Register]) -> int:
        """A whole register."""
        return self._words.get(register.number, 0)

    def stride(self, register: type[Register]) -> int:
        """A whole register as a signed number of bytes."""
        return sign_extend(self.word(register), 32)

    def single(self, register: type[Register]) -> float:
        """A whole register as a float32."""
        return single(self.word(register))

    def address(self, register: type[Register]) -> Address:
        """The place that an address register points to."""
        try:
            return self._addresses.find(register.number, self.state)
        except LookupError as error:
            raise self.error(register, str(error)) from None

    def error(self, where: Field | type[Register], problem: str) -> ModelError:
        """An exception that names register and value; who decodes a task adds which it is."""
        register = where.register if isinstance(where, Field) else where
        field = f" ({where.name} = {self[where]})" if isinstance(where, Field) else ""
        return ModelError(
            f"register {register.title} ({register.number:#06x}) = {self.word(register):#x}"
            f"{field}: {problem}"
        )

    def _check(self, field_bits: Mapping[Field, int]) -> None:
        for number, word in self._words.items():
            if problem := _problem(number, word):
                name = NAMES.get(number, "?")
                raise ModelError(f"register {name} ({number:#06x}) = {word:#x}: {problem}")
        for field, count in field_bits.items():
            if self[field] >> count:
                raise self.error(field, f"this chip has {count} bits for it")


@lru_cache(maxsize=1 << 16)
def _problem(number: int, word: int) -> str:
    """Why a register's value isn't understood, or nothing."""
    if number in ALWAYS_ZERO:
        return "only 0 is known" if word else ""
    if number in INERT:
        return ""
    register = REGISTERS.get(number)
    if register is None:
        return "the register has no known meaning"
    if unknown := word & ~register.known_bits:
        return f"the bits {unknown:#x} have no known meaning"
    for field in register.fields:
        if field.values is not None and field.of(word) not in field.values:
            return f"{field.name} = {field.of(word)} is not known"
    return ""


def half(word: int) -> float:
    """The float16 in the lowest 16 bits."""
    return float(np.uint16(word & 0xFFFF).view(np.float16))


def bfloat(word: int) -> float:
    """The bfloat16 in the lowest 16 bits."""
    return float(np.uint32((word & 0xFFFF) << 16).view(np.float32))


def single(word: int) -> float:
    """The float32 that 32 bits stand for."""
    return float(np.uint32(word).view(np.float32))


def single_bits(number: float) -> int:
    """The 32 bits that stand for a number as float32."""
    return int(np.float32(number).view(np.uint32))
