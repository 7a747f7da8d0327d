"""Command streams written by hand, word by word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anynpu.soft.engines.rknpu.addresses import RelocatedAddresses
from anynpu.soft.engines.rknpu.command_stream import TaskState, run_commands
from anynpu.soft.engines.rknpu.decode import decode_task
from anynpu.soft.engines.rknpu.decode.context import Context
from anynpu.soft.engines.rknpu.elements import Address
from anynpu.soft.engines.rknpu.generations.base import Generation
from anynpu.soft.engines.rknpu.generations.rk3588.generation import Rk3588
from anynpu.soft.engines.rknpu.memory import INTERNAL, MemoryMap
from anynpu.soft.engines.rknpu.registers.fields import Field
from anynpu.soft.engines.rknpu.registers.map import RegisterMap
from anynpu.soft.engines.rknpu.task_registers import Constants, TaskRegisters
from anynpu.soft.engines.rknpu.tasks import Task
from anynpu.soft.formats.rknn.model import Relocation
from anynpu.soft.formats.rknn.model import Task as CommandTask

Word = tuple[int, int] | tuple[int, str]
"""A register's number and its value, or the name of the buffer that it points to."""

INTERNAL_BYTES = 1 << 16
BUFFERS = {
    "x": Address(INTERNAL, 0),
    "y": Address(INTERNAL, 1 << 14),
    "y + 8": Address(INTERNAL, (1 << 14) + 8),
    "weights": Address(1, 0),
    "operands": Address(2, 0),
}


_TABLE = np.zeros(513, np.int16)


def no_constants(address: Address, count: int) -> bytes:
    """For tasks whose scalar operands are in registers."""
    raise AssertionError(f"{count} bytes at {address}")


def task_of(
    chip: Generation,
    words: Mapping[int, int],
    mask: int,
    relocations: Mapping[int, Relocation] | None = None,
    constants: Constants = no_constants,
) -> TaskRegisters:
    """One task's registers on a chip."""
    return chip.task(state_of(words, mask, relocations), RelocatedAddresses(BUFFERS), constants)


def state_of(
    words: Mapping[int, int], mask: int, relocations: Mapping[int, Relocation] | None = None
) -> TaskState:
    """What one task starts with."""
    return TaskState(0, 0, mask, dict(words), dict(relocations or {}), (_TABLE, _TABLE), False)


def run(
    tasks: Sequence[tuple[int, Sequence[Word]]], registers: RegisterMap = Rk3588.registers
) -> list[TaskState]:
    """The states of tasks, each an enable mask and its words."""
    commands: list[int] = []
    relocations: dict[int, Relocation] = {}
    listed = []
    for index, (mask, words) in enumerate(tasks):
        listed.append(CommandTask(index, index, mask, 0, len(commands), len(words)))
        for register, value in words:
            if isinstance(value, str):
                relocations[len(commands)] = Relocation(value, 0)
            commands.append((0 if isinstance(value, str) else value) << 16 | register)
    stream = np.array(commands, np.uint64)
    return list(run_commands(stream, listed, relocations, registers))


def fields(values: Mapping[Field, int]) -> list[Word]:
    """Register words from the values of fields."""
    words: dict[int, int] = {}
    for field, value in values.items():
        number = field.register.number
        words[number] = words.get(number, 0) | field.put(value)
    return list(words.items())


def decode(
    mask: int,
    words: Sequence[Word],
    constants: Mapping[int, bytes] | None = None,
    generation: Generation | None = None,
) -> Task:
    """One task alone, decoded: of RK3588, where nothing else is said."""
    sections = {number: np.frombuffer(data, np.uint8) for number, data in (constants or {}).items()}
    memory = MemoryMap(INTERNAL_BYTES, sections)
    chip = generation or Rk3588()
    (state,) = run([(mask, words)], chip.registers)
    context = Context(chip, memory)
    task = chip.task(state, RelocatedAddresses(BUFFERS), context.constant_bytes)
    return decode_task(task, context)
