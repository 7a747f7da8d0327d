"""What is known of memory: never a byte that hangs on what nobody wrote."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anynpu.soft.engines.rknpu.dataflow import DataFlow, Input
from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.layout import written
from anynpu.soft.engines.rknpu.memory import INTERNAL, Memory
from anynpu.soft.engines.rknpu.reference import run_task
from anynpu.soft.engines.rknpu.tasks import (
    ConvolutionTask,
    CopyTask,
    ElementwiseTask,
    PhaseWriter,
    PoolingMethod,
    PoolingTask,
    Stage,
    Task,
)
from anynpu.soft.engines.rknpu.weights import (
    OperandBlock,
    StoredOperand,
    WeightLayout,
    Weights,
)

from . import random_tasks as some
from .descriptions import (
    OPERAND,
    TARGET,
    Scene,
    block_writer,
    convolution,
    dpu,
    features,
    stage,
)

_MEMORY = 1 << 18
_SEEDS = st.integers(0, 1 << 16)
_UNKNOWN_RUN = 5
"""Bytes side by side that are unknown together."""


def flow_of(known: int) -> DataFlow:
    """Of a memory of which the first bytes are known."""
    flow = DataFlow(_MEMORY, {}, frozenset())
    flow.write(0, known)
    return flow


def check_soundness(task: Task, element: Element, content: str, seed: int) -> None:
    """Memories that are equal where bytes are known give results that are equal there."""
    rng = np.random.default_rng(seed)
    unknown = np.flatnonzero(rng.random(_MEMORY // _UNKNOWN_RUN) < rng.choice([0.001, 0.02]))
    flow = flow_of(_MEMORY)
    for run in unknown:
        flow.flags[run * _UNKNOWN_RUN : (run + 1) * _UNKNOWN_RUN] = 0
    one = Scene()
    some.fill(one, element, content, seed)
    other = one.bytes.copy()
    holes = flow.flags == 0
    other[holes] = rng.integers(0, 256, holes.sum(), np.uint8)
    flow.run(task, "here")
    results = []
    for data in (one.bytes, other):
        memory = Memory(data, {}, frozenset())
        with np.errstate(all="ignore"):
            run_task(memory, task)
        results.append([memory.view(view).copy() for view in written(task).views])
    flags = Memory(flow.flags, {}, frozenset())
    for first, second, view in zip(*results, written(task).views, strict=True):
        known = flags.view(view) != 0
        np.testing.assert_array_equal(first[known], second[known])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), is_float=st.booleans(), content=some.contents, seed=_SEEDS)
def test_sums_that_are_known_hang_on_nothing_else(
    data: st.DataObject, is_float: bool, content: str, seed: int
) -> None:
    what = data.draw(some.convolutions(is_float, content, seed))
    shape = what.channels, what.height, what.width
    stages = data.draw(some.dpus(is_float, shape))
    task = ConvolutionTask(0, 0, what, stages, data.draw(some.writers(shape, 16)))
    check_soundness(task, what.source.element, content, seed)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), is_float=st.booleans(), content=some.contents, seed=_SEEDS)
def test_features_that_are_known_hang_on_nothing_else(
    data: st.DataObject, is_float: bool, content: str, seed: int
) -> None:
    shape = data.draw(some.shapes)
    element = data.draw(some.FLOATS if is_float else some.INTEGERS)
    source = data.draw(some.features_of(shape, element))
    stages = data.draw(some.dpus(is_float, shape, source=source))
    task = ElementwiseTask(0, 0, source, stages, data.draw(some.writers(shape, 16)))
    check_soundness(task, element, content, seed)


def test_windows_that_see_an_unknown_pixel_are_unknown() -> None:
    source = features((16, 4, 6))
    task = PoolingTask(
        0, 0, source, PoolingMethod.MAX, (2, 2), (1, 1), (0, 0), 0.0, (1.0, 1.0), 3, 5,
        block_writer(3, 5),
    )  # fmt: skip
    flow = flow_of(TARGET)
    flow.flags[(1 * 6 + 2) * 16] = 0
    flow.run(task, "here")
    seen = flow.flags[TARGET : TARGET + 3 * 5 * 16].reshape(3, 5, 16) == 0
    expected = np.zeros((3, 5, 16), np.bool_)
    expected[0:2, 1:3, 0] = True
    np.testing.assert_array_equal(seen, expected)
    assert flow.readers() == "here"


@pytest.mark.parametrize("byte", range(4))
def test_an_operand_is_unknown_by_any_of_its_bytes(byte: int) -> None:
    """Of a float without its lowest byte the others tell that it is no number, but not which."""
    add = StoredOperand(Address(INTERNAL, OPERAND), OperandBlock(1, 2, True, 8), "add")
    task = ElementwiseTask(
        0, 0, features((2, 1, 1), Element.FLOAT16), dpu(True, bn=stage(add=add)), block_writer(1, 1)
    )
    flow = flow_of(TARGET)
    flow.flags[OPERAND + 4 + byte] = 0
    flow.run(task, "here")
    assert flow.flags[TARGET : TARGET + 4].tolist() == [255, 255, 0, 0]


def test_copies_of_unknown_bytes_are_unknown() -> None:
    flow = flow_of(100)
    flow.run(CopyTask(0, 0, features((16, 2, 4)), (1, 1), block_writer(2, 4)), "here")
    copied = flow.flags[TARGET : TARGET + 128]
    assert copied[:100].all()
    assert not copied[100:].any()


@pytest.mark.parametrize(
    ("weight_offset", "is_known"),
    [(11, True), (10, False), (None, False), (128, False), (-127, False)],
)
def test_what_is_multiplied_by_0_does_not_matter(weight_offset: int | None, is_known: bool) -> None:
    """A task fills lanes of weights with -11; nobody wrote the features' lanes there."""
    flow = flow_of(TARGET)
    # Each of 16 pixels of 18 channels becomes a kernel of 32.
    place = Address(INTERNAL, some.WEIGHTS)
    rows = PhaseWriter(place, 16 * 32, 32, 16, 16, -11 & 0xFFFF)
    flow.run(ElementwiseTask(0, 0, features((18, 1, 16)), dpu(), rows), "weights")
    kernels = Weights(place, WeightLayout(Element.INT8, 16, 32, 1, 1, 16, 32, False), None)
    source = features((32, 1, 4), offset=OPERAND)
    second = flow.flags[OPERAND + 4 * 16 : OPERAND + 8 * 16].reshape(4, 16)
    second[:, 2:] = 0
    what = convolution(source, kernels, 1, 4, weight_offset=weight_offset)
    flow.run(ConvolutionTask(0, 0, what, dpu(), block_writer(1, 4)), "sums")
    sums = flow.flags[TARGET : TARGET + 4 * 16]
    assert sums.any() == sums.all() == is_known


