"""CPU operators against the bytes that the vendor's runtime, librknnrt 1.5.2, computed."""

from __future__ import annotations

import lzma
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anynpu.soft.engines.compiled.averages import Average
from anynpu.soft.engines.compiled.bilinear import Bilinear
from anynpu.soft.engines.compiled.buffers import TensorBuffer
from anynpu.soft.engines.compiled.cpu_nodes import prepare_cpu_node
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.formats.rknn.model import TensorLayout

from .parts import cpu_node, model_of, plain

FOLDER = Path(__file__).parents[3] / "data" / "compiled" / "runtime"
WITH_RESULTS = sorted(p for p in FOLDER.glob("*.npz") if "out0" in np.load(p).files)


@pytest.mark.parametrize("path", WITH_RESULTS, ids=lambda path: path.stem)
def test_the_bytes_are_the_vendor_s(path: Path) -> None:
    with np.load(path) as archive:
        program = CompiledProgram(lzma.decompress(archive["compiled"].tobytes()))
        given_, expected = archive["in0"], archive["out0"]
    instance = program.instance(0)
    np.copyto(instance.inputs[0], given_)
    instance.run()
    found = instance.outputs[0].astype(expected.dtype)
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


def test_there_are_results() -> None:
    assert len(WITH_RESULTS) >= 5


def averaged(
    values: np.ndarray, size: tuple[int, int], stride: int, pads: tuple[int, int, int, int]
) -> np.ndarray:
    """Each window's average over the places inside, exact, ties to even."""
    height, width = values.shape[2:]
    shape = [
        (places + pads[axis] + pads[axis + 2] - size[axis]) // stride + 1
        for axis, places in enumerate((height, width))
    ]
    result = np.empty((*values.shape[:2], *shape), np.int8)
    for index in np.ndindex(result.shape):
        top, left = index[2] * stride - pads[0], index[3] * stride - pads[1]
        window = values[
            index[0],
            index[1],
            max(0, top) : top + size[0],
            max(0, left) : left + size[1],
        ]
        result[index] = round(Fraction(int(window.astype(np.int64).sum()), window.size))
    return result


@given(
    values=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(4, 9), st.integers(4, 9)),
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.integers(1, 3),
    zero_point=st.integers(-128, 127),
    data=st.data(),
)
def test_averages_are_exact(
    values: int,
    shape: tuple[int, int, int, int],
    size: tuple[int, int],
    stride: int,
    zero_point: int,
    data: st.DataObject,
) -> None:
    pads = [data.draw(st.integers(0, size[axis % 2] - 1)) for axis in range(4)]
    numbers = np.random.default_rng(values).integers(-128, 128, shape).astype(np.int8)
    expected = averaged(numbers, size, stride, (pads[0], pads[1], pads[2], pads[3]))
    quantised: dict[str, Any] = {
        "scale": (0.1,),
        "zero_point": (zero_point,),
        "layout": TensorLayout.NCHW,
    }
    source = plain("x", shape, np.int8, **quantised)
    target = plain("y", expected.shape, np.int8, offset=4096, **quantised)
    node = cpu_node(
        "AveragePool", (0,), (1,), kernel_shape=list(size), strides=[stride] * 2, pads=pads
    )
    model = model_of([source, target], node)
    graph = model.graphs[0]
    prepared = prepare_cpu_node(model, graph, graph.nodes[0])
    assert isinstance(prepared, Average)
    memory = np.zeros(1 << 14, np.uint8)
    TensorBuffer(memory, graph.tensors[0]).write(numbers)
    prepared.bind(memory)()
    found = np.empty(expected.shape, np.int8)
    TensorBuffer(memory, graph.tensors[1]).read(found)
    np.testing.assert_array_equal(found, expected)


def resized(mode: str, numbers: np.ndarray, height: int, width: int) -> np.ndarray:
    source = plain("x", numbers.shape, numbers.dtype, layout=TensorLayout.NCHW)
    shape = (*numbers.shape[:2], height, width)
    target = plain("y", shape, numbers.dtype, offset=1 << 16, layout=TensorLayout.NCHW)
    node = cpu_node("Resize", (0,), (1,), mode="linear", coordinate_transformation_mode=mode)
    model = model_of([source, target], node)
    graph = model.graphs[0]
    prepared = prepare_cpu_node(model, graph, graph.nodes[0])
    assert isinstance(prepared, Bilinear)
    memory = np.zeros(1 << 17, np.uint8)
    TensorBuffer(memory, graph.tensors[0]).write(numbers)
    prepared.bind(memory)()
    found = np.empty(shape, numbers.dtype)
    TensorBuffer(memory, graph.tensors[1]).read(found)
    return found


MODES = ("align_corners", "half_pixel", "asymmetric")


@pytest.mark.parametrize("mode", MODES)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    wanted=st.tuples(st.integers(1, 30), st.integers(1, 30)),
)
def test_whole_numbers_stay_between_their_neighbours(
    mode: str, seed: int, size: tuple[int, int], wanted: tuple[int, int]
) -> None:
    """What lies between two numbers is cut off towards zero."""
    numbers = np.random.default_rng(seed).integers(-128, 128, (2, 3, *size)).astype(np.int8)
    found = resized(mode, numbers, *wanted)
    real = resized(mode, numbers.astype(np.float16), *wanted).astype(np.float64)
    assert np.all(np.abs(found) <= np.abs(real) + 0.07), "no further from zero"
    assert np.all(np.abs(found - real) < 1.07)
    assert found.max() <= numbers.max()
    assert found.min() >= numbers.min()
    if wanted == size:
        np.testing.assert_array_equal(found, numbers)


@pytest.mark.parametrize("mode", ["align_corners", "half_pixel"])
def test_many_planes_are_resized_as_each_alone(mode: str) -> None:
    numbers = np.random.default_rng(0).integers(-128, 128, (1, 40, 3, 4)).astype(np.int8)
    together = resized(mode, numbers, 11, 13)
    for channel in (0, 17, 39):
        alone = resized(mode, numbers[:, channel : channel + 1], 11, 13)
        np.testing.assert_array_equal(together[:, channel : channel + 1], alone)
