"""Computes jobs: decodes their commands, which are kept for the next one, and runs them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError
from ...soc import Soc
from ..engines.rknpu.command_stream import TaskState, run_commands
from ..engines.rknpu.decode import decode_task
from ..engines.rknpu.decode.context import Context
from ..engines.rknpu.generations import GENERATIONS
from ..engines.rknpu.generations import Generation as Chip
from ..engines.rknpu.graph import Executor, located, plan_within
from ..engines.rknpu.memory import Memory, span
from ..engines.rknpu.registers.dpu import DpuDestination
from ..engines.rknpu.registers.ppu import PpuDestination
from ..engines.rknpu.rounding import SILICON
from ..engines.rknpu.task_registers import TaskRegisters
from ..engines.rknpu.tasks import Task
from ..engines.rknpu.work import count_tasks
from ..engines.work import Budget
from ..formats.rknn.model import Generation
from .job import TaskList, task_lists
from .memory import Constants, MemoryObject, ObjectAddresses, ObjectMap
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
        known, inert, zeros = chip.known, chip.own_inert, chip.own_zeros
        states = [
            state
            for found in lists
            for state in located(
                run_commands(found.commands, found.tasks, {}, known, inert, zeros), chip, _place
            )
        ]
        addresses = ObjectAddresses(objects, chip.moved_addresses)
        self._constants = Constants()
        written = _written(states, addresses)
        context = Context(chip, ObjectMap(objects, written, self._constants))
        tasks = tuple(
            task for state in states if (task := _decode(state, context, addresses)) is not None
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


def _written(states: Sequence[TaskState], addresses: ObjectAddresses) -> frozenset[int]:
    written = set()
    for state in states:
        for register in (DpuDestination, PpuDestination):
            if not state.loads_tables:
                with suppress(LookupError):
                    written.add(addresses.find(register.number, state).section)
    return frozenset(written)


def _decode(state: TaskState, context: Context, addresses: ObjectAddresses) -> Task | None:
    if state.loads_tables:
        # Besides the tables, such a task copies one atom that nothing reads.
        return None
    try:
        words = context.generation.translate(state, partial(_constant, state, context, addresses))
        registers = TaskRegisters(state, words, addresses, context.generation.field_bits)
        return decode_task(registers, context)
    except ModelError as error:
        raise ModelError(f"{_place(state)}: {error}") from None


def _place(state: TaskState) -> str:
    return f"task {state.index} of operation {state.node}"


def _constant(
    state: TaskState, context: Context, addresses: ObjectAddresses, register: int, count: int
) -> bytes:
    try:
        address = addresses.find(register, state)
    except LookupError as error:
        raise ModelError(f"register {register:#06x}: {error}") from None
    if not context.memory.is_constant(address.section):
        raise ModelError(f"register {register:#06x} points to what tasks write")
    found: NDArray[np.uint8] = context.memory.constant(span(address, count))
    return found.tobytes()
