"""C text for declarations: types, structures, enumerations, prototypes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from .declarations import Enumeration, Function, Named, symbol_of

_SCALARS: dict[Any, str] = {
    ctypes.c_char: "char",
    ctypes.c_int8: "int8_t",
    ctypes.c_uint8: "uint8_t",
    ctypes.c_int16: "int16_t",
    ctypes.c_int32: "int32_t",
    ctypes.c_uint32: "uint32_t",
    ctypes.c_int64: "int64_t",
    ctypes.c_uint64: "uint64_t",
    ctypes.c_float: "float",
    ctypes.c_void_p: "void *",
    ctypes.c_char_p: "const char *",
}


class Writer:
    """Writes C for an API whose structures have the names given.

    `named` says of fields, as ``structure.field``, the name that their type has in C.
    """

    def __init__(
        self,
        structures: Mapping[str, type[ctypes.Structure]],
        named: Mapping[str, str] | None = None,
    ) -> None:
        self._names: dict[Any, str] = {structure: name for name, structure in structures.items()}
        self._named = named or {}

    def enumeration(self, name: str, members: Enumeration) -> str:
        """An enumeration's type definition."""
        values = members.__members__.items()
        lines = [f"  {symbol_of(members, n)} = {m.value}," for n, m in values]
        return "\n".join((f"typedef enum _{name} {{", *lines, f"}} {name};"))

    def structure(self, name: str, structure: type[ctypes.Structure]) -> str:
        """A structure's type definition."""
        fields = self._fields(structure, name)
        return "\n".join((f"typedef struct _{name} {{", *fields, f"}} {name};"))

    def prototype(self, function: Function) -> str:
        """A function's declaration."""
        return f"{self.declare(function.result, function.name)}({self.parameters(function)});"

    def parameters(self, function: Function) -> str:
        """A function's parameters as C declares them."""
        declared = [self.declare(kind, name) for name, kind in function.arguments]
        return ", ".join(declared) or "void"

    def declare(self, kind: Any, name: str) -> str:
        """A C declaration of `name`, which may be empty, with a type."""
        if (type_name := self._name_of(kind)) is not None:
            return f"{type_name} {name}".replace("* ", "*").rstrip()
        if issubclass(kind, ctypes.Array):
            return self.declare(kind._type_, f"{name}[{kind._length_}]")
        if issubclass(kind, ctypes._Pointer):
            return self.declare(kind._type_, f"*{name}")
        arguments = ", ".join(self.declare(argument, "") for argument in kind._argtypes_)
        return f"{self.declare(kind._restype_, f'(*{name})')}({arguments})"

    def _name_of(self, kind: Any) -> str | None:
        """How C calls a type; None for arrays, pointers and functions, which wrap a name."""
        if kind is None:
            return "void"
        if isinstance(kind, Named):
            return kind.symbol
        known = _SCALARS.get(kind) or self._names.get(kind)
        if known is None and issubclass(kind, ctypes.Structure | ctypes.Union):
            word = "union" if issubclass(kind, ctypes.Union) else "struct"
            known = f"{word} {{ {' '.join(self._fields(kind))} }}"
        return known

    def _fields(self, structure: Any, name: str = "") -> list[str]:
        return [f"  {self._field(name, field, kind)};" for field, kind, *_ in structure._fields_]

    def _field(self, structure: str, name: str, kind: Any) -> str:
        named = self._named.get(f"{structure}.{name}")
        return f"{named} {name}" if named else self.declare(kind, name)
