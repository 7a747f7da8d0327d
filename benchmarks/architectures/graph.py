"""Write a convolutional network node by node, as an ONNX model with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 9


class Graph:
    """Collects nodes; every method takes and returns names of tensors.

    Tensors are NCHW images of one batch, and the graph knows how many channels each has.
    """

    def __init__(self, name: str, height: int, width: int, channels: int = 3) -> None:
        self.input = "images"
        self._name = name
        self._shape = (1, channels, height, width)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._channels = {self.input: channels}
        self._random = np.random.default_rng(0)

    def channels(self, tensor: str) -> int:
        """How many channels a tensor has."""
        return self._channels[tensor]

    def node(self, op_type: str, inputs: Sequence[str], channels: int, **attributes: Any) -> str:
        """Any node with one output of that many channels."""
        index = len(self._nodes)
        output = f"t{index}"
        node = helper.make_node(
            op_type, list(inputs), [output], name=f"{op_type}_{index}", **attributes
        )
        self._nodes.append(node)
        self._channels[output] = channels
        return output

    def weights(self, *shape: int) -> str:
        """A new initialiser of random float32 values."""
        return self.constant(self._random.random(shape, np.float32) - np.float32(0.5))

    def constant(self, values: np.ndarray) -> str:
        """A new initialiser."""
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(
        self,
        x: str,
        filters: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        activation: str = "",
        groups: int = 1,
        padding: int | None = None,
        bias: bool = True,
    ) -> str:
        """A convolution, padded to keep its size by default, then an activation by its name."""
        pads = [kernel // 2 if padding is None else padding] * 4
        shape = (filters, self.channels(x) // groups, kernel, kernel)
        inputs = [x, self.weights(*shape), *([self.weights(filters)] if bias else [])]
        y = self.node(
            "Conv", inputs, filters,
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=groups,
        )  # fmt: skip
        return self.activate(y, activation) if activation else y

    def activate(self, x: str, activation: str) -> str:
        """An activation: an ONNX operator's name, or Silu or Relu6."""
        channels = self.channels(x)
        if activation == "Silu":
            return self.node("Mul", [x, self.node("Sigmoid", [x], channels)], channels)
        if activation == "Relu6":
            limits = [self.constant(np.float32(limit)) for limit in (0, 6)]
            return self.node("Clip", [x, *limits], channels)
        if activation == "LeakyRelu":
            return self.node("LeakyRelu", [x], channels, alpha=0.1)
        return self.node(activation, [x], channels)

    def batch_normalization(self, x: str) -> str:
        """A BatchNormalization with four vectors of its own."""
        channels = self.channels(x)
        vectors = [self.weights(channels) for _ in range(4)]
        return self.node("BatchNormalization", [x, *vectors], channels)

    def transposed_conv(self, x: str, filters: int) -> str:
        """A 2x2 ConvTranspose of stride 2: twice the height and width."""
        inputs = [x, self.weights(self.channels(x), filters, 2, 2), self.weights(filters)]
        return self.node("ConvTranspose", inputs, filters, kernel_shape=[2, 2], strides=[2, 2])

    def max_pool(self, x: str, kernel: int, stride: int = 1) -> str:
        """A MaxPool padded to keep its size."""
        return self.node(
            "MaxPool", [x], self.channels(x),
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4,
        )  # fmt: skip

    def max_pool_2x2(self, x: str) -> str:
        """A MaxPool that halves height and width."""
        return self.node("MaxPool", [x], self.channels(x), kernel_shape=[2, 2], strides=[2, 2])

    def upsample(self, x: str) -> str:
        """Twice the height and width, by the nearest pixel."""
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        return self.node(
            "Resize", [x, "", scales], self.channels(x),
            mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )  # fmt: skip

    def add(self, a: str, b: str) -> str:
        """The sum of two tensors of one shape."""
        return self.node("Add", [a, b], self.channels(a))

    def concat(self, *tensors: str) -> str:
        """Channels one after the other."""
        return self.node("Concat", tensors, sum(map(self.channels, tensors)), axis=1)

    def sum_of_channels(self, x: str) -> str:
        """The sum over all channels, at most 1: how the vendor's zoo sums class scores."""
        total = self.node("ReduceSum", [x, self.constant(np.array([1]))], 1)
        limits = [self.constant(np.float32(limit)) for limit in (0, 1)]
        return self.node("Clip", [total, *limits], 1)

    def halves(self, x: str) -> tuple[str, str]:
        """The first and the last half of the channels."""
        half = self.channels(x) // 2
        first = self.node("Split", [x, self.constant(np.array([half, half]))], half, axis=1)
        second = f"{first}_second"
        self._nodes[-1].output.append(second)
        self._channels[second] = half
        return first, second

    def model(self, *outputs: str, rank: int = 4) -> onnx.ModelProto:
        """The finished model; its outputs have `rank` dimensions, whose sizes ONNX infers."""
        sizes = [None] * rank
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [helper.make_tensor_value_info(self.input, TensorProto.FLOAT, self._shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in outputs],
            self._weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = IR_VERSION
        return model
