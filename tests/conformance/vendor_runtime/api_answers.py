"""Table 1: what the calls of the API answer.

    python -m tests.conformance.vendor_runtime.api_answers [--write]

Sections of the walker are walked with models that differ in what matters to them. Answers are the
same when the code is, and what was seen afterwards, and whether errors or warnings were logged;
what a log line says is not compared. ``--write`` takes what was found into data/.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from . import samples
from .board import VendorBoard
from .differences import Row, Table
from .walks import Answer, SoftSide, VendorSide, answers

TABLE = Table("api_answers", ("chip", "section", "vendor", "soft NPU"))

_PICTURE, _BLOCKS, _FLOATS = "conv3x3_rgb_i8_ms", "conv3x3_i8", "conv3x3_fp16"
_TWO_INPUTS, _THREE_OUTPUTS, _MATRIX = "concat_i8", "op_split3_i8", "matmul_i8"
_SHAPES = "conv3x3_fp16_dyn"

WALKS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "rk3588": {
        "initialise": (_PICTURE,),
        "parts": (_PICTURE,),
        "flags": (_PICTURE, "conv3x3_fp16_rw"),
        "queries": (_PICTURE, _SHAPES),
        "query_indices": (_PICTURE, _SHAPES),
        "order": (_PICTURE, _TWO_INPUTS, _THREE_OUTPUTS),
        "release": (_PICTURE,),
        "inputs": (_PICTURE, _TWO_INPUTS, _BLOCKS, _FLOATS, _MATRIX),
        "outputs": (_PICTURE, _TWO_INPUTS, _BLOCKS, _FLOATS, _THREE_OUTPUTS, _MATRIX),
        "memory": (_PICTURE,),
        "foreign_memory": (_PICTURE,),
        "memory_ends": (_PICTURE,),
        "binding": (_PICTURE, _TWO_INPUTS, _BLOCKS, _FLOATS, _MATRIX),
        "binding_types": (_PICTURE, _TWO_INPUTS, _BLOCKS, _FLOATS, _MATRIX),
        "zero_copy": (_PICTURE, _TWO_INPUTS, _THREE_OUTPUTS),
        "outputs_alone": (_PICTURE, _TWO_INPUTS),
        "input_values": (_PICTURE, _BLOCKS, _FLOATS),
        "output_values": (_PICTURE, _BLOCKS, _FLOATS),
        "sequences": (_PICTURE,),
        "places": (_TWO_INPUTS, _THREE_OUTPUTS),
        "cores": (_PICTURE, _BLOCKS),
        "duplicates": (_PICTURE,),
        "outside_memory": (_PICTURE, "conv3x3_fp16_rw"),
        "internal_outside": (_PICTURE,),
        "information_only": (_PICTURE,),
        "runs": (_PICTURE,),
        "profile": (_PICTURE,),
        "shapes": (_PICTURE, _SHAPES, "conv3x3_i8_dyn"),
        "shapes_unset": (_SHAPES,),
        "matmul_kinds": (_BLOCKS,),
        "matmul_memory": (_BLOCKS,),
        "matmul_handles": (_BLOCKS,),
        "destroyed": (_BLOCKS,),
        "no_handle": (_BLOCKS,),
        "wild_handle": (_BLOCKS,),
    },
    # The small runtime 1.5.2 reads no file that a later toolkit wrote.
    "rv1106": {"initialise": (_BLOCKS,)},
    "rk3566": {
        "initialise": ("conv3x3_rgb_i8",),
        "order": ("conv3x3_rgb_i8",),
        "inputs": ("conv3x3_rgb_i8", _BLOCKS),
        "outputs": (_BLOCKS,),
        "binding": ("conv3x3_rgb_i8", _BLOCKS),
        "cores": (_BLOCKS,),
        "runs": (_BLOCKS,),
    },
}

SMALL_WALKS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "rk3588": {"order": (_PICTURE, _TWO_INPUTS), "outputs": (_BLOCKS,), "places": (_TWO_INPUTS,)}
}
"""A handful for every run of the tests."""

_HASH = re.compile(r"hash[ =][0-9a-f]{8}")
_SIGNAL = re.compile(r"SIG|hangs|exit")


class Comparison:
    """What both libraries answered: `same` counts answers, `rows` are the differences in groups."""

    def __init__(self) -> None:
        self.same = 0
        self._groups: dict[tuple[str, ...], list[str]] = {}

    @property
    def rows(self) -> list[Row]:
        return [
            Row(key, tuple(dict.fromkeys(places)), _usual_reason(key))
            for key, places in self._groups.items()
        ]

    def add(
        self, chip: str, section: str, vendor: Sequence[Answer], soft: Sequence[Answer]
    ) -> None:
        """Compare the calls that both have; a call that only one makes follows from another."""
        by_label = {answer.label: answer for answer in soft}
        for theirs in vendor:
            ours = by_label.get(theirs.label)
            if ours is None:
                continue
            differing = list(_differing(theirs, ours))
            self.same += not differing
            for place, one, other in differing:
                self._groups.setdefault((chip, section, one, other), []).append(place)


def _differing(theirs: Answer, ours: Answer) -> Iterator[tuple[str, str, str]]:
    if (theirs.value, theirs.levels) != (ours.value, ours.levels):
        yield theirs.label, _code(theirs), _code(ours)
    if theirs.value != ours.value or _SIGNAL.match(theirs.value):
        # What was seen afterwards follows from that.
        return
    for one, other in zip_longest(theirs.notes, ours.notes, fillvalue="nothing"):
        if one != other:
            yield f"after {theirs.label}", *_shortened(one, other)


def _code(answer: Answer) -> str:
    return f"{answer.value}, logs {answer.levels}" if answer.levels else answer.value


def _shortened(one: str, other: str) -> tuple[str, str]:
    """Two notes without the fields that are the same; hashes only say that bytes differ."""
    mine, yours = one.split(" "), other.split(" ")
    if len(mine) == len(yours) and any("=" in word for word in mine):
        kept = [pair for pair in zip(mine, yours, strict=True) if pair[0] != pair[1]]
        one, other = " ".join(a for a, _ in kept), " ".join(b for _, b in kept)
    return _HASH.sub("bytes", one), _HASH.sub("other bytes", other)


def _usual_reason(key: tuple[str, ...]) -> str:
    return "ends" if _SIGNAL.match(key[2]) else "?"


def compare(folder: Path, walks: Mapping[str, Mapping[str, Sequence[str]]] = WALKS) -> Comparison:
    """Walk both libraries; raises `UnavailableError` without the vendor's library or samples."""
    found = Comparison()
    for chip, sections in walks.items():
        with VendorBoard(chip) as board:
            vendor, soft = VendorSide(board, folder), SoftSide(chip, folder)
            for section, names in sections.items():
                models = [samples.file(chip, name) for name in names]
                ours = answers(soft, section, models)
                for model in models:
                    # One after another: the vendor's process ends again and again, and is quick.
                    theirs = answers(vendor, section, [model])
                    found.add(chip, section, theirs[model.stem], ours[model.stem])
    return found


def text(found: Comparison) -> str:
    """The table."""
    head = f"Answers of the API: {found.same} are the same, {len(found.rows)} groups differ"
    return f"{head}\n{TABLE.text(found.rows)}"


def main(arguments: Iterable[str]) -> int:
    """Print the table; the status is 1 where it differs from the listed one."""
    with tempfile.TemporaryDirectory() as folder:
        found = compare(Path(folder))
    if "--write" in arguments:
        TABLE.write(found.rows)
    print(text(found))
    return TABLE.report(found.rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
