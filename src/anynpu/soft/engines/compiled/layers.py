"""What each node of a compiled graph does, as far as its time on the chip depends on it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from ....tensor import DType
from ...formats.rknn.model import (
    EDGES,
    CompiledModel,
    Device,
    Graph,
    Node,
    Tensor,
    TensorKind,
    TensorLayout,
)
from ..program import Layer, LoweredModel

_SCRATCH = "_exSecondary"


def computing_nodes(graph: Graph) -> Iterable[Node]:
    """The nodes in order, without those that stand for the graph's inputs and outputs.

    Some files end with a node that has neither type nor tensors.
    """
    return (
        node
        for node in graph.nodes
        if node.op_type not in EDGES and (node.op_type or node.inputs or node.outputs)
    )


def layers_of(model: CompiledModel, graph: Graph) -> LoweredModel:
    """The nodes that take time, and the memory that the file asks for."""
    tasks = {task.node for task in graph.tasks_for(1)}
    lookups = _nodes_with_tables(graph)
    layers = tuple(
        _layer(graph, node, uses_table=node.index in lookups)
        for node in computing_nodes(graph)
        if node.index in tasks or node.device is Device.CPU
    )
    return LoweredModel(layers, model.memory.weight, model.memory.internal, includes_edges=True)


def onnx_name(node: Node) -> str:
    """The node's name in the ONNX file, as far as the compiler kept it."""
    return node.name.partition(":")[2] or node.name


def shapes_of(graph: Graph, node: Node) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The shapes of what a node reads and of the first tensor that it writes."""
    outputs = [graph.tensors[index].shape for index in node.outputs if index >= 0]
    return tuple(t.shape for t in _operands(graph, node)), outputs[0] if outputs else ()


def bytes_moved(graph: Graph, node: Node) -> tuple[int, int]:
    """The bytes that a node reads and writes."""
    outputs = [graph.tensors[index] for index in node.outputs if index >= 0]
    return sum(map(_bytes, _operands(graph, node))), sum(map(_bytes, outputs))


def is_scratch(tensor: Tensor) -> bool:
    """Whether a node lists a tensor as room to work in, not as an operand."""
    return _SCRATCH in tensor.name


def _layer(graph: Graph, node: Node, *, uses_table: bool) -> Layer:
    operands = _operands(graph, node)
    inputs, output = shapes_of(graph, node)
    read, written = bytes_moved(graph, node)
    weights = next((t for t in operands if t.layout is TensorLayout.WEIGHT), None)
    is_transposed = node.op_type.startswith("ConvTranspose")
    work = {} if weights is None else _convolution(weights, output, is_transposed=is_transposed)
    constants = (t for t in operands if not t.kind.is_internal)
    return Layer(
        name=onnx_name(node),
        op_type=node.op_type,
        inputs=inputs,
        output=output,
        dtype=_dtype(operands),
        read_bytes=read,
        written_bytes=written,
        weight_bytes=sum(map(_bytes, constants)),
        uses_table=uses_table,
        on_cpu=node.device is Device.CPU,
        **work,
    )


def _convolution(
    weights: Tensor, output: tuple[int, ...], *, is_transposed: bool
) -> dict[str, Any]:
    if len(weights.shape) != 4 or not output or 0 in weights.shape:
        return {}
    kernels, channels, height, width = weights.shape
    if is_transposed:
        kernels, channels = channels, kernels
    is_depthwise = kernels == 1 and channels > 1 and output[1:2] == (channels,)
    places = math.prod(output[2:]) * output[0]
    return {
        "macs": math.prod(weights.shape) * places,
        "channels_in": 1 if is_depthwise else channels,
        "channels_out": channels if is_depthwise else kernels,
        "kernel": (height, width),
        "is_depthwise": is_depthwise,
    }


def _nodes_with_tables(graph: Graph) -> set[int]:
    tables = {tensor.name for tensor in graph.tensors if tensor.kind is TensorKind.TABLE}
    words = sorted(word for word, found in graph.relocations.items() if found.buffer in tables)
    found: set[int] = set()
    for task in graph.tasks_for(1):
        first = bisect_left(words, task.first_command)
        if first < len(words) and words[first] < task.first_command + task.commands:
            found.add(task.node)
    return found


def _operands(graph: Graph, node: Node) -> list[Tensor]:
    found = [graph.tensors[index] for index in node.inputs if index >= 0]
    return [tensor for tensor in found if not is_scratch(tensor)]


def _dtype(operands: Iterable[Tensor]) -> DType:
    for tensor in operands:
        if tensor.kind.is_internal and tensor.element.dtype is not None:
            return tensor.element.dtype
    return DType.INT8


def _bytes(tensor: Tensor) -> int:
    """A constant's size is what the file says; a scratch buffer's may be less than it needs."""
    dtype = tensor.element.dtype
    if not tensor.kind.is_internal or dtype is None:
        return tensor.size
    return dtype.size_of(math.prod(tensor.native_shape))
