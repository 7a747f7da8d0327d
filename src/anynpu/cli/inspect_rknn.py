"""What `anynpu inspect` shows of a `.rknn` file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def inspect_rknn(path: str, data: bytes, *, layers: bool, as_json: bool) -> None:
    """Print a `.rknn` file's chip, versions, tensors, memory and, if asked for, layers."""
    from ..soft.formats.rknn.describe import describe

    described = describe(data, layers=layers)
    if layers and described["kind"] == "compiled":
        _add_runners(described, data)
    if as_json:
        print(json.dumps(described, indent=2))
    else:
        _print(path, len(data), described)


def _add_runners(described: Mapping[str, Any], data: bytes) -> None:
    """Say of each layer what computes it on the soft NPU, or why nothing does; what boards lack."""
    from ..soft.engines.compiled.placement import runners

    for graph, found in zip(described["graphs"], runners(data), strict=True):
        graph["problem"] = found.problem
        layers = zip(graph["layers"], found.by_node, found.on_boards, strict=True)
        for layer, runner, board in layers:
            refusal = board.refusal
            layer["runs_on"] = runner
            layer["refused_by"] = refusal.runtime if refusal else ""
            layer["refused_source"] = refusal.source if refusal else ""
            layer["board_note"] = board.note


def _print(path: str, size: int, described: Mapping[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(_facts(path, size, described))
    for number, graph in enumerate(described.get("graphs", ())):
        if len(described["graphs"]) > 1:
            console.print(f"\ngraph {number}")
        console.print(_tensors("Inputs", graph["inputs"]))
        console.print(_tensors("Outputs", graph["outputs"]))
        if "layers" in graph:
            console.print(_layers(graph["layers"]))
            for line in _about_boards(graph["layers"]):
                console.print(line, markup=False)
        if graph.get("problem"):
            console.print(f"The soft NPU can't run this graph: {graph['problem']}", markup=False)
    if "tensors" in described:
        console.print(_soft_tensors(described["tensors"]))


def _facts(path: str, size: int, described: Mapping[str, Any]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in _rows(path, size, described):
        table.add_row(name, escape(str(value)))
    return table


def _rows(path: str, size: int, described: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    yield "file", f"{path} ({size} bytes)"
    if described["kind"] == "soft":
        yield "kind", "soft: an ONNX file for the soft NPU; boards refuse it"
        yield "chip", described["target"]
        yield "made by", described["toolkit"]
        yield "ONNX file", f"{described['onnx']['size']} bytes"
        return
    memory = described["memory"]
    yield "kind", f"compiled, container {described['container']:#x}, format {described['format']}"
    yield "chip", f"{described['target']} ({described['npu']})"
    yield "toolkit", described["compiler"]
    yield "from", described["framework"]
    if described["batch"] > 1:
        yield "batch", described["batch"]
    yield "shapes", f"{len(described['graphs'])} sets" if described["dynamic"] else "static"
    yield "memory", f"weights {memory['weight']}, internal {memory['internal']} bytes"
    if described["weights_removed"]:
        yield "weights", "removed: another context shares them"
    if described["custom_string"]:
        yield "custom string", described["custom_string"]


def _tensors(title: str, tensors: Sequence[Mapping[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    headings = ("name", "dtype", "shape", "in memory", "scale", "zero point", "mean", "std")
    is_input = bool(tensors) and "mean" in tensors[0]
    for heading in headings if is_input else headings[:-2]:
        table.add_column(heading, overflow="fold")
    for tensor in tensors:
        cells = [
            tensor["name"],
            tensor["dtype"],
            _shape(tensor["shape"]),
            f"{tensor['layout']} {_shape(tensor['native_shape'])}",
            _numbers(tensor["scale"]),
            _numbers(tensor["zero_point"]),
        ]
        if is_input:
            cells += [_numbers(tensor["mean"]), _numbers(tensor["std"])]
        _add_row(table, cells)
    return table


def _layers(layers: Sequence[Mapping[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(title="Layers", title_justify="left")
    says_boards = any(map(_on_board, layers))
    headings = ("", "type", "name", "device", "tasks", "output", "runs on", "on a board")
    for heading in headings if says_boards else headings[:-1]:
        table.add_column(heading, overflow="fold")
    for layer in layers:
        shapes = " ".join(map(_shape, layer["shapes"]))
        cells = [layer["index"], layer["type"], layer["name"], layer["device"], layer["tasks"]]
        cells += [shapes, layer["runs_on"]]
        _add_row(table, [*cells, _on_board(layer)] if says_boards else cells)
    return table


def _on_board(layer: Mapping[str, Any]) -> str:
    """The table's mark of a layer that boards don't compute as it is computed here."""
    return "refused" if layer["refused_by"] else "see below" if layer["board_note"] else ""


def _about_boards(layers: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """A line for each operator that boards refuse, and for each that an old runtime lacks."""
    marked = {layer["type"]: layer for layer in layers if _on_board(layer)}
    for op_type, layer in marked.items():
        if layer["refused_by"]:
            yield (
                f"A board refuses this graph: {layer['refused_by']} doesn't compute {op_type} on "
                f"the CPU ({layer['refused_source']})."
            )
        if layer["board_note"]:
            yield f"{op_type} on the CPU: {layer['board_note']}."


def _soft_tensors(tensors: Sequence[Mapping[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("name", "shape", title="Inputs and outputs", title_justify="left")
    for tensor in tensors:
        _add_row(table, [tensor["name"], _shape(tensor["shape"])])
    return table


def _add_row(table: Table, cells: Iterable[object]) -> None:
    """A row of text that comes from a file: nothing in it is markup."""
    from rich.markup import escape

    table.add_row(*(escape(str(cell)) for cell in cells))


def _shape(shape: Iterable[object]) -> str:
    return "x".join(map(str, shape))


def _numbers(values: Sequence[float]) -> str:
    if len(values) > 4:
        return f"{len(values)} values"
    return " ".join(f"{value:g}" for value in values)
