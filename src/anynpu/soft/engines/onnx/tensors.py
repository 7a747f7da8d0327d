"""What is known of each tensor of an ONNX model: its shape, and its size on the device."""

from __future__ import annotations

import math
from collections.abc import Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from ....tensor import DType
from .shapes import Shape, infer_types, shape_of

RENAMING = frozenset({
    "Cast", "DequantizeLinear", "Dropout", "Flatten", "Identity", "QuantizeLinear", "Reshape",
    "Squeeze", "Unsqueeze",
})  # fmt: skip
"""Operators that move no data on the device: the output is the first input, seen anew."""

_FLOAT_TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.UNDEFINED)
_INT8_TYPES = (TensorProto.INT8, TensorProto.UINT8)
_SHAPE_OPERATORS = ("Constant", "Shape", "Size")


class Tensors:
    """The tensors of a model, by name; a name that the model lacks has no shape.

    A tensor's *root* is what it is stored as: quantising and reshaping give a tensor another name,
    not another place. With `treat_as_int8`, float tensors count as if they had been quantised.
    """

    def __init__(self, model: ModelProto, *, treat_as_int8: bool = False) -> None:
        graph = model.graph
        self._treat_as_int8 = treat_as_int8
        self._infos = infer_types(model)
        self._constants = {tensor.name for tensor in graph.initializer}
        self._roots: dict[str, str] = {}
        self._quantized: set[str] = set()
        for node in graph.node:
            self._follow(node)
        self._kept = {self.root(info.name) for info in graph.output}
        self._outputs = frozenset(self._kept)
        self._kept.update(self.root(name) for node in graph.node for name in _captured(node))

    def _follow(self, node: NodeProto) -> None:
        inputs = [name for name in node.input if name]
        if next(_subgraphs(node), None) is None and (
            node.op_type in _SHAPE_OPERATORS or (inputs and all(map(self.is_constant, inputs)))
        ):
            self._constants.update(node.output)
        if node.op_type in RENAMING and inputs:
            root = self.root(inputs[0])
            self._roots[node.output[0]] = root
            if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
                self._quantized.add(root)

    def root(self, name: str) -> str:
        """The name under which a tensor is stored."""
        return self._roots.get(name, name)

    def is_constant(self, name: str) -> bool:
        """Whether a tensor's values are known before the model runs."""
        return name in self._constants

    def is_scalar_constant(self, name: str) -> bool:
        """Whether a tensor is one number that is known before the model runs."""
        return self.is_constant(name) and self.elements(name) == 1

    def is_output(self, name: str) -> bool:
        """Whether a tensor is an output of the model, under any name."""
        return self.root(name) in self._outputs

    def is_kept(self, name: str) -> bool:
        """Whether more than operators take a tensor: it is an output, or a subgraph reads it."""
        return self.root(name) in self._kept

    def shape(self, name: str) -> Shape | None:
        """The shape, None where it isn't known."""
        return shape_of(self._infos.get(name))

    def elements(self, name: str) -> int:
        """How many elements; 0 where the shape isn't known."""
        shape = self.shape(name)
        return 0 if shape is None else math.prod(shape)

    def dtype(self, name: str) -> DType:
        """INT8 for what is quantised, FLOAT16 for other reals and for what isn't known.

        Beside int8 weights a bias is INT32.
        """
        root = self.root(name)
        info = self._infos.get(root)
        kind = TensorProto.UNDEFINED if info is None else info.type.tensor_type.elem_type
        if kind in _INT8_TYPES:
            return DType.INT8
        if kind in _FLOAT_TYPES:
            if root in self._quantized:
                return DType.INT8
            if not self._treat_as_int8:
                return DType.FLOAT16
            is_bias = self.is_constant(root) and len(self.shape(root) or ()) <= 1
            return DType.INT32 if is_bias else DType.INT8
        try:
            found = DType.from_numpy(helper.tensor_dtype_to_np_dtype(kind))
            return DType.FLOAT16 if found is None or found is DType.FLOAT64 else found
        except KeyError:
            return DType.FLOAT16

    def size(self, name: str) -> int:
        """Bytes on the device; 0 where the shape isn't known."""
        return self.dtype(name).size_of(self.elements(name))


def _captured(node: NodeProto) -> Iterator[str]:
    """The names that the graphs inside an If, Loop or Scan node mention."""
    for graph in _subgraphs(node):
        yield from (info.name for info in graph.output)
        for inner in graph.node:
            yield from inner.input
            yield from _captured(inner)


def _subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
