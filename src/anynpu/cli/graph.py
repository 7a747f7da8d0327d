"""A network's graph as a picture: nodes by what runs them, from the inputs down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import ModelError
from . import extras

if TYPE_CHECKING:
    import networkx as nx

    from ..soft.formats.nbg import Nbg, Tensor

_COLOURS = {
    "NPU": "#a9d6e5", "CPU": "#ffd6a5", "edge": "#d8f3dc", "none": "#eeeeee", "": "#a9d6e5",
    "SP": "#cdb4db", "TP": "#fdfcdc", "shader": "#ffafcc",
}  # fmt: skip
"""By what computes a node; units of a VIP that have no colour of their own are its NN core."""
_ACROSS, _DOWN = 2.6, 0.9
_MOST_NODES = 3000


@dataclass(frozen=True)
class GraphNode:
    """An operator: what a picture says of it, and the tensors that it reads and writes."""

    label: str
    device: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def draw_graph(path: str, data: bytes, picture: str) -> None:
    """Draw a model's first graph to a file whose suffix is its format.

    Raises `ModelError` for a `.nb` file with an operation that isn't known, and for a graph that is
    too large to look at.
    """
    extras.require("graph")
    nodes = _nodes(path, data)
    if len(nodes) > _MOST_NODES:
        raise ModelError(f"{path} has {len(nodes)} nodes: more than a picture can show")
    _draw(_network(nodes), picture)


def _nodes(path: str, data: bytes) -> list[GraphNode]:
    from ..soft.formats import nbg, rknn

    if nbg.is_nbg(data):
        model = nbg.read(data)
        return _nbg_nodes(model) if model.onnx is None else _onnx_nodes(bytes(model.onnx))
    if rknn.is_compiled(data):
        from ..soft.formats.rknn.describe import describe

        layers = describe(data, layers=True)["graphs"][0]["layers"]
        return [
            GraphNode(
                _label(layer["type"], layer["name"], layer["shapes"]),
                layer["device"],
                tuple(layer["inputs"]),
                tuple(layer["outputs"]),
            )
            for layer in layers
        ]
    return _onnx_nodes(rknn.read(data).onnx or b"" if rknn.is_rknn(data) else data)


def _nbg_nodes(model: Nbg) -> list[GraphNode]:
    """A compiled file's layers; who reads whose results is known by the bytes of memory."""
    from ..soft.engines.vip.dataflow import dataflow
    from ..soft.engines.vip.layers import layers_of
    from ..soft.engines.vip.prepare import prepare

    prepared = prepare(model)
    flow = dataflow(prepared.layout, prepared.tasks)
    layers = layers_of(model, prepared)
    members = layers.members
    layer_of = [layer for layer, count in enumerate(members) for _ in range(count)]

    def names(sources: Iterable[int], own: int | None = None) -> set[str]:
        layers = {layer_of[number] for number in sources if number >= 0} - {own}
        return {str(layer) for layer in layers} | {
            f"input {-1 - number}" for number in sources if number < 0
        }

    reads: list[set[str]] = [set() for _ in members]
    for layer, sources in zip(layer_of, flow.reads, strict=True):
        reads[layer] |= names(sources, layer)
    nodes = [
        _edge_node("input", tensor, (), (f"input {number}",))
        for number, tensor in enumerate(model.inputs)
    ]
    for number, described in enumerate(layers.lowered().layers):
        unit = described.op_type
        label = _label(unit, described.name, [_sizes(described.output)])
        nodes.append(GraphNode(label, unit, tuple(sorted(reads[number])), (str(number),)))
    nodes += [
        _edge_node("output", tensor, tuple(sorted(names(sources))), ())
        for tensor, sources in zip(model.outputs, flow.outputs, strict=True)
    ]
    return nodes


