"""Table 3: what whole runs give, byte for byte.

    python -m tests.conformance.vendor_runtime.results [--write] [NAME ...]

Each compiled sample with inputs beside it runs once on both libraries; on the vendor's, tasks are
computed by our engine and all else by the library. Outputs are compared as the device has them
("raw") and as float32 ("real"). ``--write`` takes what was found into data/.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu import soc
from anynpu.native.compiler import find_compiler
from anynpu.rknn import header
from anynpu.rknn.abi import TensorType
from anynpu.soft.cabi.build import library_folder

from . import samples
from .board import PROGRAMS, VendorBoard, compile_program
from .differences import Row, Table

CHIPS = ("rk3588", "rk3566")
TABLE = Table("results", ("chip", "what", "how"))
_SECONDS = 1200.0
_PICTURE_DIMS = 4


@dataclass
class Comparison:
    """`outputs` were compared, `same` of them are equal, `groups` are the others."""

    outputs: int = 0
    same: int = 0
    groups: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        return [Row(key, tuple(places)) for key, places in self.groups.items()]

    def note(self, chip: str, what: str, how: str, place: str, detail: str = "") -> None:
        self.groups.setdefault((chip, what, how), []).append(place)
        if detail:
            self.details[f"{chip} {what} {place}"] = detail

    def compare(self, chip: str, name: str, vendor: Run, soft: Run) -> None:
        """Compare one file's runs."""
        if vendor.ending or soft.ending:
            self.note(chip, "ending", f"{vendor.ending or 'runs'} | {soft.ending or 'runs'}", name)
            return
        for output, data in vendor.outputs.items():
            what = output.rstrip("0123456789")
            raw = output.replace(what, "raw")
            if vendor.outputs[raw] != soft.outputs.get(raw) and output != raw:
                # Real values follow from those of the device.
                continue
            self.outputs += 1
            other = soft.outputs.get(output, b"")
            if data == other:
                self.same += 1
                continue
            how, detail = _distance(data, other, what, is_int="_i8" in name)
            self.note(chip, what, how, f"{name}[{output.removeprefix(what)}]", detail)


@dataclass(frozen=True)
class Run:
    """What a file's run gave: outputs by name, or how it ended otherwise."""

    outputs: Mapping[str, bytes]
    ending: str = ""


def _distance(one: bytes, other: bytes, what: str, is_int: bool) -> tuple[str, str]:
    """How far apart outputs are, in steps of their type, in words and in figures."""
    kind: Any = np.float32 if what == "real" else np.int8 if is_int else np.float16
    if len(one) != len(other) or len(one) % np.dtype(kind).itemsize:
        return f"{len(one)} and {len(other)} bytes", ""
    mine, yours = (_ordered(np.frombuffer(data, kind)) for data in (one, other))
    steps = np.abs(mine - yours)
    share = float((steps != 0).mean())
    largest = int(steps.max())
    how = "one step" if largest == 1 else "up to 4 steps" if largest <= 4 else "more"
    return how, f"{share:.2%} differ, by {largest} steps at most"


