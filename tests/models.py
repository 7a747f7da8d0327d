"""Small ONNX models, made for the tests."""

from __future__ import annotations

from collections.abc import Sequence

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
) -> bytes:
    """A model's bytes; inputs and outputs are (name, element type, shape)."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(*info) for info in inputs],
        [helper.make_tensor_value_info(*info) for info in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="tests"
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
