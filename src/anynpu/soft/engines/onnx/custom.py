"""The nodes of an ONNX model that ONNX Runtime can't compute, and what is known of them.

A node is *foreign* where its domain is none of ONNX's or ONNX Runtime's, or where ONNX has no
operator of its name: that is how custom operators are written into a model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from ....errors import ModelError
from ....tensor import DType, Quantization
from ..program import CustomNode, Port
from .nodes import STANDARD
from .shapes import Shape, infer_types, shape_of

_ENGINE_DOMAINS = frozenset({
    "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.training", "com.microsoft",
    "com.microsoft.experimental", "com.microsoft.nchwc", "com.ms.internal.nhwc",
    "org.pytorch.aten",
})  # fmt: skip
_REAL_KINDS = "f"


@dataclass(frozen=True)
class Edge:
    """A tensor between two steps: its dtype as ONNX Runtime has it, and its shape."""

    dtype: np.dtype[Any]
    shape: Shape

    def port(self, name: str, known: Knowledge) -> Port:
        """The tensor as an operator from outside sees it: real numbers are float32."""
        dtype = DType.FLOAT32 if self.dtype.kind in _REAL_KINDS else DType.from_numpy(self.dtype)
        if dtype is None:
            raise ModelError(
                f"tensor {name!r} of dtype {self.dtype} can't be passed to a custom operator"
            )
        is_quantized = dtype in (DType.INT8, DType.UINT8)
        return Port(
            name, self.shape, dtype, known.quantizations.get(name) if is_quantized else None
        )


@dataclass(frozen=True)
class Knowledge:
    """What is known of the tensors at custom nodes, by name.

    `infos` has types and shapes of what they make; `quantizations` scale and zero point of tensors
    between QuantizeLinear and DequantizeLinear.
    """

    infos: Mapping[str, ValueInfoProto]
    quantizations: Mapping[str, Quantization]


NOTHING = Knowledge({}, {})


@dataclass(frozen=True)
class NodeKey:
    """Where a node is in its graph, what it is, and what it makes."""

    index: int
    op_type: str
    is_foreign: bool
    outputs: tuple[str, ...]


def node_keys(model: ModelProto) -> tuple[NodeKey, ...]:
    """Every node of a model."""
    functions = {(function.domain, function.name) for function in model.functions}
    return tuple(
        NodeKey(index, node.op_type, _is_foreign(node, functions), tuple(filter(None, node.output)))
        for index, node in enumerate(model.graph.node)
    )


def _is_foreign(node: NodeProto, functions: Collection[tuple[str, str]]) -> bool:
    if node.domain in STANDARD:
        return not has_builtin(node.op_type)
    return node.domain not in _ENGINE_DOMAINS and (node.domain, node.op_type) not in functions


def has_builtin(op_type: str) -> bool:
    """Whether ONNX has an operator of a name."""
    return bool(onnx.defs.has(op_type))


def use_builtin(model: ModelProto, indices: Collection[int]) -> None:
    """Let ONNX's operators of the same name compute nodes; the model is changed."""
    for index in indices:
        model.graph.node[index].domain = ""


# ------------------------------------------------------------------------------------- shapes


def knowledge(
    model: ModelProto, keys: Collection[NodeKey], shapes: Mapping[str, Shape]
) -> Knowledge:
    """What a model and ONNX know of the nodes' tensors.

    `shapes` are those of the model's inputs; the model is changed. Sizes that the model calls by
    the same word as those of an input are that input's.
    """
    graph = model.graph
    names = {name for key in keys for name in key.outputs}
    for node in graph.node:
        if names.intersection(node.output) and has_builtin(node.op_type):
            node.domain = ""
    sizes = _fix_inputs(graph, shapes)
    for info in (*graph.value_info, *graph.output):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    infos = infer_types(model)
    return Knowledge(
        {name: infos[name] for name in names if name in infos}, dict(_quantizations(graph))
    )