def _ordered(values: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers whose differences count the values of the type that lie between."""
    if values.dtype == np.int8:
        return values.astype(np.int64)
    bits: NDArray[np.int64] = values.view(f"i{values.itemsize}").astype(np.int64)
    top = 1 << (8 * values.itemsize - 1)
    return np.where(bits < 0, -(bits + top), bits)


class _Runner:
    """Runs files, and again from the next one where a file ends the process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = {**environment, "RKNN_LOG_LEVEL": "0"}

    def run(self, files: Sequence[Path], folder: Path) -> dict[str, Run]:
        found: dict[str, Run] = {}
        while rest := [file for file in files if file.stem not in found]:
            found.update(self._run(rest, folder))
        return found

    def _run(self, files: Sequence[Path], folder: Path) -> Iterator[tuple[str, Run]]:
        jobs = folder / "list"
        jobs.write_text("".join(_line(file, folder) for file in files))
        done = subprocess.run(
            [*self._command, str(jobs)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=_SECONDS,
        )
        name = files[0].stem
        for line in done.stdout.decode("latin-1").splitlines():
            word, _, rest = line.partition(" ")
            if word == "@begin":
                name = Path(rest).name
            elif word == "@done":
                prefix, _, code = rest.rpartition(" ")
                yield name, Run({}, f"code {code}") if int(code) else Run(_outputs(Path(prefix)))
                name = ""
        if done.returncode != 0:
            yield name, Run({}, "ends the process")


def _line(file: Path, folder: Path) -> str:
    """A file's line in the list; its inputs are written into the folder."""
    inputs: list[Path] = []
    kind = TensorType.FLOAT32
    with np.load(file.with_suffix(".npz")) as values:
        while (name := f"in{len(inputs)}") in values:
            value = values[name]
            if value.dtype == np.uint8:
                kind = TensorType.UINT8
            else:
                value = value.astype(np.float32)
                value = value.transpose(0, 2, 3, 1) if value.ndim == _PICTURE_DIMS else value
            inputs.append(folder / f"{file.stem}.{name}")
            inputs[-1].write_bytes(np.ascontiguousarray(value).tobytes())
    words = (file.resolve(), int(kind), folder / file.stem, *inputs)
    return "\t".join(map(str, words)) + "\n"


def _outputs(prefix: Path) -> dict[str, bytes]:
    found = {}
    for file in sorted(prefix.parent.glob(f"{prefix.name}.r*")):
        found[file.name.removeprefix(f"{prefix.name}.")] = file.read_bytes()
        file.unlink()
    return found


def compare(folder: Path, chips: Mapping[str, Sequence[Path]]) -> Comparison:
    """Run files by chip on both libraries."""
    found = Comparison()
    source = PROGRAMS / "run_models.c"
    for chip, files in chips.items():
        with VendorBoard(chip) as board:
            program = compile_program(source, folder / "run-vendor", board)
            launch = board.launch(program)
            vendor = _Runner(launch.command(), launch.environment())
            theirs = vendor.run(files, folder)
            ours = _soft_runner(chip, source, folder).run(files, folder)
        for file in files:
            found.compare(chip, file.stem, theirs[file.stem], ours[file.stem])
    return found


def _soft_runner(chip: str, source: Path, folder: Path) -> _Runner:
    libraries = library_folder(soc.find(chip))
    program = folder / f"run-soft-{chip}"
    (folder / "rknn_api.h").write_text(header.text())
    files = ["-I", str(folder), "-o", str(program), str(source)]
    link = ["-L", str(libraries), "-lrknnrt"]
    subprocess.run([*find_compiler(), "-std=gnu11", *files, *link], check=True)
    return _Runner([str(program)], {**os.environ, "LD_LIBRARY_PATH": str(libraries)})


def with_inputs(chip: str, words: Sequence[str] = ()) -> list[Path]:
    """A chip's samples that have inputs, those of these names if any are given."""
    files = [file for file in samples.files(chip) if file.with_suffix(".npz").is_file()]
    return [file for file in files if not words or file.stem in words]


def text(found: Comparison) -> str:
    """The table, with how far apart outputs are."""
    head = f"Results: {found.same} of {found.outputs} outputs are the same bytes"
    details = [f"    {place}: {detail}" for place, detail in found.details.items()]
    return "\n".join((head, TABLE.text(found.rows), *details))


def main(arguments: Iterable[str]) -> int:
    """Print the table; the status is 1 where it differs from the listed one."""
    words = [word for word in arguments if not word.startswith("-")]
    with tempfile.TemporaryDirectory() as folder:
        found = compare(Path(folder), {chip: with_inputs(chip, words) for chip in CHIPS})
    if "--write" in arguments:
        TABLE.write(found.rows)
    print(text(found))
    return TABLE.report(found.rows, is_whole=not words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
