"""Tensors in internal memory: what is written is read, where the layout says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anynpu
from anynpu.soft.engines.compiled.buffers import TensorBuffer
from anynpu.soft.formats.rknn.model import ElementType, TensorKind

from .parts import blocked, plain


def values(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)


@given(
    n=st.integers(1, 3),
    c=st.integers(1, 40),
    h=st.integers(1, 7),
    w=st.integers(1, 7),
    block=st.sampled_from([(np.int8, 16), (np.int8, 8), (np.float16, 8), (np.float16, 4)]),
    offset=st.sampled_from([0, 64]),
    kind=st.sampled_from([TensorKind.INPUT, TensorKind.ACTIVATION, TensorKind.OUTPUT]),
)
def test_what_is_written_is_read(
    n: int, c: int, h: int, w: int, block: tuple[Any, int], offset: int, kind: TensorKind
) -> None:
    dtype, c2 = block
    memory = np.full(1 << 16, 0x55, np.uint8)
    tensor = blocked("t", (n, c, h, w), c2, dtype, offset=offset, kind=kind)
    buffer = TensorBuffer(memory, tensor)
    written = values((n, c, h, w), dtype)
    buffer.write(written)
    read = np.empty_like(written)
    buffer.read(read)
    np.testing.assert_array_equal(read, written)
    assert (memory[:offset] == 0x55).all()
    # Each element where NC1HWC2 with surfaces of whole groups of four pixels has it; those of a
    # graph's inputs have no gaps.
    blocks = -(-c // c2)
    has_gaps = kind is not TensorKind.INPUT and n * blocks > 1 and h * w > 1
    surface = -(-h * w // 4) * 4 if has_gaps else h * w
    raw = memory[offset:].view(dtype)
    last = (((n - 1) * blocks + (c - 1) // c2) * surface + h * w - 1) * c2 + (c - 1) % c2
    assert raw[last] == written[-1, -1, -1, -1]
    # The lanes that pad the last block.
    if c % c2:
        assert not raw[last + 1 : last + c2 - (c - 1) % c2].any()


def test_samples_lie_apart_as_their_own_blocks_need() -> None:
    memory = np.zeros(4096, np.uint8)
    tensor = blocked("t", (2, 24, 2, 2), 8, np.float16, native_shape=(2, 4, 2, 2, 8))
    written = values((2, 24, 2, 2), np.float16)
    TensorBuffer(memory, tensor).write(written)
    assert memory.view(np.float16)[3 * 4 * 8] == written[1, 0, 0, 0]


def test_a_plain_tensor_of_five_axes() -> None:
    memory = np.zeros(4096, np.uint8)
    written = values((1, 2, 3, 4, 5), np.int8)
    TensorBuffer(memory, plain("t", written.shape, np.int8)).write(written)
    np.testing.assert_array_equal(memory[: written.size].view(np.int8), written.reshape(-1))


def test_a_picture_lies_as_pixels() -> None:
    memory = np.zeros(4096, np.uint8)
    pixels = values((1, 3, 5, 7), np.int8)
    TensorBuffer(memory, blocked("x", (1, 3, 5, 7), 3)).write(pixels)
    raw = memory[: pixels.size].view(np.int8).reshape(5, 7, 3)
    np.testing.assert_array_equal(raw, pixels[0].transpose(1, 2, 0))


def test_rows_of_a_picture_are_filled_up() -> None:
    memory = np.full(4096, 77, np.uint8)
    pixels = values((1, 3, 5, 7), np.int8)
    buffer = TensorBuffer(memory, blocked("x", (1, 3, 5, 7), 3, row=16 * 3))
    buffer.write(pixels)
    raw = memory[: 5 * 48].view(np.int8).reshape(5, 16, 3)
    np.testing.assert_array_equal(raw[:, :7], pixels[0].transpose(1, 2, 0))
    assert not raw[:, 7:].any()
    assert set(memory[5 * 48 :].tolist()) == {77}
    found = np.empty_like(pixels)
    buffer.read(found)
    np.testing.assert_array_equal(found, pixels)


@pytest.mark.parametrize("layout", ["plain", "blocked"])
def test_float16_is_exchanged_as_float32(layout: str) -> None:
    memory = np.zeros(4096, np.uint8)
    shape = (1, 9, 3, 3)
    made = blocked("t", shape, 8, np.float16) if layout == "blocked" else plain("t", shape)
    buffer = TensorBuffer(memory, made)
    written = values(shape, np.float32) / 3
    buffer.write(written)
    read = np.empty(shape, np.float32)
    buffer.read(read)
    np.testing.assert_array_equal(read, written.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (plain("t", (100,), np.int8, offset=4000), "ends at byte 4100"),
        (blocked("t", (1, 16, 20, 20), 16), "ends at byte 6400"),
        (blocked("t", (1, 16, 2, 2), 16, native_shape=(1, 1, 3, 2, 16)), "lies in memory as"),
        (plain("t", (3, 5), np.int8, native_shape=(3, 4)), "lies in memory as"),
        (plain("t", (3,), element=ElementType.BFLOAT16), "BFLOAT16"),
        (plain("t", (3,), element=ElementType.OPAQUE), "OPAQUE"),
        (plain("t", (0, 3), np.int8), "ends at"),
    ],
)
def test_what_does_not_fit_is_refused(tensor: Any, problem: str) -> None:
    with pytest.raises(anynpu.ModelError, match=problem):
        TensorBuffer(np.zeros(4096, np.uint8), tensor)


@pytest.mark.parametrize(("dtype", "row"), [(np.int8, 16), (np.float16, 16)])
def test_pictures_of_a_batch_begin_where_a_board_has_them(dtype: Any, row: int) -> None:
    """The second sample's place counts padded rows, though the first one's aren't padded here."""
    shape, size = (2, 3, 4, 5), row * 3 * 4
    tensor = blocked("x", shape, 3, dtype, kind=TensorKind.INPUT, size=2 * size)
    memory = np.zeros(1 << 10, np.uint8)
    buffer, written = TensorBuffer(memory, tensor), values(shape, dtype)
    buffer.write(written)
    for sample in range(2):
        begin = memory[sample * size :].view(dtype)
        pixels = begin[: 4 * 5 * 3].reshape(4, 5, 3).transpose(2, 0, 1)
        np.testing.assert_array_equal(pixels, written[sample])
    read = np.empty_like(written)
    buffer.read(read)
    np.testing.assert_array_equal(read, written)
