"""A task's registers, asked by quantity or by field; errors name the chip's own register."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import and_, itemgetter

import numpy as np

from ....errors import ModelError
from .addresses import AddressSpace, RelocatedAddresses
from .command_stream import TaskState
from .elements import Address, Element
from .registers.fields import Field, Register, sign_extend
from .registers.map import RegisterMap
from .registers.quantities import Quantity

_PICTURE = 7
"""The format of a picture with n channels is n + 7."""

_HALF_BITS, _WORD_BITS = (1 << 16) - 1, (1 << 32) - 1

Where = Quantity | Field | type[Register]
"""What an error is about."""

Constants = Callable[[Address, int], bytes]
"""A number of bytes at an address, which no task may write."""


@dataclass(frozen=True)
class Derived:
    """A quantity that follows from several fields; messages name the register `where`."""

    value: Callable[[TaskRegisters], int]
    where: Field | type[Register]


class TaskRegisters:
    """The registers of one task on a chip, and where its addresses point.

    Without `addresses` and `constants` it answers all that needs none.
    """

    def __init__(
        self,
        state: TaskState,
        registers: RegisterMap,
        derived: Mapping[Quantity, Derived],
        addresses: AddressSpace | None = None,
        constants: Constants | None = None,
    ) -> None:
        self.state = state
        self._map = registers
        self._derived = derived
        self._addresses = RelocatedAddresses({}) if addresses is None else addresses
        self._constants = constants
        self._known: dict[Quantity, int] = {}

    def check_words(self) -> None:
        """Raise `ModelError` for a register, or a bit of one, without a known meaning."""
        words, problem_of = self.state.words, self._map.problem
        if not any(map(problem_of, words, words.values())):
            return
        for number, word in words.items():
            if problem := problem_of(number, word):
                raise ModelError(f"register {self._map.named(number)} = {word:#x}: {problem}")

    def __getitem__(self, what: Quantity | Field) -> int:
        if isinstance(what, Field):
            return self._value(what)
        value = self._known.get(what)
        if value is None:
            value = self._known[what] = self._find(what)
        return value

    def _find(self, quantity: Quantity) -> int:
        if derived := self._derived.get(quantity):
            return derived.value(self)
        field = self._map.field(quantity)
        if field is None:
            raise ModelError(f"this chip's registers don't say {quantity.name}")
        return self._value(field)

    def own(self, quantity: Quantity) -> int:
        """A quantity as its field says it, for those that follow from it."""
        field = self._map.field(quantity)
        assert field is not None, quantity
        return self._value(field)

    def _value(self, field: Field) -> int:
        register = field.register
        return field.value(self.state.words.get(register.number, register.reset))

    def word(self, register: type[Register]) -> int:
        """A whole register."""
        return self.state.words.get(register.number, register.reset)

    def has(self, register: type[Register]) -> bool:
        """Whether the task's blocks have the register, and it was written."""
        return register.number in self.state.words

    def is_float(self) -> bool:
        """Whether the stages compute with floats."""
        return Element(self[Quantity.ELEMENT]).is_float

    def picture_channels(self) -> int:
        """How many channels a convolution's input has side by side; 0 for channel blocks."""
        return max(0, self[Quantity.PICTURE_FORMAT] - _PICTURE)

    def address(self, quantity: Quantity) -> Address:
        """The place that an address register points to."""
        try:
            return self._addresses.find(self._map.number(quantity), self.state)
        except LookupError as error:
            raise self.error(quantity, str(error)) from None

    def constants(self, quantity: Quantity, count: int) -> bytes:
        """`count` bytes that an address register points to, which no task writes."""
        address = self.address(quantity)
        assert self._constants is not None
        try:
            return self._constants(address, count)
        except ModelError as error:
            raise self.error(quantity, str(error)) from None

    def error(self, where: Where, problem: str = "") -> ModelError:
        """An exception that names register and value; who decodes a task adds which it is."""
        if isinstance(where, Quantity):
            found = self._derived.get(where)
            place = found.where if found else self._map.field(where)
            assert place is not None, where
            where = place
        register = where.register if isinstance(where, Field) else where
        field = (
            f" ({where.name} = {where.of(self.word(register))})" if isinstance(where, Field) else ""
        )
        return ModelError(
            f"register {register.title} ({register.number:#06x}) = {self.word(register):#x}"
            f"{field}{f': {problem}' if problem else ' is not known'}"
        )


@dataclass(frozen=True)
class Asked:
    """Which of a task's registers were asked for: (number, bits), and those of addresses."""

    bits: tuple[tuple[int, int], ...]
    addresses: tuple[int, ...]

    @cached_property
    def _words(self) -> Callable[[Mapping[int, int]], tuple[int, ...]]:
        numbers = [number for number, _ in self.bits]
        # One alone doesn't come as a tuple.
        return itemgetter(*numbers, *numbers[:1]) if numbers else lambda words: ()

    @cached_property
    def _masks(self) -> tuple[int, ...]:
        masks = tuple(bits for _, bits in self.bits)
        return masks + masks[:1]

    def values(self, state: TaskState) -> Hashable:
        """What another task has there; equal for tasks that give the same answers."""
        relocations = state.relocations
        return (
            state.enable_mask,
            *map(id, state.tables),
            self._bits_of(state.words),
            *[relocations.get(number) for number in self.addresses],
        )

    def _bits_of(self, words: Mapping[int, int]) -> tuple[int | None, ...]:
        try:
            return tuple(map(and_, self._words(words), self._masks))
        except KeyError:
            # Some weren't written.
            return tuple(
                None if (word := words.get(number)) is None else word & bits
                for number, bits in self.bits
            )


class WatchedRegisters(TaskRegisters):
    """A task's registers, which know what was asked of them."""

    def __init__(self, task: TaskRegisters) -> None:
        super().__init__(task.state, task._map, task._derived, task._addresses, task._constants)
        self._bits: dict[int, int] = {}
        self._asked_addresses: set[int] = set()

    @property
    def asked(self) -> Asked:
        """What was asked for."""
        return Asked(tuple(self._bits.items()), tuple(self._asked_addresses))

    def ask(self, asked: Asked) -> None:
        """Take note of what another one was asked for on behalf of this one."""
        for number, bits in asked.bits:
            self._note(number, bits)
        self._asked_addresses.update(asked.addresses)

    def word(self, register: type[Register]) -> int:
        self._note(register.number, _WORD_BITS)
        return super().word(register)

    def has(self, register: type[Register]) -> bool:
        self._note(register.number, _WORD_BITS)
        return super().has(register)

    def address(self, quantity: Quantity) -> Address:
        number = self._map.number(quantity)
        self._note(number, _WORD_BITS)
        self._asked_addresses.add(number)
        return super().address(quantity)

    def _value(self, field: Field) -> int:
        self._note(field.register.number, field.mask << field.low)
        return super()._value(field)

    def _note(self, number: int, bits: int) -> None:
        self._bits[number] = self._bits.get(number, 0) | bits


def half(word: int) -> float:
    """The float16 in the lowest 16 bits."""
    return float(np.uint16(word & _HALF_BITS).view(np.float16))


def bfloat(word: int) -> float:
    """The bfloat16 in the lowest 16 bits."""
    return float(np.uint32((word & _HALF_BITS) << 16).view(np.float32))


def number(word: int, is_float: bool) -> float:
    """What 32 bits stand for: a float32, or an integer with a sign."""
    return (
        float(np.uint32(word & _WORD_BITS).view(np.float32)) if is_float else sign_extend(word, 32)
    )
