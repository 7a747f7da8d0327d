"""Tasks in files of toolkits before 1.6, where each node lists its own.

A task names a tensor with its commands, perhaps another one with those that load its look-up
tables before, and for each register that is to hold an address the tensor and the offset in it. A
command is the value above the register's number; here commands get
the later form, value above number above the block's word, which is left 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from .flatbuffer import TableReader
from .model import Relocation, Task, Tensor
from .slots import TaskSlots

_ADDRESS = struct.Struct("<2I2Q")  # register, tensor, offset, the first of the rows that it is for
_COMMAND_BYTES = 8
_REGISTER = np.uint64(0xFFFF)
_ONE_CORE = 1


def read_listed(
    nodes: Sequence[Sequence[TableReader]],
    slots: TaskSlots,
    tensors: Sequence[Tensor],
    sections: Sequence[memoryview],
) -> tuple[memoryview, tuple[Task, ...], dict[int, Relocation]]:
    """The commands of all nodes' tasks for one core, the tasks, and the addresses by command.

    Tasks that share their node's work with other cores compute the same and are left out. Raises
    `ModelError` for tensors that aren't there, for commands of another form and for addresses that
    no command takes.
    """
    lists = _Lists(tensors, sections)
    for node, listed in enumerate(nodes):
        for entry in listed:
            # Files of the first toolkits don't count cores: there is one.
            if entry.u32(slots.cores, _ONE_CORE) == _ONE_CORE:
                lists.load_tables(entry, node, entry.u32(slots.table))
                lists.add(entry, node, slots)
    return lists.commands(), tuple(lists.tasks), lists.relocations


class _Lists:
    """The tasks so far."""

    def __init__(self, tensors: Sequence[Tensor], sections: Sequence[memoryview]) -> None:
        self.tasks: list[Task] = []
        self.relocations: dict[int, Relocation] = {}
        self._tensors, self._sections = tensors, sections
        self._blocks: list[NDArray[np.uint64]] = []
        self._end = 0
        self._loaded = 0
        # A sound file has each task's commands once.
        self._most = 4 * sum(map(len, sections)) // _COMMAND_BYTES

    def load_tables(self, entry: TableReader, node: int, tensor: int) -> None:
        """Load the tables of a tensor (0: none are needed), if they aren't there already."""
        if tensor and tensor != self._loaded:
            # Loading starts no block.
            self._append(entry, node, 0, self._commands_of(entry, tensor))
            self._loaded = tensor

    def add(self, entry: TableReader, node: int, slots: TaskSlots) -> None:
        words = self._commands_of(entry, entry.u32(slots.commands))
        for register, tensor, offset, _ in entry.structures(slots.addresses, _ADDRESS):
            if tensor >= len(self._tensors):
                raise _error(entry, f"an address in tensor {tensor} of {len(self._tensors)}")
            place = self._end + _place(entry, words, register)
            self.relocations[place] = Relocation(self._tensors[tensor].name, offset)
        self._append(entry, node, entry.u32(slots.enable_mask), words)

    def commands(self) -> memoryview:
        blocks = self._blocks
        return memoryview((np.concatenate(blocks) if blocks else np.zeros(0, "<u8")).tobytes())

    def _append(
        self, entry: TableReader, node: int, enable_mask: int, words: NDArray[np.uint64]
    ) -> None:
        self.tasks.append(Task(len(self.tasks), node, enable_mask, 0, self._end, words.size))
        self._blocks.append(words)
        self._end += words.size
        if self._end > self._most:
            raise _error(entry, "commands that are repeated without end")

    def _commands_of(self, entry: TableReader, index: int) -> NDArray[np.uint64]:
        """A tensor's commands in the later form."""
        if index >= len(self._tensors):
            raise _error(entry, f"commands in tensor {index} of {len(self._tensors)}")
        data = self._sections[self._tensors[index].section]
        if not len(data) or len(data) % _COMMAND_BYTES:
            raise _error(
                entry, f"commands of {len(data)} bytes, not a multiple of {_COMMAND_BYTES}"
            )
        words: NDArray[np.uint64] = np.frombuffer(data, "<u8")
        if np.any(words & _REGISTER):
            raise _error(entry, "commands of an unknown form")
        registers: NDArray[np.uint64] = words >> np.uint64(16) & _REGISTER
        registers |= words >> np.uint64(32) << np.uint64(16)
        return registers


def _place(entry: TableReader, words: NDArray[np.uint64], register: int) -> int:
    """The number of the one command that takes an address."""
    found = np.flatnonzero((words & _REGISTER) == register)
    if len(found) != 1:
        raise _error(entry, f"{len(found)} commands for the address register {register:#06x}")
    return int(found[0])


def _error(entry: TableReader, problem: str) -> ModelError:
    return ModelError(f"damaged .rknn file: offset {entry.file_offset()}: a task has {problem}")
