"""From a compiled file's graph to what runs: decode once, share between contexts."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ....native.threads import thread_count
from ...formats.rknn.model import CompiledModel, Graph
from ...formats.rknn.model import Generation as FileGeneration
from ...formats.rknn.model import Task as CommandTask
from ...mapping import Extent
from ..work import Budget
from .addresses import AbsoluteAddresses, AddressSpace, RelocatedAddresses
from .command_stream import TaskState, run_commands
from .decode import decode_task
from .decode.context import Context
from .elements import Address
from .generations import GENERATIONS, Generation
from .joining import join
from .kernels import (
    Fusion,
    Included,
    KernelKind,
    Plan,
    Scratch,
    Step,
    chained,
    fusion_before,
    plan_task,
)
from .memory import INTERNAL, Memory, MemoryMap, Strided, extent_of
from .reference import run_task
from .registers.blocks import Enabled
from .registers.quantities import Quantity
from .rounding import SILICON, Rounding
from .tasks import Task
from .work import check_room, count_tasks, work_of

_OUTPUT = "OutputOperator"
_MICRO_COMMANDS = 2
"""The section from which RV1106's addresses count."""


class PreparedGraph:
    """One graph's tasks, resolved; immutable, shared between contexts and threads.

    `memory_bytes` is what internal memory needs: the file's size, and what the hardware touches
    behind it. `tasks` are by the node's index, `plans` by the task's;
    `sections` are the file's, of which tasks write those in `written`. `left_out` is what tasks
    that run as one don't write, and nobody reads.
    """

    def __init__(
        self,
        tasks: Mapping[int, tuple[Task, ...]],
        memory_bytes: int,
        sections: Mapping[int, NDArray[np.uint8]],
        written: frozenset[int],
        plans: Mapping[int, Plan],
        rounding: Rounding = SILICON,
        left_out: tuple[Strided, ...] = (),
    ) -> None:
        self.tasks = tasks
        self.left_out = left_out
        self._rounding = rounding
        self._plans = plans
        self.memory_bytes = memory_bytes
        self.sections = sections
        self.written = written

    def has_tasks(self, node: int) -> bool:
        """Whether a node has something to compute on the NPU."""
        return node in self.tasks

    def runs_on(self, node: int) -> str:
        """What computes a node's tasks: "fast", "reference", "mixed", or "" for none."""
        plans = [task.index in self._plans for task in self.tasks.get(node, ())]
        if not plans:
            return ""
        if any(plans) and not all(plans):
            return "mixed"
        return "fast" if all(plans) else "reference"

    def kernels_of(self, node: int) -> Mapping[KernelKind, int]:
        """How many of a node's tasks which kernels run."""
        plans = (self._plans.get(task.index) for task in self.tasks.get(node, ()))
        return Counter(plan.kind if plan else KernelKind.REFERENCE for plan in plans)

    def fusion_before(self, node: int, end: int) -> Fusion | None:
        """How a node's task number `end` may run with those before it (see `Fusion`)."""
        return fusion_before(self.tasks[node], end, self._plans)

    def fused(self, fusions: Sequence[Fusion]) -> PreparedGraph:
        """The same graph with tasks that run as one."""
        plans = dict(self._plans)
        for fusion in fusions:
            plans[fusion.consumer.index] = Included()
            for task, plan in zip(fusion.producers, fusion.plans, strict=True):
                plans[task.index] = plan
        return PreparedGraph(
            self.tasks,
            self.memory_bytes,
            self.sections,
            self.written,
            plans,
            self._rounding,
            tuple(view for fusion in fusions for view in fusion.between),
        )

    @property
    def copied(self) -> frozenset[Extent]:
        """The addresses of what an executor copies when it is made."""
        return frozenset(extent_of(self.sections[number]) for number in self.written)

    def constants(self) -> frozenset[Extent]:
        """The addresses of what runs read of the sections: of all, where the reference runs."""
        if any(task.index not in self._plans for task in chain.from_iterable(self.tasks.values())):
            return frozenset(map(extent_of, self.sections.values()))
        # Who only binds touches no memory.
        return self.executor(np.empty(self.memory_bytes, np.uint8)).constants

    def executor(self, memory: NDArray[np.uint8]) -> Executor:
        """What runs nodes in `memory`, an array of at least `memory_bytes` bytes."""
        if memory.dtype != np.uint8 or memory.ndim != 1 or memory.size < self.memory_bytes:
            raise ValueError(
                f"internal memory is a vector of {self.memory_bytes} uint8 or more, not "
                f"{memory.dtype} {memory.shape}"
            )
        own = Memory(memory, self.sections, self.written)
        return Executor(self.tasks, self._plans, own, self._rounding)


