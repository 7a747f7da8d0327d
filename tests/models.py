"""Small ONNX models, made for the tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def save(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[tuple[str, int, Sequence[int | str]]],
    outputs: Sequence[tuple[str, int, Sequence[int | str]]],
    constants: dict[str, np.ndarray] | None = None,
    metadata: dict[str, str] | None = None,
    between: Sequence[tuple[str, int, Sequence[int | str]]] = (),
) -> bytes:
    """A model's bytes; inputs, outputs and what is between are (name, element type, shape)."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(*info) for info in inputs],
        [helper.make_tensor_value_info(*info) for info in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
        value_info=[helper.make_tensor_value_info(*info) for info in between],
    )
    domains = {node.domain for node in nodes if node.domain}
    model = helper.make_model(
        graph,
        opset_imports=[
            helper.make_opsetid("", 17),
            *(helper.make_opsetid(domain, 1) for domain in sorted(domains)),
        ],
        producer_name="tests",
    )
    model.ir_version = 9
    if metadata:
        helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def add_one(
    shape: Sequence[int | str] = (1, 3, 4, 5), metadata: dict[str, str] | None = None
) -> bytes:
    """The model y = x + 1, in float."""
    return save(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        [("x", FLOAT, shape)],
        [("y", FLOAT, shape)],
        {"one": np.float32(1)},
        metadata,
    )


def two_inputs() -> bytes:
    """The model sum = a + b of (2, 3) and difference = a - b, in float."""
    return save(
        [
            helper.make_node("Add", ["a", "b"], ["sum"]),
            helper.make_node("Sub", ["a", "b"], ["difference"]),
        ],
        [("a", FLOAT, (2, 3)), ("b", FLOAT, (2, 3))],
        [("sum", FLOAT, (2, 3)), ("difference", FLOAT, (2, 3))],
    )


def two_outputs() -> bytes:
    """The model y = -x and z = |x| of two numbers, in float."""
    return save(
        [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["z"])],
        [("x", FLOAT, (1, 2))],
        [("y", FLOAT, (1, 2)), ("z", FLOAT, (1, 2))],
    )


def quantized(
    shape: Sequence[int] = (1, 3, 4, 5),
    *,
    scale: float = 0.5,
    zero_point: int = -3,
    dtype: type = np.int8,
    metadata: dict[str, str] | None = None,
) -> bytes:
    """The model y = relu(x), with one scale and zero point for both, as quantisers write it."""
    return save(
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
            helper.make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xf"]),
            helper.make_node("Relu", ["xf"], ["r"]),
            helper.make_node("QuantizeLinear", ["r", "scale", "zero"], ["rq"]),
            helper.make_node("DequantizeLinear", ["rq", "scale", "zero"], ["y"]),
        ],
        [("x", FLOAT, shape)],
        [("y", FLOAT, shape)],
        {"scale": np.float32(scale), "zero": np.array(zero_point, dtype)},
        metadata,
    )


