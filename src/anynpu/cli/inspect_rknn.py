"""What `anynpu inspect` shows of a `.rknn` file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .output import NO_KERNELS, Report, Shown
from .work import show_work, work_of


def inspect_rknn(path: str, data: bytes, shown: Shown) -> None:
    """Print a compiled file's chip, versions, tensors, memory, and layers if asked for."""
    from ..soft.formats.rknn.describe import describe

    described = describe(data, layers=shown.layers)
    if shown.layers:
        _add_runners(described, data, with_kernels=shown.kernels)
    if shown.macs:
        _add_work(described, data)
    if shown.as_json:
        print(json.dumps(described, indent=2))
    else:
        _print(path, len(data), described, Report(as_markdown=shown.as_markdown))


def _add_work(described: Mapping[str, Any], data: bytes) -> None:
    from ..soft.engines import ModelSource, load

    program = load(ModelSource.of(data))
    for number, graph in enumerate(described["graphs"]):
        graph["work"] = work_of(program.lowered(number).layers)


def _add_runners(described: dict[str, Any], data: bytes, *, with_kernels: bool) -> None:
    """Say of each layer what computes it on the soft NPU, or why nothing does; what boards lack."""
    from ..native import forms
    from ..soft.engines.compiled.placement import runners

    if with_kernels:
        described["kernel_form"] = forms.running()

    for graph, found in zip(described["graphs"], runners(data), strict=True):
        graph["problem"] = found.problem
        layers = zip(graph["layers"], found.by_node, found.kernels, found.on_boards, strict=True)
        for layer, runner, kernels, board in layers:
            if with_kernels:
                layer["kernels"] = dict(kernels)
            refusal = board.refusal
            layer["runs_on"] = runner
            layer["refused_by"] = refusal.runtime if refusal else ""
            layer["refused_source"] = refusal.source if refusal else ""
            layer["board_note"] = board.note


def _print(path: str, size: int, described: Mapping[str, Any], report: Report) -> None:
    report.facts(_rows(path, size, described))
    for number, graph in enumerate(described["graphs"]):
        if len(described["graphs"]) > 1:
            report.line(f"\ngraph {number}")
        _show_tensors(report, "Inputs", graph["inputs"])
        _show_tensors(report, "Outputs", graph["outputs"])
        _show_operators(report, graph["operators"])
        if "layers" in graph:
            _show_layers(report, graph["layers"])
            for line in _about_boards(graph["layers"]):
                report.line(line)
        if "work" in graph:
            show_work(report, graph["work"], "Work")
        if graph.get("problem"):
            report.line(f"The soft NPU can't run this graph: {graph['problem']}")


def _rows(path: str, size: int, described: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    yield "file", f"{path} ({size} bytes)"
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
    if "kernel_form" in described:
        yield "C kernels", described["kernel_form"] or NO_KERNELS


def _show_tensors(report: Report, title: str, tensors: Sequence[Mapping[str, Any]]) -> None:
    headings = ("name", "dtype", "shape", "in memory", "scale", "zero point", "mean", "std")
    is_input = bool(tensors) and "mean" in tensors[0]
    rows = [
        [
            tensor["name"],
            tensor["dtype"],
            _shape(tensor["shape"]),
            f"{tensor['layout']} {_shape(tensor['native_shape'])}",
            _numbers(tensor["scale"]),
            _numbers(tensor["zero_point"]),
            *([_numbers(tensor["mean"]), _numbers(tensor["std"])] if is_input else []),
        ]
        for tensor in tensors
    ]
    report.table(title, headings if is_input else headings[:-2], rows)


def _show_operators(report: Report, operators: Mapping[str, Mapping[str, int]]) -> None:
    """How many of each operator there are, by what runs them on a board."""
    rows = [
        (count, op_type, device)
        for device, counts in operators.items()
        for op_type, count in sorted(counts.items(), key=lambda entry: -entry[1])
    ]
    report.table("Operators", ("count", "type", "device"), rows, "r")


def _show_layers(report: Report, layers: Sequence[Mapping[str, Any]]) -> None:
    says_boards = any(map(_on_board, layers))
    says_kernels = any("kernels" in layer for layer in layers)
    headings = ["", "type", "name", "device", "tasks", "output", "runs on"]
    headings += ["kernels"] * says_kernels + ["on a board"] * says_boards
    rows = []
    for layer in layers:
        shapes = " ".join(map(_shape, layer["shapes"]))
        cells = [layer["index"], layer["type"], layer["name"], layer["device"], layer["tasks"]]
        cells += [shapes, layer["runs_on"]]
        cells += [_kernels(layer["kernels"])] if says_kernels else []
        rows.append([*cells, _on_board(layer)] if says_boards else cells)
    report.table("Layers", headings, rows)


def _kernels(counts: Mapping[str, int]) -> str:
    """Which kernels run a layer's tasks; how many each, where several do."""
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{kind} {count}" for kind, count in counts.items())


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


def _shape(shape: Iterable[object]) -> str:
    return "x".join(map(str, shape))


def _numbers(values: Sequence[float]) -> str:
    if len(values) > 4:
        return f"{len(values)} values"
    return " ".join(f"{value:g}" for value in values)