class Executor:
    """Runs the nodes of a graph in one context's memory. One thread at a time, but for `cancel`."""

    def __init__(
        self,
        tasks: Mapping[int, tuple[Task, ...]],
        plans: Mapping[int, Plan],
        memory: Memory,
        rounding: Rounding,
    ) -> None:
        self._rounding = rounding
        self._scratch = Scratch(
            max((plan.own_bytes for plan in plans.values()), default=0),
            max((plan.shared_bytes for plan in plans.values()), default=0),
            thread_count(),
        )
        # The steps have addresses of what lies in both; C doesn't keep it alive.
        self._memory = memory
        self._cancelled = ctypes.c_int32()
        self._steps = {
            node: tuple(step for task in items for step in self._bind(task, plans))
            for node, items in tasks.items()
        }
        self.constants = frozenset(memory.constants)
        """The addresses of constants that steps of kernels read; kernels have most of their own."""

    def _bind(self, task: Task, plans: Mapping[int, Plan]) -> Sequence[Step]:
        plan = plans.get(task.index)
        if plan is None:
            return (partial(run_task, self._memory, task, self._rounding),)
        return plan.bind(self._memory, self._scratch)

    def steps(self, node: int) -> Sequence[Step]:
        """What computes a node, in order."""
        return self._steps.get(node, ())

    def chained(self, steps: Sequence[Step]) -> list[Callable[[], None]]:
        """Steps of nodes, and kernels of others, as calls: kernels in a row are a single one."""
        return chained(steps, self._scratch, self._cancelled)

    def calls(self, nodes: Iterable[int]) -> list[Callable[[], None]]:
        """What computes nodes, in order; kernels of nodes that follow one another are one call."""
        return self.chained([step for node in nodes for step in self.steps(node)])

    def run_node(self, node: int) -> None:
        """Compute one node; those before it have run."""
        for call in self.calls((node,)):
            call()

    @property
    def is_cancelled(self) -> bool:
        """Whether kernels are left out."""
        return bool(self._cancelled.value)

    def cancel(self) -> None:
        """Leave out the kernels that haven't begun, until `allow`."""
        self._cancelled.value = 1

    def allow(self) -> None:
        """Take back what `cancel` said."""
        self._cancelled.value = 0


def prepare(
    model: CompiledModel,
    graph: Graph,
    cores: int = 1,
    use_fast: bool = True,
    skipped: frozenset[int] = frozenset(),
    rounding: Rounding = SILICON,
    budget: Budget | None = None,
    pictures_are_quantised: bool = True,
) -> PreparedGraph:
    """Decode one graph's task list for 1, 2 or 3 cores.

    Tasks whose indices are in `skipped` write registers that count, and compute nothing.
    Without `use_fast` the reference runs every task; the bytes are the same. It also does with
    another `rounding` than that of boards, which is all that kernels know.
    With `pictures_are_quantised` an input that registers convert from the bytes of a camera holds
    what that gives, as the model's quantisation says.
    A node's tasks on several cores run one core after another. The work of all is taken from
    `budget`, which has counted the list already. Raises `ModelError`, which names node, task,
    register and value, for what isn't known, and for more work than a run may take.
    """
    generation = GENERATIONS.get(model.generation)
    if generation is None:
        raise ModelError(f"files for {model.target} ({model.generation.value}) can't be executed")
    sections = {
        number: np.frombuffer(data, np.uint8)
        for number, data in enumerate(model.sections)
        if number != INTERNAL
    }
    commands = np.frombuffer(graph.commands, "<u8")
    queues = tuple(_queues(graph, cores))
    if budget is None:
        budget = Budget(model.batch)
        for queue in queues:
            count_tasks(queue, budget)
    states = [
        state
        for queue in queues
        for state in with_inputs_in_memory(
            run_commands(commands, queue, graph.relocations, generation.registers),
            generation,
            partial(_place, graph=graph),
        )
        if state.index not in skipped
    ]
    addresses = _address_space(model, graph)
    writes = written_sections(states, addresses, generation) - {INTERNAL}
    memory = MemoryMap(model.memory.internal, sections, writes)
    context = Context(generation, memory, pictures_are_quantised=pictures_are_quantised)
    tasks: dict[int, list[Task]] = {}
    plans: dict[int, Plan] = {}
    for state in states:
        task = _decode(state, graph, context, addresses)
        if task:
            tasks.setdefault(state.node, []).append(task)
    if use_fast and rounding is SILICON:
        tasks = {node: list(join(items, context, plan_task)) for node, items in tasks.items()}
    for task in chain.from_iterable(tasks.values()):
        plan = plan_within(budget, task, _place(task, graph), use_fast and rounding is SILICON)
        if plan:
            plans[task.index] = plan
    return PreparedGraph(
        {node: tuple(items) for node, items in tasks.items()},
        memory.needed_bytes,
        memory.sections,
        memory.written,
        plans,
        rounding,
    )


