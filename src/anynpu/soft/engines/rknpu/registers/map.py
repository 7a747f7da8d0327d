"""All registers of one chip."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from types import ModuleType

from .fields import Field, Register
from .quantities import Quantity

Constants = Mapping[int, frozenset[int]]
"""Numbers of registers that nobody has described, and the words that files have there."""


class RegisterMap:
    """What each register of a chip says.

    `inert` registers steer buffers, clocks and bursts, or repeat what another one says: they change
    when a result is there and not what it is. `constants` are taken with some words alone; `zeros`
    as well, but a file may have a 0 there for a block that isn't there.
    """

    def __init__(
        self,
        registers: Iterable[type[Register]],
        inert: Collection[int],
        constants: Constants,
        zeros: Collection[int] = (),
    ) -> None:
        self.registers = {register.number: register for register in registers}
        self.inert = frozenset(inert) - self.registers.keys() - constants.keys()
        self.constants = dict(constants)
        self.zeros = frozenset(zeros)
        self.known = frozenset(self.registers.keys() | constants.keys())
        self._fields = {
            field.says: field
            for register in self.registers.values()
            for field in register.fields
            if field.says
        }
        self.problem = lru_cache(maxsize=1 << 16)(self._problem)

    def changed(
        self,
        registers: Iterable[type[Register]],
        *,
        without: Collection[int] = (),
        inert: Collection[int] = (),
        constants: Constants | None = None,
    ) -> RegisterMap:
        """The map of a chip that has other registers in their place, and more."""
        constants = constants or {}
        own = {register.number: register for register in registers}
        gone = {*without, *own, *inert, *constants}
        return RegisterMap(
            [*(r for n, r in self.registers.items() if n not in gone), *own.values()],
            {*self.inert, *inert} - own.keys() - {*without},
            {
                **{n: words for n, words in self.constants.items() if n not in gone},
                **constants,
            },
            self.zeros,
        )

    def field(self, quantity: Quantity) -> Field | None:
        """The field that says a quantity, where one does."""
        return self._fields.get(quantity)

    def number(self, quantity: Quantity) -> int:
        """The register that says a quantity, an address, by number."""
        return self._fields[quantity].register.number

    def named(self, number: int) -> str:
        """A register for messages."""
        register = self.registers.get(number)
        return f"{register.title} ({number:#06x})" if register else f"{number:#06x}"

    def _problem(self, number: int, word: int) -> str:
        """Why a register's word isn't understood, or nothing."""
        if register := self.registers.get(number):
            return register.problem(word)
        if number in self.constants:
            return "" if word in self.constants[number] else "the word is not known"
        return "the register has no known meaning"


def registers_of(*modules: ModuleType) -> list[type[Register]]:
    """The registers that modules declare."""
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Register) and value is not Register
    ]
