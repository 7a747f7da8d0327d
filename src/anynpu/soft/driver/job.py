"""From a job of the kernel's to lists of tasks: which each core gets, and where commands are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ..formats.rknn.model import Task
from .memory_objects import MemoryObject, ObjectAddresses
from .messages import Submit

TASK: np.dtype[Any] = np.dtype(
    [
        ("flags", "<u4"),
        ("operation", "<u4"),
        ("enable_mask", "<u4"),
        ("interrupt_mask", "<u4"),
        ("interrupt_clear", "<u4"),
        ("interrupt_status", "<u4"),
        ("commands", "<u4"),
        ("offset", "<u4"),
        ("address", "<u8"),
    ]
)
"""A task as it lies in memory: native/driver/interface.h."""

_COMMAND_BYTES = 8
_TAIL = 4
"""Words after a task's commands: the next one's address and length, a lock, the blocks' start."""

_REGISTER, _VALUE = 0xFFFF, 0xFFFFFFFF
_STARTS = 0x0008
"""The program controller's register that starts blocks."""

_FOLLOWS_COMMANDS = 1 << 0
"""The flag of a job whose commands the NPU reads itself, as all are."""

_LISTS_OF_CORES: Mapping[int, Sequence[int]] = {
    0: (0,),
    1: (0,),
    2: (1,),
    4: (2,),
    3: (0, 1),
    7: (2, 3, 4),
}
"""Which sub lists count, by the cores of a job; 0 lets the driver choose one.

A chip of one core has none: there the job's own range counts.
"""


@dataclass(frozen=True)
class TaskList:
    """One core's tasks with their commands, which lie one after another."""

    tasks: tuple[Task, ...]
    commands: NDArray[np.uint64]


def task_lists(
    job: Submit, handle: int, objects: Mapping[int, MemoryObject], cores: int
) -> Iterator[TaskList]:
    """The tasks of each core of a chip; raises `ModelError` for a job that no driver would take."""
    memory = objects.get(handle)
    if memory is None:
        raise ModelError(f"the memory of a job's tasks (handle {handle}) isn't there")
    if not job.flags & _FOLLOWS_COMMANDS:
        raise ModelError(f"a job with the flags {job.flags:#x}, without commands, is not known")
    records = memory.data[: memory.size // TASK.itemsize * TASK.itemsize].view(TASK)
    addresses = ObjectAddresses(objects)
    for start, number in _ranges(job, cores):
        if start + number > records.size:
            raise ModelError(
                f"a core's tasks are {start} to {start + number}, but there is room for "
                f"{records.size} in their memory"
            )
        yield _gather(records[start : start + number], start, addresses, objects)


def _ranges(job: Submit, cores: int) -> Iterator[tuple[int, int]]:
    """Each core's first task and their number."""
    if cores == 1:
        yield job.task_start, job.task_number
        return
    lists = _LISTS_OF_CORES.get(job.core_mask)
    if lists is None:
        raise ModelError(f"a job for cores {job.core_mask:#x} is not known")
    for place in lists:
        yield job.lists[place].start, job.lists[place].number


def _gather(
    records: NDArray[Any],
    start: int,
    addresses: ObjectAddresses,
    objects: Mapping[int, MemoryObject],
) -> TaskList:
    """A core's tasks, as the NPU comes from one to the next: by the address after its commands."""
    tasks: list[Task] = []
    parts: list[NDArray[np.uint64]] = [np.zeros(0, "<u8")]
    first, following = 0, None
    for index, record in enumerate(records, start):
        address, count = int(record["address"]), int(record["commands"])
        mask = int(record["enable_mask"])
        if following not in (None, address):
            raise ModelError(
                f"task {index} has its commands at {address:#x}, but those of the task before it "
                f"lead to {following:#x}"
            )
        words = _read(index, address, count + _TAIL, addresses, objects)
        following = _next_address(index, words[count:], mask)
        parts.append(words[:count])
        operation, flags = int(record["operation"]), int(record["flags"])
        tasks.append(Task(index, operation, mask, flags, first, count))
        first += count
    return TaskList(tuple(tasks), np.concatenate(parts))


def _next_address(index: int, tail: NDArray[np.uint64], mask: int) -> int:
    """Where the words after a task's commands lead, which start its blocks as well."""
    leads, _, _, starts = tail.tolist()
    if starts & _REGISTER != _STARTS or starts >> 16 & _VALUE != mask:
        raise ModelError(
            f"the commands of task {index} don't end with the start of its blocks {mask:#x}"
        )
    address: int = leads >> 16 & _VALUE
    return address


def _read(
    index: int,
    address: int,
    count: int,
    addresses: ObjectAddresses,
    objects: Mapping[int, MemoryObject],
) -> NDArray[np.uint64]:
    try:
        place = addresses.place(address)
    except LookupError as error:
        raise ModelError(f"task {index}: its commands: {error}") from None
    memory = objects[place.section]
    end = place.offset + count * _COMMAND_BYTES
    if end > memory.size or place.offset % _COMMAND_BYTES:
        raise ModelError(
            f"task {index} has {count} commands at {address:#x}, of which its memory, with "
            f"{memory.size} bytes at {memory.address:#x}, can't hold all"
        )
    return memory.data[place.offset : end].view("<u8")
