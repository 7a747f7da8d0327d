"""C text for declarations: types, structures, enumerations, prototypes."""

from __future__ import annotations

import ctypes
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .declarations import Enumeration, Function, Named, symbol_of

_LINE = 100
"""Characters of a line of C."""

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
    ctypes.c_double: "double",
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


class SharedWriter(Writer):
    """Writes C for structures that Python shares with C files of this project.

    A structure's tag is its class's name in C's way, its comment the class's docstring. Sizes and
    offsets of 64-bit processors are compiled in: a compiler that lays a structure out in another
    way than ctypes fails.
    """

    def __init__(
        self, structures: Iterable[type[ctypes.Structure]], pointers: Mapping[str, str]
    ) -> None:
        self._tags = {structure: tag_of(structure) for structure in structures}
        super().__init__({f"struct {tag}": each for each, tag in self._tags.items()}, pointers)

    def header(self, guard: str, title: str, parts: Iterable[str]) -> str:
        """A whole file that may be included more than once."""
        return "\n\n".join(
            (
                _comment(title),
                f"#ifndef {guard}\n#define {guard}",
                "#include <stddef.h>\n#include <stdint.h>",
                *parts,
                "#endif\n",
            )
        )

    def constants(self, values: Mapping[str, int]) -> str:
        """Numbers as an enumeration without a name."""
        return "\n".join(("enum {", *(f"    {n} = {v}," for n, v in values.items()), "};"))

    def numbers(self, name: str, members: type[enum.Enum]) -> str:
        """An enumeration whose members have the same names in C."""
        comment = _comment(inspect.cleandoc(members.__doc__ or ""))
        values = (f"    {n} = {m.value}," for n, m in members.__members__.items())
        return "\n".join((comment, f"enum {name} {{", *values, "};"))

    def shared(self, structure: type[ctypes.Structure]) -> str:
        """A structure, and that C has it where ctypes has it."""
        tag = self._tags[structure]
        fields = (f"  {line}" for line in self._fields(structure, tag))
        return "\n".join(
            (
                _comment(inspect.cleandoc(structure.__doc__ or "")),
                f"struct {tag} {{",
                *fields,
                "};",
                "#if UINTPTR_MAX == UINT64_MAX",
                *self._assertions(structure, tag),
                "#endif",
            )
        )

    def _field(self, structure: str, name: str, kind: Any) -> str:
        return super()._field(structure, name, kind).replace("* ", "*")

    def _assertions(self, structure: type[ctypes.Structure], tag: str) -> Iterator[str]:
        for name, *_ in structure._fields_:
            offset = getattr(structure, name).offset
            yield _asserted(f"offsetof(struct {tag}, {name}) == {offset}", f"{tag}.{name}")
        yield _asserted(f"sizeof(struct {tag}) == {ctypes.sizeof(structure)}", tag)


def tag_of(structure: type) -> str:
    """A class's name as C spells it: ``Int8Dense`` is ``int8_dense``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", structure.__name__).lower().lstrip("_")


def _asserted(condition: str, message: str) -> str:
    """An assertion in the project's style of C."""
    begin, end = f"_Static_assert({condition},", f'"{message}");'
    line = f"{begin} {end}"
    return line if len(line) <= _LINE else f"{begin}\n{' ' * len('_Static_assert(')}{end}"


def _comment(text: str) -> str:
    paragraphs = re.sub(r"`([^`]*)`", r"\1", text).split("\n\n")
    lines = [line for part in paragraphs for line in textwrap.wrap(" ".join(part.split()), 95)]
    return "/* " + "\n * ".join(lines) + " */"


@dataclass(frozen=True)
class SharedHeader:
    """A header that is written from what Python shares with C files.

    `module` is the one that writes it when it is run, `subject` who shares. Constants are an
    enumeration for each mapping; `pointers` says what addresses in a structure point to.
    """

    file: Path
    module: str
    subject: str
    constants: Sequence[Mapping[str, int]]
    enumerations: Mapping[str, type[enum.Enum]]
    structures: Sequence[type[ctypes.Structure]]
    pointers: Mapping[str, str]

    @property
    def command(self) -> str:
        """What a person runs to write it."""
        return f"python -m {self.module}"

    def text(self) -> str:
        """The whole header."""
        writer = SharedWriter(self.structures, self.pointers)
        return writer.header(
            f"ANYNPU_{self.file.stem.upper()}_H",
            f"What {self.subject} with Python; written by {self.command}.",
            (
                *(writer.constants(values) for values in self.constants),
                *(writer.numbers(name, members) for name, members in self.enumerations.items()),
                *(writer.shared(structure) for structure in self.structures),
            ),
        )

    def keep(self) -> int:
        """Write the file, or with ``--check`` among the arguments look whether it is up to date.

        Returns what the process ends with: 1 where the file isn't what would be written.
        """
        if "--check" not in sys.argv:
            self.file.write_text(self.text())
            return 0
        if self.file.read_text() == self.text():
            return 0
        print(f"{self.file} is out of date: run {self.command}", file=sys.stderr)
        return 1
