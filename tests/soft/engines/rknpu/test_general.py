"""Kernels for any element against the reference, on tasks at random: the same bytes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.kernels import KernelKind, plan_task
from anynpu.soft.engines.rknpu.kernels.general.convolution import _Lines
from anynpu.soft.engines.rknpu.memory import INTERNAL
from anynpu.soft.engines.rknpu.tasks import (
    ConvolutionTask,
    DenseWriter,
    Elementwise,
    ElementwiseTask,
    Features,
    Image,
    LookupTable,
    Operation,
    PoolingMethod,
    PoolingTask,
    Task,
)

from . import random_tasks as some
from .descriptions import (
    SOURCE,
    TARGET,
    Scene,
    block_writer,
    convolution,
    dense_weights,
    dpu,
    features,
    kernels_of,
    output,
    stage,
)
from .test_dpu import table

seeds = st.integers(0, 1 << 16)


pytestmark = pytest.mark.usefixtures("kernel_form")


def compare(task: Task, element: Element, content: str, seed: int) -> None:
    """The general kernels have to take the task."""
    scene = Scene()
    some.fill(scene, element, content, seed)
    scene.run(task, KernelKind.GENERAL)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), content=some.contents, seed=seeds)
def test_convolutions_of_floats(data: st.DataObject, content: str, seed: int) -> None:
    what = data.draw(some.convolutions(True, content, seed))
    shape = what.channels, what.height, what.width
    stages = data.draw(some.dpus(True, shape))
    atom = data.draw(st.sampled_from([8, 16]))
    task = ConvolutionTask(0, 0, what, stages, data.draw(some.writers(shape, atom)))
    compare(task, what.source.element, content, seed)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), seed=seeds)
def test_convolutions_of_integers(data: st.DataObject, seed: int) -> None:
    """Tasks whose exactness isn't proved are the reference's; without stages all have kernels."""
    what = data.draw(some.convolutions(False, "noise", seed))
    shape = what.channels, what.height, what.width
    stages = data.draw(some.dpus(False, shape))
    scene = Scene(seed)
    atom = what.source.atom if isinstance(what.source, Features) else 16
    writer = data.draw(some.writers(shape, atom))
    scene.run_any(ConvolutionTask(0, 0, what, stages, writer))
    plain = ConvolutionTask(0, 0, what, dpu(output=stages.output), writer)
    assert kernels_of(plain) is not KernelKind.REFERENCE


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), content=some.contents, seed=seeds)
def test_features_of_floats(data: st.DataObject, content: str, seed: int) -> None:
    shape = data.draw(some.shapes)
    element = data.draw(some.FLOATS)
    atom = data.draw(st.sampled_from([8, 16]))
    source = data.draw(some.features_of(shape, element, atom=atom))
    stages = data.draw(some.dpus(True, shape, source=source))
    task = ElementwiseTask(0, 0, source, stages, data.draw(some.writers(shape, atom)))
    compare(task, element, content, seed)


@settings(max_examples=40, deadline=None)
@given(
    seed=seeds,
    steps=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    moved=st.sampled_from([0, 0, 0, 1, -7]),
    short=st.sampled_from([0, 0, 5]),
    slopes=st.tuples(st.sampled_from([0, 1, -7, 1 << 15, -(1 << 15)]), st.integers(-999, 16434)),
    shifts=st.tuples(st.integers(0, 31), st.integers(0, 31)),
    largest=st.sampled_from([1 << 13, 1 << 13, 1 << 15]),
)
def test_tables_of_floats(
    seed: int,
    steps: tuple[int, int],
    moved: int,
    short: int,
    slopes: tuple[int, int],
    shifts: tuple[int, int],
    largest: int,
) -> None:
    """Values of all magnitudes, on entries and near them, in groups that are inside or not.

    float32 hasn't all values at 0 of lines through the largest entries.
    """
    rng = np.random.default_rng(seed)
    low, high = (512 << step for step in steps)
    entries = rng.integers(-largest, largest, (2, 513)).astype(np.float64)
    look_up = table(
        negative=entries[0], positive=entries[1], negative_start=-low + moved,
        positive_start=0, positive_end=high - short, steps=steps, slopes=slopes, shifts=shifts,
    )  # fmt: skip
    shape = 16, 4, 16
    reach = np.where(rng.integers(0, 2, shape), -low, high)
    stages = dpu(
        is_float=True, output=output(Element.FLOAT32),
        elementwise=Elementwise(look_up, None, None, None, 0),
    )  # fmt: skip
    scene = Scene()
    scene.put(round_entries(rng, reach, 1 << min(steps)))
    task = ElementwiseTask(0, 0, features(shape, Element.FLOAT32), stages, block_writer(4, 16))
    scene.run(task, KernelKind.GENERAL)


def round_entries(
    rng: np.random.Generator, reach: NDArray[np.int64], step: int
) -> NDArray[np.float32]:
    """(16, 4, W) values up to what tables reach, on entries and near them, and beyond."""
    shape = reach.shape
    x = (rng.random(shape) * reach).astype(np.float32)
    x[1] = (rng.integers(-512, 513, shape[1:]) * step).astype(np.float32)
    x[2] *= np.exp2(rng.integers(-40, 1, shape[1:])).astype(np.float32)
    edges = (0.0, -0.0, reach.min(), reach.max(), np.nan, np.inf, -np.inf, 1e-30)
    x[3] = rng.choice(np.array(edges, np.float32), shape[1:])
    x[4:, :, ::5] = np.nextafter(np.rint(x[4:, :, ::5]), np.float32(rng.choice([-1e9, 1e9])))
    x[:, 2:] = rng.choice(x[6].ravel(), (shape[0], 2, shape[2]))
    x[:, 3] *= np.exp2(rng.integers(0, 24, (shape[0], 1))).astype(np.float32)
    return x


@settings(max_examples=30, deadline=None)
@given(
    seed=seeds,
    first=st.sampled_from([0, 0, 7]),
    multiplies=st.booleans(),
    addend=st.sampled_from([0.0, 3.0**-9]),
    to=st.sampled_from([Element.FLOAT16, Element.FLOAT16, Element.FLOAT32]),
    channels=st.sampled_from([16, 16, 11]),
)
def test_activations(
    seed: int, first: int, multiplies: bool, addend: float, to: Element, channels: int
) -> None:
    """A bias, a factor, a table, a factor: values as in the tests of tables, after the first."""
    rng = np.random.default_rng(seed)
    slopes = rng.integers(-30, 70, (2, 512))
    entries = first + np.concatenate([np.zeros((2, 1), int), slopes.cumsum(1)], axis=1)
    look_up = table(
        negative=entries[0, ::-1].astype(np.float64), positive=entries[1].astype(np.float64),
        slopes=(0, 16434), shifts=(0, 13),
    )  # fmt: skip
    width = int(rng.integers(1, 41))
    x = round_entries(rng, rng.choice([-16384, 16384], (16, 4, width)), 32)[:channels]
    factor = np.exp2(rng.integers(0, 12, (channels, 1, 1))).astype(np.float32)
    bias = rng.choice([-0.0, 0.25, 3.0], (channels, 1, 1)).astype(np.float32)
    scene = Scene()
    scene.put(x / factor - bias if multiplies else x)
    stages = dpu(
        is_float=True, output=output(to, factor=3.0**-7, addend=addend),
        bs=stage(add=bias) if multiplies else None,
        bn=stage(multiply=factor, add=-0.0, adds_first=False) if multiplies else None,
        elementwise=Elementwise(look_up, None, None, None, 0),
    )  # fmt: skip
    source = features((channels, 4, width), Element.FLOAT32)
    scene.run(ElementwiseTask(0, 0, source, stages, block_writer(4, width)), KernelKind.GENERAL)


def run_table(look_up: LookupTable, x: NDArray[np.float32]) -> None:
    """Look up a vector of values, filled up to whole pixels of 16 channels."""
    shape = 16, 1, -(-x.size // 16)
    stages = dpu(
        is_float=True, output=output(Element.FLOAT32),
        elementwise=Elementwise(look_up, None, None, None, 0),
    )  # fmt: skip
    scene = Scene()
    scene.put(np.resize(x, shape))
    source, writer = features(shape, Element.FLOAT32), block_writer(1, shape[2])
    scene.run(ElementwiseTask(0, 0, source, stages, writer), KernelKind.GENERAL)


def test_tables_of_floats_where_they_end() -> None:
    """Every entry and the values next to it, of which no vector leaves what float32 does."""
    rng = np.random.default_rng(1)
    entries = rng.integers(-(1 << 13), 1 << 13, (2, 513)).astype(np.float64)
    look_up = table(negative=entries[0], positive=entries[1], slopes=(31, 16434), shifts=(2, 13))
    places = np.arange(-600, 601, dtype=np.float32) * 32
    x = np.concatenate([places, *(np.nextafter(places, np.float32(way)) for way in (-1e9, 1e9))])
    run_table(look_up, x[abs(x) > 1])


def test_tables_of_floats_near_zero() -> None:
    """float64 rounds a sum to the middle of two float32, so that the nearer one is lost."""
    first, rounded = 20000, 0
    for slope in range(1 << 15, (1 << 15) + first, 7):
        past_the_middle = -(1 << 39) % slope
        if not 0 < past_the_middle < 1 << 10:
            continue
        x = np.float32(((1 << 39) + past_the_middle) // slope * 2.0**-49)
        exact = Fraction(first) - Fraction(slope) * Fraction(float(x))
        assert abs(exact - (first - Fraction(1, 1024))) < Fraction(1, 1 << 39)
        entries = np.full(513, first - slope, np.float64)
        entries[0] = first
        look_up = table(
            negative=entries[::-1], positive=entries, steps=(0, 0),
            negative_start=-512, positive_end=512,
        )  # fmt: skip
        run_table(look_up, np.full(16, x))
        rounded += 1
    assert rounded > 10


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), seed=seeds)
def test_features_of_integers(data: st.DataObject, seed: int) -> None:
    shape = data.draw(some.shapes)
    source = data.draw(some.features_of(shape, data.draw(some.INTEGERS)))
    stages = data.draw(some.dpus(False, shape, source=source))
    writer = data.draw(some.writers(shape, 16))
    scene = Scene(seed)
    scene.run_any(ElementwiseTask(0, 0, source, stages, writer))
    plain = ElementwiseTask(0, 0, source, dpu(output=output(stages.output.element)), writer)
    assert kernels_of(plain) is not KernelKind.REFERENCE


@settings(max_examples=25, deadline=None)
@given(data=st.data(), content=some.contents, seed=seeds)
def test_results_in_the_place_of_what_was_read(
    data: st.DataObject, content: str, seed: int
) -> None:
    """In place, one atom further on, and where the rows lie differently."""
    shape = data.draw(st.integers(1, 40)), 4, 6
    source = features(shape, Element.FLOAT16, TARGET + data.draw(st.sampled_from([0, 16, -96])))
    source = replace(source, line=96 + data.draw(st.sampled_from([0, 16])))
    to = data.draw(some.FLOATS)
    stages = data.draw(some.dpus(True, shape, to, source))
    compare(
        ElementwiseTask(0, 0, source, stages, block_writer(4, 6)), Element.FLOAT16, content, seed
    )


@settings(max_examples=25, deadline=None)
@given(data=st.data(), content=some.contents, seed=seeds)
def test_reductions_over_channels(data: st.DataObject, content: str, seed: int) -> None:
    shape = data.draw(some.shapes)
    element = data.draw(some.FLOATS)
    source = data.draw(some.features_of(shape, element))
    stages = data.draw(some.dpus(True, shape, Element.FLOAT16))
    stages = replace(stages, reduction=data.draw(st.sampled_from(["min", "max"])))
    writer = DenseWriter(Address(INTERNAL, TARGET), 1 + seed % 4)
    compare(ElementwiseTask(0, 0, source, stages, writer), element, content, seed)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), content=some.contents, seed=seeds)
def test_pooling(data: st.DataObject, content: str, seed: int) -> None:
    element = data.draw(st.sampled_from([Element.FLOAT16, Element.INT8]))
    methods = PoolingMethod if element.is_float else [PoolingMethod.AVERAGE]
    shape = data.draw(some.shapes)
    atom = data.draw(st.sampled_from([8, 16]))
    source: Features = data.draw(some.features_of(shape, element, atom=atom))
    if element is Element.INT8:
        source = replace(source, odd=None)
    size = [data.draw(st.integers(1, 8)) for _ in range(8)]
    values = [-3.0, 0.0] + ([-np.inf, 0.1] if element.is_float else [])
    reciprocals = [float(np.floor(65536 / count)) / 65536 for count in size[:2]]
    task = PoolingTask(
        0, 0, source, data.draw(st.sampled_from(methods)), (size[0], size[1]),
        (size[2], size[3]), (size[4] - 1, size[5] - 1), data.draw(st.sampled_from(values)),
        (reciprocals[0], reciprocals[1]), size[6], size[7],
        block_writer(size[6], size[7], atom=atom, line=size[7] * atom),
    )  # fmt: skip
    compare(task, element, content, seed)


def test_large_tasks_are_shared_between_threads() -> None:
    """Rows, kernels and channels of one task, on as many threads as there are."""
    shape = (48, 30, 20)
    source = features(shape, Element.FLOAT16)
    rng = np.random.default_rng(1)
    for kernels_, size, stride in ((16, 3, 1), (200, 1, 9)):
        w = rng.standard_normal((kernels_, 48, size, size)).astype(np.float16)
        height, width = (28, 18) if size == 3 else (4, 3)
        what = convolution(
            source, dense_weights(w, Element.FLOAT16), height, width, stride=(stride, stride)
        )
        task = ConvolutionTask(0, 0, what, dpu(is_float=True), block_writer(height, width))
        compare(task, Element.FLOAT16, "normal", 2)
    compare(
        ElementwiseTask(0, 0, source, dpu(is_float=True), block_writer(30, 20)),
        Element.FLOAT16, "normal", 3,
    )  # fmt: skip


@pytest.mark.parametrize("size", [(4, 6), (30, 20)])
@pytest.mark.parametrize("odd", [None, np.nan, np.inf, -np.inf])
def test_kernels_that_are_mostly_zeros(size: tuple[int, int], odd: float | None) -> None:
    """As the toolkit joins features by a convolution: what isn't finite reaches all results."""
    height, width = size
    rng = np.random.default_rng(4)
    w = np.zeros((40, 48, 1, 1), np.float16)
    w[np.arange(40), np.arange(40)[::-1] + 3] = rng.standard_normal((40, 1, 1))
    w[20:25, 30] = -0.0
    source = features((48, height, width), Element.FLOAT16)
    values = rng.standard_normal(source.shape).astype(np.float16)
    if odd is not None:
        values[1, height // 2, 3] = odd
    scene = Scene()
    scene.put(values)
    weights = dense_weights(w, Element.FLOAT16)
    what = convolution(source, weights, height, width)
    task = ConvolutionTask(0, 0, what, dpu(is_float=True), block_writer(height, width))
    scene.run(task, KernelKind.GENERAL)
    found = scene.get((40, height, width), np.float16)
    assert np.isnan(found[:, height // 2, 3]).sum() == (0 if odd is None else 40)


LINES = [
    # channels, kernel, stride, dilation of rows, padding, rows and columns
    (3, (3, 3), (1, 1), 1, (1, 1), (18, 20)),
    (3, (3, 3), (2, 2), 1, (0, 1), (20, 17)),
    (4, (7, 7), (2, 3), 1, (3, 2), (40, 21)),
    (16, (3, 2), (1, 2), 3, (2, 0), (11, 31)),
    (5, (1, 5), (3, 1), 1, (0, 4), (25, 23)),
]


@pytest.mark.parametrize(("channels", "size", "stride", "apart", "padding", "shape"), LINES)
@pytest.mark.parametrize("content", ["normal", "special"])
def test_small_kernels_over_rows_of_the_input(
    channels: int,
    size: tuple[int, int],
    stride: tuple[int, int],
    apart: int,
    padding: tuple[int, int],
    shape: tuple[int, int],
    content: str,
) -> None:
    height, width = shape
    rows = (height - 1) * stride[0] + (size[0] - 1) * apart + 1 - 2 * padding[0]
    columns = (width - 1) * stride[1] + size[1] - 2 * padding[1]
    source = features((channels, rows, columns), Element.FLOAT16)
    rng = np.random.default_rng(channels)
    w = rng.standard_normal((20, channels, *size)).astype(np.float16)
    what = convolution(
        source, dense_weights(w, Element.FLOAT16), height, width,
        stride=stride, dilation=(apart, 1), padding=padding, padding_value=0.5,
    )  # fmt: skip
    task = ConvolutionTask(0, 0, what, dpu(is_float=True), block_writer(height, width))
    assert isinstance(plan_task(task), _Lines)
    compare(task, Element.FLOAT16, content, 5)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (4, 2), (3, 5)])
@pytest.mark.parametrize("content", ["normal", "special"])
def test_pictures_of_few_channels(shape: tuple[int, int], content: str) -> None:
    """Pixel by pixel: so many channels to as many as fit into a register four times, or more."""
    channels, kernels = shape
    height, width = 13, 23
    line = width * channels * 2
    source = Image(Address(INTERNAL, SOURCE), Element.FLOAT16, channels, height, width, line)
    rng = np.random.default_rng(channels)
    w = rng.standard_normal((kernels, channels, 1, 1)).astype(np.float16)
    what = convolution(source, dense_weights(w, Element.FLOAT16), height, width)
    writer = block_writer(height, width, line=width * 16 + 32, padding=0x3C00)
    task = ConvolutionTask(0, 0, what, dpu(is_float=True), writer)
    assert isinstance(plan_task(task), _Lines)
    compare(task, Element.FLOAT16, content, 6)


@pytest.mark.parametrize("channels", [8, 40])
def test_an_operand_for_all_channels_in_the_place_of_the_first_results(channels: int) -> None:
    """It is read for the last ones too, after the first have been written."""
    shape = channels, 4, 6
    operand = features((1, 4, 6), Element.FLOAT16, TARGET)
    added = Elementwise(None, Operation.ADD, operand, None, 0)
    source = features(shape, Element.FLOAT16)
    stages = dpu(is_float=True, elementwise=added)
    task = ElementwiseTask(0, 0, source, stages, block_writer(4, 6))
    compare(task, Element.FLOAT16, "normal", 1)
    # The same after a convolution.
    weights = dense_weights(np.ones((channels, channels, 1, 1), np.float16), Element.FLOAT16)
    compare(
        ConvolutionTask(0, 0, convolution(source, weights, 4, 6), stages, block_writer(4, 6)),
        Element.FLOAT16, "normal", 2,
    )  # fmt: skip
