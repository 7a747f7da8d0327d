"""The text of RKNN_QUERY_PERF_DETAIL: one table of layers, one of operator types.

Tools parse the vendor's text by its words and columns, so ours has the same ones; the title says
whose clock the times are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..engines import Port
from .contexts import Context
from .perf_row import NOTHING, Row, shape_text
from .timing import clock

_RULE = "-" * 222
_SHORT_RULE = "-" * 99
_TITLE = "Network Layer Information Table"
_WIDTHS = {"DataType": 9, "Target": 7, "InputShape": 41, "OutputShape": 23}
_WIDTHS |= {"Cycles(DDR/NPU/Total)": 25, "Time(us)": 13, "MacUsage(%)": 21}
_WIDTHS |= {"WorkLoad(0/1/2)": 21, "RW(KB)": 13, "FullName": 16}
_RANKING_WIDTHS = {"CallNumber": 13, "CPUTime(us)": 13, "GPUTime(us)": 13, "NPUTime(us)": 13}
_RANKING_WIDTHS |= {"TotalTime(us)": 15, "TimeRatio(%)": 14}


def table(ctx: Context) -> str:
    """The times of the last run of a context, layer by layer and by operator type."""
    shapes = ctx.shapes
    layers = clock().layers(ctx)
    rows = [
        *(_edge("InputOperator", port, is_input=True) for port in shapes.inputs),
        *layers,
        *(_edge("OutputOperator", port, is_input=False) for port in shapes.outputs),
    ]
    return "\n".join((*_layers(rows, ctx), *_ranking(rows))) + "\n"


def _edge(op_type: str, port: Port, *, is_input: bool) -> Row:
    shape = shape_text([port.shape])
    return Row(
        op_type,
        port.name,
        port.dtype.name,
        "CPU",
        NOTHING if is_input else shape,
        shape if is_input else NOTHING,
        0,
        port.dtype.size_of(port.elements) / 1024,
    )


def _layers(rows: Sequence[Row], ctx: Context) -> Iterable[str]:
    widths = {"ID": 5, "OpType": _type_width(rows), **_WIDTHS}
    workload = _workload(ctx)
    title = f"{_TITLE} ({clock().description})"
    yield from (_RULE, title.center(len(_RULE)), _RULE, _line(widths, widths), _RULE)
    for number, row in enumerate(rows, 1):
        is_layer = row.target == "NPU"
        values = (
            number, row.op_type, row.dtype, row.target, row.inputs, row.output, row.cycles,
            row.microseconds, row.mac_usage, workload if is_layer else "0.0%/0.0%/0.0%",
            f"{row.kilobytes:g}" if row.kilobytes < 10 else round(row.kilobytes),
            f"{row.op_type}:{row.name}",
        )  # fmt: skip
        yield _line(widths, values)
    yield _RULE
    yield f"Total Operator Elapsed Per Frame Time(us): {sum(row.microseconds for row in rows)}"
    yield (
        "Total Memory Read/Write Per Frame Size(KB): "
        f"{math.ceil(sum(row.kilobytes for row in rows))}"
    )
    yield _RULE


def _ranking(rows: Sequence[Row]) -> Iterable[str]:
    widths = {"OpType": _type_width(rows), **_RANKING_WIDTHS}
    total = sum(row.microseconds for row in rows)
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        kinds.setdefault(row.op_type, []).append(row)
    yield from (_SHORT_RULE, "Operator Time Consuming Ranking Table".center(len(_SHORT_RULE)))
    yield from (_SHORT_RULE, _line(widths, widths), _SHORT_RULE)
    order = sorted(kinds, key=lambda kind: -sum(row.microseconds for row in kinds[kind]))
    for kind in order:
        spent = sum(row.microseconds for row in kinds[kind])
        on_npu = kinds[kind][0].target == "NPU"
        share = f"{100 * spent / total:.2f}%" if total else "0.00%"
        cpu, npu = (0, spent) if on_npu else (spent, 0)
        yield _line(widths, (kind, len(kinds[kind]), cpu, 0, npu, spent, share))
    yield _SHORT_RULE
    on_npu_total = sum(row.microseconds for row in rows if row.target == "NPU")
    yield _line(widths, ("Total", "", total - on_npu_total, 0, on_npu_total, total, ""))
    yield _SHORT_RULE


def _type_width(rows: Sequence[Row]) -> int:
    return max(len(row.op_type) for row in rows) + 3


def _line(widths: dict[str, int], values: Iterable[object]) -> str:
    return "".join(
        f"{value!s:<{width - 1}} " for value, width in zip(values, widths.values(), strict=True)
    )


def _workload(ctx: Context) -> str:
    """How the work of a layer is spread over three cores, as the context's choice says."""
    cores = ctx.last_cores or frozenset({0})
    share = 100 / len(cores)
    return "/".join(f"{share if core in cores else 0:.1f}%" for core in range(3))
