"""Table 2: what the queries tell of every compiled sample.

    python -m tests.conformance.vendor_runtime.attributes [--write]

Every field of every attribute is compared, and the sizes of memory. ``--write`` takes what was
found into data/.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import samples
from .board import VendorBoard
from .differences import Row, Table
from .walks import Answer, Side, SoftSide, VendorSide, answers

CHIPS = ("rk3588", "rk3566")
SECTION = "attributes"
TABLE = Table("attributes", ("chip", "query", "what"))
_AT_ONCE = 20
_CODE = "code"


@dataclass
class Comparison:
    """What both libraries tell: `files` were compared, `same` counts fields, `values` differ."""

    files: int = 0
    same: int = 0
    values: dict[tuple[str, str, str], dict[str, tuple[str, str]]] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        return [Row(key, tuple(places)) for key, places in self.values.items()]

    def add(self, chip: str, file: str, vendor: Sequence[Answer], soft: Sequence[Answer]) -> None:
        """Compare one file's answers, call by call and field by field."""
        self.files += 1
        mine, yours = _fields(vendor), _fields(soft)
        for query in (query for query in mine if query in yours):
            one, other = mine[query], yours[query]
            # Where a call fails there is nothing else to compare.
            whats = one if one[_CODE] == other[_CODE] else (_CODE,)
            for what in whats:
                values = one[what], other.get(what, "")
                self.same += values[0] == values[1]
                if values[0] != values[1]:
                    self._note(chip, file, query, what, values)

    def _note(self, chip: str, file: str, query: str, what: str, values: tuple[str, str]) -> None:
        name, _, index = query.partition("[")
        place = f"{file}[{index}" if index else file
        self.values.setdefault((chip, name, what), {})[place] = values


def _fields(found: Sequence[Answer]) -> dict[str, dict[str, str]]:
    """The values of each call by field, its code among them; what isn't a call's is its own."""
    fields: dict[str, dict[str, str]] = {}
    for answer in found:
        fields[answer.label] = {_CODE: answer.value}
        for note in answer.notes:
            what, _, text = note.partition(": ")
            owner = answer.label if answer.label.startswith(what) else what
            values = fields.setdefault(owner, {_CODE: "0"})
            for word in text.split():
                name, _, value = word.partition("=")
                values[name] = value
    return fields


def compare(folder: Path, chips: Mapping[str, Sequence[Path]]) -> Comparison:
    """Query both libraries of files by chip."""
    found = Comparison()
    for chip, files in chips.items():
        with VendorBoard(chip, computes=False) as board:
            vendor, soft = VendorSide(board, folder), SoftSide(chip, folder)
            for start in range(0, len(files), _AT_ONCE):
                part = files[start : start + _AT_ONCE]
                theirs, ours = _by_file(vendor, part), _by_file(soft, part)
                for file in part:
                    found.add(chip, file.stem, theirs[file.stem], ours[file.stem])
    return found


def _by_file(side: Side, files: Sequence[Path]) -> dict[str, list[Answer]]:
    return answers(side, SECTION, files)


def _details(found: Comparison) -> Iterator[str]:
    """Values of the differences."""
    for key, places in found.values.items():
        yield " | ".join(key)
        for place, (vendor, soft) in places.items():
            yield f"    {place}: {vendor} | {soft}"


def text(found: Comparison) -> str:
    """The table."""
    fields = sum(map(len, found.values.values()))
    head = f"Attributes: {found.files} files, {found.same} values are the same, {fields} differ"
    return f"{head}\n{TABLE.text(found.rows)}"


def main(arguments: Iterable[str]) -> int:
    """Print the table; the status is 1 where it differs from the listed one."""
    with tempfile.TemporaryDirectory() as folder:
        found = compare(Path(folder), {chip: samples.files(chip) for chip in CHIPS})
    if "--write" in arguments:
        TABLE.write(found.rows)
    print(text(found))
    if "--details" in arguments:
        print("\n".join(_details(found)))
    return TABLE.report(found.rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
