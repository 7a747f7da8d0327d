"""The times of a network's layers, read from the runtime's own table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .errors import ModelError

_HEADER = r"^ID\s+OpType\s.*Time\(us\)"
_TOTAL = r"Total Operator Elapsed .*Time\(us\):\s*(\d+)\s*$"
_LOG_PREFIX = r"^[EWID] RKNN: \[[\d:.]+\] "
_COLUMN = r"(?:DDR|NPU|Total|Max) Cycles|(?:Task|Lut) Number|\S+"
"""The names of columns; some have two words."""

_SHAPES = r"\\|\([^()\s]*\)(?:,\([^()\s]*\))*(?:,\.\.\.)?"
_NUMBERS = r"[\d.]+(?:/[\d.]+)*"
_CELLS = {
    "ID": r"\d+",
    "InputShape": _SHAPES,
    "OutputShape": _SHAPES,
    "Time(us)": r"\d+",
    "MacUsage": rf"\\|{_NUMBERS}",
    "WorkLoad": r"[\d.]+%(?:/[\d.]+%)*(?: - Up:[\d.]+%)?",
    "RW": rf"\\|{_NUMBERS}",
    "FullName": r".*?",
}
"""By how a column's name begins, what its cells look like; cells of others are one word."""

_GROUPS = {
    "ID": "number",
    "OpType": "op_type",
    "DataType": "dtype",
    "Target": "target",
    "InputShape": "input_shapes",
    "OutputShape": "output_shape",
    "Time(us)": "microseconds",
    "RW(KB)": "size",
    "FullName": "name",
}


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
    """Read RKNN_QUERY_PERF_DETAIL's text, of librknnrt 1.5 and 2.x, or of a log that has it.

    Each row is read cell by cell, by what a cell of its column looks like; columns are those that
    the header names, however wide. Columns that a version doesn't have are left empty. Raises
    `ModelError` for a text without the table, for a row that doesn't fit it, and where the rows'
    times don't make the total that the text states.
    """
    lines = [re.sub(_LOG_PREFIX, "", line) for line in text.splitlines()]
    start = next((n for n, line in enumerate(lines) if re.match(_HEADER, line)), None)
    if start is None:
        raise ModelError(
            f"the runtime's text has no table of layers; it takes a context with "
            f"COLLECT_PERF_MASK (profile=True): {text[:200]!r}"
        )
    title = next((line.strip() for line in lines[:start] if "Information" in line), "")
    row = _row_pattern(lines[start])
    rows: list[LayerRow] = []
    rest = iter(lines[start + 1 :])
    for line in rest:
        if line.startswith("---"):
            if rows:
                break
        elif total := re.match(_TOTAL, line):
            return _checked(LayerTable(title, tuple(rows), text), int(total.group(1)))
        elif line.strip():
            rows.append(_row(line, row))
    totals = (re.match(_TOTAL, line) for line in rest)
    found = next((match for match in totals if match), None)
    if found is None:
        raise ModelError(
            f"the runtime's table of layers breaks off after {len(rows)} rows: no total follows"
        )
    return _checked(LayerTable(title, tuple(rows), text), int(found.group(1)))


def _checked(table: LayerTable, total: int) -> LayerTable:
    # Each row's time is rounded to whole microseconds.
    if abs(table.microseconds - total) > len(table):
        raise ModelError(
            f"the {len(table)} layers of the runtime's table take {table.microseconds} us "
            f"together, but it states a total of {total} us"
        )
    return table


def _row_pattern(header: str) -> re.Pattern[str]:
    """What a row looks like under a header."""
    parts: list[str] = []
    for name in re.findall(_COLUMN, header):
        parts.append(_cell(name))
        # A list of shapes that is wider than its column may touch the next one.
        parts.append(r"\s*" if name.endswith("Shape") else r"\s+")
    return re.compile(r"\s*" + "".join(parts[:-1]) + r"\s*")


def _cell(name: str) -> str:
    pattern = next((p for start, p in _CELLS.items() if name.startswith(start)), r"\S+")
    group = _GROUPS.get(name)
    return f"(?P<{group}>{pattern})" if group else f"(?:{pattern})"


def _row(line: str, pattern: re.Pattern[str]) -> LayerRow:
    match = pattern.fullmatch(line) or pattern.fullmatch(line + " ")
    if match is None:
        raise ModelError(f"a row of the runtime's table of layers can't be read: {line!r}")
    cells = match.groupdict(default="")
    full_name = cells.get("name", "").strip()
    size = cells.get("size", "")
    return LayerRow(
        number=int(cells["number"]),
        op_type=cells.get("op_type", ""),
        name=full_name.partition(":")[2] or full_name,
        dtype=cells.get("dtype", ""),
        target=cells.get("target", ""),
        input_shapes=cells.get("input_shapes", ""),
        output_shape=cells.get("output_shape", ""),
        microseconds=int(cells["microseconds"]),
        read_write_kilobytes=float(size) if re.fullmatch(r"[\d.]+", size) else None,
    )