def _quantizations(graph: onnx.GraphProto) -> Iterator[tuple[str, Quantization]]:
    """The tensors that are quantised as a whole, with constant parameters."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        is_standard = node.domain in STANDARD
        if is_standard and node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            found = [constants.get(name) for name in node.input[1:3]]
            if found and all(t is not None and math.prod(t.dims) == 1 for t in found):
                values = [numpy_helper.to_array(t).item() for t in found if t is not None]
                scale, zero_point = (*values, 0)[:2]
                is_maker = node.op_type == "QuantizeLinear"
                name = node.output[0] if is_maker else node.input[0]
                yield name, Quantization(float(scale), int(zero_point))


def _fix_inputs(graph: onnx.GraphProto, shapes: Mapping[str, Shape]) -> dict[str, int]:
    """Give the inputs their shapes; returns what the sizes that have a name come to."""
    sizes: dict[str, int] = {}
    for info in graph.input:
        dims = info.type.tensor_type.shape.dim
        for dim, size in zip(dims, shapes.get(info.name, ()), strict=False):
            if dim.dim_param:
                sizes[dim.dim_param] = size
            dim.dim_value = size
    return sizes


def custom_node(
    key: NodeKey,
    node: NodeProto,
    edges: Mapping[str, Edge],
    known: Knowledge,
) -> tuple[CustomNode, dict[str, Edge]]:
    """A node for an operator from outside, and its outputs by name."""
    names = _input_names(node)
    if missing := [name for name in names if name not in edges]:
        raise ModelError(f"{_describe(node)} reads {missing}, which nothing before it makes")
    inputs = [edges[name] for name in names]
    outputs: dict[str, Edge] = {}
    assumed = []
    for name in filter(None, node.output):
        outputs[name], is_assumed = _output(node, name, known.infos.get(name), inputs)
        assumed += [name] if is_assumed else []
    described = CustomNode(
        index=key.index,
        op_type=node.op_type,
        name=node.name or next(iter(outputs), node.op_type),
        attributes=_attributes(node),
        inputs=tuple(edge.port(name, known) for name, edge in zip(names, inputs, strict=True)),
        outputs=tuple(edge.port(name, known) for name, edge in outputs.items()),
        has_builtin=has_builtin(node.op_type),
        is_foreign=key.is_foreign,
        assumed=tuple(assumed),
    )
    return described, outputs


def _input_names(node: NodeProto) -> list[str]:
    names = list(node.input)
    while names and not names[-1]:
        names.pop()
    if not all(names):
        raise ModelError(f"{_describe(node)} leaves an input out, which can't be passed on")
    return names


def _output(
    node: NodeProto, name: str, info: ValueInfoProto | None, inputs: Sequence[Edge]
) -> tuple[Edge, bool]:
    """An output as the model gives it, else (True) with what it leaves open as the first input."""
    kind = info.type.tensor_type.elem_type if info else TensorProto.UNDEFINED
    shape = shape_of(info)
    if not inputs and (shape is None or not kind):
        raise ModelError(_missing(node, name))
    dtype = _numpy_dtype(name, kind) if kind else inputs[0].dtype
    if shape is not None:
        return Edge(dtype, shape), False
    if not _may_be(info, inputs[0].shape):
        raise ModelError(_missing(node, name))
    return Edge(dtype, inputs[0].shape), True


def _may_be(info: ValueInfoProto | None, shape: Shape) -> bool:
    """Whether what a model says of a tensor doesn't contradict a shape."""
    if info is None or not info.type.tensor_type.HasField("shape"):
        return True
    dims = info.type.tensor_type.shape.dim
    return len(dims) == len(shape) and all(
        not dim.HasField("dim_value") or dim.dim_value == size
        for dim, size in zip(dims, shape, strict=True)
    )


def _missing(node: NodeProto, name: str) -> str:
    return (
        f"{_describe(node)} has the output {name!r}, whose shape or type the model doesn't give: "
        f"add it to the graph's value_info"
    )


def _numpy_dtype(name: str, kind: int) -> np.dtype[Any]:
    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    except (KeyError, TypeError):
        raise ModelError(f"tensor {name!r} has a type that NumPy doesn't have") from None
    return dtype


def _describe(node: NodeProto) -> str:
    return f"node {node.name!r} of the custom operator {node.op_type!r}"


# --------------------------------------------------------------------------------- attributes


def _attributes(node: NodeProto) -> dict[str, NDArray[Any]]:
    """Attributes as arrays; those that are neither numbers nor a text are left out."""
    return {
        attribute.name: values
        for attribute in node.attribute
        for values in _values(attribute)
        if values.ndim == 1
    }


def _values(attribute: AttributeProto) -> Iterator[NDArray[Any]]:
    kind = attribute.type
    if kind == AttributeProto.INT:
        yield np.array([attribute.i], np.int64)
    elif kind == AttributeProto.INTS:
        yield np.array(attribute.ints, np.int64)
    elif kind == AttributeProto.FLOAT:
        yield np.array([attribute.f], np.float32)
    elif kind == AttributeProto.FLOATS:
        yield np.array(attribute.floats, np.float32)
    elif kind == AttributeProto.STRING:
        yield np.frombuffer(attribute.s, np.uint8)
    elif kind == AttributeProto.TENSOR:
        try:
            yield numpy_helper.to_array(attribute.t).ravel()
        except (TypeError, ValueError) as error:
            raise ModelError(f"attribute {attribute.name!r} can't be read: {error}") from None
