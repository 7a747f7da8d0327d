"""What each layer of a network costs, whatever computes it: products, weights, traffic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .output import Report

if TYPE_CHECKING:
    from ..soft.engines import Layer


def work_of(layers: Iterable[Layer]) -> list[dict[str, Any]]:
    """Each layer in plain values; `macs` are multiply-accumulates."""
    return [
        {
            "name": layer.name,
            "type": layer.op_type,
            "device": "CPU" if layer.on_cpu else "NPU",
            "dtype": layer.dtype.name.lower(),
            "output": list(layer.output),
            "macs": layer.macs,
            "weight_bytes": layer.weight_bytes,
            "read_bytes": layer.read_bytes,
            "written_bytes": layer.written_bytes,
        }
        for layer in layers
    ]


def show_work(report: Report, layers: Sequence[Mapping[str, Any]], title: str = "Layers") -> None:
    """A row a layer, and their sum."""
    numbers = ("macs", "weight_bytes", "read_bytes", "written_bytes")
    headings = ("type", "name", "device", "dtype", "output", "MACs", "weights", "read", "written")
    rows = [
        [
            layer["type"],
            layer["name"],
            layer["device"],
            layer["dtype"],
            "x".join(map(str, layer["output"])),
            *(f"{layer[number]:,}" for number in numbers),
        ]
        for layer in layers
    ]
    totals = [f"{sum(layer[number] for layer in layers):,}" for number in numbers]
    rows.append(["", f"{len(layers)} layers", "", "", "", *totals])
    report.table(f"{title} (weights, read and written in bytes)", headings, rows, "-----rrrr")
