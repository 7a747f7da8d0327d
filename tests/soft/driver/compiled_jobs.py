"""A compiled file through the kernel interface alone: memory, addresses filled in, tasks.

Run as a program, with the driver's library loaded:

    python -m tests.soft.driver.compiled_jobs FILE CORES SEED OUTPUT

The graph's memory is random bytes of the seed; OUTPUT gets what it holds after all tasks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.rknpu import prepare
from anynpu.soft.formats.rknn.model import CompiledModel, Graph, Task

from .kernel import Device, Memory

TASK = np.dtype(
    [(f"word{place}", "<u4") for place in range(6)]
    + [("commands", "<u4"), ("offset", "<u4"), ("address", "<u8")]
)
_SPACE = 1 << 20
"""Bytes past a graph's memory that tasks may touch."""

_OUTPUT = "OutputOperator"


def start_memory(needed: int, seed: int) -> NDArray[np.uint8]:
    """What a graph's memory holds at first."""
    return np.random.default_rng(seed).integers(0, 256, needed, np.uint8)


def computed(program: CompiledProgram, start: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What a chip makes of the first graph's memory: registers convert pictures' bytes there."""
    model, graph = program.model, program.graph(0).graph
    memory: NDArray[np.uint8] = start.copy()
    executor = prepare(model, graph, pictures_are_quantised=False).executor(memory)
    for node in dict.fromkeys(task.node for task in npu_tasks(graph)):
        executor.run_node(node)
    return memory


def npu_tasks(graph: Graph) -> list[Task]:
    """The tasks of one core that a board's library submits for the graph's nodes."""
    tasks = graph.tasks_for(1)
    return [task for task in tasks if graph.nodes[task.node].op_type != _OUTPUT]


class Npu(Protocol):
    """What has memory and takes jobs."""

    def create(self, size: int) -> Memory: ...

    def submit(
        self, tasks: Memory, lists: Sequence[tuple[int, int]], *, job_range: tuple[int, int]
    ) -> object: ...


class Loaded:
    """A graph in the NPU's memory: `internal` is what its tasks compute in."""

    def __init__(self, device: Npu, model: CompiledModel, graph: Graph, needed: int) -> None:
        self._device = device
        self.sections: dict[int, Memory] = {}
        for number, data in enumerate(model.sections):
            if number and len(data):
                memory = device.create(len(data))
                memory.data[: len(data)] = np.frombuffer(data, np.uint8)
                self.sections[number] = memory
        self.internal = device.create(needed + _SPACE)
        self._scratch = device.create(1 << 16)
        self._places = {
            tensor.name: self.sections.get(tensor.section, self.internal).address + tensor.offset
            for tensor in graph.tensors
            if tensor.section in self.sections or tensor.kind.is_internal
        }

    def submit(self, graph: Graph, tasks: Sequence[Task], cores: int) -> NDArray[Any]:
        """Submit tasks, each of which leads to the next; their records afterwards."""
        words = self._addressed(graph)
        lengths = [task.commands + 4 for task in tasks]
        commands = self._device.create(8 * sum(lengths))
        records = self._device.create(TASK.itemsize * len(tasks))
        table = records.data[: TASK.itemsize * len(tasks)].view(TASK)
        target = commands.data.view("<u8")
        place = 0
        for index, task in enumerate(tasks):
            following = commands.address + 8 * (place + lengths[index])
            own = words[task.first_command : task.first_command + task.commands]
            tail = [
                0x0101 << 48 | (following if index + 1 < len(tasks) else 0) << 16 | 0x0010,
                0x0101 << 48 | 0x0014,
                0x0041 << 48,
                0x0081 << 48 | task.enable_mask << 16 | 0x0008,
            ]
            target[place : place + lengths[index]] = np.concatenate([own, np.array(tail, "<u8")])
            address = commands.address + 8 * place
            table[index] = (0, task.node, task.enable_mask, 0x300, 0x1FFFF, 0, len(own), 0, address)
            place += lengths[index]
        lists = [] if cores == 1 else [(0, len(tasks))]
        self._device.submit(records, lists, job_range=(0, len(tasks)))
        return records.data[: TASK.itemsize * len(tasks)].view(TASK)

    def _addressed(self, graph: Graph) -> NDArray[np.uint64]:
        words: NDArray[np.uint64] = np.frombuffer(graph.commands, "<u8").copy()
        for place, relocation in graph.relocations.items():
            base = self._places.get(relocation.buffer, self._scratch.address)
            address = (base + relocation.addend) & 0xFFFFFFFF
            words[place] = (int(words[place]) & ~(0xFFFFFFFF << 16)) | address << 16
        return words


def main(file: str, cores: str, seed: str, output: str) -> None:
    program = CompiledProgram(Path(file).read_bytes())
    found = program.graph(0)
    needed = found.prepared.memory_bytes
    loaded = Loaded(Device(), program.model, found.graph, needed)
    loaded.internal.data[:needed] = start_memory(needed, int(seed))
    for _ in range(2):
        # The second time it is known already.
        loaded.internal.data[:needed] = start_memory(needed, int(seed))
        records = loaded.submit(found.graph, npu_tasks(found.graph), int(cores))
        assert records["word5"][-1] == 0x300  # its interrupts
    Path(output).write_bytes(loaded.internal.data[:needed].tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
