"""A compiled file through the kernel interface alone: memory, addresses filled in, tasks.

Run as a program, with the driver's library loaded:

    python -m tests.soft.driver.compiled_jobs FILE CORES SEED OUTPUT

The graph's memory is random bytes of the seed; OUTPUT gets what it holds after all tasks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.formats.rknn.model import CompiledModel, Graph, Task

from .kernel import Device, Memory

TASK = np.dtype(
    [(f"word{place}", "<u4") for place in range(6)]
    + [("commands", "<u4"), ("offset", "<u4"), ("address", "<u8")]
)
_SPACE = 1 << 20
"""Bytes behind a graph's memory that tasks may touch."""

_OUTPUT = "OutputOperator"


def start_memory(needed: int, seed: int) -> NDArray[np.uint8]:
    """What a graph's memory holds at first."""
    return np.random.default_rng(seed).integers(0, 256, needed, np.uint8)


def npu_tasks(graph: Graph) -> list[Task]:
    """The tasks of one core that a board's library submits for the graph's nodes."""
    tasks = graph.tasks_for(1)
    return [task for task in tasks if graph.nodes[task.node].op_type != _OUTPUT]


class _Loaded:
    """A graph in the NPU's memory."""

    def __init__(self, device: Device, model: CompiledModel, graph: Graph, needed: int) -> None:
        self._device = device
        sections = {}
        for number, data in enumerate(model.sections):
            if number and len(data):
                memory = device.create(len(data))
                memory.data[: len(data)] = np.frombuffer(data, np.uint8)
                sections[number] = memory.address
        self.internal = device.create(needed + _SPACE)
        self._scratch = device.create(1 << 16)
        self._places = {
            tensor.name: sections.get(tensor.section, self.internal.address) + tensor.offset
            for tensor in graph.tensors
            if tensor.section in sections or tensor.kind.is_internal
        }

    def submit(self, graph: Graph, tasks: Sequence[Task], cores: int) -> None:
        """Submit tasks: each leads to the next one, the last one nowhere."""
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
        self._submit(records, len(tasks), cores)

    def _submit(self, records: Memory, number: int, cores: int) -> None:
        lists = [] if cores == 1 else [(0, number)]
        self._device.submit(records, lists, job_range=(0, number))
        done = records.data[: TASK.itemsize * number].view(TASK)
        assert done["word5"][-1] == 0x300

    def _addressed(self, graph: Graph) -> NDArray[np.uint64]:
        words = np.frombuffer(graph.commands, "<u8").copy()
        for place, relocation in graph.relocations.items():
            base = self._places.get(relocation.buffer, self._scratch.address)
            address = (base + relocation.addend) & 0xFFFFFFFF
            words[place] = (int(words[place]) & ~(0xFFFFFFFF << 16)) | address << 16
        return words


def main(file: str, cores: str, seed: str, output: str) -> None:
    program = CompiledProgram(Path(file).read_bytes())
    found = program.graph(0)
    needed = found.prepared.memory_bytes
    loaded = _Loaded(Device(), program.model, found.graph, needed)
    loaded.internal.data[:needed] = start_memory(needed, int(seed))
    for _ in range(2):
        # The second time it is known already.
        loaded.internal.data[:needed] = start_memory(needed, int(seed))
        loaded.submit(found.graph, npu_tasks(found.graph), int(cores))
    Path(output).write_bytes(loaded.internal.data[:needed].tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
