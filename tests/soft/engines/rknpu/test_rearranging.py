"""Writers that rearrange atoms, in C against the reference: the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.kernels import KernelKind
from anynpu.soft.engines.rknpu.memory import INTERNAL
from anynpu.soft.engines.rknpu.tasks import (
    AtomTransposer,
    BlockWriter,
    CopyTask,
    ElementwiseTask,
    PackedWriter,
    PixelTransposer,
    SurfacePacker,
    Writer,
)

from . import random_tasks as some
from .descriptions import TARGET, Scene, block_writer, dpu, features, output

PLACE = Address(INTERNAL, TARGET)


@st.composite
def rearranging(draw: st.DrawFn, shape: tuple[int, int, int], size: int) -> Writer:
    """Each kind of writer for features (C, H, W) of a given number of bytes."""
    channels, height, width = shape
    surfaces = -(-channels * size // 16)
    gap = draw(st.sampled_from([0, 16, 48]))
    kind = draw(st.sampled_from(["atoms", "pixels", "packed", "surfaces", "blocks"]))
    if kind == "atoms":
        line = height * 16 + gap
        return AtomTransposer(PLACE, line, surfaces * line + gap)
    if kind == "pixels":
        rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 5))
        element, pixels = draw(st.sampled_from([(1, 8), (1, 16), (2, 8), (16, 8), (16, 16)]))
        lane = 16 if (element, pixels) == (1, 8) else columns * 16 + gap
        line = pixels * lane + gap
        group = max(rows, 2) * line + gap
        return PixelTransposer(PLACE, element, rows, columns, line, lane, group, pixels)
    if kind == "packed":
        whole = surfaces * height * width * 16
        if draw(st.booleans()):
            return PackedWriter(PLACE, 16, draw(st.integers(1, whole)), apart=2)
        sizes = st.integers(1, 16), st.integers(1, whole), st.integers(1, 3)
        return PackedWriter(PLACE, *(draw(size) for size in sizes))
    if kind == "surfaces":
        last = draw(st.integers(1, 16))
        groups = draw(st.integers(1, 5))
        whole = surfaces * ((height * width - 1) * 16 + last)
        group = max(1, whole // groups)
        groups = min(groups, whole // group)
        return SurfacePacker(PLACE, last, groups, group, draw(st.integers(1, 2 * whole)))
    return BlockWriter(
        PLACE, width, height, height * 16 + gap, width * (height * 16 + gap),
        draw(st.sampled_from([1, 2, 99])), 1 << 13, 16, 0xFBFF,
    )  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(data=st.data(), shape=some.shapes, seed=st.integers(0, 1 << 16))
def test_copies(data: st.DataObject, shape: tuple[int, int, int], seed: int) -> None:
    source = data.draw(some.features_of(shape, Element.INT8))
    writer = data.draw(rearranging(shape, 1))
    scene = Scene(seed)
    task = CopyTask(0, 0, source, (1, 1), writer)
    has_gaps = source.line != source.width * 16
    refused = source.odd is not None or (isinstance(writer, SurfacePacker) and has_gaps)
    kind = scene.run_any(task)
    assert kind is KernelKind.COPIES or refused


@settings(max_examples=60, deadline=None)
@given(data=st.data(), shape=some.shapes, seed=st.integers(0, 1 << 16))
def test_results(data: st.DataObject, shape: tuple[int, int, int], seed: int) -> None:
    element = data.draw(some.FLOATS)
    source = data.draw(some.features_of(shape, element))
    to = data.draw(some.FLOATS)
    writer = data.draw(rearranging(shape, to.size))
    scene = Scene()
    some.fill(scene, element, "special", seed)
    task = ElementwiseTask(0, 0, source, dpu(is_float=True, output=output(to)), writer)
    scene.run(task, KernelKind.GENERAL)


@pytest.mark.parametrize("distance", [-64, -16, 16, 48])
def test_atoms_moved_by_less_than_their_extent(distance: int) -> None:
    shape = (32, 3, 5)
    source = features(shape, offset=TARGET)
    scene = Scene(1)
    for writer in (
        block_writer(3, 5, address=Address(INTERNAL, TARGET + distance)),
        AtomTransposer(Address(INTERNAL, TARGET + distance), 48, 96),
        PackedWriter(Address(INTERNAL, TARGET + distance), 8, 999),
    ):
        task = CopyTask(0, 0, source, (1, 1), writer)
        scene.run(task, KernelKind.COPIES)


def test_one_atom_and_no_whole_unit() -> None:
    scene = Scene(2)
    before = scene.bytes.copy()
    task = CopyTask(0, 0, features((1, 1, 1)), (1, 1), PackedWriter(PLACE, 16, 3))
    scene.run(task, KernelKind.COPIES)
    before[TARGET : TARGET + 3] = before[:3]
    np.testing.assert_array_equal(scene.bytes, before)
