"""Structures shared with C, which have no other fields than C's.

ctypes takes any attribute and keyword of a structure; those that are no fields C never sees. These
raise AttributeError for them.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

__all__ = ["Structure", "Union"]

if TYPE_CHECKING:
    from ctypes import Structure, Union
else:

    class _StructureType(type(ctypes.Structure)):
        """Gives every class empty slots, so that its instances have fields alone."""

        def __new__(cls, name: str, bases: Any, namespace: dict[str, Any]) -> Any:
            return super().__new__(cls, name, bases, {"__slots__": (), **namespace})

    class _UnionType(type(ctypes.Union)):
        def __new__(cls, name: str, bases: Any, namespace: dict[str, Any]) -> Any:
            return super().__new__(cls, name, bases, {"__slots__": (), **namespace})

    class Structure(ctypes.Structure, metaclass=_StructureType):
        """A C structure."""

    class Union(ctypes.Union, metaclass=_UnionType):
        """A C union."""
