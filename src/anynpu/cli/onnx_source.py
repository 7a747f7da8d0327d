"""An ONNX model as what a compiled file was made from: which node has which weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MOVES = frozenset({
    "Cast", "Concat", "DepthToSpace", "Dropout", "Flatten", "Identity", "Pad", "Reshape", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators that give values other places and leave them what they are."""
_OF_TWO = frozenset({"Add", "Div", "Mul", "Sub"})
_LINEAR = _MOVES | _OF_TWO | {"BatchNormalization", "Conv", "Gemm", "MatMul", "MaxPool"}
"""Operators that a convolution's scales, biases, maximum and second operand stand for."""

_LEAST_WEIGHTS = 4
"""Of a channel: fewer fit any others by a factor."""
_ALIKE, _UNLIKE = 0.95, 0.5
"""What part of a node's weights those of a file explain where they are the same, and others'.

Quantised to a byte they explain 0.997 and more, those of another node hardly anything.
"""


@dataclass(frozen=True)
class WeightedNode:
    """A convolution or product with a constant matrix, (channels, depth, height, width)."""

    source: str
    output: str
    weights: NDArray[Any]
    groups: int


class OnnxSource:
    """The graph of an ONNX model's nodes; tensors go by their names."""

    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        self._model = model
        nodes = model.graph.node
        self._constants = {each.name: each for each in model.graph.initializer}
        self._producers = {name: node for node in nodes for name in node.output if name}
        self._consumers: dict[str, list[Any]] = {}
        for node in nodes:
            for name in node.input:
                self._consumers.setdefault(name, []).append(node)
            if node.op_type == "Constant":
                values = [each.t for each in node.attribute if each.name == "value"]
                self._constants |= dict(zip(node.output, values, strict=False))
        self._array = numpy_helper.to_array
        self.outputs: tuple[str, ...] = tuple(each.name for each in model.graph.output)
        self.inputs: tuple[str, ...] = tuple(
            each.name for each in model.graph.input if each.name not in self._constants
        )

    @cached_property
    def weighted(self) -> tuple[WeightedNode, ...]:
        """All nodes with weights, in their order."""
        return tuple(filter(None, map(self._weighted, self._model.graph.node)))

    def _weighted(self, node: Any) -> WeightedNode | None:
        import onnx

        if node.op_type not in ("Conv", "Gemm", "MatMul") or node.input[1] not in self._constants:
            return None
        weights = self._array(self._constants[node.input[1]])
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type == "Conv":
            if weights.ndim == 3:
                weights = weights[:, :, None]
        elif weights.ndim != 2:
            return None
        else:
            weights = weights if attributes.get("transB") else weights.T
            weights = weights[:, :, None, None]
        if weights.ndim != 4:
            return None
        return WeightedNode(node.input[0], node.output[0], weights, attributes.get("group", 1))

    def behind(self, tensor: str) -> list[str]:
        """A tensor and those that have all its values and no weights between, the nearest first."""
        found = [tensor]
        ends = {node.output for node in self.weighted}
        for name in found:
            for node in self._consumers.get(name, ()):
                found += [
                    each for each in node.output if each and each not in found and each not in ends
                ]
        return found

    def moved_to(self, tensor: str) -> list[str]:
        """A tensor and those whose values it has, in other places; the nearest first."""
        found = [tensor]
        for name in found:
            node = self._producers.get(name)
            if node is not None and node.op_type in _MOVES:
                data = node.input if node.op_type == "Concat" else node.input[:1]
                found += [each for each in data if each not in found]
        return found

    def operators(self, first: str, last: str) -> tuple[bool, bool]:
        """Whether functions, and whether second tensors are between two, one behind the other."""
        within, ways = set(self.behind(first)), [last]
        has_function = has_second = False
        for name in ways:
            node = self._producers.get(name)
            if name == first or node is None:
                continue
            has_function |= node.op_type not in _LINEAR
            has_second |= node.op_type in _OF_TWO and len(self._data_of(node)) == 2
            ways += [each for each in node.input if each in within and each not in ways]
        return has_function, has_second

    def _data_of(self, node: Any) -> list[str]:
        return [name for name in node.input if name not in self._constants]

    def before_factors(self, tensor: str) -> str:
        """What a tensor is made of by constant factors and summands; "" where it isn't.

        A compiler may have put them into the weights behind, so that the tensor itself is nowhere.
        A normalisation right behind a convolution is one with that.
        """
        node = self._producers.get(tensor)
        if node is None:
            return ""
        if node.op_type == "BatchNormalization":
            before = self._producers.get(node.input[0])
            is_one = before is not None and before.op_type == "Conv"
            return "" if is_one else str(node.input[0])
        if node.op_type not in _OF_TWO:
            return ""
        data = self._data_of(node)
        return str(data[0]) if len(data) == 1 else ""

    def of_weights(
        self, weights: NDArray[Any], is_depthwise: bool
    ) -> tuple[WeightedNode | None, str]:
        """The one node that has the weights of a file, which are multiples of its own a channel.

        None where there is none, or several, and why.
        """
        if weights[0].size < _LEAST_WEIGHTS:
            return None, "its kernels have too few weights to be known by"
        scores = sorted(self._scores(weights, is_depthwise), key=lambda each: -each[0])
        alike = [node for score, node in scores if score >= _ALIKE]
        if not alike:
            return None, "no node of the source has its weights"
        if len(alike) > 1:
            return None, f"{len(alike)} nodes of the source have its weights"
        if any(score > _UNLIKE for score, _ in scores[1:]):
            return None, "several nodes of the source have weights like its own"
        return alike[0], ""

    def _scores(
        self, weights: NDArray[Any], is_depthwise: bool
    ) -> Iterator[tuple[float, WeightedNode]]:
        for node in self.weighted:
            own = node.weights
            if own.shape[0] != weights.shape[0]:
                continue
            if node.groups > 1 and not is_depthwise:
                own = _dense(own, node.groups)
            # A product with a row may be a convolution of an image that is as large as its kernels.
            is_row = own.shape[2:] == (1, 1) and own.size == weights.size
            if own.shape == weights.shape or is_row:
                yield _explained(weights, own), node


def _dense(weights: NDArray[Any], groups: int) -> NDArray[Any]:
    """Grouped weights as those of a convolution of all channels."""
    channels, depth, height, width = weights.shape
    whole = np.zeros((channels, depth * groups, height, width), weights.dtype)
    each = channels // groups
    for group in range(groups):
        of = slice(group * each, (group + 1) * each)
        whole[of, group * depth : (group + 1) * depth] = weights[of]
    return whole


def _explained(found: NDArray[Any], wanted: NDArray[Any]) -> float:
    """What part of `wanted`'s energy is `found`, each channel times its best factor."""
    a = found.reshape(found.shape[0], -1).astype(np.float64)
    b = wanted.reshape(wanted.shape[0], -1).astype(np.float64)
    products, lengths = (a * b).sum(1), (a * a).sum(1)
    parts = np.divide(products * products, lengths, out=np.zeros_like(products), where=lengths > 0)
    whole = float((b * b).sum())
    return float(parts.sum()) / whole if whole else 0.0
