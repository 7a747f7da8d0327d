"""CPU nodes: dequantise, compute, quantise, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu.soft.engines.compiled.buffers import TensorBuffer
from anynpu.soft.engines.compiled.cpu_nodes import CpuNode, Move, prepare_cpu_node
from anynpu.soft.engines.compiled.slices import Slice
from anynpu.soft.formats.rknn.model import Node, Tensor, TensorKind

from .parts import blocked, cpu_node, model_of, plain

SHAPE = (1, 4, 6, 6)
OUT = 8192
REAL = np.random.default_rng(3).normal(0, 1, SHAPE).astype(np.float32).round(2)


def compute(
    node: Node, tensors: list[Tensor], given: np.ndarray, **constants: np.ndarray
) -> np.ndarray:
    """Run a node from its first input to its first output, as real values."""
    model = model_of(tensors, node, constants)
    memory = np.zeros(1 << 16, np.uint8)
    graph = model.graphs[0]
    source, target = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    put(memory, source, given)
    prepare_cpu_node(model, graph, node).bind(memory)()
    return real_of(memory, target)


def put(memory: np.ndarray, tensor: Tensor, real: np.ndarray) -> None:
    q = tensor.quantization
    held = real if q is None else np.clip(np.rint(real / q.scale) + q.zero_point, -128, 127)
    TensorBuffer(memory, tensor).write(held.astype(np.float32 if q is None else np.int8))


def real_of(memory: np.ndarray, tensor: Tensor) -> np.ndarray:
    buffer = TensorBuffer(memory, tensor)
    held: np.ndarray = np.empty(tensor.shape, buffer.array.dtype)
    buffer.read(held)
    q = tensor.quantization
    if q is not None:
        held = (held.astype(np.float32) - q.zero_point) * np.float32(q.scale)
    return held


def constant(name: str, data: np.ndarray) -> Tensor:
    return plain(name, data.shape, data.dtype, kind=TensorKind.OPERAND)


def softmax(x: np.ndarray) -> np.ndarray:
    powers: np.ndarray = np.exp(x - x.max(axis=1, keepdims=True))
    shares: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return shares


@pytest.mark.parametrize(
    ("op_type", "attributes", "reference"),
    [
        ("Exp", {}, np.exp),
        ("Erf", {}, np.vectorize(math.erf)),
        ("Abs", {}, np.abs),
        ("exDataConvert", {}, lambda x: x),
        ("exSoftmax13", {"axis": 1}, softmax),
        ("Transpose", {"perm": [0, 2, 3, 1]}, lambda x: x.transpose(0, 2, 3, 1)),
        ("ArgMax", {"axis": 1, "keepdims": 1}, lambda x: x.argmax(axis=1)[:, None]),
        (
            "SpaceToDepth",
            {"blocksize": 2},
            lambda x: x.reshape(1, 4, 3, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 3, 3),
        ),
        ("ReduceMax", {"axes": [1], "keepdims": 1}, lambda x: x.max(axis=1, keepdims=True)),
        ("Cast", {"to": 6}, np.trunc),
    ],
)
def test_operators_of_one_input(
    op_type: str, attributes: dict[str, Any], reference: Callable[[Any], Any]
) -> None:
    expected = reference(REAL.astype(np.float16).astype(np.float32))
    tensors = [plain("x", SHAPE), plain("y", expected.shape, offset=OUT)]
    found = compute(cpu_node(op_type, (0,), (1,), **attributes), tensors, REAL)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)


def test_int8_in_and_out() -> None:
    x = blocked("x", SHAPE, 16, scale=(0.02,), zero_point=(5,))
    y = plain("y", SHAPE, np.int8, offset=OUT, scale=(0.05,), zero_point=(-100,))
    held = np.clip(np.rint(REAL / np.float32(0.02)) + 5, -128, 127)
    expected = np.rint(np.exp((held - 5) * np.float32(0.02)) / 0.05) - 100
    found = compute(cpu_node("Exp", (0,), (1,)), [x, y], REAL)
    np.testing.assert_allclose(found / 0.05 - 100, np.clip(expected, -128, 127), atol=1e-3)


def test_operands_of_the_file_and_scratch_buffers() -> None:
    """Slice with its bounds as constants, a left-out operand, and a buffer nobody needs."""
    bounds = {
        "starts": np.array([1, 0]),
        "ends": np.array([3, 6]),
        "axes": np.array([1, 3]),
        "steps": np.array([1, 2]),
    }
    tensors = [plain("x", SHAPE), plain("y", (1, 2, 6, 3), offset=OUT)]
    tensors += [constant(name, data) for name, data in bounds.items()]
    tensors.append(plain("x_exSecondary", SHAPE, offset=2 * OUT))
    node = cpu_node("Slice", (0, 2, 3, 4, 5, 6), (1,))
    found = compute(node, tensors, REAL, **bounds)
    np.testing.assert_array_equal(found, REAL[:, 1:3, :, ::2].astype(np.float16))


def test_resize_takes_the_compiler_s_own_attributes() -> None:
    scales = {"sc": np.array([1, 1, 2, 2], np.float32)}
    placeholder = plain("empty_placeholder_0", (1,), np.float32, kind=TensorKind.OPERAND)
    tensors = [plain("x", SHAPE), plain("y", (1, 4, 12, 12), offset=OUT)]
    tensors += [placeholder, constant("sc", scales["sc"])]
    options = {"coordinate_transformation_mode": "align_corners", "mode": "linear"}
    node = cpu_node("Resize", (0, 2, 3), (1,), options=options)
    found = compute(node, tensors, REAL, empty_placeholder_0=np.zeros(1, np.float32), **scales)
    corners = (slice(None), slice(None), slice(None, None, 11), slice(None, None, 11))
    ends = (slice(None), slice(None), slice(None, None, 5), slice(None, None, 5))
    np.testing.assert_array_equal(found[corners], REAL[ends].astype(np.float16))


def test_two_activations() -> None:
    other = plain("b", SHAPE, offset=4096)
    model = model_of([plain("a", SHAPE), other, plain("y", SHAPE, offset=OUT)])
    memory = np.zeros(1 << 16, np.uint8)
    graph = model.graphs[0]
    put(memory, graph.tensors[0], REAL)
    put(memory, graph.tensors[1], -REAL)
    prepare_cpu_node(model, graph, cpu_node("Min", (0, 1), (2,))).bind(memory)()
    expected = np.minimum(REAL, -REAL).astype(np.float16)
    np.testing.assert_array_equal(real_of(memory, graph.tensors[2]), expected)


@pytest.mark.parametrize("same", [True, False])
def test_reshape_moves_bytes_where_they_mean_the_same(same: bool) -> None:
    x = blocked("x", SHAPE, 16, scale=(0.02,), zero_point=(5,))
    scale = 0.02 if same else 0.04
    y = plain("y", (1, 144), np.int8, offset=OUT, scale=(scale,), zero_point=(5,))
    shape = constant("s", np.array([1, 144]))
    node = cpu_node("Reshape", (0, 2), (1,))
    model = model_of([x, y, shape], node, {"s": np.array([1, 144])})
    prepared = prepare_cpu_node(model, model.graphs[0], node)
    assert isinstance(prepared, Move if same else CpuNode)
    found = compute(node, [x, y, shape], REAL, s=np.array([1, 144]))
    held = np.clip(REAL, -133 * 0.02, 122 * 0.02)
    np.testing.assert_allclose(found, held.reshape(1, 144), atol=0.51 * (0.02 + scale))


@pytest.mark.parametrize("shape", [(2, 20, 9, 3), (2, 20, 27, 1), (2, 20, 3, 9)])
def test_reshape_of_pixels_moves_atoms(shape: tuple[int, int, int, int]) -> None:
    """Surfaces of 27 pixels, which are filled up to 28, and four lanes without a channel."""
    real = np.random.default_rng(6).integers(-90, 90, (2, 20, 3, 9)).astype(np.float32)
    x, y = blocked("x", real.shape, 8, np.float16), blocked("y", shape, 8, np.float16, offset=OUT)
    model = model_of([x, y, constant("s", np.array(shape))], None, {"s": np.array(shape)})
    graph = model.graphs[0]
    memory = np.full(1 << 16, 0x55, np.uint8)
    put(memory, graph.tensors[0], real)
    expected = memory.copy()
    put(expected, graph.tensors[1], real.reshape(shape))
    prepare_cpu_node(model, graph, cpu_node("Reshape", (0, 2), (1,))).bind(memory)()
    np.testing.assert_array_equal(memory, expected)


TAKEN = [
    # starts, ends, axes, steps, and what NumPy takes
    ([0, 1], [99, 99], [2, 3], [2, 2], np.s_[:, :, ::2, 1::2]),
    ([1], [-1], [-2], [1], np.s_[:, :, 1:-1]),
    ([-3], [5], [3], [1], np.s_[:, :, :, -3:5]),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps", "taken"), TAKEN)
@pytest.mark.parametrize(("c2", "dtype", "channels"), [(8, np.float16, 3), (16, np.int8, 20)])
def test_slices_of_rows_and_columns_move_atoms(
    starts: list[int],
    ends: list[int],
    axes: list[int],
    steps: list[int],
    taken: Any,
    c2: int,
    dtype: Any,
    channels: int,
) -> None:
    whole = np.random.default_rng(5).integers(-90, 90, (2, channels, 7, 6))
    fields = {} if dtype is np.float16 else {"scale": (0.5,), "zero_point": (7,)}
    real = whole.astype(np.float32) * np.float32(1 if dtype is np.float16 else 0.5)
    x = blocked("x", real.shape, c2, dtype, **fields)
    y = blocked("y", real[taken].shape, c2, dtype, offset=OUT, **fields)
    numbers = {
        name: np.array(values)
        for name, values in zip("seap", (starts, ends, axes, steps), strict=True)
    }
    node = cpu_node("Slice", (0, 2, 3, 4, 5), (1,))
    tensors = [x, y, *(constant(name, data) for name, data in numbers.items())]
    model = model_of(tensors, node, numbers)
    graph = model.graphs[0]
    prepared = prepare_cpu_node(model, graph, node)
    assert isinstance(prepared, Slice)
    memory = np.full(1 << 16, 0x55, np.uint8)
    put(memory, graph.tensors[0], real)
    by_real_values = memory.copy()
    prepared.bind(memory)()
    np.testing.assert_array_equal(real_of(memory, graph.tensors[1]), real[taken])
    # Lanes without a channel, and pixels that fill up a surface, are what any CPU node leaves.
    put(by_real_values, graph.tensors[1], real[taken])
    np.testing.assert_array_equal(memory, by_real_values)


@pytest.mark.parametrize(
    ("axes", "steps"), [([1, 3], [1, 2]), ([2, 3], [1, -1])], ids=["channels", "backwards"]
)
def test_other_slices_are_computed_on_real_values(axes: list[int], steps: list[int]) -> None:
    taken = np.s_[:, 0:4, :, 0:6:2] if axes[0] == 1 else np.s_[:, :, 0:6, 6:0:-1]
    first, last = (6, 0) if steps[1] < 0 else (0, 6)
    numbers = {"s": np.array([0, first]), "e": np.array([6, last])}
    numbers |= {"a": np.array(axes), "p": np.array(steps)}
    x = blocked("x", SHAPE, 8, np.float16)
    y = blocked("y", REAL[taken].shape, 8, np.float16, offset=OUT)
    node = cpu_node("Slice", (0, 2, 3, 4, 5), (1,))
    tensors = [x, y, *(constant(name, data) for name, data in numbers.items())]
    model = model_of(tensors, node, numbers)
    assert isinstance(prepare_cpu_node(model, model.graphs[0], node), CpuNode)


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (cpu_node("Warp", (0,), (1,)), "node 0 'Warp:node' of type Warp"),
        (cpu_node("Exp", (0,), ()), "has no output"),
        (cpu_node("Exp", (0,), (1,), speed=3), "no attributes"),
        (cpu_node("Exp", (), (1,)), "can't be computed"),
        (cpu_node("Exp", (2,), (1,)), "constant 'w' of shape"),
    ],
)
def test_nodes_that_cannot_be_computed(node: Node, problem: str) -> None:
    tensors = [plain("x", SHAPE), plain("y", SHAPE, offset=OUT), plain("w", (9,), np.float32)]
    model = model_of(tensors, node, {"w": np.zeros(3, np.float32)})
    with pytest.raises(anynpu.ModelError, match=problem):
        prepare_cpu_node(model, model.graphs[0], node)


def test_a_result_of_another_size_is_refused() -> None:
    tensors = [plain("x", SHAPE), plain("y", (1, 4, 6, 5), offset=OUT)]
    with pytest.raises(anynpu.ModelError, match="the file has \\[1, 4, 6, 5\\]"):
        compute(cpu_node("Exp", (0,), (1,)), tensors, REAL)


def test_sizes_that_follow_from_values_are_refused() -> None:
    tensors = [plain("x", SHAPE), plain("y", (4, 144), np.int64, offset=OUT)]
    with pytest.raises(anynpu.ModelError, match=r"would give \[4, .*the file has"):
        compute(cpu_node("NonZero", (0,), (1,)), tensors, REAL)


def test_what_a_constant_asks_for_is_not_computed_before_it_is_known_to_fit() -> None:
    """A terabyte, while the file says that it is six numbers."""
    tensors = [plain("x", (1,)), plain("y", (6,), offset=OUT), constant("s", np.array([1 << 38]))]
    model = model_of(tensors, cpu_node("Expand", (0, 2), (1,)), {"s": np.array([1 << 38])})
    with pytest.raises(anynpu.ModelError, match="the file has \\[6\\]"):
        prepare_cpu_node(model, model.graphs[0], model.graphs[0].nodes[0])


@pytest.mark.parametrize(
    ("op_type", "function"),
    [("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)],
)
def test_truth_values_are_numbers_of_eight_bits(op_type: str, function: Any) -> None:
    whole: dict[str, Any] = {"scale": (1.0,), "zero_point": (0,)}
    given, other = np.array([[0, 1, 0, 1.0]]), np.array([[0, 0, 1, 1]], np.int8)
    tensors = [
        plain("x", (1, 4), np.int8, **whole),
        constant("c", other),
        plain("y", (1, 4), np.int8, offset=OUT, **whole),
    ]
    found = compute(cpu_node(op_type, (0, 1), (2,)), tensors, given, c=other)
    np.testing.assert_array_equal(found != 0, function(given, other))


def test_not() -> None:
    whole: dict[str, Any] = {"scale": (1.0,), "zero_point": (0,)}
    tensors = [
        plain("x", (1, 4), np.int8, **whole),
        plain("y", (1, 4), np.int8, offset=OUT, **whole),
    ]
    found = compute(cpu_node("Not", (0,), (1,)), tensors, np.array([[0, 1, 0, 1.0]]))
    np.testing.assert_array_equal(found, [[1, 0, 1, 0]])


def test_there_is_one_nan() -> None:
    tensors = [
        plain("x", (1, 4)),
        constant("c", np.array([[0.5]], np.float32)),
        plain("y", (1, 4), offset=OUT),
    ]
    model = model_of(tensors, cpu_node("Pow", (0, 1), (2,)), {"c": np.array([[0.5]], np.float32)})
    memory = np.zeros(1 << 14, np.uint8)
    put(memory, tensors[0], np.array([[-1, -2, 4, -0.5]], np.float32))
    prepare_cpu_node(model, model.graphs[0], model.graphs[0].nodes[0]).bind(memory)()
    assert memory[OUT : OUT + 8].view(np.uint16).tolist() == [0x7E00, 0x7E00, 0x4000, 0x7E00]
