"""Where results go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.kernels import KernelKind
from anynpu.soft.engines.rknpu.memory import INTERNAL
from anynpu.soft.engines.rknpu.tasks import (
    AtomTransposer,
    CopyTask,
    ElementwiseTask,
    PackedWriter,
    PhaseWriter,
    PixelTransposer,
    Writer,
)

from .descriptions import TARGET, Scene, block_writer, dpu, features, output

PLACE = Address(INTERNAL, TARGET)


def copied(shape: tuple[int, int, int], writer: Writer, repeats: tuple[int, int] = (1, 1)) -> Scene:
    """A memory in which int8 features counting up were copied."""
    scene = Scene()
    scene.put(np.arange(np.prod(shape)).astype(np.int8).reshape(shape))
    scene.run(CopyTask(0, 0, features(shape), repeats, writer), KernelKind.COPIES)
    return scene


def atoms(scene: Scene, *places: int) -> np.ndarray:
    """The bytes of atoms, by their number from TARGET on."""
    return np.stack([scene.bytes[TARGET + 16 * p : TARGET + 16 * p + 16] for p in places])


def test_blocks_with_gaps_between_rows_and_surfaces() -> None:
    writer = block_writer(2, 3, line=64, surface=256)
    scene = copied((32, 2, 3), writer)
    x = np.arange(192).astype(np.uint8).reshape(2, 16, 2, 3)
    for surface in range(2):
        for row in range(2):
            got = atoms(scene, *(16 * surface + 4 * row + np.arange(3)))
            np.testing.assert_array_equal(got, x[surface, :, row].T)


def test_groups_of_surfaces_have_a_stride_of_their_own() -> None:
    writer = block_writer(1, 2, group=2, surface=32, group_stride=1024)
    scene = copied((64, 1, 2), writer)
    x = np.arange(128).astype(np.uint8).reshape(4, 16, 2)
    np.testing.assert_array_equal(atoms(scene, 0, 1, 2, 3), x[:2].transpose(0, 2, 1).reshape(4, 16))
    np.testing.assert_array_equal(atoms(scene, 64, 65), x[2].T)


def test_a_stream_of_pixels_breaks_into_other_rows() -> None:
    scene = copied((16, 2, 6), block_writer(3, 4))
    np.testing.assert_array_equal(
        scene.get((16, 3, 4)), np.arange(192).astype(np.int8).reshape(16, 3, 4)
    )


def test_lanes_without_a_channel_hold_the_padding() -> None:
    scene = Scene()
    scene.put(np.ones((20, 2, 2), np.int8))
    writer = block_writer(2, 2, padding=0xFBFE)
    task = ElementwiseTask(0, 0, features((20, 2, 2)), dpu(), writer)
    scene.run(task, KernelKind.INT8)
    assert set(atoms(scene, 4)[0, :4]) == {1}
    assert set(atoms(scene, 4)[0, 4:]) == {0xFE}


def test_phases() -> None:
    scene = copied(
        (16, 2, 2), PhaseWriter(PLACE, line=128, pixel=32, surface=512, atom=16, padding=0)
    )
    x = np.arange(64).astype(np.uint8).reshape(16, 4)
    np.testing.assert_array_equal(atoms(scene, 0, 2, 8, 10), x.T)


def test_unpooling_repeats_pixels_and_surfaces() -> None:
    shape = (16, 2, 3)
    # The second copy of a row lies one line further: as one more surface.
    writer = block_writer(2, 6, line=2 * 96, surface=96)
    scene = copied(shape, writer, repeats=(2, 2))
    x = np.arange(96).astype(np.int8).reshape(shape)
    np.testing.assert_array_equal(scene.get((16, 4, 6)), x.repeat(2, axis=1).repeat(2, axis=2))


def test_atoms_transposed() -> None:
    scene = copied((32, 2, 3), AtomTransposer(PLACE, line=32, surface=64))
    x = np.arange(192).astype(np.uint8).reshape(2, 16, 2, 3)
    for surface in range(2):
        for row in range(2):
            for column in range(3):
                place = column * 4 + surface * 2 + row
                np.testing.assert_array_equal(atoms(scene, place)[0], x[surface, :, row, column])


@pytest.mark.parametrize("pixels", [8, 5])
def test_halves_transposed(pixels: int) -> None:
    x = np.arange(8 * pixels).astype(np.float16).reshape(8, 1, pixels)
    scene = Scene()
    scene.put(x)
    writer = PixelTransposer(PLACE, 2, height=1, width=1, line=16, lane_stride=16, group_stride=256)
    task = CopyTask(0, 0, features(x.shape, Element.FLOAT16), (1, 1), writer)
    scene.run(task, KernelKind.COPIES)
    got = atoms(scene, *range(8)).view(np.float16)
    np.testing.assert_array_equal(got[:, :pixels], x[:, 0])
    assert not got[:, pixels:].any()


def test_bytes_transposed() -> None:
    x = np.arange(256).astype(np.uint8).view(np.int8).reshape(16, 4, 4)
    scene = Scene()
    scene.put(x)
    writer = PixelTransposer(
        PLACE, 1, height=2, width=1, line=128, lane_stride=16, group_stride=256
    )
    scene.run(CopyTask(0, 0, features(x.shape), (1, 1), writer), KernelKind.COPIES)
    np.testing.assert_array_equal(atoms(scene, *range(16)).view(np.int8), x.reshape(16, 16))


def test_packed_bytes() -> None:
    scene = copied((16, 2, 5), PackedWriter(PLACE, atom_bytes=4, limit=32))
    x = np.arange(160).astype(np.uint8).reshape(16, 10)
    np.testing.assert_array_equal(scene.bytes[TARGET : TARGET + 32], x[:4, :8].T.ravel())


def test_packed_bytes_of_what_was_two_surfaces() -> None:
    """Halves of int16 become bytes in the order in which they lay in memory."""
    x = np.random.default_rng(3).integers(-128, 128, (32, 1, 4)).astype(np.int16)
    scene = Scene()
    scene.put(x)
    source = features(x.shape, Element.INT16)
    task = ElementwiseTask(0, 0, source, dpu(), PackedWriter(PLACE, 16, 128, apart=2))
    scene.run_any(task)
    surfaces = x.astype(np.int8).reshape(4, 8, 4).transpose(0, 2, 1)
    np.testing.assert_array_equal(
        scene.bytes[TARGET : TARGET + 128].view(np.int8), surfaces.ravel()
    )


def test_a_copy_onto_itself_reads_before_it_writes() -> None:
    shape = (16, 1, 4)
    scene = Scene()
    scene.put(np.arange(64).astype(np.int8).reshape(shape))
    writer = block_writer(1, 4, address=Address(INTERNAL, 16))
    task = CopyTask(0, 0, features(shape), (1, 1), writer)
    scene.run(task, KernelKind.COPIES)
    np.testing.assert_array_equal(
        scene.get(shape, offset=16), np.arange(64).astype(np.int8).reshape(shape)
    )


def test_surfaces_that_overlap_are_written_in_order() -> None:
    x = np.random.default_rng(8).integers(-128, 128, (40, 3, 4)).astype(np.int8)
    scene = Scene()
    scene.put(x)
    stages = dpu(output=output(scale=3, shift=1))
    # The last two pixels of each surface lie where the next one begins.
    writer = block_writer(3, 4, surface=10 * 16)
    task = ElementwiseTask(0, 0, features(x.shape), stages, writer)
    scene.run(task, KernelKind.REFERENCE)
    alone = Scene()
    alone.put(x)
    alone.run(replace(task, writer=block_writer(3, 4)), KernelKind.INT8)
    wanted = alone.get((48, 3, 4)).reshape(48, 12)
    size = (2 * 10 + 12) * 16
    found = scene.bytes[TARGET : TARGET + size].view(np.int8).reshape(-1, 16).T
    np.testing.assert_array_equal(found[:, 10:20], wanted[16:32, :10])
    np.testing.assert_array_equal(found[:, 20:], wanted[32:48])
