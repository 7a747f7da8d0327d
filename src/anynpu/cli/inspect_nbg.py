"""What `anynpu inspect` prints of a `.nb` file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from ..soft.formats.nbg import Nbg


def inspect_nbg(path: str, data: bytes, *, layers: bool, as_json: bool) -> None:
    """Print a file's description, as tables or as JSON; raises `ModelError` for a damaged one."""
    from ..soft.formats.nbg import read
    from ..soft.formats.nbg.description import describe

    model = read(data)
    described = describe(model, layers=layers)
    if layers and model.onnx is None:
        described["operations"] = _executed(model)
    if as_json:
        print(json.dumps(described, indent=2))
        return
    from .output import console as output

    console = output()
    console.print(_facts(path, described))
    console.print(_tensors("Inputs", described["inputs"]))
    console.print(_tensors("Outputs", described["outputs"]))
    if layers:
        console.print(_layers(described["layers"]))
        if "operations" in described:
            console.print(_operations(described["operations"]))


def _executed(model: Nbg) -> list[dict[str, Any]]:
    from ..soft.engines.vip.description import describe_operations
    from ..soft.engines.vip.refusal import Refusal

    try:
        return describe_operations(model)
    except Refusal:
        # Of a chip whose commands nobody knows the layers are all there is to show.
        return []


def _facts(path: str, described: Mapping[str, Any]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in _rows(path, described):
        table.add_row(name, escape(value))
    return table


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


def _tensors(title: str, tensors: Sequence[Mapping[str, Any]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        "name", "shape", "format", "quantisation", "bytes", title=title, title_justify="left"
    )
    for tensor in tensors:
        table.add_row(
            escape(tensor["name"]),
            "x".join(map(str, tensor["shape"])),
            tensor["format"],
            _quantization(tensor["quantization"]),
            str(tensor["size"]),
        )
    return table


def _quantization(described: Mapping[str, Any] | None) -> str:
    if described is None:
        return ""
    if "fixed_point_pos" in described:
        return f"fixed point {described['fixed_point_pos']}"
    return f"scale {described['scale']:.6g}, zero point {described['zero_point']}"


def _layers(layers: Sequence[Mapping[str, Any]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table("", "layer", "operations", title="Layers", title_justify="left")
    for number, layer in enumerate(layers):
        kinds = Counter(layer["operations"]).items()
        counted = ", ".join(f"{count} {kind}" for kind, count in kinds)
        table.add_row(str(number), escape(layer["name"]), counted)
    return table


def _operations(operations: Sequence[Mapping[str, Any]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        "", "unit", "layer", "reads", "writes", "MACs", "coefficients",
        title="Operations", title_justify="left",
    )  # fmt: skip
    for operation in operations:
        sides = [", ".join(map(_array, operation[side])) for side in ("inputs", "outputs")]
        if operation["refused"] is not None:
            sides = [f"refused: {operation['refused']}", ""]
        table.add_row(
            str(operation["number"]),
            operation["unit"],
            escape(operation["layer"]),
            *map(escape, sides),
            str(operation["macs"] or ""),
            str(operation["coefficient_bytes"] or ""),
        )
    return table


def _array(array: Mapping[str, Any]) -> str:
    return f"{array['memory']} {'x'.join(map(str, array['shape']))}"
