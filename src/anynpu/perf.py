"""The times of a network's layers, read from the runtime's own table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .errors import ModelError

_HEADER = re.compile(r"^ID\s+OpType\s")


@dataclass(frozen=True)
class LayerRow:
    """One layer: its operator, its ONNX name, where it ran and how long.

    `input_shapes` and `output_shape` are the runtime's text. `read_write_kilobytes` is None where
    the runtime doesn't say.
    """

    number: int
    op_type: str
    name: str
    dtype: str
    target: str
    input_shapes: str
    output_shape: str
    microseconds: int
    read_write_kilobytes: float | None


@dataclass(frozen=True)
class LayerTable:
    """The layers in the order in which they ran; `title` says whose clock the times are."""

    title: str
    rows: tuple[LayerRow, ...]
    text: str

    @property
    def microseconds(self) -> int:
        """All layers together."""
        return sum(row.microseconds for row in self.rows)

    def __iter__(self) -> Iterator[LayerRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self.text


def parse_perf_detail(text: str) -> LayerTable:
    """Read RKNN_QUERY_PERF_DETAIL's text by the columns that its header names.

    Columns that a version of the runtime doesn't have are left empty. Raises `ModelError` for a
    text without the table.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        raise ModelError(
            f"the runtime's text has no table of layers; it takes a context with "
            f"COLLECT_PERF_MASK (profile=True): {text[:200]!r}"
        )
    title = next((line.strip() for line in lines[:start] if "Information" in line), "")
    columns = _columns(lines[start])
    rows: list[LayerRow] = []
    for line in lines[start + 1 :]:
        if line.startswith("---"):
            if rows:
                break
            continue
        rows.append(_row({name: line[begin:end].strip() for name, (begin, end) in columns.items()}))
    return LayerTable(title, tuple(rows), text)


def _columns(header: str) -> dict[str, tuple[int, int | None]]:
    """Where each column begins and ends; the last one has no end."""
    starts = [match.start() for match in re.finditer(r"\S+", header)]
    ends: list[int | None] = [*starts[1:], None]
    return {
        header[begin:end].strip(): (begin, end) for begin, end in zip(starts, ends, strict=True)
    }


def _row(cells: dict[str, str]) -> LayerRow:
    size = cells.get("RW(KB)", "")
    full_name = cells.get("FullName", "")
    return LayerRow(
        number=int(cells.get("ID") or 0),
        op_type=cells.get("OpType", ""),
        name=full_name.partition(":")[2] or full_name,
        dtype=cells.get("DataType", ""),
        target=cells.get("Target", ""),
        input_shapes=cells.get("InputShape", ""),
        output_shape=cells.get("OutputShape", ""),
        microseconds=int(cells.get("Time(us)") or 0),
        read_write_kilobytes=float(size) if re.fullmatch(r"[\d.]+", size) else None,
    )
