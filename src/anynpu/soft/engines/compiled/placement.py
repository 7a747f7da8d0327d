"""Who computes each node of a compiled file, here and on a board, for `anynpu inspect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ....errors import ModelError
from ...formats.rknn.model import CompiledModel, Device, Graph, Node
from ...formats.rknn.reader import read_model
from ...formats.rknn.weights import fill_weights
from ..rknpu import prepare
from ..rknpu.kernels.steps import KernelKind
from .board_operators import Knowledge, known
from .cpu_nodes import prepare_cpu_node
from .custom_nodes import is_foreign
from .layers import computing_nodes
from .sessions import Compute
from .slices import KERNELS
from .unroll import unroll

EDGE = "-"
"""What stands for a node that computes nothing."""


@dataclass(frozen=True)
class Runners:
    """By the node's index who computes it here, and what boards do with it.

    `kernels` says which kernels run how many of its tasks; a node of the CPU whose values kernels
    move counts as one. `problem` says why the graph can't be
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
        on_cpu = {
            node.index: _on_cpu(model, graph, node)
            for node in computing_nodes(graph)
            if node.device is Device.CPU and not prepared.has_tasks(node.index)
        }
    except ModelError as error:
        return _not_computed(model, graph, str(error))
    found = [EDGE] * len(graph.nodes)
    for node in computing_nodes(graph):
        if prepared.has_tasks(node.index):
            found[node.index] = prepared.runs_on(node.index)
        elif node.index in on_cpu:
            found[node.index] = on_cpu[node.index]
    kernels = [
        {KernelKind.COPIES: 1}
        if on_cpu.get(node.index) == KERNELS
        else prepared.kernels_of(node.index)
        for node in graph.nodes
    ]
    named = tuple({kind.value: count for kind, count in each.items()} for each in kernels)
    return Runners(tuple(found), named, _on_boards(model, graph))


def _on_cpu(model: CompiledModel, graph: Graph, node: Node) -> str:
    if is_foreign(node):
        return "custom operator"
    return prepare_cpu_node(model, graph, node, in_session=_not_opened).runs_on


def _not_opened(*_: object) -> Compute:
    """In the place of a session: who only looks at a file needs no ONNX Runtime."""

    def compute(_: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        raise AssertionError("nothing is computed of a file that is looked at")

    return compute


def _not_computed(model: CompiledModel, graph: Graph, problem: str) -> Runners:
    count = len(graph.nodes)
    return Runners((EDGE,) * count, ({},) * count, _on_boards(model, graph), problem)


def _on_boards(model: CompiledModel, graph: Graph) -> tuple[Knowledge, ...]:
    return tuple(known(model, node) for node in graph.nodes)