def custom(
    op_type: str = "cstScale",
    shape: Sequence[int] = (1, 3, 4, 5),
    *,
    kind: int = FLOAT,
    name: str = "the_node",
    metadata: dict[str, str] | None = None,
    **attributes: Any,
) -> bytes:
    """The model y = relu(op(relu(x))), the operator being one of a domain of its own.

    For whole numbers without relu: y = op(x).
    """
    wraps = kind in (FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
    ends = ["a", "b"] if wraps else ["x", "y"]
    node = helper.make_node(op_type, ends[:1], ends[1:], name=name, domain="tests", **attributes)
    nodes = [node]
    if wraps:
        nodes = [
            helper.make_node("Relu", ["x"], ["a"]),
            node,
            helper.make_node("Relu", ["b"], ["y"]),
        ]
    return save(
        nodes,
        [("x", kind, shape)],
        [("y", kind, shape)],
        None,
        metadata,
        between=[("b", kind, shape)] if wraps else (),
    )


def passes(kind: int, shape: Sequence[int] = (2, 3)) -> bytes:
    """The model y = x for any element type."""
    return save(
        [helper.make_node("Identity", ["x"], ["y"])], [("x", kind, shape)], [("y", kind, shape)]
    )


def convolution(channels: int = 3, size: int = 16, filters: int = 8) -> bytes:
    """A 3x3 convolution with random weights, and relu."""
    weights = np.random.default_rng(7).normal(0, 0.3, (filters, channels, 3, 3))
    return save(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        [("x", FLOAT, (1, channels, size, size))],
        [("y", FLOAT, (1, filters, size, size))],
        {"w": weights.astype(np.float32)},
    )


def with_metadata(data: bytes, metadata: dict[str, str]) -> bytes:
    """A model with other metadata."""
    model = onnx.load_from_string(data)
    helper.set_model_props(model, metadata)
    changed: bytes = model.SerializeToString()
    return changed


def deep(size: int = 16, metadata: dict[str, str] | None = None) -> bytes:
    """Three convolutions in a row, which leave tensors in between."""
    rng = np.random.default_rng(3)
    channels = [3, 16, 8, 4]
    constants = {
        f"w{i}": rng.normal(0, 0.2, (channels[i + 1], channels[i], 3, 3)).astype(np.float32)
        for i in range(3)
    }
    names = ["x", "a", "b", "y"]
    return save(
        [
            helper.make_node("Conv", [names[i], f"w{i}"], [names[i + 1]], pads=[1, 1, 1, 1])
            for i in range(3)
        ],
        [("x", FLOAT, (1, 3, size, size))],
        [("y", FLOAT, (1, 4, size, size))],
        constants,
        metadata,
    )


def dynamic(
    sizes: Sequence[tuple[int, int]] = ((8, 8), (12, 16), (16, 8)),
    metadata: dict[str, str] | None = None,
) -> bytes:
    """A convolution of images (1, 3, H, W) in several sizes."""
    shapes = json.dumps([{"x": [1, 3, *size]} for size in sizes])
    weights = np.random.default_rng(7).normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32)
    return save(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        [("x", FLOAT, (1, 3, "h", "w"))],
        [("y", FLOAT, (1, 8, "h", "w"))],
        {"w": weights},
        {"anynpu.shapes": shapes, **(metadata or {})},
    )


def sigmoids(size: int = 1024, layers: int = 10, metadata: dict[str, str] | None = None) -> bytes:
    """A chain that NPUs take their time for: they look an element up after the other."""
    names = ["x", *(f"t{i}" for i in range(1, layers)), "y"]
    return save(
        [
            helper.make_node("Sigmoid", names[i : i + 1], names[i + 1 : i + 2])
            for i in range(layers)
        ],
        [("x", FLOAT, (1, 3, size, size))],
        [("y", FLOAT, (1, 3, size, size))],
        metadata=metadata,
    )


def repeated_convolution(size: int, filters: int, layers: int) -> bytes:
    """A picture through many convolutions, which takes a while."""
    rng = np.random.default_rng(3)
    constants, nodes, channels = {}, [], 3
    for i in range(layers):
        weights = rng.normal(0, 0.05, (filters, channels, 3, 3)).astype(np.float32)
        constants[f"w{i}"] = weights
        target = "y" if i == layers - 1 else f"t{i + 1}"
        source = "x" if i == 0 else f"t{i}"
        nodes.append(helper.make_node("Conv", [source, f"w{i}"], [target], pads=[1, 1, 1, 1]))
        channels = filters
    return save(
        nodes,
        [("x", FLOAT, (1, 3, size, size))],
        [("y", FLOAT, (1, filters, size, size))],
        constants,
    )


def classifier(classes: int = 20, size: int = 16) -> bytes:
    """Two convolutions, the average over all pixels, and a score for each class."""
    rng = np.random.default_rng(7)
    shapes = {"w1": (16, 3, 3, 3), "w2": (32, 16, 3, 3), "w3": (32, classes), "b3": (classes,)}
    spread = {"w1": 0.2, "w2": 0.08, "w3": 1.0, "b3": 0.25}
    weights: dict[str, np.ndarray] = {
        name: rng.normal(0, spread[name], shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["scores"]),
    ]
    return save(
        nodes, [("x", FLOAT, (1, 3, size, size))], [("scores", FLOAT, (1, classes))], weights
    )