@pytest.mark.parametrize(
    ("bs", "bn", "is_known"),
    [
        (stage(multiply=0), stage(add=-11), True),
        (stage(multiply=0, add=5), stage(add=-11), True),
        (stage(multiply=0), stage(add=-10), False),
        (stage(add=-11), stage(multiply=0), False),
        (stage(multiply=0, multiply_negatives=True), stage(add=-11), False),
        (stage(), stage(add=-11), False),
    ],
)
def test_rows_that_a_task_fills_make_weights_of_0(bs: Stage, bn: Stage, is_known: bool) -> None:
    """What lies in the second sixteen channels of 16 kernels becomes -11, the offset is 11."""
    flow = flow_of(TARGET)
    place = Address(INTERNAL, some.WEIGHTS)
    filled = dpu(bs=bs, bn=bn)
    for half in range(2):
        to = PhaseWriter(replace(place, offset=place.offset + 16 * half), 16 * 32, 32, 16, 16, 0)
        rows = features((16, 1, 16))
        flow.run(ElementwiseTask(0, 0, rows, filled if half else dpu(), to), "weights")
    kernels = Weights(place, WeightLayout(Element.INT8, 16, 32, 1, 1, 16, 32, False), None)
    source = features((32, 1, 4), offset=OPERAND)
    flow.flags[OPERAND + 4 * 16 : OPERAND + 8 * 16] = 0
    what = convolution(source, kernels, 1, 4, weight_offset=11)
    flow.run(ConvolutionTask(0, 0, what, dpu(), block_writer(1, 4)), "sums")
    sums = flow.flags[TARGET : TARGET + 4 * 16]
    assert sums.any() == sums.all() == is_known


def test_what_lies_behind_an_input_is_not_known_to_its_readers() -> None:
    task = CopyTask(0, 0, features((16, 3, 4)), (1, 1), block_writer(3, 4))
    flow = flow_of(_MEMORY)
    flow.add_input(Input("x", 0, 128))
    flow.run(task, "here")
    copied = flow.flags[TARGET : TARGET + 192]
    assert copied[:128].all()
    assert not copied[128:].any()
    assert flow.readers() == "here, which reads 64 bytes past the input 'x'"
    assert flow.flags[128:TARGET].all(), "others may read it"
    # What is written over it later is no input any more.
    flow.write(64, 300)
    flow.run(task, "here")
    assert flow.flags[TARGET : TARGET + 192].all()