def with_inputs_in_memory(
    states: Iterable[TaskState], generation: Generation, place: Callable[[TaskState], str]
) -> Iterator[TaskState]:
    """One core's tasks as such that read all their inputs from memory.

    Raises `ModelError`, which begins with the `place` of the task.
    """
    before = None
    for state in states:
        try:
            yield generation.fetched(state, before)
        except ModelError as error:
            raise ModelError(f"{place(state)}: {error}") from None
        if state.enable_mask & Enabled.CNA:
            before = state


def _address_space(model: CompiledModel, graph: Graph) -> AddressSpace:
    if model.generation is FileGeneration.MICRO:
        sizes = [len(section) for section in model.sections]
        numbers = range(_MICRO_COMMANDS, len(sizes))
        return AbsoluteAddresses([*((number, sizes[number]) for number in numbers), (INTERNAL, 0)])
    return RelocatedAddresses(
        {
            tensor.name: Address(tensor.section, tensor.offset)
            for tensor in graph.tensors
            if tensor.section or tensor.kind.is_internal
        }
    )


def written_sections(
    states: Iterable[TaskState], addresses: AddressSpace, generation: Generation
) -> frozenset[int]:
    """The sections that some task writes."""
    sections = set()
    registers = [
        generation.registers.number(quantity)
        for quantity in (Quantity.DESTINATION, Quantity.POOLING_DESTINATION)
    ]
    for state in states:
        for register in registers:
            if not state.loads_tables:
                with suppress(LookupError):
                    sections.add(addresses.find(register, state).section)
    return frozenset(sections)


def _queues(graph: Graph, cores: int) -> Iterator[tuple[CommandTask, ...]]:
    """Each core's tasks."""
    tasks = graph.tasks_for(cores)
    first = (0, 1, 3)[cores - 1]
    place = 0
    for core in range(cores):
        count = sum(node.task_counts[first + core] for node in graph.nodes if node.task_counts)
        count = count if cores > 1 else len(tasks)
        yield tasks[place : place + count]
        place += count


def _decode(
    state: TaskState, graph: Graph, context: Context, addresses: AddressSpace
) -> Task | None:
    if not state.loads_tables:
        if state.node >= len(graph.nodes):
            raise ModelError(f"task {state.index} belongs to node {state.node}, which isn't there")
        if graph.nodes[state.node].op_type == _OUTPUT:
            # Converts an output to rows in scratch memory; it is read as it is instead.
            return None
    return decode_state(state, context, addresses, partial(_place, graph=graph))


def decode_state(
    state: TaskState,
    context: Context,
    addresses: AddressSpace,
    place: Callable[[TaskState], str],
) -> Task | None:
    """What a task's registers describe, None where it only loads tables.

    Raises `ModelError`, which begins with the `place` of the task.
    """
    if state.loads_tables:
        # Besides the tables, such a task copies one atom that nothing reads.
        return None
    try:
        registers = context.generation.task(state, addresses, context.constant_bytes)
        return decode_task(registers, context)
    except ModelError as error:
        raise ModelError(f"{place(state)}: {error}") from None


def _place(task: TaskState | Task, graph: Graph) -> str:
    """Which task it is, for messages."""
    return f"node {graph.nodes[task.node].name!r}, task {task.index}"


def plan_within(budget: Budget, task: Task, place: str, use_fast: bool) -> Plan | None:
    """A plan, where kernels know the task; its work is taken from the budget.

    Raises `ModelError`, which names the `place`, for more work than is left of the budget, and for
    a task that the reference has no room for.
    """
    # First what it costs at least: planning too much would take long as well.
    least = work_of(task, is_planned=True)
    budget.take(least, place)
    plan = plan_task(task) if use_fast else None
    if plan is None:
        budget.take(work_of(task, is_planned=False) - least, place)
    try:
        check_room(task, plan is not None)
    except ModelError as error:
        raise ModelError(f"{place}: {error}") from None
    return plan
