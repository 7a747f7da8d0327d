"""The register machine: which registers every task sees.

Each block has two groups of registers and a pointer to the group that commands go to. When a task
starts a block and ping-pong is on, the pointer moves on to the other group. Groups keep their
contents, so later tasks of a node write only what changes: what a task computes can only be told
by running the list from its start. The two look-up tables live as long.

Nothing depends on data, so this runs once, when a model is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ...formats.rknn.model import Relocation, Task
from .registers.blocks import (
    BLOCK_SHIFT,
    BLOCKS,
    CNA,
    COMMAND_REGISTER,
    COMMAND_SHIFT,
    COMMAND_VALUE,
    CORE,
    IN_BLOCK,
    PING_PONG,
    POINTER,
    POINTER_CLEAR,
    POINTER_GROUP,
    STARTED,
    TABLE_ACCESS,
    TABLE_DATA,
    TABLE_NUMBER,
    TABLE_PLACE,
    TABLE_WRITES,
)
from .registers.fields import sign_extend
from .registers.map import RegisterMap
from .tasks import TABLE_ENTRIES


@dataclass(frozen=True)
class TaskState:
    """The registers of the blocks that one task starts, and where their addresses point.

    `tables` are the look-up tables for negative and other values; `loads_tables` says that the
    task is there to write them.
    """

    index: int
    node: int
    enable_mask: int
    words: dict[int, int]
    relocations: dict[int, Relocation]
    tables: tuple[NDArray[np.int16], NDArray[np.int16]]
    loads_tables: bool


class _Block:
    """Two register groups of one block."""

    def __init__(self, ping_pong: bool) -> None:
        self.groups: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.relocations: tuple[dict[int, Relocation], dict[int, Relocation]] = ({}, {})
        self.pointer = 0
        self.ping_pong = ping_pong

    def set_pointer(self, value: int) -> None:
        if value & POINTER_CLEAR:
            self.pointer = 0
        self.ping_pong = bool(value & PING_PONG)
        if not self.ping_pong:
            self.pointer = value & POINTER_GROUP

    def write(self, register: int, value: int, relocation: Relocation | None) -> None:
        self.groups[self.pointer][register] = value
        if relocation is None:
            self.relocations[self.pointer].pop(register, None)
        else:
            self.relocations[self.pointer][register] = relocation


class _Tables:
    """The two look-up tables; a snapshot is only made after a change."""

    def __init__(self) -> None:
        self._entries = np.zeros((2, TABLE_ENTRIES), np.int16)
        self._snapshot: tuple[NDArray[np.int16], NDArray[np.int16]] | None = None
        self._table = self._place = 0
        self.writes = False

    def access(self, value: int) -> None:
        self._table, self._place = int(bool(value & TABLE_NUMBER)), value & TABLE_PLACE
        self.writes = bool(value & TABLE_WRITES)

    def write(self, value: int) -> None:
        if self.writes and self._place < TABLE_ENTRIES:
            self._entries[self._table, self._place] = sign_extend(value, 16)
            self._place += 1
            self._snapshot = None

    def snapshot(self) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
        if self._snapshot is None:
            copy = self._entries.copy()
            copy.flags.writeable = False
            self._snapshot = (copy[0], copy[1])
        return self._snapshot


def run_commands(
    commands: NDArray[np.uint64],
    tasks: Sequence[Task],
    relocations: Mapping[int, Relocation],
    registers: RegisterMap,
) -> Iterator[TaskState]:
    """The register state of each task of one core's list, in order.

    `commands` are the file's 64-bit command words, `relocations` goes by the number of the word.
    What steers the chip alone is dropped. Raises `ModelError` for a task beyond the commands, and
    for a register that the chip isn't known to have.
    """
    # The driver turns ping-pong on for these two; the command stream does it for the others.
    blocks = {number: _Block(ping_pong=number in (CNA, CORE)) for number in BLOCKS}
    tables = _Tables()
    for task in tasks:
        end = task.first_command + task.commands
        if end > commands.size:
            raise ModelError(
                f"task {task.index} of node {task.node} has commands {task.first_command} to "
                f"{end}, but the file has {commands.size}"
            )
        loads = _execute(commands, task, relocations, blocks, tables, registers)
        yield _start(task, blocks, tables, loads)


def _execute(
    commands: NDArray[np.uint64],
    task: Task,
    relocations: Mapping[int, Relocation],
    blocks: dict[int, _Block],
    tables: _Tables,
    registers: RegisterMap,
) -> bool:
    """Run one task's commands; whether they write the tables."""
    loads = tables.writes = False
    first = task.first_command
    words = commands[first : first + task.commands].tolist()
    known, inert, zeros = registers.known, registers.inert, registers.zeros
    for place, word in enumerate(words, first):
        register, value = word & COMMAND_REGISTER, word >> COMMAND_SHIFT & COMMAND_VALUE
        if register == TABLE_DATA:
            tables.write(value)
            loads = loads or tables.writes
        elif register == TABLE_ACCESS:
            tables.access(value)
        elif register in known:
            blocks[register >> BLOCK_SHIFT].write(register, value, relocations.get(place))
        elif register & IN_BLOCK == POINTER and register >> BLOCK_SHIFT in BLOCKS:
            blocks[register >> BLOCK_SHIFT].set_pointer(value)
        elif register >> BLOCK_SHIFT and register not in inert and (value or register not in zeros):
            # Registers of the program controller (0x0xxx) only chain tasks.
            raise ModelError(
                f"task {task.index} of node {task.node} writes {value:#x} to the register "
                f"{register:#06x}, which is not known"
            )
    return loads


def _start(task: Task, blocks: dict[int, _Block], tables: _Tables, loads: bool) -> TaskState:
    words: dict[int, int] = {}
    relocations: dict[int, Relocation] = {}
    for bit, number in STARTED.items():
        if task.enable_mask & bit:
            block = blocks[number]
            words.update(block.groups[block.pointer])
            relocations.update(block.relocations[block.pointer])
            block.pointer ^= block.ping_pong
    return TaskState(
        task.index, task.node, task.enable_mask, words, relocations, tables.snapshot(), loads
    )
