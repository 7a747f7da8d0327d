"""Compiled `.nb` files against VeriSilicon's emulator of the chips.

    python -m tests.conformance.nbg_files [WORD ...]

Runs every sample of the shared folder (`tests/shared.py`) whose path contains one of the words on
the soft NPU, with the raw inputs that the emulator got, and compares the raw outputs. Steps are
those of the output's integers; of float16 the largest difference counts units in the last place of
the larger value.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu.errors import ModelError
from anynpu.soft.engines.nbg import vip
from anynpu.soft.engines.vip.refusal import Refusal
from anynpu.soft.formats import nbg
from tests.shared import SHARED

SAMPLES = SHARED / "samples"
_LARGEST_STEP = np.float16(32)
"""Between the two largest numbers of float16."""


@dataclass(frozen=True)
class Sample:
    """A file and the emulator's values for it."""

    file: Path
    values: Path

    @property
    def name(self) -> str:
        return str(self.file.relative_to(SAMPLES).with_suffix(""))


@dataclass(frozen=True)
class Report:
    """What became of a file: where it ran, the least share of equal elements of an output, and the
    largest difference of one.
    """

    name: str
    operations: str
    problem: str = ""
    is_refused: bool = False
    equal: float = 0.0
    steps: float = 0.0
    load_seconds: float = 0.0
    run_seconds: float = 0.0

    @property
    def runs(self) -> bool:
        return not self.problem

    def __str__(self) -> str:
        if not self.runs:
            return f"{self.name:44s} {self.operations:28s} {self.problem}"
        return (
            f"{self.name:44s} {self.operations:28s} equal {100 * self.equal:7.3f}%  "
            f"steps {self.steps:g}  load {self.load_seconds:.3f} s  run {self.run_seconds:.3f} s"
        )


def samples(words: Sequence[str] = ()) -> list[Sample]:
    """The files that have the emulator's values, those whose path has one of the words, if any."""
    emulated = SAMPLES / "nbg-emulator"
    found = [
        Sample(file, file.with_name(f"{file.stem}.hw.npz"))
        for folder in ("operators", "networks")
        for file in sorted((emulated / folder).glob("*.nb"))
    ]
    second = emulated / "samples_v2"
    found += [
        Sample(file, second / "hw" / f"{file.stem}.npz") for file in sorted(second.glob("*.nb"))
    ]
    for folder, own in (("samples", ""), ("pcq_i8",) * 2, ("dfp_i16",) * 2, ("v853",) * 2):
        for values in sorted((emulated / "samples" / folder).glob("*.npz")):
            found.append(Sample(SAMPLES / "nbg" / own / f"{values.stem}.nb", values))
    return [
        sample
        for sample in found
        if sample.file.is_file()
        and sample.values.is_file()
        and (not words or any(word in str(sample.file) for word in words))
    ]


def examine(sample: Sample) -> Report:
    """Load and run a file, and compare its outputs."""
    model = nbg.read(sample.file.read_bytes())
    counts = Counter(operation.unit for operation in model.operations)
    operations = " ".join(f"{count} {unit}" for unit, count in counts.items() if "init" not in unit)
    try:
        start = time.perf_counter()
        program = vip.load(model)
        loaded = time.perf_counter()
        instance = program.instance(0)
        with np.load(sample.values) as archive:
            values = dict(archive)
        for index, array in enumerate(instance.inputs):
            array[...] = values[f"in{index}"].reshape(array.shape)
        started = time.perf_counter()
        instance.run()
        ended = time.perf_counter()
    except ModelError as error:
        return Report(sample.name, operations, str(error), isinstance(error, Refusal))
    compared = [
        compare(array, values[f"hw{index}"]) for index, array in enumerate(instance.outputs)
    ]
    return Report(
        sample.name,
        operations,
        equal=min(equal for equal, _ in compared),
        steps=max(steps for _, steps in compared),
        load_seconds=loaded - start,
        run_seconds=ended - started,
    )


def compare(found: NDArray[Any], emulated: NDArray[Any]) -> tuple[float, float]:
    """The share of equal elements, and the largest difference."""
    a, b = found.reshape(-1).astype(np.float64), emulated.reshape(-1).astype(np.float64)
    difference = np.abs(a - b)
    if emulated.dtype == np.float16:
        larger = np.maximum(np.abs(a), np.abs(b)).astype(np.float16)
        with np.errstate(over="ignore"):
            # The largest number of all has no next one: its step is the one below.
            step = np.minimum(np.spacing(larger), _LARGEST_STEP)
        difference = difference / step.astype(np.float64)
    return float(np.mean(a == b)), float(difference.max(initial=0))


def main(words: Sequence[str]) -> None:
    reports = []
    for sample in samples(words):
        reports.append(examine(sample))
        print(reports[-1], flush=True)
    running = [report for report in reports if report.runs]
    equal = sum(report.equal == 1 for report in running)
    print(f"{len(reports)} files, {len(running)} run, {equal} of them byte for byte")


if __name__ == "__main__":
    main(sys.argv[1:])
