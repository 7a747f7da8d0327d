"""Who computes each node of a compiled file, here and on a board, for `anynpu inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....errors import ModelError
from ...formats.rknn.model import CompiledModel, Device, Graph
from ...formats.rknn.reader import read_model
from ...formats.rknn.weights import fill_weights
from ..rknpu import prepare
from .board_operators import Knowledge, known
from .custom_nodes import is_foreign
from .layers import computing_nodes
from .unroll import unroll

EDGE = "-"
"""What stands for a node that computes nothing."""


@dataclass(frozen=True)
class Runners:
    """By the node's index who computes it here, and what boards do with it.

    `kernels` says which kernels run how many of its tasks. `problem` says why the graph can't be
    run here, if it can't.
    """

    by_node: tuple[str, ...]
    kernels: tuple[Mapping[str, int], ...]
    on_boards: tuple[Knowledge, ...]
    problem: str = ""


def runners(data: bytes) -> tuple[Runners, ...]:
    """The runners of each graph; nothing is computed. Raises `ModelError` for a damaged file."""
    model = read_model(data)
    try:
        model = fill_weights(model)
    except ModelError as error:
        return tuple(_not_computed(model, graph, str(error)) for graph in model.graphs)
    return tuple(_runners(model, graph) for graph in model.graphs)


def _runners(model: CompiledModel, graph: Graph) -> Runners:
    try:
        unrolled, skipped = unroll(graph)
        prepared = prepare(model, unrolled, skipped=skipped)
    except ModelError as error:
        return _not_computed(model, graph, str(error))
    found = [EDGE] * len(graph.nodes)
    for node in computing_nodes(graph):
        if prepared.has_tasks(node.index):
            found[node.index] = prepared.runs_on(node.index)
        elif node.device is Device.CPU:
            found[node.index] = "custom operator" if is_foreign(node) else "ONNX Runtime"
    kernels = [prepared.kernels_of(node.index) for node in graph.nodes]
    named = tuple({kind.value: count for kind, count in each.items()} for each in kernels)
    return Runners(tuple(found), named, _on_boards(model, graph))


def _not_computed(model: CompiledModel, graph: Graph, problem: str) -> Runners:
    count = len(graph.nodes)
    return Runners((EDGE,) * count, ({},) * count, _on_boards(model, graph), problem)


def _on_boards(model: CompiledModel, graph: Graph) -> tuple[Knowledge, ...]:
    return tuple(known(model, node) for node in graph.nodes)
