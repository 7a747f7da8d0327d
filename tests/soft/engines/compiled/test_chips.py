"""Files compiled from networks of our own, for chips of which there are no samples.

``tests/data/compiled/<chip>/<name>.rknn.xz`` were written by rknn-toolkit2 2.5.0;
``networks/values.npz`` has the inputs (``<name>.in0``) and the outputs of the toolkit's simulator
(``<name>.sim0``).
"""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu.errors import ModelError
from anynpu.soft.engines import ModelSource, Port, Program, load
from anynpu.soft.engines.rknpu import PreparedGraph, prepare
from anynpu.soft.engines.rknpu.kernels import KernelKind
from anynpu.soft.engines.rknpu.reference.convolution import convert_input
from anynpu.soft.engines.rknpu.tasks import ConvolutionTask
from anynpu.soft.formats.rknn.reader import read_model
from anynpu.soft.values import store_real

FOLDER = Path(__file__).resolve().parents[3] / "data" / "compiled"
CHIPS = ("rk3576", "rk3562", "rv1126b")
INT8 = ("cnn_i8", "silu_i8", "moves_i8", "two_inputs_i8")
NAMES = (*INT8, "softmax_fp16")


@cache
def file(chip: str, name: str) -> bytes:
    return lzma.decompress((FOLDER / chip / f"{name}.rknn.xz").read_bytes())


@cache
def values() -> dict[str, NDArray[Any]]:
    with np.load(FOLDER / "networks" / "values.npz") as archive:
        return dict(archive)


def outputs(program: Program, name: str) -> list[tuple[NDArray[Any], Port, NDArray[Any]]]:
    """(array, port, the simulator's) of each output."""
    instance, variant = program.instance(0), program.variant(0)
    for number, (array, port) in enumerate(zip(instance.inputs, variant.inputs, strict=True)):
        store_real(values()[f"{name}.in{number}"], port, array)
    instance.run()
    return [
        (array, port, values()[f"{name}.sim{number}"])
        for number, (array, port) in enumerate(zip(instance.outputs, variant.outputs, strict=True))
    ]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", INT8)
def test_int8_is_within_one_step_of_the_simulator(chip: str, name: str) -> None:
    program = load(ModelSource(file(chip, name)))
    for array, port, simulated in outputs(program, name):
        assert port.quantization is not None
        scale, zero_point = port.quantization.scale, port.quantization.zero_point
        expected = np.rint(simulated.reshape(array.shape) / scale) + zero_point
        distance = np.abs(array.astype(np.int32) - expected)
        assert distance.max() <= 1
        assert (distance == 0).mean() >= 0.98


@pytest.mark.parametrize("chip", CHIPS)
def test_softmax_is_as_close_as_its_exponential(chip: str) -> None:
    program = load(ModelSource(file(chip, "softmax_fp16")))
    ((array, _, simulated),) = outputs(program, "softmax_fp16")
    real = array.reshape(simulated.shape).astype(np.float64)
    assert np.abs(real - simulated).max() <= 0.025 * simulated.max()
    np.testing.assert_array_equal(real.argmax(axis=1), simulated.argmax(axis=1))


def final_memory(prepared: PreparedGraph, seed: int) -> NDArray[np.uint8]:
    """Internal memory after all NPU nodes ran on noise."""
    memory = np.random.default_rng(seed).integers(0, 256, prepared.memory_bytes, np.uint8)
    executor = prepared.executor(memory)
    for node in prepared.tasks:
        executor.run_node(node)
    return memory


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", NAMES)
def test_fast_and_reference_leave_the_same_bytes(chip: str, name: str) -> None:
    what = read_model(file(chip, name))
    fast = prepare(what, what.graphs[0])
    reference = prepare(what, what.graphs[0], use_fast=False)
    np.testing.assert_array_equal(final_memory(fast, 1), final_memory(reference, 1))


@pytest.mark.parametrize("chip", CHIPS)
def test_convolutions_are_fast(chip: str) -> None:
    what = read_model(file(chip, "cnn_i8"))
    prepared = prepare(what, what.graphs[0])
    convolutions = [node.index for node in what.graphs[0].nodes if node.op_type.startswith("Conv")]
    assert len(convolutions) > 2
    assert {kind for node in convolutions for kind in prepared.kernels_of(node)} == {
        KernelKind.INT8
    }


@pytest.mark.parametrize("chip", CHIPS)
def test_registers_quantise_the_bytes_of_pictures(chip: str) -> None:
    what = read_model(file(chip, "cnn_i8"))
    (port, *_) = load(ModelSource(file(chip, "cnn_i8"))).variant(0).inputs
    first = prepare(what, what.graphs[0], pictures_are_quantised=False)
    task = next(task for tasks in first.tasks.values() for task in tasks)
    assert isinstance(task, ConvolutionTask)
    assert task.convolution.conversion is not None
    assert port.quantization is not None
    stored = np.arange(-128, 128, dtype=np.float32).reshape(1, -1).repeat(3, axis=0)
    real = stored % 256
    exact = real / port.quantization.scale + port.quantization.zero_point
    found = convert_input(stored, task.convolution.conversion)
    assert np.abs(found - np.clip(exact, -128, 127)).max() < 0.51
    quantised = prepare(what, what.graphs[0]).tasks
    task = next(task for tasks in quantised.values() for task in tasks)
    assert isinstance(task, ConvolutionTask)
    assert task.convolution.conversion is None


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", NAMES)
def test_only_the_first_cores_tasks_are_kept(chip: str, name: str) -> None:
    graph = read_model(file(chip, name)).graphs[0]
    tasks = graph.tasks_for(1)
    # In order, and once for each place in memory that a task writes.
    assert [task.node for task in tasks] == sorted(task.node for task in tasks)
    assert graph.tasks_for(2) == graph.tasks_for(3) == ()


@pytest.mark.parametrize("chip", CHIPS)
def test_changed_registers_are_refused_or_run(chip: str) -> None:
    """No value of a register does anything but raise `ModelError` or decode."""
    data = file(chip, "two_inputs_i8")
    graph = read_model(data).graphs[0]
    place = data.index(bytes(graph.commands))
    words = [
        word
        for task in graph.tasks_for(1)
        for word in range(task.first_command, task.first_command + task.commands)
    ]
    rng = np.random.default_rng(7)
    refused = 0
    for word in rng.choice(words, 60):
        changed = bytearray(data)
        bit = int(rng.integers(16, 48))
        changed[place + 8 * int(word) + bit // 8] ^= 1 << bit % 8
        model = read_model(bytes(changed))
        try:
            prepare(model, model.graphs[0])
        except ModelError:
            refused += 1
    assert 5 < refused < 60
