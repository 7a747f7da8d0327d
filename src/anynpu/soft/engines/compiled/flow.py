"""Follows a graph through its nodes: what leaves the NPU depends on written memory only."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from ....errors import ModelError
from ...formats.rknn.model import ElementType, Graph, Node, Tensor
from ..rknpu import PreparedGraph
from ..rknpu.dataflow import DataFlow, Input
from .buffers import TensorBuffer, element_dtype, held_bytes
from .custom_nodes import is_foreign
from .layers import computing_nodes, is_scratch
from .recurrent import Staging

_MOVES = frozenset({"Reshape", "Transpose"})
_WHOLE_NUMBERS = {
    1: ElementType.INT8,
    2: ElementType.INT16,
    4: ElementType.INT32,
    8: ElementType.INT64,
}


def check_flow(
    graph: Graph,
    prepared: PreparedGraph,
    cpu_nodes: Collection[int],
    stagings: Mapping[int, Staging],
) -> None:
    """Raise `ModelError` for a graph that uses memory that was never written.

    The nodes are gone through as a run does; the CPU computes `cpu_nodes`. Outputs, and what CPU
    nodes read, have to be known. Nodes of the NPU without tasks have to leave their data in place.
    """
    flow = DataFlow(prepared.memory_bytes, prepared.sections, prepared.written)
    for tensor in (graph.tensors[index] for index in graph.inputs):
        flow.add_input(Input(tensor.name, tensor.offset, tensor.offset + held_bytes(tensor)))
    for node in computing_nodes(graph):
        place = f"node {node.name!r}"
        if node.index in stagings:
            _follow_staged(flow, prepared, stagings[node.index])
        elif prepared.has_tasks(node.index):
            _check_move(graph, node)
            _follow_tasks(flow, prepared, node)
        elif node.index in cpu_nodes or is_foreign(node):
            for tensor in _internal(graph, node.inputs):
                _require(flow, tensor, f"{place} reads {tensor.name!r}")
            for tensor in _internal(graph, node.outputs):
                _write(flow, tensor)
        else:
            _check_alias(graph, node)
    for tensor in (graph.tensors[index] for index in graph.outputs):
        _check_type(tensor)
        _require(flow, tensor, f"the output {tensor.name!r}")


def _check_move(graph: Graph, node: Node) -> None:
    """Refuse a node that moves elements to a tensor of another type: no task converts them."""
    if node.op_type not in _MOVES or not node.inputs or not node.outputs:
        return
    source, target = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if element_dtype(source).itemsize != element_dtype(target).itemsize:
        raise ModelError(
            f"node {node.name!r} of type {node.op_type} moves elements of type "
            f"{source.element.name} to {target.name!r}, which has {target.element.name}: the "
            "toolkit has compiled it so, and a board gives the wrong type"
        )


def _check_type(output: Tensor) -> None:
    """Refuse an output with less room than its elements take, which tasks wrote as others."""
    needed = math.prod(output.shape) * element_dtype(output).itemsize
    if output.size < needed:
        raise ModelError(
            f"the output {output.name!r} has {output.size} bytes in the file, where its elements of"
            f" type {output.element.name} take {needed}: the toolkit has given it another type than"
            " that which is written there"
        )


def _internal(graph: Graph, indices: Iterable[int]) -> Iterable[Tensor]:
    tensors = (graph.tensors[index] for index in indices if index >= 0)
    return (tensor for tensor in tensors if tensor.kind.is_internal and not is_scratch(tensor))


def _follow_tasks(flow: DataFlow, prepared: PreparedGraph, node: Node) -> None:
    for task in prepared.tasks[node.index]:
        flow.run(task, f"node {node.name!r}, task {task.index}")


def _follow_staged(flow: DataFlow, prepared: PreparedGraph, staging: Staging) -> None:
    """A recurrent node, whose rows are put in other places before and after it."""
    node = staging.node
    if staging.staged_input:
        _require(flow, staging.sequence, f"node {node.name!r} reads {staging.sequence.name!r}")
        flow.write(staging.staged_input.offset, staging.staged_input.size)
    _follow_tasks(flow, prepared, node)
    if staging.staged_output and staging.result:
        results = staging.results(flow.flags, staging.staged_output)
        whole = np.ascontiguousarray(results).view(np.uint8)
        if not whole.all():
            raise _unknown(flow, f"node {node.name!r} leaves rows of {staging.result.name!r}")
        _write(flow, staging.result)


def _write(flow: DataFlow, tensor: Tensor) -> None:
    flow.write(tensor.offset, held_bytes(tensor))


def _require(flow: DataFlow, tensor: Tensor, what: str) -> None:
    size = element_dtype(tensor).itemsize
    if flow.flags[tensor.offset : tensor.offset + held_bytes(tensor)].all():
        return
    # Of elements alone, not of what fills up atoms and surfaces; no byte of known ones is 0.
    held = replace(tensor, element=_WHOLE_NUMBERS[size])
    known = np.empty(tensor.shape, element_dtype(held))
    TensorBuffer(flow.flags, held).read(known)
    if not known.view(np.uint8).all():
        raise _unknown(flow, what)


def _unknown(flow: DataFlow, what: str) -> ModelError:
    return ModelError(
        f"{what}: values depend on memory that was never written; on a board they are what was "
        f"before. It was read by {flow.readers() or 'no other task'}"
    )


def _check_alias(graph: Graph, node: Node) -> None:
    """That an NPU node without tasks has its outputs where its inputs are.

    It splits, joins or reshapes: each output begins in an input, or each input in an output.
    """
    found = [[graph.tensors[i] for i in side if i >= 0] for side in (node.inputs, node.outputs)]
    sources, targets = ([t for t in side if t.kind.is_internal] for side in found)
    sources = [tensor for tensor in sources if not is_scratch(tensor)]
    if not sources or not targets:
        raise ModelError(f"NPU node {node.index} {node.name!r} of type {node.op_type} has no tasks")
    for source in sources:
        for target in targets:
            first, second = sorted((source, target), key=lambda tensor: tensor.offset)
            if second.offset >= first.offset + max(1, first.size):
                raise ModelError(
                    f"NPU node {node.index} {node.name!r} of type {node.op_type} has no tasks, but "
                    f"{target.name!r} lies elsewhere than {source.name!r}"
                )
