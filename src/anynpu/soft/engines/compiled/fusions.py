"""Tasks of a graph that run as one, because nobody else reads what is between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ...formats.rknn.model import Graph, Node, Tensor
from ..rknpu import Fusion, NeededBytes, PreparedGraph
from .buffers import held_bytes
from .layers import computing_nodes, is_scratch


def fused(graph: Graph, prepared: PreparedGraph, staged: Collection[int]) -> PreparedGraph:
    """The graph with such tasks; nodes whose numbers are `staged` stay as they are.

    A node's outputs, those of the graph, and what nodes of the CPU read stay readable.
    """
    needed = NeededBytes(prepared.memory_bytes)
    _read(needed, (graph.tensors[index] for index in graph.outputs))
    fusions: list[Fusion] = []
    for node in reversed(list(computing_nodes(graph))):
        _read(needed, _tensors(graph, node.outputs))
        if node.index in staged:
            needed.read_all()
        elif prepared.has_tasks(node.index):
            fusions += _fusions(prepared, node, needed)
        else:
            _read(needed, _tensors(graph, node.inputs))
    return prepared.fused(fusions) if fusions else prepared


def _fusions(prepared: PreparedGraph, node: Node, needed: NeededBytes) -> Iterator[Fusion]:
    """Those of one node, from its last task to its first."""
    tasks = prepared.tasks[node.index]
    end = len(tasks)
    while end:
        end -= 1
        fusion = prepared.fusion_before(node.index, end)
        if fusion and not needed.are_needed(fusion.between, fusion.results):
            yield fusion
            needed.go_before(fusion.producers, (fusion.consumer,))
            end -= len(fusion.producers)
        else:
            needed.go_before((tasks[end],), (tasks[end],))


def _tensors(graph: Graph, indices: Iterable[int]) -> Iterable[Tensor]:
    tensors = (graph.tensors[index] for index in indices if index >= 0)
    return (tensor for tensor in tensors if tensor.kind.is_internal and not is_scratch(tensor))


def _read(needed: NeededBytes, tensors: Iterable[Tensor]) -> None:
    for tensor in tensors:
        needed.read(tensor.offset, tensor.offset + held_bytes(tensor))
