"""The stream processor's tables: piecewise linear functions over a number's leading bits.

An argument's place in a table is its sign, if the table has one, the low bits of its exponent and
the top bits of its mantissa, ten bits together; what is left of the mantissa is the fraction on the
way to the next entry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..interning import Interned
from ..refusal import Unknown
from .arithmetic import Reals

_ENTRIES = 1024
TABLE_BYTES = 4 * (_ENTRIES + 3)
"""The entries, and three words that say how they are to be read."""

_ALL_EXPONENTS = 8

_IS_ODD = 1 << 23
"""The bit of the last word that says, of a table without a sign, that the function is odd."""


class FunctionTable(ABC):
    """Entries, between which a function is linear."""

    @abstractmethod
    def _lookup(self, argument: Reals) -> tuple[Reals, Reals, Reals]:
        """Of each argument the entry, the fraction and the difference."""

    def entry(self, argument: Reals) -> Reals:
        """The entry in front of the argument."""
        return self._lookup(_without_sign(argument))[0]

    def fraction(self, argument: Reals) -> Reals:
        """How far the argument is on the way to the next entry, from 0 to 1."""
        return self._lookup(_without_sign(argument))[1]

    def difference(self, argument: Reals) -> Reals:
        """From the entry to the next."""
        return self._lookup(_without_sign(argument))[2]


def _without_sign(argument: Reals) -> Reals:
    """Arguments; what is no number has a sign that processors don't agree on."""
    return np.where(np.isnan(argument), np.float32(np.nan), argument)


@dataclass(frozen=True, eq=False)
class PiecewiseTable(FunctionTable):
    """A loaded table of 1,024 `values`; `exponent_bits` of a place are the exponent's.

    Arguments have fifteen bits of mantissa, others are cut. Those beneath the least exponent lie
    between the first entries of both signs; `too_large` are the values of negative and of positive
    ones beyond the greatest. With `is_odd` a negative argument has the value of the positive one
    with the other sign; then what is beneath the least exponent has its first entry, and what is
    beyond the greatest the argument's product with the second of `too_large`.
    """

    values: Reals
    is_signed: bool
    is_odd: bool
    exponent_bits: int
    too_large: tuple[np.float32, np.float32]

    def _lookup(self, argument: Reals) -> tuple[Reals, Reals, Reals]:
        if self.is_odd:
            return self._odd(argument)
        return self._any(argument)

    def _odd(self, argument: Reals) -> tuple[Reals, Reals, Reals]:
        """By magnitudes, whose least and greatest ones are those of float32 and never endless."""
        half = np.float32(2.0 ** (1 << self.exponent_bits >> 1))
        magnitude = np.abs(argument)
        inside = np.clip(magnitude, np.float32(2) / half, np.nextafter(2 * half, np.float32(0)))
        entry, fraction, difference = self._any(inside)
        is_beyond = magnitude >= 2 * half
        beyond = np.minimum(magnitude, np.finfo(np.float32).max) * self.too_large[1]
        sign = np.copysign(np.float32(1), argument)
        difference = np.where(is_beyond, np.float32(0), difference) * sign
        return np.where(is_beyond, beyond, entry) * sign, fraction, difference

    def _any(self, argument: Reals) -> tuple[Reals, Reals, Reals]:
        raw = argument.view(np.uint32).astype(np.int64) & 0xFFFFFF00
        bits = 10 - self.is_signed - self.exponent_bits
        mask = (1 << bits + self.exponent_bits) - 1
        place = raw >> 23 - bits & mask
        sign = raw >> 31
        top = sign << 9 if self.is_signed else 0
        entry = self.values[place | top]
        following = self.values[place + 1 & mask | top]
        fraction = ((raw & (1 << 23 - bits) - 1) / (1 << 23 - bits)).astype(np.float32)
        exponent = (raw >> 23 & 255) - 127
        half = 1 << self.exponent_bits >> 1
        small, large = exponent < 1 - half, exponent > half
        if self.is_signed:
            first = 1 - half + 127 << bits & mask
            entry = np.where(small, self.values[first | 512], entry)
            following = np.where(small, self.values[first], following)
            middle = (argument * np.float32(2.0 ** (half - 1)) + np.float32(1)) * np.float32(0.5)
            fraction = np.where(small, middle, fraction)
        entry = np.where(large, np.where(sign, *self.too_large), entry)
        difference = np.where(large, np.float32(0), following - np.where(large, 0, entry))
        return entry, fraction, difference.astype(np.float32)


def _real24(word: int) -> np.float32:
    """A sign, eight bits of exponent, fifteen of mantissa."""
    real: np.float32 = np.uint32((word & 0xFFFFFF) << 8).view(np.float32)
    return real


@Interned
def read_table(content: bytes) -> PiecewiseTable:
    """A table from its 1,024 words and the three that say how it is to be read."""
    words = np.frombuffer(content, "<u4").astype(np.int64)
    if words.size < _ENTRIES + 3:
        raise Unknown(f"a table of {words.size} words")
    body, (form, negative, zero) = words[:_ENTRIES], words[_ENTRIES:].tolist()
    flags, exponent_bits = form >> 28, form >> 24 & 15
    is_signed, is_precise = bool(flags & 1), bool(flags & 2)
    if flags > 3 or exponent_bits not in (2, 4, 6, 8):
        raise Unknown(f"a table of the form {form:#010x}")
    if is_precise:
        exponent, mantissa = body >> 15 & 31, (body & 0x7FFF) / 32768.0
        magnitude = np.where(exponent > 0, (1 + mantissa) * 2.0 ** (exponent - 15.0), 0.0)
    else:
        exponent, mantissa = body >> 12 & 255, (body & 0xFFF) / 4096.0
        if (exponent == 255).any():
            raise Unknown("an entry of a table whose exponent stands for no finite number")
        magnitude = np.where(exponent > 0, (1 + mantissa) * 2.0 ** (exponent - 127.0), 0.0)
    values = magnitude * np.where(body >> 20 & 1, -1, 1)
    limits = _real24(negative), _real24(form)
    is_odd = not is_signed and bool(zero & _IS_ODD)
    if is_odd and exponent_bits == _ALL_EXPONENTS:
        raise Unknown(f"a table of the form {form:#010x} of an odd function")
    return PiecewiseTable(values.astype(np.float32), is_signed, is_odd, exponent_bits, limits)
