"""Commands and their bit fields: what a declaration is.

A command is a row of 32-bit words. Every bit that a file may set belongs to a field; bits outside
the fields have no known meaning, and a command in which one of them is set is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import ClassVar, overload

from ..refusal import Unknown


class Field:
    """Bits of a command, the highest part first; `only` lists the values that are known.

    `offset` is in front of the values: a field of sizes minus one has the offset 1.
    """

    name = ""

    def __init__(
        self, parts: Sequence[tuple[int, int, int]], only: tuple[int, ...] | None, offset: int
    ) -> None:
        self.parts = tuple(parts)
        self.only = only
        self._offset = offset
        # Most fields are one part, and are read often.
        (self._word, self._low, high), *self._others = self.parts
        self._mask = (1 << (high - self._low + 1)) - 1

    def __set_name__(self, owner: type[Command], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, command: None, owner: type[Command]) -> Field: ...

    @overload
    def __get__(self, command: Command, owner: type[Command]) -> int: ...

    def __get__(self, command: Command | None, owner: type[Command]) -> Field | int:
        if command is None:
            return self
        if self._others:
            return self.of(command.words)
        return (command.words[self._word] >> self._low & self._mask) + self._offset

    def of(self, words: Sequence[int]) -> int:
        """The field's value, without a sign."""
        value = words[self._word] >> self._low & self._mask
        for word, low, high in self._others:
            width = high - low + 1
            value = value << width | (words[word] >> low & ((1 << width) - 1))
        return value + self._offset

    def __str__(self) -> str:
        places = ", ".join(
            f"word {word} bit {low}" if low == high else f"word {word} bits {low} to {high}"
            for word, low, high in self.parts
        )
        return f"{self.name} ({places})"


def bits(
    word: int, low: int, high: int | None = None, only: tuple[int, ...] | None = None
) -> Field:
    """A field of one bit, or of bits `low` to `high` of a word."""
    return Field([(word, low, low if high is None else high)], only, 0)


def count(word: int, low: int, high: int) -> Field:
    """A field that holds a number minus one."""
    return Field([(word, low, high)], None, 1)


def joined(*parts: tuple[int, int, int], only: tuple[int, ...] | None = None) -> Field:
    """A field of several parts (word, low, high), the highest bits first."""
    return Field(parts, only, 0)


def inert(word: int, low: int = 0, high: int = 31) -> Field:
    """Bits that say how fast something is, or where a driver puts it, and nothing of the result."""
    return Field([(word, low, high)], None, 0)


class Command:
    """One command; a subclass declares its fields. Raises `Unknown` for a bit without a meaning."""

    length: ClassVar[int]
    fields: ClassVar[tuple[Field, ...]]
    _known: ClassVar[tuple[int, ...]]
    _limited: ClassVar[tuple[Field, ...]]

    def __init_subclass__(cls, length: int) -> None:
        cls.length = length
        found: dict[str, Field] = {}
        for kind in reversed(cls.__mro__):
            # A field that a subclass declares anew takes the place of the other one.
            found |= {n: value for n, value in vars(kind).items() if isinstance(value, Field)}
        cls.fields = tuple(found.values())
        cls._limited = tuple(field for field in cls.fields if field.only is not None)
        known = [0] * length
        for field in cls.fields:
            for word, low, high in field.parts:
                known[word] |= ((1 << (high - low + 1)) - 1) << low
        cls._known = tuple(known)

    def __init__(self, words: Sequence[int]) -> None:
        self.words = tuple(words)
        for number, (word, known) in enumerate(zip(self.words, self._known, strict=False)):
            if word & ~known:
                raise Unknown(
                    f"word {number} of the command is {word:#010x}: the bits {word & ~known:#010x} "
                    f"have no known meaning"
                )
        for field in self._limited:
            if field.only is not None and (value := field.of(self.words)) not in field.only:
                raise Unknown(f"{field} is {value}; known are {field.only}")

    def real(self, word: int) -> float:
        """A word as a float32."""
        value: float
        (value,) = struct.unpack("<f", struct.pack("<I", self.words[word]))
        return value

    def signed(self, word: int) -> int:
        """A word as a two's complement number."""
        value = self.words[word]
        return value - (1 << 32) if value >> 31 else value
