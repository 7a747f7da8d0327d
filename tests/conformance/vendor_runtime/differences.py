"""What may differ from the vendor's runtime: rows of data, each with its reason.

A table's rows are in a file of data/, tab-separated: the table's own columns, then the name of a
reason in `reasons.py`. A row that nothing is found for any more is as wrong as a difference
without a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .reasons import REASONS

DATA = Path(__file__).with_name("data")
UNEXPLAINED = "?"


@dataclass(frozen=True)
class Row:
    """One difference: `key` says which, `places` where it was seen."""

    key: tuple[str, ...]
    places: tuple[str, ...]
    reason: str = UNEXPLAINED


class Table:
    """The differences that are known. `columns` name the parts of a key."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        self.name = name
        self.columns = tuple(columns)
        self._path = DATA / f"{name}.tsv"

    def rows(self) -> list[Row]:
        """What the file has; none where it isn't there."""
        if not self._path.is_file():
            return []
        lines = self._path.read_text().splitlines()[1:]
        return [self._row(line.split("\t")) for line in lines]

    def _row(self, cells: Sequence[str]) -> Row:
        *key, places, reason = cells
        if len(key) != len(self.columns):
            raise ValueError(f"{self._path}: {len(cells)} cells in the row {cells}")
        return Row(tuple(key), tuple(places.split("; ")), reason)

    def write(self, found: Iterable[Row]) -> None:
        """Write what was found, with the reasons that rows have already."""
        known = {row.key: row.reason for row in self.rows()}
        lines = ["\t".join((*self.columns, "where", "reason"))]
        for row in found:
            reason = known.get(row.key, row.reason)
            lines.append("\t".join((*row.key, "; ".join(row.places), reason)))
        DATA.mkdir(exist_ok=True)
        self._path.write_text("\n".join(lines) + "\n")

    def problems(self, found: Sequence[Row], *, is_whole: bool = True) -> list[str]:
        """What is found and not listed, listed and not found, or without a reason.

        Unless it is whole, what was found is a part: rows without a difference are no problem, and
        places may be fewer.
        """
        listed = {row.key: row for row in self.rows()}
        seen = {row.key: row for row in found}
        problems = [f"not listed: {_text(row)}" for row in found if row.key not in listed]
        for key, row in listed.items():
            if row.reason not in REASONS:
                problems.append(f"without a reason: {_text(row)}")
            if key not in seen:
                problems += [f"no longer found: {_text(row)}"] if is_whole else []
                continue
            here, there = set(seen[key].places), set(row.places)
            if here - there:
                problems.append(f"not listed for {sorted(here - there)}: {_text(row)}")
            if is_whole and there - here:
                problems.append(f"no longer for {sorted(there - here)}: {_text(row)}")
        return problems


def _text(row: Row) -> str:
    return " | ".join((*row.key, _short(row.places)))


def _short(places: Sequence[str], most: int = 4) -> str:
    rest = len(places) - most
    return "; ".join(places[:most]) + (f"; and {rest} more" if rest > 0 else "")


def printed(table: Table, found: Sequence[Row]) -> str:
    """The table as text: rows by their reasons, with the places."""
    listed = {row.key: row.reason for row in table.rows()}
    by_reason: dict[str, list[Row]] = {}
    for row in found:
        by_reason.setdefault(listed.get(row.key, UNEXPLAINED), []).append(row)
    lines = []
    for reason, rows in by_reason.items():
        lines += ["", REASONS.get(reason, "WITHOUT A REASON")]
        lines += [f"  {_text(row)}" for row in rows]
    return "\n".join(lines)
