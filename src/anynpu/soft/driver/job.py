"""From a job of the kernel's to lists of tasks: which each core gets, and where commands are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ..formats.rknn.model import Task
from .memory import MemoryObject, ObjectAddresses
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
_LISTS_OF_CORES: Mapping[int, Sequence[int]] = {
    0: (0,),
    1: (0,),
    2: (1,),
    4: (2,),
    3: (0, 1),
    7: (2, 3, 4),
}
"""Which sub lists count, by the cores of a job; 0 lets the driver choose one."""


@dataclass(frozen=True)
class TaskList:
    """One core's tasks with their commands, which lie one after another."""

    tasks: tuple[Task, ...]
    commands: NDArray[np.uint64]


def task_lists(job: Submit, handle: int, objects: Mapping[int, MemoryObject]) -> Iterator[TaskList]:
    """Each core's tasks; raises `ModelError` for a job that no driver would take."""
    lists = _LISTS_OF_CORES.get(job.core_mask)
    if lists is None:
        raise ModelError(f"a job for cores {job.core_mask:#x} is not known")
    memory = objects[handle]
    records = memory.data[: memory.size // TASK.itemsize * TASK.itemsize].view(TASK)
    addresses = ObjectAddresses(objects)
    for place in lists:
        start, number = job.lists[place].start, job.lists[place].number
        if start + number > records.size:
            raise ModelError(
                f"a core's tasks are {start} to {start + number}, but there is room for "
                f"{records.size} in their memory"
            )
        yield _gather(records[start : start + number], start, addresses, objects)


def _gather(
    records: NDArray[Any],
    start: int,
    addresses: ObjectAddresses,
    objects: Mapping[int, MemoryObject],
) -> TaskList:
    tasks: list[Task] = []
    parts: list[NDArray[np.uint64]] = [np.zeros(0, "<u8")]
    first = 0
    for index, record in enumerate(records.tolist(), start):
        flags, operation, enable_mask, *_, count, offset, address = record
        parts.append(_commands(index, address + offset, count, addresses, objects))
        tasks.append(Task(index, operation, enable_mask, flags, first, count))
        first += count
    return TaskList(tuple(tasks), np.concatenate(parts))


def _commands(
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
