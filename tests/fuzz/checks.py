"""What is done with a damaged input: it is refused with `ModelError`, or it runs to its end."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from anynpu.errors import ModelError
from anynpu.soft.engines import Instance, ModelSource, Program, load
from anynpu.soft.engines.compiled import program as compiled_program
from anynpu.soft.engines.nbg import vip
from anynpu.soft.engines.rknpu import PreparedGraph
from anynpu.soft.engines.rknpu.tasks import Task
from anynpu.soft.engines.rknpu.work import check_room
from anynpu.soft.engines.vip import operation
from anynpu.soft.engines.vip import program as vip_program
from anynpu.soft.engines.vip.kernels.compile import Calls, Compiled
from anynpu.soft.engines.vip.memory import Memory
from anynpu.soft.engines.vip.prepare import Operations
from anynpu.soft.engines.vip.program import VipInstance, VipProgram
from anynpu.soft.engines.vip.reference import shader
from anynpu.soft.engines.vip.reference.compute import compute
from anynpu.soft.engines.vip.shaders.machine.program import ProgramTask
from anynpu.soft.engines.vip.stream.task import StreamTask
from anynpu.soft.engines.vip.tasks import Convolution
from anynpu.soft.engines.vip.tasks import Task as VipTask
from anynpu.soft.formats import nbg
from anynpu.soft.formats.nbg.model import Source
from anynpu.soft.formats.rknn.model import CompiledModel
from anynpu.soft.formats.rknn.reader import read_model

from . import known_operations, single_tasks

REFUSED, RAN = "refused", "ran"
_MOST_COMPARED = 1 << 23
"""Bytes of internal memory; a damaged size alone makes no difference to what tasks compute."""


def compiled_file(data: bytes) -> str:
    """Load a compiled file and run it, its tasks with kernels and with the reference.

    Raises AssertionError where their bytes differ, and whatever isn't a `ModelError`.
    """
    try:
        with apart():
            program = load(ModelSource.of(data))
            program.lowered(0)
            instance = program.instance(0)
    except ModelError:
        return REFUSED
    seed = seed_of(data)
    try:
        run(instance, np.random.default_rng(seed))
    except ModelError:
        pass
    finally:
        instance.close()
    assert isinstance(program, compiled_program.CompiledProgram)
    compare(program.graph(0).prepared, seed)
    return RAN


def single_task(data: bytes) -> str:
    """Decode one damaged task of a compiled file, and run it with kernels and with the reference.

    `data` is JSON, as `single_tasks` describes. Raises as `compiled_file` does.
    """
    damage = json.loads(data)
    return run_single_task(single_tasks.find(damage), damage, seed_of(data))


def run_single_task(
    target: single_tasks.Target, damage: Mapping[str, Any] | None = None, seed: int = 0
) -> str:
    """As `single_task`, of a task and a damage or none."""
    try:
        prepared = target.prepared(damage)
    except ModelError:
        return REFUSED
    compare(prepared, seed)
    return RAN


def onnx_file(data: bytes) -> str:
    """Load an ONNX file with all its sets of shapes, and run it."""
    try:
        program = load(ModelSource.of(data))
    except ModelError:
        return REFUSED
    return _run_program(program, seed_of(data))


def nbg_file(data: bytes) -> str:
    """Read a `.nb` file, and run the ONNX file inside."""
    try:
        program = vip.load(nbg.read(data))
    except ModelError:
        return REFUSED
    return _run_program(program, seed_of(data))


def vip_file(data: bytes) -> str:
    """Read a compiled `.nb` file and run it, its operations with kernels and with the reference.

    Raises as `compiled_file` does.
    """
    with _little_work():
        return _vip_file(data)


def _vip_file(data: bytes) -> str:
    try:
        model = _blobs_apart(nbg.read(data))
        with known_operations.used(), _kept_tasks() as tasks:
            program = vip.load(model)
        instance = program.instance(0)
    except ModelError:
        return REFUSED
    assert isinstance(program, VipProgram)
    assert isinstance(instance, VipInstance)
    try:
        if program._layout.size <= _MOST_COMPARED:
            _compare_operations(instance, program._compiled, tasks, seed_of(data))
    finally:
        instance.close()
    return RAN


_MOST_WORK = 1 << 24
"""Of shaders' programs: three times what any of the sound files takes."""


