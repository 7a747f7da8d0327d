"""Shaders: what the file says of one, and which are refused."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu.soft.engines.vip.decode.shader import decode_shader
from anynpu.soft.engines.vip.memory import Memory, MemoryMap
from anynpu.soft.engines.vip.operation import OperationContext, Shared
from anynpu.soft.engines.vip.reference.compute import compute
from anynpu.soft.engines.vip.refusal import Unknown
from anynpu.soft.engines.vip.shaders import task
from anynpu.soft.engines.vip.shaders.task import ShaderTask
from anynpu.soft.engines.vip.units import DECODERS
from anynpu.soft.formats.nbg.model import (
    Executable,
    Layer,
    Nbg,
    Operation,
    OperationKind,
    Patch,
    PatchedPlace,
    Source,
    Tensor,
)
from anynpu.viplite.abi import BufferFormat

Image = tuple[int, tuple[int, int, int], int, int]
"""A register, (planes, rows, pixels), a format, bytes of a pixel."""

U8, F16, I16 = 0x51F0, 0x4071, 0x40F1


def bits(value: float) -> int:
    (word,) = struct.unpack("<I", struct.pack("<f", value))
    assert isinstance(word, int)
    return word


def network(
    name: str, images: list[Image], constants: Mapping[int, int]
) -> tuple[OperationContext, MemoryMap]:
    """A network of one shader; its last image is the output, the others are inputs."""
    words: list[int] = []
    patches = []
    for number, (register, (planes, rows, pixels), kind, item) in enumerate(images):
        last = number == len(images) - 1
        source, index = (Source.OUTPUT, 0) if last else (Source.INPUT, number)
        words += [1 << 27 | 8 << 16 | (0x36000 + register) >> 2]
        patches.append(Patch(PatchedPlace.STATES, 4 * len(words), source, index, 0, 0, 0))
        row = pixels * item
        words += [0, row, rows << 16 | pixels, kind, rows * row, planes, 0, 0, 0]
    for register, value in constants.items():
        words += [1 << 27 | 1 << 16 | (0x36000 + register) >> 2, value]
    state = np.frombuffer(struct.pack(f"<{len(words)}I", *words), np.uint8)
    empty = np.empty((0, 48), np.uint32)
    executable = Executable(empty, empty, tuple(patches), (), (), (state,), False)
    tensors = [
        Tensor(f"t{number}", (item * int(np.prod(shape)),), BufferFormat.UINT8, 0)
        for number, (_, shape, _, item) in enumerate(images)
    ]
    model = Nbg(
        name="shader",
        version=0x20005,
        target=0x10000016,
        size=0,
        cores=1,
        memory_pool_size=0,
        vip_sram_size=0,
        inputs=tuple(tensors[:-1]),
        outputs=(tensors[-1],),
        layers=(Layer(name, 0, 1, 0),),
        operations=(Operation(OperationKind.SHADER, 0, 0, 0, range(len(patches))),),
        sections=(),
        executable=executable,
    )
    layout = MemoryMap(model, executable)
    return OperationContext(model, executable, layout, 0, Shared()), layout


def result(
    name: str,
    images: list[Image],
    constants: Mapping[int, int],
    *inputs: NDArray[np.generic],
) -> NDArray[np.uint8]:
    """The output's bytes."""
    context, layout = network(name, images, constants)
    task = decode_shader(context)
    assert isinstance(task, ShaderTask), "a shader that a family knows"
    memory = Memory(layout)
    for image, values in zip(task.inputs, inputs, strict=True):
        memory.space(image.window.space)[:] = np.ascontiguousarray(values).view(np.uint8).ravel()
    compute(task, memory)
    found: NDArray[np.uint8] = memory.space(task.output.window.space).copy()
    return found


PRODUCT = [(0x00, (1, 3, 8), U8, 1), (0x20, (1, 3, 1), U8, 1), (0x40, (1, 3, 8), U8, 1)]
FACTORS = {0x80: 100 << 16, 0x84: 120, 0xE0: bits(0.01), 0xE4: bits(0.01 * 120 * 100 + 130)}


