"""What may differ from the vendor's runtime: rows of data, each with its reason.

A table's rows are in a file of data/, tab-separated: the table's own columns, the places where the
difference is, and the name of a reason in `reasons.py`. A row that nothing is found for any more is
as wrong as a difference without a row. Places of one difference that have different reasons are in
rows of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .reasons import REASONS

DATA = Path(__file__).with_name("data")
UNEXPLAINED = "?"

Key = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """One difference: `key` says which, `places` where it was seen."""

    key: Key
    places: tuple[str, ...]
    reason: str = UNEXPLAINED


class Table:
    """The differences that are known. `columns` name the parts of a key."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        self.name = name
        self.columns = tuple(columns)

    @property
    def _path(self) -> Path:
        return DATA / f"{self.name}.tsv"

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

    def explained(self, found: Iterable[Row]) -> list[Row]:
        """What was found, with the reasons that the file has; a row for each reason."""
        known = self._reasons()
        rows: dict[tuple[Key, str], list[str]] = {}
        for row in found:
            for place in row.places:
                reason = known.get((row.key, place), row.reason)
                rows.setdefault((row.key, reason), []).append(place)
        return [Row(key, tuple(places), reason) for (key, reason), places in rows.items()]

    def _reasons(self) -> Mapping[tuple[Key, str], str]:
        return {(row.key, place): row.reason for row in self.rows() for place in row.places}

    def write(self, found: Iterable[Row]) -> None:
        """Write what was found, with the reasons that places have already."""
        rows = self.explained(found)
        lines = ["\t".join((*self.columns, "where", "reason"))]
        lines += ["\t".join((*row.key, "; ".join(row.places), row.reason)) for row in rows]
        DATA.mkdir(exist_ok=True)
        self._path.write_text("\n".join(lines) + "\n")

    def problems(self, found: Sequence[Row], *, is_whole: bool = True) -> list[str]:
        """What is found and not listed, listed and not found, or without a reason.

        Unless it is whole, what was found is a part: what is listed need not be found.
        """
        known = self._reasons()
        seen = {(row.key, place) for row in found for place in row.places}
        problems = []
        for row in found:
            if new := [place for place in row.places if (row.key, place) not in known]:
                problems.append(f"not listed: {_text(Row(row.key, tuple(new)))}")
        for row in self.rows():
            if row.reason not in REASONS:
                problems.append(f"without a reason: {_text(row)}")
            gone = [place for place in row.places if (row.key, place) not in seen]
            if gone and is_whole:
                problems.append(f"no longer found: {_text(Row(row.key, tuple(gone)))}")
        return problems

    def report(self, found: Sequence[Row], *, is_whole: bool = True) -> int:
        """Print the problems; the status for a program that ends with them."""
        problems = self.problems(found, is_whole=is_whole)
        for problem in problems:
            print(problem, file=sys.stderr)
        return bool(problems)

    def text(self, found: Sequence[Row]) -> str:
        """What was found, by its reasons."""
        by_reason: dict[str, list[Row]] = {}
        for row in self.explained(found):
            by_reason.setdefault(row.reason, []).append(row)
        lines = []
        for reason, rows in by_reason.items():
            lines += ["", REASONS.get(reason, "WITHOUT A REASON")]
            lines += [f"  {_text(row)}" for row in rows]
        return "\n".join(lines)


def _text(row: Row) -> str:
    return " | ".join((*row.key, _short(row.places)))


def _short(places: Sequence[str], most: int = 4) -> str:
    rest = len(places) - most
    return "; ".join(places[:most]) + (f"; and {rest} more" if rest > 0 else "")
