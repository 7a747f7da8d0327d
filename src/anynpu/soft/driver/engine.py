"""Computes jobs: decodes their commands, which are kept for the next one, and runs them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...soc import Soc
from ..engines.rknpu.command_stream import TaskState, run_commands
from ..engines.rknpu.decode.context import Context
from ..engines.rknpu.generations import GENERATIONS
from ..engines.rknpu.generations import Generation as Chip
from ..engines.rknpu.graph import (
    Executor,
    decode_state,
    plan_within,
    with_inputs_in_memory,
    written_sections,
)
from ..engines.rknpu.memory import Memory
from ..engines.rknpu.rounding import SILICON
from ..engines.rknpu.work import count_tasks
from ..engines.work import Budget
from ..formats.rknn.model import Generation
from .job import TaskList, task_lists
from .memory_objects import Constants, MemoryObject, ObjectAddresses, ObjectMap
from .messages import Submit

_MOST_KEPT = 64
_JOB = 0
"""All tasks of a job are one node's, where a file has several."""

_NO_MEMORY = np.zeros(0, np.uint8)


class Engine:
    """The NPU of a chip, for one process. One thread at a time."""

    def __init__(self, soc: Soc, use_fast: bool = True) -> None:
        self._chip = GENERATIONS[Generation(soc.driver_target)]
        self._cores = soc.cores
        self._use_fast = use_fast
        self._kept: OrderedDict[bytes, _Prepared] = OrderedDict()

    def compute(self, job: Submit, handle: int, objects: Mapping[int, MemoryObject]) -> int:
        """Compute a job whose tasks lie in the object `handle`; the number of tasks.

        Raises `ModelError`, which names task, register and value, for what isn't known.
        """
        lists = tuple(task_lists(job, handle, objects, self._cores))
        key = _identity(lists)
        prepared = self._kept.pop(key, None)
        if prepared is None or not prepared.is_valid(objects):
            prepared = _Prepared(self._chip, lists, objects, self._use_fast)
        self._kept[key] = prepared
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        for call in prepared.calls:
            call()
        return sum(len(found.tasks) for found in lists)

    def forget(self, handle: int) -> None:
        """Drop what uses an object that is there no more."""
        gone = [key for key, prepared in self._kept.items() if handle in prepared.objects]
        for key in gone:
            del self._kept[key]


class _Prepared:
    """A job's tasks, bound to the objects that they use."""

    def __init__(
        self,
        chip: Chip,
        lists: Sequence[TaskList],
        objects: Mapping[int, MemoryObject],
        use_fast: bool,
    ) -> None:
        budget = Budget()
        for found in lists:
            count_tasks(found.tasks, budget)
        states = [
            state
            for found in lists
            for state in with_inputs_in_memory(
                run_commands(found.commands, found.tasks, {}, chip.registers), chip, _place
            )
        ]
        addresses = ObjectAddresses(objects)
        self._constants = Constants()
        written = written_sections(states, addresses, chip)
        context = Context(chip, ObjectMap(objects, written, self._constants))
        tasks = tuple(
            task
            for state in states
            if (task := decode_state(state, context, addresses, _place)) is not None
        )
        self.objects = {handle: objects[handle] for handle in addresses.used}
        sections = {handle: found.data for handle, found in self.objects.items()}
        plans = {
            task.index: plan
            for task in tasks
            if (plan := plan_within(budget, task, f"task {task.index}", use_fast)) is not None
        }
        memory = Memory(_NO_MEMORY, sections, written & sections.keys(), in_place=True)
        executor = Executor({_JOB: tasks}, plans, memory, SILICON)
        self.calls: list[Callable[[], None]] = executor.calls((_JOB,))

    def is_valid(self, objects: Mapping[int, MemoryObject]) -> bool:
        """Whether the same objects are still there, and in them what was taken for constant."""
        return (
            all(objects.get(handle) is used for handle, used in self.objects.items())
            and self._constants.are_unchanged()
        )


def _identity(lists: Sequence[TaskList]) -> bytes:
    """What decoding depends on, besides the objects."""
    tasks = [found.tasks for found in lists]
    return repr(tasks).encode() + b"".join(found.commands.tobytes() for found in lists)


def _place(state: TaskState) -> str:
    return f"task {state.index} of operation {state.node}"