def _edge_node(
    kind: str, tensor: Tensor, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> GraphNode:
    return GraphNode(_label(kind, tensor.name, [tensor.shape]), "edge", inputs, outputs)


def _sizes(shape: Iterable[int]) -> list[int]:
    """Without sizes of one, which windows of memory have between the others."""
    return [size for size in shape if size != 1] or [1]


def _onnx_nodes(data: bytes) -> list[GraphNode]:
    import onnx

    model = onnx.load_from_string(data)
    weights = {tensor.name for tensor in model.graph.initializer}
    found = [
        GraphNode(f"input\n{info.name}", "edge", (), (info.name,))
        for info in model.graph.input
        if info.name not in weights
    ]
    found += [
        GraphNode(_label(node.op_type, node.name, []), "", tuple(node.input), tuple(node.output))
        for node in model.graph.node
    ]
    return [
        *found,
        *(
            GraphNode(f"output\n{info.name}", "edge", (info.name,), ())
            for info in model.graph.output
        ),
    ]


def _label(op_type: str, name: str, shapes: Iterable[Iterable[int]]) -> str:
    sizes = " ".join("x".join(map(str, shape)) for shape in shapes)
    short = name if len(name) <= _LONGEST else f"...{name[-_LONGEST:]}"
    return "\n".join(part for part in (op_type, short, sizes) if part)


_LONGEST = 28


def _network(nodes: list[GraphNode]) -> nx.DiGraph[int]:
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    writers: dict[str, int] = {}
    for number, node in enumerate(nodes):
        graph.add_node(number, node=node)
        for name in node.inputs:
            if name in writers:
                graph.add_edge(writers[name], number)
        writers |= dict.fromkeys(filter(None, node.outputs), number)
    return graph


def _places(graph: nx.DiGraph[int]) -> dict[int, tuple[float, float]]:
    """Rows by the longest way from an input; in a row, by where what is read lies."""
    import networkx as nx

    places: dict[int, tuple[float, float]] = {}
    for row, numbers in enumerate(nx.topological_generations(graph)):
        wished = {number: _wish(graph, number, places) for number in numbers}
        taken = sorted(numbers, key=lambda number: (wished[number], number))
        middle = sum(wished.values()) / len(taken)
        for place, number in enumerate(taken):
            x = middle + (place - (len(taken) - 1) / 2) * _ACROSS
            places[number] = (x, -row * _DOWN)
    return places


def _wish(graph: nx.DiGraph[int], number: int, places: dict[int, tuple[float, float]]) -> float:
    above = [places[each][0] for each in graph.predecessors(number)]
    return sum(above) / len(above) if above else 0.0


def _colour(device: str) -> str:
    return _COLOURS.get(device, _COLOURS["NPU"])


def _draw(graph: nx.DiGraph[int], picture: str) -> None:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    from .plots import save

    places = _places(graph)
    across = [x for x, _ in places.values()]
    down = [y for _, y in places.values()]
    width, height = max(across) - min(across) + _ACROSS, max(down) - min(down) + 2 * _DOWN
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(min(across) - _ACROSS / 2, max(across) + _ACROSS / 2)
    axes.set_ylim(min(down) - _DOWN, max(down) + _DOWN)
    for source, target in graph.edges:
        axes.annotate("", places[target], places[source], arrowprops=_ARROW, zorder=1)
    devices = set()
    for number, (x, y) in places.items():
        node: GraphNode = graph.nodes[number]["node"]
        devices.add(node.device)
        box = {"boxstyle": "round", "facecolor": _colour(node.device), "edgecolor": "#555555"}
        axes.text(x, y, node.label, ha="center", va="center", fontsize=6, bbox=box, zorder=2)
    named = [Patch(color=_colour(device), label=device) for device in sorted(devices) if device]
    if named:
        axes.legend(handles=named, loc="upper left", fontsize=7, frameon=False)
    save(figure, picture)


_ARROW: dict[str, Any] = {
    "arrowstyle": "-|>", "color": "#888888", "linewidth": 0.8, "shrinkA": 8, "shrinkB": 16,
}  # fmt: skip
