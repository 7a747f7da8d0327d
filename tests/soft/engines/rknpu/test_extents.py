"""No byte beside those that a description names: what is refused, and memories without room.

Under `make sanitize` every read or write past such a memory ends the run.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anynpu.errors import ModelError
from anynpu.native.threads import thread_count
from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.generations.base import always
from anynpu.soft.engines.rknpu.generations.rk3588.cna import CnaWeightSize1
from anynpu.soft.engines.rknpu.generations.rk3588.dpu import (
    DpuBn,
    DpuBs,
    DpuBsOw,
    DpuChannel,
    DpuDataFormat,
    DpuEw,
    DpuFeatureMode,
    DpuOutScale,
    DpuSurfaceAdd,
    DpuSurfaceStride,
    DpuWriteSize1,
)
from anynpu.soft.engines.rknpu.generations.rk3588.generation import Rk3588
from anynpu.soft.engines.rknpu.generations.rk3588.rdma import (
    RdmaChannel,
    RdmaFeatureMode,
    RdmaWidth,
)
from anynpu.soft.engines.rknpu.kernels import Scratch, chained, plan_task
from anynpu.soft.engines.rknpu.layout import Written, feature_views, image_view, written
from anynpu.soft.engines.rknpu.memory import INTERNAL, Memory, Strided, span
from anynpu.soft.engines.rknpu.reference import run_task
from anynpu.soft.engines.rknpu.registers.fields import Field
from anynpu.soft.engines.rknpu.registers.quantities import Quantity
from anynpu.soft.engines.rknpu.tasks import (
    AtomTransposer,
    BlockWriter,
    ConvolutionTask,
    CopyTask,
    DenseWriter,
    ElementwiseTask,
    Features,
    Image,
    PackedWriter,
    PhaseWriter,
    PixelTransposer,
    Task,
)
from anynpu.soft.engines.rknpu.weights import WeightLayout

from .commands import decode, fields
from .descriptions import convolution, dense_weights, dpu, output
from .test_decode import DENSE as CONVOLUTION_FIELDS

CONSTANT = 1


def memory(size: int = 64) -> Memory:
    return Memory(np.zeros(size, np.uint8), {CONSTANT: np.zeros(32, np.uint8)})


@pytest.mark.parametrize(
    "view",
    [
        span(Address(INTERNAL, 0), 65),
        span(Address(INTERNAL, -1), 2),
        span(Address(CONSTANT, 16), 17),
        span(Address(7, 0), 1),
        Strided(Address(INTERNAL, 16), (2, 4), (-20, 1)),
        Strided(Address(INTERNAL, 16), (4, 16), (16, 1)),
        Strided(Address(INTERNAL, 1 << 40), (1,), (1,)),
    ],
)
def test_what_leaves_a_memory_is_neither_viewed_nor_pointed_to(view: Strided) -> None:
    inside = span(Address(INTERNAL, 0), 1)
    with pytest.raises(ModelError, match="of section"):
        memory().view(view)
    with pytest.raises(ModelError, match="of section"):
        memory().pointer(view)
    with pytest.raises(ModelError, match="of section"):
        memory().pointer(inside, view)


def test_constants_are_not_written() -> None:
    view = span(Address(CONSTANT, 0), 8)
    assert memory().view(view).size == 8
    with pytest.raises(ModelError, match="constant"):
        memory().view(view, writeable=True)
    with pytest.raises(ModelError, match="constant"):
        memory().pointer(view, writeable=True)


def test_a_view_of_nothing_lies_everywhere() -> None:
    assert memory().view(Strided(Address(INTERNAL, 64), (0, 9), (1 << 20, 1))).size == 0


PLACE = Address(INTERNAL, 0)


def small(atom: int, element: Element) -> Features:
    return Features(PLACE, element, 8, 1, 2, 2 * atom, 2 * atom, atom)


def test_a_writer_s_atoms_are_its_own() -> None:
    """The element's size doesn't decide twice, with two results, how many atoms there are."""
    wide = dpu(is_float=True, output=output(Element.FLOAT32))
    source = small(8, Element.FLOAT16)
    for writer in (AtomTransposer(PLACE, 8, 16, 8), PackedWriter(PLACE, 8, 1 << 20, atom=8)):
        task = ElementwiseTask(0, 0, source, wide, writer)
        # Two lanes of four bytes in each.
        assert written(task).atoms == (4, 1, 2, 8)
    task = ElementwiseTask(0, 0, source, wide, PixelTransposer(PLACE, 2, 1, 1, 16, 16, 256))
    assert written(task).atoms == (2, 1, 2, 16)


def test_atoms_that_a_writer_does_not_take_are_refused() -> None:
    block = BlockWriter(PLACE, 1, 2, 32, 32, 1, 0, 16, 0)
    for writer in (block, PhaseWriter(PLACE, 32, 16, 32, 16, 0), AtomTransposer(PLACE, 16, 16)):
        with pytest.raises(ModelError, match="gets atoms of 8"):
            written(CopyTask(0, 0, small(8, Element.INT8), (1, 1), writer))
    with pytest.raises(ModelError, match="1x2 pixels are written as 3x1"):
        Written(BlockWriter(PLACE, 3, 1, 32, 32, 1, 0, 16, 0), (1, 1, 2, 16))
    with pytest.raises(ModelError, match="reduction"):
        written(CopyTask(0, 0, small(16, Element.INT8), (1, 1), DenseWriter(PLACE)))


def run_both_ways(task: Task, bytes_: np.ndarray) -> None:
    """With the reference and with the kernels, in a memory of exactly these bytes."""
    expected = bytes_.copy()
    run_task(Memory(expected, {}), task)
    plan = plan_task(task)
    assert plan is not None
    scratch = Scratch(plan.own_bytes, plan.shared_bytes, thread_count())
    found = bytes_.copy()
    for call in chained(plan.bind(Memory(found, {}), scratch), scratch, ctypes.c_int32()):
        call()
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=60, deadline=None)
@given(
    channels=st.sampled_from([1, 3, 4]),
    size=st.tuples(st.integers(3, 9), st.integers(3, 24)),
    gap=st.sampled_from([-2, -1, 0, 1, 5]),
    order=st.sampled_from([1, 1, -1, 0]),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    seed=st.integers(0, 1 << 16),
)
def test_pictures_at_a_memory_s_end(
    channels: int,
    size: tuple[int, int],
    gap: int,
    order: int,
    stride: int,
    padding: int,
    seed: int,
) -> None:
    """Rows that ascend, descend, overlap or are one: whole vectors are read where they fit."""
    rng = np.random.default_rng(seed)
    height, width = size
    line = order * (width * channels + gap)
    rows = [(size + 2 * padding - 3) // stride + 1 for size in (height, width)]
    results = rows[0] * rows[1] * 16
    low, high = image_view(Image(PLACE, Element.INT8, channels, height, width, line)).extent
    image = Image(Address(INTERNAL, results - low), Element.INT8, channels, height, width, line)
    weights = dense_weights(rng.integers(-99, 99, (5, channels, 3, 3)))
    what = convolution(
        image, weights, rows[0], rows[1], padding=(padding,) * 2, stride=(stride,) * 2
    )
    writer = BlockWriter(PLACE, rows[0], rows[1], rows[1] * 16, results, 1, 0, 16, 0)
    task = ConvolutionTask(0, 0, what, dpu(output=output(scale=1, shift=9)), writer)
    run_both_ways(task, rng.integers(0, 256, results + high - low, np.uint8))


@settings(max_examples=40, deadline=None)
@given(
    channels=st.integers(1, 40),
    size=st.tuples(st.integers(1, 5), st.integers(1, 9)),
    atom=st.sampled_from([8, 16]),
    order=st.sampled_from([1, -1]),
    seed=st.integers(0, 1 << 16),
)
def test_features_at_a_memory_s_end(
    channels: int, size: tuple[int, int], atom: int, order: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    height, width = size
    surfaces = -(-channels // atom)
    line = order * width * atom
    area = height * width * atom
    results = surfaces * area
    first = results + (0 if order > 0 else (height - 1) * width * atom)
    source = Features(
        Address(INTERNAL, first), Element.INT8, channels, height, width, line, area, atom
    )
    (view,) = feature_views(source)
    assert view.extent == (results, 2 * results)
    writer = BlockWriter(PLACE, height, width, width * atom, area, surfaces, 0, atom, 0xFB)
    task = ElementwiseTask(0, 0, source, dpu(output=output(scale=3, shift=1)), writer)
    run_both_ways(task, rng.integers(0, 256, 2 * results, np.uint8))


class _Wide(Rk3588):
    """Atoms of eight bytes, but for elements of four."""

    atom = 8


_FROM_FLOAT16: dict[Field, int] = {
    DpuDataFormat.IN_PRECISION: Element.FLOAT16.value,
    DpuDataFormat.PROC_PRECISION: Element.FLOAT16.value,
    DpuDataFormat.OUT_PRECISION: Element.FLOAT32.value,
    DpuFeatureMode.OUTPUT_MODE: 2,
    DpuBs.BYPASS: 1,
    DpuBn.BYPASS: 1,
    DpuEw.BYPASS: 1,
    DpuOutScale.OUT_CVT_SCALE: 1,
    DpuSurfaceStride.DST_SURF_STRIDE: 64,
    DpuSurfaceAdd.SURF_ADD: 64,
    DpuChannel.CHANNEL: 15,
    DpuWriteSize1.WIDTH_WDMA: 3,
    RdmaFeatureMode.IN_PRECISION: Element.FLOAT16.value,
    RdmaChannel.CHANNEL: 15,
    RdmaWidth.WIDTH: 3,
}


@pytest.mark.parametrize(
    "change",
    [
        {DpuFeatureMode.TP_EN: 1},
        {DpuBsOw.TP_ORG_EN: 1},
    ],
)
def test_atoms_of_another_size_are_not_rearranged(change: dict[Field, int]) -> None:
    """Elements of four bytes on RK3566: no file has them in a transposer."""
    words = [*fields({**_FROM_FLOAT16, **change}), (0x4020, "y"), (0x5018, "x")]
    with pytest.raises(ModelError, match="atoms of 16 bytes are not known to be rearranged"):
        decode(0x18, words, generation=_Wide())
    plain = decode(0x18, [*fields(_FROM_FLOAT16), (0x4020, "y"), (0x5018, "x")], None, _Wide())
    assert written(plain).atoms == (4, 1, 4, 16)


def test_packed_elements_of_four_bytes_are_two_an_atom() -> None:
    """So librknnrt makes float32 of an output on RK3566."""
    packed = {DpuFeatureMode.NONALIGN: 1, DpuFeatureMode.SURF_LEN: 64}
    words = [*fields({**_FROM_FLOAT16, **packed}), (0x4020, "y"), (0x5018, "x")]
    assert written(decode(0x18, words, generation=_Wide())).atoms == (8, 1, 4, 8)


def test_rows_of_weights_hold_their_kernels() -> None:
    layout = WeightLayout(Element.FLOAT16, 16, 3, 3, 3, 16, 32, False, 0, 18)
    assert layout.bytes == 16 * 3 * 18

    class Rows(Rk3588):
        """Rows of another length than three places of three channels take."""

        def __init__(self, size: int) -> None:
            self.derived = {**Rk3588.derived, Quantity.ROW_BYTES: always(size, CnaWeightSize1)}

    changes: dict[Field, int] = {
        **CONVOLUTION_FIELDS,
        CnaWeightSize1.WEIGHT_BYTES_PER_KERNEL: 32 * 9,
    }
    addresses = [(0x1070, "x"), (0x1110, "weights"), (0x4020, "y")]
    words = [*fields(changes), *addresses]
    constants = {1: bytes(1 << 16)}
    decode(0x0D, words, constants, Rows(96))
    for size in (95, 1):
        with pytest.raises(ModelError, match=f"3 places of 32 channels in {size} bytes"):
            decode(0x0D, words, constants, Rows(size))