@contextmanager
def _little_work() -> Iterator[None]:
    """Programs that don't end are refused soon, as later ones would be."""
    with (
        patch.object(operation, "MOST_AT_LOAD", _MOST_WORK),
        patch.object(shader, "MOST_AT_LOAD", _MOST_WORK),
    ):
        yield


@contextmanager
def _kept_tasks() -> Iterator[list[VipTask]]:
    """A list of what a program that is loaded here makes of its operations, decoded once."""
    kept: list[VipTask] = []

    class KeptOperations(Operations):
        def tasks(self) -> Iterator[VipTask]:
            kept.clear()
            for task in super().tasks():
                kept.append(task)
                yield task

    with patch.object(vip_program, "Operations", KeptOperations):
        yield kept


def _compare_operations(
    instance: VipInstance,
    compiled: Compiled,
    tasks: Sequence[VipTask],
    seed: int,
) -> None:
    """Run an instance, and all of a `.nb` file's operations on noise, as `compare` does.

    Constants are those of the file, or noise as well. What has no kernels and takes long is
    computed once, of bytes that are the same. What is as in a sound file, unless all is, has its
    kernels in the oracle's place, too.
    """
    calls = instance._calls
    assert calls is not None, "it is open"
    steps = calls.calls
    pairs = zip(steps, compiled.parts, strict=True)
    calls.calls = [call for call, part in pairs if not isinstance(part, _TAKING_LONG)]
    with suppress(ModelError):
        run(instance, np.random.default_rng(seed))
    fast = calls.memory
    fast.queues.clear()
    _fill(fast, noise_of(seed, fast.array.size), has_constants=bool(seed & _CONSTANTS_BIT))
    oracle = Memory(fast.layout, _oracle()[: fast.array.size])
    oracle.array[...] = fast.array
    expecting = _expecting(compiled, tasks, oracle)
    for call, part in zip(steps, compiled.parts, strict=True):
        together = [*islice(expecting, part if isinstance(part, int) else 1)]
        if isinstance(part, _TAKING_LONG):
            _check_equal(fast.array, oracle.array)
            is_computed = _is_computed(call)
            oracle.array[...] = fast.array
        else:
            is_computed = _is_computed(call)
            is_expected = all(map(_is_computed, together))
            assert is_computed is is_expected, "what one way refuses, the other one does too"
        if not is_computed:
            return
    _check_equal(fast.array, oracle.array)


_TAKING_LONG = (ProgramTask, Convolution)
"""Of what has no kernels."""


def _expecting(
    compiled: Compiled, tasks: Sequence[VipTask], oracle: Memory
) -> Iterator[Callable[[], None]]:
    """For each task what computes it in the oracle's memory."""
    # Queues of stream programs are elsewhere with kernels.
    sound = [known_operations.is_known(task) and not isinstance(task, StreamTask) for task in tasks]
    calls = Calls(compiled, oracle) if any(sound) and not all(sound) else None
    for place, task in enumerate(tasks):
        yield calls.single[place] if calls and sound[place] else partial(compute, task, oracle)


@cache
def _oracle() -> NDArray[np.uint8]:
    """What NumPy works on, of which nobody sees the end: it is there once."""
    return np.empty(_MOST_COMPARED, np.uint8)


_CONSTANTS_BIT = 1 << 20
"""Of a seed: one that doesn't say which noise."""


def _fill(memory: Memory, noise: NDArray[np.uint8], *, has_constants: bool) -> None:
    """Put noise everywhere, or everywhere but where constants are."""
    content = memory.array
    kept = {
        space: memory.space(space).copy()
        for space, _ in memory.layout.spaces()
        if has_constants and space.source is Source.CONSTANTS
    }
    content[...] = noise
    for space, constants in kept.items():
        memory.space(space)[...] = constants


def _is_computed(call: Callable[[], None]) -> bool:
    try:
        call()
    except ModelError:
        return False
    return True


