"""Bands of rows and slices of kernels as one task: it leaves the parts' bytes, or isn't made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from anynpu.soft.engines.rknpu.decode.context import Context
from anynpu.soft.engines.rknpu.elements import Address
from anynpu.soft.engines.rknpu.generations import GENERATIONS
from anynpu.soft.engines.rknpu.joining import join
from anynpu.soft.engines.rknpu.kernels import KernelKind, plan_task
from anynpu.soft.engines.rknpu.memory import INTERNAL, MemoryMap
from anynpu.soft.engines.rknpu.tasks import (
    ConvolutionTask,
    Elementwise,
    Features,
    OperandConversion,
    Operation,
    Task,
)
from anynpu.soft.formats.rknn.model import Generation

from .descriptions import (
    OPERAND,
    SOURCE,
    TARGET,
    Scene,
    block_writer,
    channels,
    convolution,
    dense_weights,
    dpu,
    features,
    output,
    stage,
)

WIDTH, INPUTS, KERNELS = 9, 32, 96
_WEIGHTS = 1


class Cut:
    """A convolution's weights and operands, and tasks that compute parts of it.

    `reach` is its kernels' height, with as much padding as keeps the height.
    """

    def __init__(self, height: int, stride: int = 1, reach: int = 3, adds: bool = False) -> None:
        rng = np.random.default_rng(7)
        self.height, self.stride, self.reach, self.adds = height, stride, reach, adds
        kernels = rng.integers(-100, 100, (KERNELS, INPUTS, reach, 1))
        self.weights = dense_weights(kernels)
        self.offsets = rng.integers(-20, 20, KERNELS)
        self.addends = rng.integers(-9999, 9999, KERNELS)
        self.factors = rng.integers(1, 20000, KERNELS)
        assert self.weights.data is not None
        memory = MemoryMap(1 << 18, {_WEIGHTS: self.weights.data})
        self.context = Context(GENERATIONS[Generation.V2], memory)
        self._known: dict[Any, Any] = {}

    @property
    def input_height(self) -> int:
        return (self.height - 1) * self.stride + 1

    def part(self, first: int, rows: int, kernel: int = 0, kernels: int = KERNELS) -> Task:
        """The results' rows from `first` on, of some kernels from a multiple of 32 on."""
        top = self.reach // 2
        begin = max(0, first * self.stride - top)
        end = min(self.input_height, (first + rows - 1) * self.stride - top + self.reach)
        whole = features((INPUTS, self.input_height, WIDTH))
        source = replace(
            whole, address=Address(INTERNAL, SOURCE + begin * whole.line), height=end - begin
        )
        target = block_writer(self.height, WIDTH)
        place = first * target.line + kernel // 16 * target.surface
        weights, offsets, stages = self._of(kernel, kernels)
        if self.adds:
            operand = replace(
                features((KERNELS, self.height, WIDTH), offset=OPERAND + place),
                channels=kernels,
                height=rows,
            )
            conversion = OperandConversion(3, 17000, 14)
            adding = Elementwise(None, Operation.ADD, operand, conversion, 0, lower=0)
            stages = replace(stages, elementwise=adding)
        return ConvolutionTask(
            first * 100 + kernel,
            0,
            convolution(
                source,
                weights,
                rows,
                WIDTH,
                channels=kernels,
                stride=(self.stride, 1),
                padding=(max(0, top - first * self.stride), 0),
                padding_value=-7.0,
                weight_offset=offsets,
            ),
            stages,
            replace(target, address=Address(INTERNAL, TARGET + place), height=rows),
        )

    def _of(self, kernel: int, kernels: int) -> Any:
        """Weights, what is added to them, and stages: the same for all bands."""
        key = kernel, kernels
        if key not in self._known:
            layout = replace(self.weights.layout, kernels=kernels)
            size = layout.bytes // kernels
            some = slice(kernel, kernel + kernels)
            self._known[key] = (
                self.context.weights(Address(_WEIGHTS, kernel * size), layout),
                channels(self.offsets[some]),
                dpu(
                    bs=stage(
                        add=channels(self.addends[some]),
                        multiply=channels(self.factors[some]),
                        shift_positive=14,
                        shift_negative=14,
                    ),
                    output=output(scale=77, shift=9, offset=-5),
                ),
            )
        return self._known[key]

    def joined(self, tasks: Sequence[Task]) -> list[Task]:
        return list(join(tasks, self.context, plan_task))


def memory_after(tasks: Sequence[Task]) -> NDArray[np.uint8]:
    """What the reference leaves of noise, and the kernels as well."""
    scene = Scene(1)
    for task in tasks:
        scene.run(task, KernelKind.INT8)
    return scene.bytes


def bounds(cuts: set[int], end: int) -> list[tuple[int, int]]:
    places = [0, *sorted(cut for cut in cuts if 0 < cut < end), end]
    return [(one, other - one) for one, other in pairwise(places)]


