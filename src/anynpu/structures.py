"""Structures shared with C, which have no other fields than C's.

ctypes takes any attribute and keyword of a structure; those that are no fields C never sees.
"""

from __future__ import annotations

import ctypes
from typing import Any


class _StructureType(type(ctypes.Structure)):  # type: ignore[misc]
    """Gives every class empty slots, so that its instances have fields alone."""

    def __new__(cls, name: str, bases: Any, namespace: dict[str, Any]) -> Any:
        return super().__new__(cls, name, bases, {"__slots__": (), **namespace})


class _UnionType(type(ctypes.Union)):  # type: ignore[misc]
    def __new__(cls, name: str, bases: Any, namespace: dict[str, Any]) -> Any:
        return super().__new__(cls, name, bases, {"__slots__": (), **namespace})


class Structure(ctypes.Structure, metaclass=_StructureType):
    """A C structure; AttributeError for an attribute or a keyword that isn't one of its fields."""


class Union(ctypes.Union, metaclass=_UnionType):
    """A C union; the same."""
