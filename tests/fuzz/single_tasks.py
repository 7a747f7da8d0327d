"""Damaged tasks of compiled files: a few commands and relocations of one, changed.

Files are read once and their other tasks aren't computed, so that many more damages are tried in
the same time than of whole files. A damage is JSON, which names the task and the numbers:

    {"file": "rk3588_conv_odd_size_int8", "graph": 0, "task": 3, "enable_mask": 29,
     "commands": [[17, 1152921504606846976]], "relocations": [[17, "input", -64]]}
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from anynpu.errors import ModelError
from anynpu.soft.engines.rknpu import PreparedGraph, prepare
from anynpu.soft.engines.rknpu import graph as prepared_graph
from anynpu.soft.engines.rknpu.command_stream import RegisterMachine, TaskState, run_commands
from anynpu.soft.engines.rknpu.generations import GENERATIONS
from anynpu.soft.engines.rknpu.registers.map import RegisterMap
from anynpu.soft.engines.work import Budget
from anynpu.soft.formats.rknn.model import CompiledModel, Graph, Relocation, Task
from anynpu.soft.formats.rknn.reader import read_model

from .compiled_files import files
from .other_values import EDITS, other_value

_REGISTER_BITS, _VALUE_BITS = 16, 32
_MOST_COMMANDS = 400
"""A task of more loads tables, and computes nothing."""
_FEW = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_BEFORE_ONE_OF, _RELOCATION_ONE_OF, _REGISTER_ONE_OF, _MASK_ONE_OF = 8, 5, 30, 60


@dataclass(frozen=True)
class Target:
    """A task of a sound file.

    The graph has it as its last task, and of those before it the ones whose registers count.
    """

    file: str
    number: int
    model: CompiledModel
    graph: Graph
    task: Task
    commands: np.ndarray

    def prepared(self, damage: Mapping[str, Any] | None = None) -> PreparedGraph:
        """The one task with a damage, decoded and planned; raises `ModelError`."""
        commands, relocations, task = self.commands, self.graph.relocations, self.task
        *earlier, _ = self.graph.tasks
        run = run_commands
        if damage is not None:
            commands = commands.copy()
            for place, word in damage["commands"]:
                commands[place] = word
            changed = {place: Relocation(*where) for place, *where in damage["relocations"]}
            relocations = {**relocations, **changed}
            task = replace(task, enable_mask=damage["enable_mask"])
            places = {place for place, *_ in (*damage["commands"], *damage["relocations"])}
            if not any(places.intersection(_places(other)) for other in earlier):
                run = self._run_last
        graph = replace(
            self.graph,
            commands=commands.data.cast("B"),
            relocations=relocations,
            tasks=(*earlier, task),
        )
        others = frozenset(other.index for other in earlier)
        with patch.object(prepared_graph, "run_commands", run):
            return prepare(self.model, graph, skipped=others, budget=Budget())

    def _run_last(
        self,
        commands: NDArray[np.uint64],
        tasks: Sequence[Task],
        relocations: Mapping[int, Relocation],
        registers: RegisterMap,
    ) -> Iterator[TaskState]:
        """As `run_commands`, where the tasks before the last one are as the file has them."""
        machine, states = self._before
        return iter([*states, machine.copy(commands, relocations).run(tasks[-1])])

    @cached_property
    def _before(self) -> tuple[RegisterMachine, list[TaskState]]:
        """What the tasks before the last one leave, and what each of them starts with."""
        registers = GENERATIONS[self.model.generation].registers
        machine = RegisterMachine(self.commands, self.graph.relocations, registers)
        return machine, [machine.run(task) for task in self.graph.tasks[:-1]]


@cache
def targets() -> tuple[Target, ...]:
    """Each file's tasks that compute something, of those that are alike the first and the last."""
    return tuple(target for name, data in files() for target in _targets_of(name, data))


@cache
def _by_name() -> Mapping[tuple[str, int, int], Target]:
    return {(target.file, target.number, target.task.index): target for target in targets()}


def find(damage: Mapping[str, Any]) -> Target:
    """The task that a damage is of."""
    return _by_name()[damage["file"], damage["graph"], damage["task"]]


def _targets_of(name: str, data: bytes) -> Iterator[Target]:
    model = read_model(data)
    # Allocations of their own, so that a sanitizer sees where each section ends.
    model = replace(model, sections=tuple(memoryview(bytes(part)) for part in model.sections))
    for number, graph in enumerate(model.graphs):
        tasks = graph.tasks_for(1)
        alike: dict[tuple[int, int, int], list[int]] = {}
        for place, task in enumerate(tasks):
            if not _loads_tables(task):
                alike.setdefault((task.node, task.enable_mask, task.commands), []).append(place)
        for place in sorted({end for places in alike.values() for end in (places[0], places[-1])}):
            target = _target(name, number, model, graph, place)
            if target is not None:
                yield target


