"""The text encoder of CLIP ViT-B/32 (Radford et al., 2021): twelve blocks of attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .graph import IR_VERSION, OPSET

BLOCKS = 12
WIDTH = 512
HEADS = 8
TOKENS = 20
"""What the vendor's model zoo measures, not CLIP's 77."""


class _Sequence:
    """Collects nodes for tensors of (1, tokens, channels); methods take and return names."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        output = f"t{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op_type, list(inputs), [output], name=output, **attributes)
        )
        return output

    def constant(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def zeros(self, *shape: int) -> str:
        return self.constant(np.zeros(shape, np.float32))

    def linear(self, x: str, channels_in: int, channels_out: int) -> str:
        product = self.node("MatMul", x, self.zeros(channels_in, channels_out))
        return self.node("Add", product, self.zeros(channels_out))

    def normalise(self, x: str) -> str:
        return self.node("LayerNormalization", x, self.zeros(WIDTH), self.zeros(WIDTH), axis=-1)

    def heads(self, x: str, order: list[int]) -> str:
        shape = self.constant(np.array([1, TOKENS, HEADS, WIDTH // HEADS]))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=order)

    def attention(self, x: str) -> str:
        query, key, value = (self.linear(x, WIDTH, WIDTH) for _ in range(3))
        query = self.node("Mul", query, self.constant(np.float32((WIDTH // HEADS) ** -0.5)))
        scores = self.node("MatMul", self.heads(query, [0, 2, 1, 3]), self.heads(key, [0, 2, 3, 1]))
        scores = self.node("Add", scores, self.zeros(1, 1, TOKENS, TOKENS))
        shares = self.node("Softmax", scores, axis=-1)
        found = self.node("MatMul", shares, self.heads(value, [0, 2, 1, 3]))
        shape = self.constant(np.array([1, TOKENS, WIDTH]))
        found = self.node("Reshape", self.node("Transpose", found, perm=[0, 2, 1, 3]), shape)
        return self.linear(found, WIDTH, WIDTH)

    def block(self, x: str) -> str:
        x = self.node("Add", x, self.attention(self.normalise(x)))
        y = self.linear(self.normalise(x), WIDTH, 4 * WIDTH)
        scaled = self.node("Mul", y, self.constant(np.float32(1.702)))
        y = self.node("Mul", y, self.node("Sigmoid", scaled))
        return self.node("Add", x, self.linear(y, 4 * WIDTH, WIDTH))


def build_block() -> onnx.ModelProto:
    """One of the `BLOCKS`, its weights all zero: the others are like it."""
    sequence = _Sequence()
    x = sequence.block("tokens")
    shape = (1, TOKENS, WIDTH)
    graph = helper.make_graph(
        sequence.nodes,
        "clip_text",
        [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        sequence.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    return model
