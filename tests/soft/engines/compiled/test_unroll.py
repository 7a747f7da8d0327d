"""Loops, whose tasks change the commands of the next step, become commands for each step."""

from __future__ import annotations

import struct
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

import anynpu
from anynpu.soft.engines.compiled.unroll import unroll
from anynpu.soft.formats.rknn.model import Graph, Relocation, Task

from .parts import model_of, plain

STEP = 48


def word(register: int, value: int) -> int:
    return value << 16 | register


# The body reads `x` and writes `y` twice, as the loop's commands do; the next task multiplies the
# counter by a step's distance, the last one puts the sum over the body's first two commands.
BODY = [word(0x5018, 0x10), word(0x5018, 0x10), word(0x4020, 0)]
FACTOR = [word(0x4048, STEP << 16), word(0x5018, 0)]
PLACE = [word(0x4020, 0), word(0x5018, 0)]
COMMANDS = [*BODY, *FACTOR, *PLACE]
RELOCATIONS = {
    0: Relocation("x", 0x10),
    1: Relocation("x", 0x10),
    2: Relocation("y", 0),
    4: Relocation("DynamicCMD_StackBuf", 0),
    5: Relocation("", 0),
    6: Relocation("RubikConvBias_0x5018", 0),
}
SPANS = ((0, 3), (3, 2), (5, 2))


def looped(steps: int, commands: list[int] = COMMANDS) -> Graph:
    spans = SPANS * steps
    tasks = tuple(Task(i, 0, 0x18, 0, *span) for i, span in enumerate(spans))
    return replace(
        model_of([plain("x", (1,))]).graphs[0],
        commands=memoryview(struct.pack(f"<{len(commands)}Q", *commands)),
        relocations=MappingProxyType(RELOCATIONS),
        tasks=tasks,
        task_bounds=(len(tasks),) * 3,
    )


def addresses(graph: Graph, task: Task) -> list[Relocation]:
    span = range(task.first_command, task.first_command + task.commands)
    return [graph.relocations[place] for place in span if place in graph.relocations]


def test_each_step_has_the_address_that_it_would_find() -> None:
    graph, skipped = unroll(looped(4))
    assert skipped == {1, 2, 4, 5, 7, 8, 10, 11}
    bodies = [task for task in graph.tasks_for(1) if task.index not in skipped]
    for step, task in enumerate(bodies):
        address = Relocation("x", 0x10 + step * STEP)
        assert addresses(graph, task) == [address, address, Relocation("y", 0)]
        words = np.frombuffer(graph.commands, "<u8")[task.first_command :][: task.commands]
        assert words.tolist() == BODY


def test_rk3562_has_other_registers_and_leaves_out_what_stays() -> None:
    commands = [
        *(word(0x5018, 0x10), word(0x5018, 0x10), word(0x4018, 0)),
        *(word(0x4044, STEP << 16), word(0x5018, 0)),
        *(word(0x4018, 0), word(0x5018, 0)),
    ]
    graph, _ = unroll(looped(2, commands))
    assert addresses(graph, graph.tasks[3])[0] == Relocation("x", 0x10 + STEP)
    # The task before the last writes something else; the factor is an earlier one's.
    spans = ((0, 3), (3, 2), (4, 1), (5, 2))
    tasks = tuple(Task(i, 0, 0x18, 0, *span) for i, span in enumerate(spans * 2))
    listed = replace(looped(1, commands), tasks=tasks, task_bounds=(len(tasks),) * 3)
    graph, _ = unroll(listed)
    assert addresses(graph, graph.tasks[4])[0] == Relocation("x", 0x10 + STEP)


def test_a_graph_without_loops_stays_as_it_is() -> None:
    graph = replace(looped(1), relocations=MappingProxyType({0: Relocation("x", 0x10)}))
    assert unroll(graph) == (graph, frozenset())


@pytest.mark.parametrize(
    "commands",
    [
        [*BODY, *FACTOR, word(0x4020, 3), PLACE[1]],  # no command begins there
        [*BODY, *FACTOR, word(0x5018, 0), PLACE[1]],  # not a destination
        [*BODY, word(0x4044, 1), FACTOR[1], *PLACE],  # no factor
    ],
)
def test_other_ways_to_change_commands_are_refused(commands: list[int]) -> None:
    with pytest.raises(anynpu.ModelError, match="which isn't known"):
        unroll(looped(2, commands))