def _target(
    name: str, number: int, model: CompiledModel, graph: Graph, place: int
) -> Target | None:
    """The task with as few before it as give the same bytes; None for one that computes none.

    Registers keep what earlier tasks wrote.
    """
    *earlier, task = graph.tasks_for(1)[: place + 1]
    commands = np.frombuffer(graph.commands, "<u8")
    expected = None
    lasts = (earlier[len(earlier) - count :] for count in _FEW if count < len(earlier))
    for kept in (earlier, [task for task in earlier if _loads_tables(task)], *lasts):
        tasks = (*kept, task)
        alone = replace(
            graph,
            tasks=tasks,
            task_bounds=(len(tasks),) * 3,
            relocations={
                place: graph.relocations[place]
                for other in tasks
                for place in _places(other)
                if place in graph.relocations
            },
        )
        target = Target(name, number, model, alone, task, commands)
        found = _bytes_of(target)
        if expected is None:
            if found is None:
                return None
            whole, expected = target, found
        elif found == expected:
            return target
    return whole


def _bytes_of(target: Target) -> bytes | None:
    """What the task leaves of noise; None where it computes nothing by itself."""
    try:
        prepared = target.prepared()
        if not prepared.tasks:
            return None
        memory = np.random.default_rng(0).integers(0, 256, prepared.memory_bytes, np.uint8)
        executor = prepared.executor(memory)
        for node in prepared.tasks:
            executor.run_node(node)
    except ModelError:
        # It needs what an earlier task of its node leaves.
        return None
    return memory.tobytes()


def _places(task: Task) -> range:
    """The numbers of its commands."""
    return range(task.first_command, task.first_command + task.commands)


def _loads_tables(task: Task) -> bool:
    return task.commands >= _MOST_COMMANDS


def damaged(source: random.Random) -> tuple[str, bytes]:
    """A task's name, and a damage of it as JSON."""
    target = source.choice(targets())
    commands: dict[int, int] = {}
    relocations: dict[int, tuple[str, int]] = {}
    mask = target.task.enable_mask
    for _ in range(source.choice(EDITS)):
        if source.randrange(_MASK_ONE_OF) == 0:
            mask ^= 1 << source.randrange(8)
        elif source.randrange(_RELOCATION_ONE_OF) == 0:
            place = _place(source, target)
            relocations[place] = _relocation(source, target, place)
        else:
            place = _place(source, target)
            old = commands.get(place, int(target.commands[place]))
            commands[place] = _command(source, target, old)
    damage = {
        "file": target.file,
        "graph": target.number,
        "task": target.task.index,
        "enable_mask": mask,
        "commands": list(commands.items()),
        "relocations": [[place, *where] for place, where in relocations.items()],
    }
    name = f"{target.file}, task {target.task.index}"
    return name, json.dumps(damage).encode()


def _place(source: random.Random, target: Target) -> int:
    """The number of a command: of the task's own, and now and then of an earlier one's."""
    earlier = target.graph.tasks[:-1]
    is_own = not earlier or source.randrange(_BEFORE_ONE_OF)
    task = target.task if is_own else source.choice(earlier)
    return task.first_command + source.randrange(max(1, task.commands))


def _relocation(source: random.Random, target: Target, place: int) -> tuple[str, int]:
    """Another address: another buffer, or another distance from where it begins."""
    known = target.graph.relocations
    old = known.get(place) or source.choice(list(known.values()) or [Relocation("", 0)])
    if source.randrange(4) == 0:
        return source.choice(target.graph.tensors).name, old.addend
    addend = other_value(source, old.addend, _VALUE_BITS, source.getrandbits(_VALUE_BITS))
    return old.buffer, addend & (1 << _VALUE_BITS) - 1


def _command(source: random.Random, target: Target, old: int) -> int:
    other = int(target.commands[_place(source, target)])
    if source.randrange(_REGISTER_ONE_OF) == 0:
        low = (1 << _REGISTER_BITS) - 1
        return old & ~low | other_value(source, old & low, _REGISTER_BITS, other) & low
    mask = (1 << _VALUE_BITS) - 1
    value = old >> _REGISTER_BITS & mask
    another = other >> _REGISTER_BITS & mask
    value = other_value(source, value, _VALUE_BITS, another) & mask
    return old & ~(mask << _REGISTER_BITS) | value << _REGISTER_BITS
