"""What `anynpu inspect` prints of a `.nb` file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from .output import NO_KERNELS, NO_KERNELS_OF_ONNX, Report, Shown

if TYPE_CHECKING:
    from ..soft.formats.nbg import Nbg


def inspect_nbg(path: str, data: bytes, shown: Shown) -> None:
    """Print a file's description; raises `ModelError` for a damaged one."""
    from ..native import forms
    from ..soft.formats.nbg import read
    from ..soft.formats.nbg.description import describe

    model = read(data)
    if shown.kernels and model.onnx is not None:
        raise OptionError(NO_KERNELS_OF_ONNX)
    described = describe(model, layers=shown.layers)
    if model.onnx is None:
        if shown.layers or shown.macs:
            described["operations"] = _executed(model, with_kernels=shown.kernels)
        if shown.kernels:
            described["kernel_form"] = forms.running()
    elif shown.macs:
        described["work"] = _work_of_soft(model.onnx)
    if shown.as_json:
        print(json.dumps(described, indent=2))
        return
    report = Report(as_markdown=shown.as_markdown)
    report.facts(_rows(path, described))
    _show_tensors(report, "Inputs", described["inputs"])
    _show_tensors(report, "Outputs", described["outputs"])
    if shown.layers:
        _show_layers(report, described["layers"])
        if "operations" in described:
            _show_operations(report, described["operations"])
    if shown.macs:
        _show_work(report, described)


def _executed(model: Nbg, *, with_kernels: bool) -> list[dict[str, Any]]:
    from ..soft.engines.vip.description import describe_operations
    from ..soft.engines.vip.refusal import Refusal

    try:
        return describe_operations(model, with_kernels=with_kernels)
    except Refusal:
        # Of a chip whose commands nobody knows the layers are all there is to show.
        return []


def _work_of_soft(onnx: bytes) -> list[dict[str, Any]]:
    from ..soft.engines import ModelSource, load
    from .work import work_of

    program = load(ModelSource.of(onnx))
    return work_of(program.lowered(program.largest).layers)


def _rows(path: str, described: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "file", f"{path} ({described['size']} bytes)"
    if described["kind"] == "soft":
        yield "kind", "soft: an ONNX file for the soft NPU; boards refuse it"
    else:
        yield "kind", f"compiled, version {described['version']}"
    yield "network", described["name"]
    yield "NPU", f"{described['target']} ({', '.join(described['chips']) or 'not Allwinner'})"
    memory = f"pool {described['memory_pool_size']}, on chip {described['vip_sram_size']} bytes"
    yield "memory", memory
    yield "layers", f"{described['layer_count']} in {described['operation_count']} operations"
    if "onnx" in described:
        yield "ONNX file", f"{described['onnx']['size']} bytes"
    if "kernel_form" in described:
        yield "C kernels", described["kernel_form"] or NO_KERNELS


def _show_tensors(report: Report, title: str, tensors: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        [
            tensor["name"],
            "x".join(map(str, tensor["shape"])),
            tensor["format"],
            _quantization(tensor["quantization"]),
            tensor["size"],
        ]
        for tensor in tensors
    ]
    report.table(title, ("name", "shape", "format", "quantisation", "bytes"), rows, "----r")


def _quantization(described: Mapping[str, Any] | None) -> str:
    if described is None:
        return ""
    if "fixed_point_pos" in described:
        return f"fixed point {described['fixed_point_pos']}"
    return f"scale {described['scale']:.6g}, zero point {described['zero_point']}"


def _show_layers(report: Report, layers: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for number, layer in enumerate(layers):
        kinds = Counter(layer["operations"]).items()
        rows.append([number, layer["name"], ", ".join(f"{count} {kind}" for kind, count in kinds)])
    report.table("Layers", ("", "layer", "operations"), rows, "r")


def _show_operations(report: Report, operations: Sequence[Mapping[str, Any]]) -> None:
    says_kernels = any("kernel" in operation for operation in operations)
    rows = []
    for operation in operations:
        sides = [", ".join(map(_array, operation[side])) for side in ("inputs", "outputs")]
        if operation["refused"] is not None:
            sides = [f"refused: {operation['refused']}", ""]
        products = [operation[number] or "" for number in ("macs", "coefficient_bytes")]
        row = [operation["number"], operation["unit"], operation["layer"], *sides, *products]
        rows.append(row + [operation.get("kernel") or ""] * says_kernels)
    headings = ["", "unit", "layer", "reads", "writes", "MACs", "coefficients"]
    report.table("Operations", headings + ["kernel"] * says_kernels, rows, "r----rr")


def _array(array: Mapping[str, Any]) -> str:
    return f"{array['memory']} {'x'.join(map(str, array['shape']))}"


def _show_work(report: Report, described: Mapping[str, Any]) -> None:
    """What each operation costs: of a soft file by its ONNX model's layers."""
    if "work" in described:
        from .work import show_work

        show_work(report, described["work"], "Work")
        return
    rows = [
        (
            operation["unit"],
            operation["layer"],
            operation["macs"],
            operation["coefficient_bytes"],
            *(sum(array["bytes"] for array in operation[side]) for side in ("inputs", "outputs")),
        )
        for operation in described["operations"]
        if operation["refused"] is None
    ]
    totals = [sum(column) for column in zip(*(row[2:] for row in rows), strict=True)]
    written = [[*row[:2], *(f"{number:,}" for number in row[2:])] for row in rows]
    refused = len(described["operations"]) - len(rows)
    missing = f", without {refused} refused" if refused else ""
    written.append(["", f"{len(rows)} operations{missing}", *(f"{number:,}" for number in totals)])
    headings = ("unit", "layer", "MACs", "coefficients", "read", "written")
    title = "Work (coefficients as they are packed, read and written in bytes)"
    report.table(title, headings, written, "--rrrr")
