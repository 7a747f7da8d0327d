"""Loops: a recurrent node whose tasks change the commands of its next step.

The list has the tasks of the loop once for every step, all with the same commands. At the end of a
step some tasks compute, from a counter, the addresses that the next step reads and writes, and put
them over the commands: a multiplication by the distance of two steps, then a convolution that
places the word. Here each step gets commands of its own with the address that it would find, and
the tasks that compute commands are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from ....errors import ModelError
from ...formats.rknn.model import Graph, Relocation, Task
from ..rknpu.registers.fields import sign_extend

_COMMANDS = ""
"""The name by which relocations call the commands themselves."""

_COUNTER = "DynamicCMD_StackBuf"
_WORDS = "RubikConv"
_FACTORS = {0x4020: 0x4048, 0x4018: 0x4044}
"""Where RK3588 and RK3562 have the factor of a task whose destination is in a register."""
_COMMAND_BYTES = 8


def unroll(graph: Graph) -> tuple[Graph, frozenset[int]]:
    """The graph with commands for each step, and the indices of the tasks that compute commands.

    The list for one core only. A graph without loops is returned as it is. Raises `ModelError` for
    commands that are computed in a way that isn't known.
    """
    if not any(found.buffer == _COMMANDS for found in graph.relocations.values()):
        return graph, frozenset()
    words = np.frombuffer(graph.commands, "<u8")
    tasks = graph.tasks_for(1)
    computing = frozenset(task.index for task in tasks if _computes_commands(task, graph))
    distances = dict(_distances(words, tasks, graph))
    if not distances:
        return graph, frozenset()
    blocks, unrolled = [words], []
    relocations = dict(graph.relocations)
    steps: dict[int, int] = {}
    end = len(words)
    for task in tasks:
        step = steps.get(task.first_command, 0)
        steps[task.first_command] = step + 1
        own = range(task.first_command, task.first_command + task.commands)
        if not step or not any(word in distances for word in own):
            unrolled.append(task)
            continue
        blocks.append(words[own.start : own.stop])
        for word in own:
            found = graph.relocations.get(word)
            if found is not None:
                addend = found.addend + step * distances.get(word, 0)
                relocations[end + word - own.start] = Relocation(found.buffer, addend)
        unrolled.append(replace(task, first_command=end))
        end += task.commands
    changed = replace(
        graph,
        commands=memoryview(np.concatenate(blocks).tobytes()),
        tasks=tuple(unrolled),
        task_bounds=(len(unrolled),) * 3,
        relocations=MappingProxyType(relocations),
    )
    return changed, computing


def _computes_commands(task: Task, graph: Graph) -> bool:
    buffers = {found.buffer for _, found in _relocated(task, graph.relocations)}
    return bool(buffers) and all(
        buffer in (_COMMANDS, _COUNTER) or buffer.startswith(_WORDS) for buffer in buffers
    )


def _distances(
    words: np.ndarray, tasks: tuple[Task, ...], graph: Graph
) -> Iterator[tuple[int, int]]:
    """The commands that are changed, and by how many bytes their address grows in a step."""
    state: dict[int, int] = {}
    for task in tasks:
        for word, found in _relocated(task, graph.relocations):
            if found.buffer != _COMMANDS:
                continue
            register, value = _register_and_value(int(words[word]))
            factor = state.get(_FACTORS.get(register, register))
            if register not in _FACTORS or value % _COMMAND_BYTES or factor is None:
                raise ModelError(
                    f"task {task.index} of node {task.node} changes the command at byte {value} "
                    f"through register {register:#x}, which isn't known"
                )
            # The word is there twice: the convolution writes sixteen bytes.
            first = value // _COMMAND_BYTES
            distance = sign_extend(factor >> 16, 16)
            yield from ((first, distance), (first + 1, distance))
        for word in words[task.first_command : task.first_command + task.commands]:
            register, value = _register_and_value(int(word))
            if register in _FACTORS.values():
                state[register] = value


def _register_and_value(word: int) -> tuple[int, int]:
    return word & 0xFFFF, word >> 16 & 0xFFFFFFFF


def _relocated(
    task: Task, relocations: Mapping[int, Relocation]
) -> Iterator[tuple[int, Relocation]]:
    for word in range(task.first_command, task.first_command + task.commands):
        found = relocations.get(word)
        if found is not None:
            yield word, found