def test_a_product_takes_one_factor_for_each_row() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 256, (3, 8), np.uint8), rng.integers(0, 256, (3, 1), np.uint8)
    found = result("TensorMul", PRODUCT, FACTORS, a, b).reshape(3, 8)
    real = (a.astype(float) - 120) * (b.astype(float) - 100) * 0.01 + 130
    assert np.abs(found - np.clip(real, 0, 255)).max() <= 0.51


def test_softmax_of_rows_is_that_of_each_column() -> None:
    values = np.random.default_rng(2).integers(0, 256, (5, 6), np.uint8)
    images = [(0x00, (1, 5, 6), U8, 1), (0x20, (1, 5, 6), F16, 2)]
    found = result("Softmax2Layer", images, {0x40: 5, 0x44: bits(0.02)}, values)
    powers = 2.0 ** (0.02 * values.astype(float))
    expected = powers / powers.sum(0)
    np.testing.assert_allclose(found.view(np.float16).reshape(5, 6), expected, rtol=1e-3)


def test_the_first_of_equal_bytes_has_the_maximum() -> None:
    values = np.array([[7, 1], [9, 3], [9, 3]], np.uint8)
    images = [(0x00, (1, 3, 2), U8, 1), (0x20, (1, 1, 2), I16, 2)]
    found = result("ArgmaxLayer", images, {0x50: 2}, values)
    assert found.view(np.int16).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "images", "constants", "reason"),
    [
        ("TensorCube", PRODUCT, FACTORS, "isn't known"),
        ("TensorPow", PRODUCT, FACTORS, "in this form"),
        ("TensorMul", PRODUCT, {0x80: 0}, "without register 0x84"),
        ("TensorMul", PRODUCT, {}, "operands at 0x0, 0x20, 0x40"),
        ("TensorMul", PRODUCT[:2], FACTORS, "operands at 0x0, 0x20"),
        (
            "TensorMul",
            [PRODUCT[0], (0x20, (1, 2, 1), U8, 1), PRODUCT[2]],
            FACTORS,
            r"operands of \(1, 2, 1\)",
        ),
        ("TensorMul", [PRODUCT[0], PRODUCT[1], (0x40, (1, 3, 8), 0x99, 1)], FACTORS, "0x99"),
        ("TensorMul", [PRODUCT[0], PRODUCT[1], (0x40, (1, 3, 8), F16, 2)], FACTORS, "float16"),
    ],
)
def test_what_is_not_known_of_a_shader_is_refused(
    name: str, images: list[Image], constants: Mapping[int, int], reason: str
) -> None:
    context, _ = network(name, images, constants)
    with pytest.raises(Unknown, match=reason):
        DECODERS[OperationKind.SHADER](context)


def test_an_image_that_leaves_its_memory_is_refused() -> None:
    context, _ = network("TensorMul", PRODUCT, FACTORS)
    state = context.executable.states[0].copy()
    state.view("<u4")[2] = 1 << 20
    executable = Executable(
        context.executable.nn,
        context.executable.tp,
        context.executable.patches,
        (),
        (),
        (state,),
        False,
    )
    other = OperationContext(context.model, executable, context.layout, 0, Shared())
    with pytest.raises(Unknown, match="network input 0"):
        decode_shader(other)


def test_rows_are_computed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "TOGETHER", 40)
    seen: list[int] = []

    @task.by_rows
    def function(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
        seen.append(a.shape[1])
        result: NDArray[Any] = a * b + c
        return result

    a, b, c = np.arange(2 * 7 * 5).reshape(2, 7, 5), np.arange(7)[None, :, None], np.ones((1, 1, 5))
    assert (function(a, b, c) == a * b + c).all()
    assert seen == [4, 3]
    assert (function(b, a, c) == a * b + c).all()
    assert (function(c, c, c) == 2 * c).all()
