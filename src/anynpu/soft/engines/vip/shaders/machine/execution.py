"""A program on all work items at once: a register is an array with a row for each.

Items go on together as long as they are at the same instruction; those that are least far go first,
so that they meet again where their ways do.
"""

from __future__ import annotations

import numpy as np

from ...metering import Meter
from ...refusal import Unknown
from .accesses import ACCESSES
from .instructions import Instruction
from .operations import OPERATIONS, asked_of
from .ranges import Contents
from .state import ALL_ITEMS, SCRATCH_BYTES, Items, Part, Program, Watch

_FUNCTIONS = {**OPERATIONS, **ACCESSES}

_MOST_SCRATCH = 1 << 24
"""Bytes that groups have for themselves, of all groups that are there at once."""


def carry_out(
    program: Program,
    contents: Contents,
    meter: Meter,
    unknown: int = 0,
    watch: Watch | None = None,
) -> None:
    """Carry a program out on bytes.

    `unknown` is what bytes have of which nothing is known. Raises `Unknown` where it reads or
    writes what isn't there, or goes on for too long.
    """
    most_groups = _MOST_SCRATCH // (SCRATCH_BYTES * max(len(program.scratch), 1))
    for groups, registers in program.launch.parts(most_groups):
        registers[len(program.launch.inputs) :] = unknown * 0x01010101
        _carry_out(Part(program, contents, groups, registers, unknown, watch), meter)


def _carry_out(part: Part, meter: Meter) -> None:
    instructions = part.program.instructions
    waiting: dict[int, Items] = {0: ALL_ITEMS}
    while waiting:
        place = min(waiting)
        items = waiting.pop(place)
        if place >= len(instructions):
            continue
        meter.take(part.size(items))
        instruction = instructions[place]
        if instruction.name == "br":
            for target, some in _branches(part, instruction, place, items):
                _wait(part, waiting, target, some)
            continue
        if instruction.name == "barrier" and waiting and min(waiting) < len(instructions):
            raise Unknown("a barrier that not all work items come to")
        _FUNCTIONS[instruction.name](part, instruction, place, items)
        _wait(part, waiting, place + 1, items)


def _wait(part: Part, waiting: dict[int, Items], place: int, items: Items) -> None:
    """Let items go on at an instruction, with those that are there already."""
    other = waiting.get(place)
    if other is None:
        waiting[place] = items
        return
    both = np.concatenate([part.numbers(other), part.numbers(items)])
    both.sort()
    waiting[place] = ALL_ITEMS if both.size == part.count else both


def _branches(
    part: Part, instruction: Instruction, place: int, items: Items
) -> list[tuple[int, Items]]:
    """Which items go on where."""
    if not instruction.sources:
        return [(instruction.jump, items)]
    values = [part.words(source, instruction.kind, items)[:, 0] for source in instruction.sources]
    asked = asked_of(instruction.condition, *values)
    if asked.size == 1 or asked.all() or not asked.any():
        return [(instruction.jump if asked.flat[0] else place + 1, items)]
    numbers = part.numbers(items)
    asked = np.broadcast_to(asked, numbers.shape)
    return [(instruction.jump, numbers[asked]), (place + 1, numbers[~asked])]
