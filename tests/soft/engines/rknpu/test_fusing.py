"""Tasks that run as one: the bytes that they leave one after another."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu.native.threads import thread_count
from anynpu.soft.engines.compiled.buffers import TensorBuffer
from anynpu.soft.engines.compiled.layers import computing_nodes
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.rknpu import Fusion, NeededBytes, prepare
from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.kernels import (
    Included,
    KernelKind,
    Scratch,
    chained,
    fusion_before,
    plan_task,
)
from anynpu.soft.engines.rknpu.memory import INTERNAL, span
from anynpu.soft.engines.rknpu.reference import run_task
from anynpu.soft.engines.rknpu.tasks import (
    ConvolutionTask,
    Elementwise,
    ElementwiseTask,
    LookupTable,
    Operation,
    Task,
)
from tests.shared import SAMPLES

from .descriptions import (
    OPERAND,
    Scene,
    block_writer,
    convolution,
    dense_weights,
    dpu,
    features,
    output,
    stage,
)

pytestmark = pytest.mark.usefixtures("kernel_form")

BETWEEN = OPERAND
WIDTH = 13


def curve() -> LookupTable:
    """Whole numbers on both sides of 0, as activations have them."""
    positive: NDArray[np.float64] = np.floor(np.arange(513.0) ** 2 / 9)
    return LookupTable(
        np.ceil(-positive[::-1] / 3), positive, -16384, 0, 16384, (5, 5), (0, 3000), (0, 9)
    )


def to_float32(kernels: int) -> Any:
    """Stages that leave float32: a bias, a factor, a table."""
    bias = np.linspace(-1, 1, kernels, dtype=np.float32)[:, None, None]
    return dpu(
        True,
        bs=stage(add=bias),
        bn=stage(multiply=2824.0, add=-0.0, adds_first=False),
        elementwise=Elementwise(curve(), None, None, None, 0),
        output=output(Element.FLOAT32),
    )


def to_float16(kernels: int) -> Any:
    factor = np.linspace(0.001, 0.3, kernels, dtype=np.float32)[:, None, None]
    return dpu(
        True,
        bs=stage(multiply=factor),
        bn=stage(multiply=0.0132, add=0.25, adds_first=False),
    )


def node(kernels: int = 20, rows: tuple[int, ...] = (3, 5), size: int = 1) -> tuple[Task, ...]:
    """Convolutions, one a part of the rows, and what makes float16 of what they leave."""
    rng = np.random.default_rng(kernels)
    values = rng.normal(0, 0.4, (kernels, 12, size, size)).astype(np.float16)
    weights = dense_weights(values, Element.FLOAT16)
    height = sum(rows)
    source = features((12, height, WIDTH), Element.FLOAT16)
    between = features((kernels, height, WIDTH), Element.FLOAT32, BETWEEN)
    tasks: list[Task] = []
    first = 0
    for index, count in enumerate(rows):
        part = replace(source, height=count, address=Address(INTERNAL, first * WIDTH * 16))
        what = convolution(part, weights, count, WIDTH, padding=(size // 2, size // 2))
        writer = block_writer(
            count,
            WIDTH,
            address=Address(INTERNAL, BETWEEN + first * WIDTH * 16),
            surface=between.surface,
        )
        tasks.append(ConvolutionTask(index, 0, what, to_float32(kernels), writer))
        first += count
    tasks.append(
        ElementwiseTask(
            len(rows), 0, between, to_float16(kernels), block_writer(height, WIDTH, padding=0x3C00)
        )
    )
    return tuple(tasks)


def fusion_of(tasks: tuple[Task, ...]) -> Fusion | None:
    plans = {task.index: plan for task in tasks if (plan := plan_task(task))}
    return fusion_before(tasks, len(tasks) - 1, plans)


def check(tasks: tuple[Task, ...], seed: int = 1) -> None:
    scene = Scene(seed)
    rng = np.random.default_rng(seed)
    halves = rng.normal(0, 2, BETWEEN // 2).astype(np.float16)
    halves[5:8] = np.inf, np.nan, -np.inf
    scene.bytes[:BETWEEN] = halves.view(np.uint8)
    before = scene.bytes.copy()
    for task in tasks:
        run_task(scene.memory, task)
    fusion = fusion_of(tasks)
    assert fusion is not None
    expected = [scene.memory.view(view).copy() for view in fusion.results]
    scene.bytes[...] = before
    for plan in fusion.plans:
        assert plan.kind is KernelKind.GENERAL
        scratch = Scratch(plan.own_bytes, plan.shared_bytes, thread_count())
        for call in chained(plan.bind(scene.memory, scratch), scratch, ctypes.c_int32()):
            call()
    for view, wanted in zip(fusion.results, expected, strict=True):
        np.testing.assert_array_equal(scene.memory.view(view), wanted)
        first, end = view.extent
        scene.bytes[first:end] = before[first:end]
    # What is between isn't written, nor is anything else.
    np.testing.assert_array_equal(scene.bytes, before)


@pytest.mark.parametrize("kernels", [16, 20, 5])
@pytest.mark.parametrize("rows", [(8,), (3, 5), (2, 2, 3)])
@pytest.mark.parametrize("size", [1, 3])
def test_convolutions_with_the_stages_of_what_follows(
    kernels: int, rows: tuple[int, ...], size: int
) -> None:
    check(node(kernels, rows, size))


def test_features_through_the_stages_of_two_tasks() -> None:
    source = features((20, 4, WIDTH), Element.FLOAT16)
    between = features((20, 4, WIDTH), Element.FLOAT32, BETWEEN)
    writer = block_writer(4, WIDTH, address=Address(INTERNAL, BETWEEN))
    first = ElementwiseTask(0, 0, source, to_float32(20), writer)
    check((first, ElementwiseTask(1, 0, between, to_float16(20), block_writer(4, WIDTH))))


def changed(tasks: tuple[Task, ...], **changes: Any) -> tuple[Task, ...]:
    return (*tasks[:-1], replace(tasks[-1], **changes))


def test_what_is_not_the_same_pixels_stays_apart() -> None:
    tasks = node()
    consumer = tasks[-1]
    assert isinstance(consumer, ElementwiseTask)
    assert fusion_of(tasks) is not None
    source = consumer.source
    for other in (
        replace(source, address=Address(INTERNAL, BETWEEN + 16)),
        replace(source, surface=source.surface + 16),
        replace(source, odd=Address(INTERNAL, BETWEEN)),
    ):
        assert fusion_of(changed(tasks, source=other)) is None
    assert fusion_of(tasks[1:]) is None
    assert fusion_of((tasks[1], tasks[0], consumer)) is None


def test_stages_that_need_more_than_the_floats_stay_apart() -> None:
    tasks = node()
    consumer = tasks[-1]
    assert isinstance(consumer, ElementwiseTask)
    third = Elementwise(None, Operation.ADD, consumer.source, None, 0)
    assert fusion_of(changed(tasks, dpu=replace(consumer.dpu, elementwise=third))) is None
    halves = replace(consumer.source, element=Element.FLOAT16)
    assert fusion_of(changed(tasks, source=halves)) is None


def test_results_in_the_place_of_what_is_still_to_be_read() -> None:
    """The second part's rows lie where the first part's results would go."""
    tasks = node(12, (3, 5))
    writer = block_writer(8, WIDTH, address=Address(INTERNAL, 0))
    assert fusion_of(changed(tasks, writer=writer)) is None


def test_bytes_are_needed_until_they_are_written() -> None:
    tasks = node()
    fusion = fusion_of(tasks)
    assert fusion is not None
    needed = NeededBytes(1 << 18)
    assert not needed.are_needed(fusion.between, fusion.results)
    needed.read(BETWEEN + 100, BETWEEN + 101)
    assert needed.are_needed(fusion.between, fusion.results)
    # Another task's results are there before anybody reads.
    needed.go_before(tasks[:2], tasks[:2])
    assert not needed.are_needed(fusion.between, fusion.results)
    assert needed.are_needed([span(Address(INTERNAL, 0), 16)], ())
    needed.read_all()
    assert needed.are_needed(fusion.between, fusion.results)
    assert not needed.are_needed(fusion.results, fusion.results)


@pytest.mark.parametrize(
    "name",
    ["rk3588/conv_silu_fp16", "rk3588/silu_fp16", "rk3566/conv_silu_fp16", "rk3588/op_gelu_fp16"],
)
def test_networks_whose_tasks_run_as_one(name: str) -> None:
    file = SAMPLES / f"{name}.rknn"
    if not file.is_file():
        pytest.skip(f"no {file}")
    program = CompiledProgram(file.read_bytes())
    graph, prepared = program.graph(0).graph, program.graph(0).prepared
    found = []
    for what in (prepared, prepare(program.model, graph, use_fast=False)):
        memory = np.zeros(what.memory_bytes, np.uint8)
        source = graph.tensors[graph.inputs[0]]
        values = np.random.default_rng(0).normal(0, 3, source.shape)
        TensorBuffer(memory, source).write(values.astype(np.float16))
        executor = what.executor(memory)
        for step in computing_nodes(graph):
            if what.has_tasks(step.index):
                executor.run_node(step.index)
        target = graph.tensors[graph.outputs[0]]
        result: NDArray[Any] = np.empty(target.shape, np.float16)
        TensorBuffer(memory, target).read(result)
        found.append(result)
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0].any()
    plans = [prepared._plans[task.index] for tasks in prepared.tasks.values() for task in tasks]
    assert any(isinstance(plan, Included) for plan in plans)