def _check_equal(found: NDArray[np.uint8], expected: NDArray[np.uint8]) -> None:
    # Words at a time: what says which are equal is smaller.
    words = found.size // 8 * 8
    are_equal = np.array_equal(found[:words].view(np.uint64), expected[:words].view(np.uint64))
    if not are_equal or not np.array_equal(found[words:], expected[words:]):
        np.testing.assert_array_equal(found, expected)


def _blobs_apart(model: nbg.Nbg) -> nbg.Nbg:
    """Coefficients in allocations of their own, so that a sanitizer sees where each one ends."""
    if model.executable is None:
        return model
    blobs = tuple(blob.copy() for blob in model.executable.coefficients)
    return replace(model, executable=replace(model.executable, coefficients=blobs))


def _run_program(program: Program, seed: int) -> str:
    rng = np.random.default_rng(seed)
    for number in range(len(program.input_shapes)):
        # Which the C calls answer with a code for memory that can't be had.
        with suppress(ModelError, MemoryError):
            program.variant(number)
            program.lowered(number)
            instance = program.instance(number)
            try:
                run(instance, rng)
            finally:
                instance.close()
    return RAN


def run(instance: Instance, rng: np.random.Generator) -> None:
    """Run an instance once on noise."""
    for array in instance.inputs:
        raw = array.reshape(-1).view(np.uint8)
        raw[...] = rng.integers(0, 256, raw.size, np.uint8)
    instance.run()


def seed_of(data: bytes) -> int:
    """What an input's noise follows from."""
    return zlib.crc32(data)


def noise_of(seed: int, count: int) -> NDArray[np.uint8]:
    """What lies in memory before anything runs: up to `_MOST_COMPARED` bytes of some kind."""
    kind, start = divmod(seed % (len(_KINDS_OF_NOISE) * _STARTS), _STARTS)
    # Numbers of four bytes and fewer lie where they are whole.
    start -= start % 4
    return _noise(_KINDS_OF_NOISE[kind])[start : start + count]


_STARTS = 1 << 16
_KINDS_OF_NOISE = ("bytes", "bytes", "ends", "halves")


@cache
def _noise(kind: str) -> NDArray[np.uint8]:
    """Any bytes, those at the ends of their ranges, or float16 numbers as networks have them."""
    rng, count = np.random.default_rng(0), _MOST_COMPARED + _STARTS
    if kind == "ends":
        return rng.choice(np.array([0, 1, 0x7F, 0x80, 0xFF], np.uint8), count)
    if kind == "halves":
        return rng.standard_normal(count // 2, np.float32).astype(np.float16).view(np.uint8)
    return rng.integers(0, 256, count, np.uint8)


def compare(fast: PreparedGraph, seed: int) -> None:
    """All of a graph's tasks on noise, with kernels and with the reference: the same bytes.

    But for what tasks that run as one leave out.
    """
    tasks = [task for items in fast.tasks.values() for task in items]
    if fast.memory_bytes > _MOST_COMPARED or not all(map(_has_room, tasks)):
        return
    reference = PreparedGraph(fast.tasks, fast.memory_bytes, fast.sections, fast.written, {})
    noise = noise_of(seed, fast.memory_bytes)
    found, expected = _final(fast, noise), _final(reference, noise)
    if found is None or expected is None:
        assert found is expected, "what one way refuses, the other one does too"
        return
    for view in fast.left_out:
        for memory in (found, expected):
            window = memory[view.address.offset :]
            np.lib.stride_tricks.as_strided(window, view.shape, view.strides)[...] = 0
    _check_equal(found, expected)


def _has_room(task: Task) -> bool:
    """Whether it isn't too much for NumPy."""
    try:
        check_room(task, is_planned=False)
    except ModelError:
        return False
    return True


def _final(prepared: PreparedGraph, noise: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    memory: NDArray[np.uint8] = noise.copy()
    executor = prepared.executor(memory)
    try:
        for node in prepared.tasks:
            executor.run_node(node)
    except ModelError:
        return None
    return memory


@contextmanager
def apart() -> Iterator[None]:
    """Data sections in allocations of their own, so that a sanitizer sees where each one ends."""

    def read(data: bytes) -> CompiledModel:
        model = read_model(data)
        sections = tuple(memoryview(bytes(section)) for section in model.sections)
        return replace(model, sections=sections)

    with patch.object(compiled_program, "read_model", read):
        yield
