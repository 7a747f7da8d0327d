"""How much of shaders' programs may be carried out."""

from __future__ import annotations

from dataclasses import dataclass

from .refusal import Unknown

MOST_AT_LOAD = 1 << 27
"""Instructions on a work item each, of all operations of a file, before it is refused: two to five
seconds. Of 123 files with such programs none takes more than a twentieth of it."""

_LEAST_COUNTED = 1 << 11
"""Items that take as long as an instruction on fewer."""


@dataclass
class Meter:
    """What running may still take: instructions on an item each."""

    left: int

    def take(self, items: int) -> None:
        """Count an instruction; raises `Unknown` where there is nothing left."""
        self.left -= max(items, _LEAST_COUNTED)
        if self.left < 0:
            raise Unknown("a program that takes too long, or doesn't end")
