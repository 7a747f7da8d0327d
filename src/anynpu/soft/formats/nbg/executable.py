"""The parts of a `.nb` file that the chip executes: commands, patches, coefficients, registers.

Both versions of the container hold the same parts, in other sections; each gives them as `Parts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from .model import (
    COMMAND_WORDS,
    NN_KINDS,
    Executable,
    Operation,
    OperationKind,
    Patch,
    Patches,
    Section,
)
from .view import View

_PATCH_SIZES = (40, 28)
_PATCH_WORDS = 7
_SHADER_BYTES = 8
_OFFSETS_IN_PATCHES = 0x1001F
"""The first version whose patches have the operands' offsets."""


@dataclass(frozen=True)
class Parts:
    """Where a version of the container has what is executed; None for what a file has not.

    A pair is a table of offsets and sizes, and the data that it cuts up. `shaders` are what runs
    `programs`, which the oldest files lack.
    """

    nn: Section | None
    tp: Section | None
    patches: Section | None
    coefficients: tuple[Section | None, Section | None]
    constants: tuple[Section | None, Section | None]
    states: tuple[Section | None, Section | None]
    shaders: Section | None = None
    programs: tuple[Section | None, Section | None] = (None, None)


def read_executable(
    view: View, version: int, parts: Parts, operations: Sequence[Operation], command_bytes: int
) -> Executable:
    """The parts, and every reference of an operation checked.

    Raises `ModelError` for a table that isn't whole, and for an operation that names what the file
    doesn't hold.
    """
    executable = Executable(
        nn=_commands(view, parts.nn, command_bytes),
        tp=_commands(view, parts.tp, 4 * COMMAND_WORDS),
        patches=_patches(view, parts.patches, version),
        coefficients=_pieces(view, *parts.coefficients),
        constants=_pieces(view, *parts.constants),
        states=_pieces(view, *parts.states),
        has_offsets_in_commands=version < _OFFSETS_IN_PATCHES,
        shader_programs=_shader_programs(view, parts),
    )
    for number, operation in enumerate(operations):
        _check(number, operation, executable)
    return executable


def _check(number: int, operation: Operation, executable: Executable) -> None:
    if operation.patches.stop > len(executable.patches):
        raise ModelError(
            f"damaged .nb file: operation {number} has the patches {operation.patches.start} to "
            f"{operation.patches.stop} of {len(executable.patches)}"
        )
    commands = None
    if operation.kind in NN_KINDS:
        commands = executable.nn
    elif operation.kind == OperationKind.TP:
        commands = executable.tp
    if commands is not None and operation.index >= len(commands):
        raise ModelError(
            f"damaged .nb file: operation {number} is {operation.unit} command {operation.index} "
            f"of {len(commands)}"
        )


def _commands(view: View, section: Section | None, size: int) -> NDArray[np.uint32]:
    content = view.bytes_of(section)
    if content.size % size:
        assert section is not None, "an empty section divides"
        raise ModelError(
            f"damaged .nb file: section {section.name!r} at offset {section.offset} has "
            f"{section.size} bytes, which are no commands of {size}"
        )
    # A section lies where it lies; words that aren't aligned are copied.
    words = np.frombuffer(content.tobytes(), "<u4").reshape(-1, size // 4)
    words.flags.writeable = False
    return words


def _patches(view: View, section: Section | None, version: int) -> Sequence[Patch]:
    if section is None:
        return ()
    sizes = _PATCH_SIZES if version < 0x20000 else _PATCH_SIZES[1:]
    size = next((size for size in sizes if section.size % size == 0), 0)
    if not size:
        raise ModelError(
            f"damaged .nb file: section {section.name!r} at offset {section.offset} has "
            f"{section.size} bytes, which are no patches"
        )
    words = np.frombuffer(view.bytes_of(section).tobytes(), "<i4").reshape(-1, size // 4)
    return Patches(np.ascontiguousarray(words[:, :_PATCH_WORDS]))


def _shader_programs(view: View, parts: Parts) -> tuple[NDArray[np.uint8], ...]:
    """The program of each command of the shader unit, by the command's number."""
    if parts.shaders is None:
        return ()
    programs = _pieces(view, *parts.programs)
    content = view.bytes_of(parts.shaders)
    if content.size % _SHADER_BYTES:
        raise ModelError(
            f"damaged .nb file: section {parts.shaders.name!r} at offset {parts.shaders.offset} "
            f"has {content.size} bytes, which are no commands of {_SHADER_BYTES}"
        )
    numbers = np.frombuffer(content.tobytes(), "<u4").reshape(-1, _SHADER_BYTES // 4)[:, 0].tolist()
    for command, number in enumerate(numbers):
        if number >= len(programs):
            raise ModelError(
                f"damaged .nb file: shader command {command} runs program {number} of "
                f"{len(programs)}"
            )
    return tuple(programs[number] for number in numbers)


def _pieces(
    view: View, table: Section | None, data: Section | None
) -> tuple[NDArray[np.uint8], ...]:
    """What a table of offsets and sizes cuts out of a section."""
    if table is None:
        return ()
    if table.size % 8:
        raise ModelError(
            f"damaged .nb file: section {table.name!r} at offset {table.offset} has {table.size} "
            f"bytes, which are no pairs of offset and size"
        )
    content = view.bytes_of(data)
    pairs = np.frombuffer(view.bytes_of(table).tobytes(), "<u4").reshape(-1, 2).tolist()
    for number, (offset, size) in enumerate(pairs):
        if offset + size > content.size:
            raise ModelError(
                f"damaged .nb file: entry {number} of section {table.name!r} names bytes {offset} "
                f"to {offset + size} of {content.size}"
            )
    return tuple(content[offset : offset + size] for offset, size in pairs)
