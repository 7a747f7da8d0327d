"""The engine on raw memory: every chip's tasks, what it keeps between jobs, what it refuses."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu import soc
from anynpu.errors import ModelError
from anynpu.soft.driver.engine import Engine
from anynpu.soft.driver.memory_objects import MemoryObject
from anynpu.soft.driver.messages import Submit
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.rknpu.memory import SLACK

from .compiled_jobs import Loaded, computed, npu_tasks, start_memory
from .kernel import Memory

DATA = Path(__file__).parents[2] / "data" / "compiled"
FILES = sorted(
    file
    for file in (*DATA.glob("rk35*.npz"), *DATA.glob("*/*.rknn.xz"))
    if "_custom_" not in file.name and "gru" not in file.name and "lstm" not in file.name
)
SEED = 3


class Npu:
    """An engine and memory, in this process."""

    def __init__(self, chip: str, **options: bool) -> None:
        self.engine = Engine(soc.find(chip), **options)
        self.objects: dict[int, MemoryObject] = {}
        self._next = 0xFFFF0000

    def create(self, size: int) -> Memory:
        whole = -(-size // 4096) * 4096
        self._next -= whole
        handle = max(self.objects, default=0) + 1
        found = MemoryObject(self._next, whole, np.zeros(whole + SLACK, np.uint8))
        self.objects[handle] = found
        return Memory(handle, whole, 0, found.address, found.data[:whole])

    def destroy(self, memory: Memory) -> None:
        del self.objects[memory.handle]
        self.engine.forget(memory.handle)

    def submit(
        self,
        tasks: Memory,
        lists: Sequence[tuple[int, int]],
        *,
        job_range: tuple[int, int],
        cores: int = 0,
    ) -> int:
        job = Submit(flags=5, task_start=job_range[0], task_number=job_range[1], core_mask=cores)
        for place, (start, number) in enumerate(lists):
            job.lists[place].start, job.lists[place].number = start, number
        return self.engine.compute(job, tasks.handle, self.objects)


def compiled(file: Path) -> CompiledProgram:
    if file.suffix == ".xz":
        return CompiledProgram(lzma.decompress(file.read_bytes()))
    with np.load(file) as archive:
        return CompiledProgram(lzma.decompress(archive["compiled"].tobytes()))


class Case:
    """A compiled file in an NPU's memory, and what the soft NPU makes of it."""

    def __init__(self, file: Path, **options: bool) -> None:
        self.program = compiled(file)
        chip = soc.find(self.program.model.target)
        self.cores = chip.cores
        self.npu = Npu(chip.name, **options)
        self.found = self.program.graph(0)
        self.needed = self.found.prepared.memory_bytes
        self.loaded = Loaded(self.npu, self.program.model, self.found.graph, self.needed)

    @property
    def expected(self) -> NDArray[np.uint8]:
        return computed(self.program, start_memory(self.needed, SEED))

    def run(self) -> NDArray[np.uint8]:
        self.loaded.internal.data[: self.needed] = start_memory(self.needed, SEED)
        self.loaded.submit(self.found.graph, npu_tasks(self.found.graph), self.cores)
        found: NDArray[np.uint8] = self.loaded.internal.data[: self.needed].copy()
        return found


@pytest.mark.parametrize("use_fast", [True, False])
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_tasks_compute_what_the_soft_npu_does(file: Path, use_fast: bool) -> None:
    case = Case(file, use_fast=use_fast)
    np.testing.assert_array_equal(case.run(), case.expected)


@pytest.fixture
def case() -> Case:
    return Case(DATA / "rk3588_deconv_stride3_int8.npz")


def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows with each job that is decoded."""
    made: list[Any] = []
    original: Callable[..., Any] = Engine.__init__.__globals__["_Prepared"].__init__

    def init(self: Any, *arguments: Any) -> None:
        made.append(self)
        original(self, *arguments)

    monkeypatch.setattr("anynpu.soft.driver.engine._Prepared.__init__", init)
    return made


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch, case: Case) -> Callable[[], int]:
    """Submits the same memory objects anew; how many jobs were decoded so far."""
    made = decoded(monkeypatch)
    tasks: list[Any] = []
    submit = case.npu.submit

    def keep(*arguments: Any, **options: Any) -> int:
        tasks.append((arguments, options))
        return submit(*arguments, **options)

    monkeypatch.setattr(case.npu, "submit", keep)
    case.run()
    monkeypatch.setattr(case.npu, "submit", submit)

    def run() -> int:
        arguments, options = tasks[0]
        case.npu.submit(*arguments, **options)
        return len(made)

    return run


def test_a_job_is_decoded_once(case: Case, again: Callable[[], int]) -> None:
    assert again() == 1
    other = case.npu.create(4096)
    assert again() == 1
    case.npu.destroy(other)
    assert again() == 1


def test_changed_weights_are_seen(case: Case, again: Callable[[], int]) -> None:
    before = case.run()
    for memory in case.loaded.sections.values():
        memory.data[:] = np.where(memory.data < 200, memory.data + 1, memory.data)
    assert again() == 2
    assert not np.array_equal(case.run(), before)


def test_memory_that_is_gone_is_not_used(case: Case, again: Callable[[], int]) -> None:
    case.npu.destroy(next(iter(case.loaded.sections.values())))
    with pytest.raises(ModelError, match="no memory of the program has the address"):
        again()


def test_cores_have_lists_of_their_own(case: Case) -> None:
    tasks = case.npu.create(4096)
    with pytest.raises(ModelError, match="task 7: its commands"):
        case.npu.submit(tasks, [(0, 0), (7, 1)], job_range=(0, 0), cores=2)
    with pytest.raises(ModelError, match="task 9: its commands"):
        case.npu.submit(tasks, [(7, 1), (7, 1), (0, 0), (0, 0), (9, 1)], job_range=(0, 0), cores=7)
    with pytest.raises(ModelError, match="cores 0x6"):
        case.npu.submit(tasks, [(0, 0)], job_range=(0, 0), cores=6)


def test_a_chain_that_leads_elsewhere_is_refused(case: Case) -> None:
    """Of two tasks the first one's commands lead to other ones than the second's."""
    commands, tasks = case.npu.create(4096), case.npu.create(4096)
    words = commands.data[: 16 * 8].view("<u8")
    words[3] = words[11] = 0x0081 << 48 | 0x1D << 16 | 0x0008
    words[0] = 0x0101 << 48 | (commands.address + 64 + 8) << 16 | 0x0010
    records = tasks.data[:80].view("<u4").reshape(2, 10)
    records[:, 2] = 0x1D
    records[0, 8], records[1, 8] = commands.address, commands.address + 64
    with pytest.raises(ModelError, match="lead to"):
        case.npu.submit(tasks, [(0, 2)], job_range=(0, 2))