@given(
    height=st.integers(2, 12),
    rows=st.sets(st.integers(1, 11), max_size=5),
    kernels=st.sets(st.sampled_from([32, 64]), max_size=2),
    stride=st.integers(1, 3),
    reach=st.sampled_from([1, 3, 5]),
    adds=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_whole_leaves_what_its_parts_do(
    height: int, rows: set[int], kernels: set[int], stride: int, reach: int, adds: bool
) -> None:
    cut = Cut(height, stride, reach, adds)
    parts = [
        cut.part(*band, *some) for band in bounds(rows, height) for some in bounds(kernels, KERNELS)
    ]
    np.testing.assert_array_equal(memory_after(cut.joined(parts)), memory_after(parts))


@pytest.mark.parametrize("adds", [False, True])
def test_parts_become_one_task(adds: bool) -> None:
    cut = Cut(12, adds=adds)
    whole = cut.part(0, 12)
    bands = [cut.part(0, 4), cut.part(4, 5), cut.part(9, 3)]
    slices = [cut.part(0, 12, 0, 32), cut.part(0, 12, 32, 64)]
    both = [cut.part(*band, *some) for band in ((0, 7), (7, 5)) for some in ((0, 64), (64, 32))]
    for parts in (bands, slices, both):
        (found,) = cut.joined(parts)
        assert isinstance(found, ConvolutionTask)
        assert isinstance(whole, ConvolutionTask)
        assert found.convolution.shape == whole.convolution.shape
        assert found.convolution.source == whole.convolution.source
        assert found.convolution.weights.layout == whole.convolution.weights.layout
    assert cut.joined([whole]) == [whole]


def changed(task: Task, **fields: Any) -> Task:
    """A task with other fields of its convolution, its source, its writer or its stages."""
    assert isinstance(task, ConvolutionTask)
    ((name, values),) = fields.items()
    if name == "convolution":
        return replace(task, convolution=replace(task.convolution, **values))
    if name == "source":
        source = replace(task.convolution.source, **values)
        return replace(task, convolution=replace(task.convolution, source=source))
    return replace(task, **{name: replace(getattr(task, name), **values)})


@pytest.mark.parametrize(
    "change",
    [
        {"convolution": {"padding": (1, 0)}},
        {"convolution": {"padding_value": 1.0}},
        {"convolution": {"dilation": (1, 2)}},
        {"convolution": {"truncate": 1}},
        {"convolution": {"weight_offset": channels(np.zeros(KERNELS))}},
        {"source": {"address": Address(INTERNAL, SOURCE + 3 * WIDTH * 16 + 16)}},
        {"source": {"line": 10 * 16}},
        {"source": {"surface": 4096}},
        {"writer": {"address": Address(INTERNAL, TARGET + 5 * WIDTH * 16)}},
        {"writer": {"padding": 1}},
        {"writer": {"line": 10 * 16}},
        {"dpu": {"output": output(scale=78, shift=9, offset=-5)}},
        {"dpu": {"reduction": "max"}},
        {"dpu": {"bs": stage(add=channels(np.ones(KERNELS)))}},
    ],
)
def test_a_band_that_is_computed_otherwise_stays(change: dict[str, dict[str, Any]]) -> None:
    cut = Cut(8)
    one, other = cut.part(0, 4), cut.part(4, 4)
    assert len(cut.joined([one, other])) == 1
    parts = [one, changed(other, **change)]
    assert cut.joined(parts) == parts


def test_a_band_that_sees_padding_below_it_stays() -> None:
    cut = Cut(8)
    short = changed(cut.part(0, 4), source={"height": 4})
    parts = [short, cut.part(4, 4)]
    assert cut.joined(parts) == parts


def test_bands_that_read_what_the_ones_above_have_written_stay() -> None:
    cut = Cut(8)
    parts = [
        changed(part, source={"address": Address(INTERNAL, TARGET + first * WIDTH * 16)})
        for first, part in ((0, cut.part(0, 4)), (3, cut.part(4, 4)))
    ]
    assert cut.joined(parts) == parts


def test_a_band_in_another_order_stays() -> None:
    cut = Cut(8)
    parts = [cut.part(4, 4), cut.part(0, 4)]
    assert cut.joined(parts) == parts


@pytest.mark.parametrize(
    "change",
    [
        {"writer": {"address": Address(INTERNAL, TARGET)}},
        {"dpu": {"bs": None}},
        {"dpu": {"bs": stage(add=5)}},
        {"convolution": {"weight_offset": 3}},
        {"source": {"address": Address(INTERNAL, SOURCE + 16)}},
    ],
)
def test_a_slice_that_is_computed_otherwise_stays(change: dict[str, dict[str, Any]]) -> None:
    cut = Cut(8)
    one, other = cut.part(0, 8, 0, 32), cut.part(0, 8, 32, 32)
    assert len(cut.joined([one, other])) == 1
    parts = [one, changed(other, **change)]
    assert cut.joined(parts) == parts


def test_slices_stay_that_kernels_do_not_know_together() -> None:
    cut = Cut(8)
    parts = [cut.part(0, 8, 0, 32), cut.part(0, 8, 32, 32)]
    assert list(join(parts, cut.context, lambda whole: None)) == parts


def test_an_operand_that_all_bands_read_stays_theirs() -> None:
    cut = Cut(8, adds=True)
    one, other = cut.part(0, 4), cut.part(4, 4)
    assert isinstance(one, ConvolutionTask)
    assert isinstance(other, ConvolutionTask)
    parts: list[Task] = [one, replace(other, dpu=one.dpu)]
    assert cut.joined(parts) == parts


def test_features_in_two_places_are_followed_in_both() -> None:
    cut = Cut(8)
    half = features((INPUTS, 8, WIDTH)).surface

    def odd(task: Task, distance: int = 0) -> Task:
        assert isinstance(task, ConvolutionTask)
        source = task.convolution.source
        assert isinstance(source, Features)
        place = Address(INTERNAL, source.address.offset + half + distance)
        return changed(task, source={"odd": place, "surface": 2 * half})

    parts = [odd(cut.part(0, 4)), odd(cut.part(4, 4))]
    # Only the reference knows a convolution of those.
    assert len(list(join(parts, cut.context, lambda whole: True))) == 1
    parts = [parts[0], odd(cut.part(4, 4), 16)]
    assert list(join(parts, cut.context, lambda whole: True)) == parts
