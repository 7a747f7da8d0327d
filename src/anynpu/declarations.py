"""What a declared C API is made of: enumerations that know their C names, and functions.

`rknn/abi.py` and `viplite/abi.py` declare with these; whoever binds a library, implements it or
writes C derives the rest.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

Enumeration = type[enum.IntEnum] | type[enum.IntFlag]

_SYMBOLS: dict[type, tuple[str, dict[str, str]]] = {}
_E = TypeVar("_E", bound=type)


def symbols(prefix: str, **exceptions: str) -> Callable[[_E], _E]:
    """Say how C spells the members of an enumeration: a prefix, or the exception's own name."""

    def remember(cls: _E) -> _E:
        _SYMBOLS[cls] = (prefix, exceptions)
        return cls

    return remember


def symbol_of(enumeration: type, name: str) -> str:
    """The C name of an enumeration's member, aliases included."""
    prefix, exceptions = _SYMBOLS[enumeration]
    return exceptions.get(name, prefix + name)


class Symbolic:
    """What a declared enumeration adds to an int: the C name of a member."""

    name: str

    @property
    def symbol(self) -> str:
        return symbol_of(type(self), self.name)


@dataclass(frozen=True)
class Named:
    """A C type that has a name of its own, and the ctypes type that it is passed as."""

    symbol: str
    kind: Any

    @property
    def pointer(self) -> Named:
        """The type of a pointer to it."""
        return Named(f"{self.symbol} *", ctypes.POINTER(self.kind))


def ctype(kind: Any) -> Any:
    """The ctypes type that an argument or result is declared with."""
    return kind.kind if isinstance(kind, Named) else kind


@dataclass(frozen=True)
class Function:
    """One exported function.

    `arguments` are (C name, ctypes type or `Named`) in order, `result` is such a type or None;
    `since` is the first version of the library that has the function.
    """

    name: str
    result: Any
    arguments: tuple[tuple[str, Any], ...]
    since: str

    @cached_property
    def prototype(self) -> Any:
        """The ctypes function type to call it with."""
        return ctypes.CFUNCTYPE(ctype(self.result), *self.argument_types)

    @cached_property
    def callback(self) -> Any:
        """The ctypes function type to implement it with: ctypes can't return typed pointers."""
        result = ctype(self.result)
        is_pointer = result is not None and not issubclass(result, ctypes._SimpleCData)
        return ctypes.CFUNCTYPE(ctypes.c_void_p if is_pointer else result, *self.argument_types)

    @property
    def argument_types(self) -> tuple[Any, ...]:
        return tuple(ctype(kind) for _, kind in self.arguments)

    @property
    def returns_code(self) -> bool:
        """Whether the result says if the call failed; others answer with a value, or nothing."""
        return ctype(self.result) is ctypes.c_int
