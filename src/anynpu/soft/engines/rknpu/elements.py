"""What lies in memory, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from ....errors import ModelError


class Element(Enum):
    """What a lane of an atom holds; the value is the registers' number for it."""

    INT8 = 0
    INT16 = 1
    FLOAT16 = 2
    BFLOAT16 = 3
    INT32 = 4
    FLOAT32 = 5

    # As `Quantity`'s.
    __hash__ = object.__hash__

    @classmethod
    def _missing_(cls, value: object) -> Element:
        raise ModelError(f"elements of type {value} are not known")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the bytes; uint16 carries bfloat16."""
        return _DTYPES[self]

    @property
    def size(self) -> int:
        return self.dtype.itemsize

    @property
    def is_float(self) -> bool:
        return self in (Element.FLOAT16, Element.BFLOAT16, Element.FLOAT32)


_DTYPES: dict[Element, np.dtype[Any]] = {
    Element.INT8: np.dtype(np.int8),
    Element.INT16: np.dtype(np.int16),
    Element.FLOAT16: np.dtype(np.float16),
    Element.BFLOAT16: np.dtype(np.uint16),
    Element.INT32: np.dtype(np.int32),
    Element.FLOAT32: np.dtype(np.float32),
}


Description = TypeVar("Description")


@dataclass(frozen=True, slots=True)
class Address:
    """A place in a data section of the file, or in internal memory where `section` is 0."""

    section: int
    offset: int


def changed(description: Description, **fields: object) -> Description:
    """`dataclasses.replace` of what checks nothing and keeps nothing besides its fields: faster.

    Thousands of tasks differ in an address.
    """
    other: Description = object.__new__(type(description))
    vars(other).update(vars(description), **fields)
    return other


NOWHERE = Address(0, 0)
"""Stands in a description until the address is known."""
