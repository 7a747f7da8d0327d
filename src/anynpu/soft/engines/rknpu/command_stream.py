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

_STARTED = tuple((int(bit), number) for bit, number in STARTED.items())


_Group = tuple[dict[int, int], dict[int, Relocation]]
"""What one group's registers hold, and which addresses are relocated, by the register."""


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
    """Two register groups of one block; commands go to `words` and `relocations` of one of them."""

    def __init__(self, ping_pong: bool) -> None:
        self._groups: tuple[_Group, _Group] = (({}, {}), ({}, {}))
        self._pointer = 0
        self._ping_pong = ping_pong
        self.words, self.relocations = self._groups[0]

    def set_pointer(self, value: int) -> None:
        pointer = 0 if value & POINTER_CLEAR else self._pointer
        self._ping_pong = bool(value & PING_PONG)
        self._point_at(pointer if self._ping_pong else value & POINTER_GROUP)

    def start(self) -> None:
        """The block computes with the group that was written; commands go to the next one."""
        if self._ping_pong:
            self._point_at(self._pointer ^ 1)

    def copy(self) -> _Block:
        other = _Block(self._ping_pong)
        (words, relocations), (more_words, more_relocations) = self._groups
        other._groups = (
            (dict(words), dict(relocations)),
            (dict(more_words), dict(more_relocations)),
        )
        other._point_at(self._pointer)
        return other

    def _point_at(self, pointer: int) -> None:
        self._pointer = pointer
        self.words, self.relocations = self._groups[pointer]


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

    def copy(self) -> _Tables:
        other = _Tables()
        other._entries[...] = self._entries
        other._snapshot = self._snapshot
        other._table, other._place = self._table, self._place
        return other


class RegisterMachine:
    """The registers and tables of one core, as the tasks that it ran left them.

    `commands` are the file's 64-bit command words, `relocations` goes by the number of the word.
    """

    def __init__(
        self,
        commands: NDArray[np.uint64],
        relocations: Mapping[int, Relocation],
        registers: RegisterMap,
    ) -> None:
        self._commands, self._relocations, self._registers = commands, relocations, registers
        # The driver turns ping-pong on for these two; the command stream does it for the others.
        self._blocks = {number: _Block(ping_pong=number in (CNA, CORE)) for number in BLOCKS}
        self._tables = _Tables()

    def copy(
        self, commands: NDArray[np.uint64], relocations: Mapping[int, Relocation]
    ) -> RegisterMachine:
        """Another one with the same registers and tables, that goes on with other commands."""
        other = RegisterMachine(commands, relocations, self._registers)
        other._blocks = {number: block.copy() for number, block in self._blocks.items()}
        other._tables = self._tables.copy()
        return other

    def run(self, task: Task) -> TaskState:
        """Run a task's commands; what the blocks that it starts have got.

        Raises `ModelError` for commands that aren't there, or write an unknown register.
        """
        end = task.first_command + task.commands
        if end > self._commands.size:
            raise ModelError(
                f"task {task.index} of node {task.node} has commands {task.first_command} to "
                f"{end}, but the file has {self._commands.size}"
            )
        loads = self._execute(task)
        words: dict[int, int] = {}
        relocations: dict[int, Relocation] = {}
        mask = task.enable_mask
        for bit, number in _STARTED:
            if mask & bit:
                block = self._blocks[number]
                words.update(block.words)
                relocations.update(block.relocations)
                block.start()
        tables = self._tables.snapshot()
        return TaskState(task.index, task.node, mask, words, relocations, tables, loads)

    def _execute(self, task: Task) -> bool:
        """Whether the commands write the tables."""
        blocks, tables, relocations = self._blocks, self._tables, self._relocations
        registers = self._registers
        known, inert, zeros = registers.known, registers.inert, registers.zeros
        loads = tables.writes = False
        first = task.first_command
        words = self._commands[first : first + task.commands].tolist()
        for place, word in enumerate(words, first):
            register, value = word & COMMAND_REGISTER, word >> COMMAND_SHIFT & COMMAND_VALUE
            if register == TABLE_DATA:
                tables.write(value)
                loads = loads or tables.writes
            elif register == TABLE_ACCESS:
                tables.access(value)
            elif register in known:
                block = blocks[register >> BLOCK_SHIFT]
                block.words[register] = value
                if place in relocations:
                    block.relocations[register] = relocations[place]
                elif register in block.relocations:
                    del block.relocations[register]
            elif register & IN_BLOCK == POINTER and register >> BLOCK_SHIFT in blocks:
                blocks[register >> BLOCK_SHIFT].set_pointer(value)
            elif (
                register >> BLOCK_SHIFT
                and register not in inert
                and (value or register not in zeros)
            ):
                # Registers of the program controller (0x0xxx) only chain tasks.
                raise ModelError(
                    f"task {task.index} of node {task.node} writes {value:#x} to the register "
                    f"{register:#06x}, which is not known"
                )
        return loads


def run_commands(
    commands: NDArray[np.uint64],
    tasks: Sequence[Task],
    relocations: Mapping[int, Relocation],
    registers: RegisterMap,
) -> Iterator[TaskState]:
    """The register state of each task of one core's list, in order, as `RegisterMachine` says.

    What steers the chip alone is dropped. Raises `ModelError` for a task beyond the commands, and
    for a register that the chip isn't known to have.
    """
    machine = RegisterMachine(commands, relocations, registers)
    return map(machine.run, tasks)
