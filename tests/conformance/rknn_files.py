"""Compiled files against the vendor's simulator.

    python -m tests.conformance.rknn_files [--table] [--simulator] [WORD ...]

Runs every sample of the shared folder (`tests/shared.py`) whose path contains one
of the words on the soft NPU, with the inputs that lie beside it, and compares with the outputs of
the simulator. LSB counts steps of the output's own quantisation; for outputs in float16 the largest
difference is given as a share of the largest value. ``--table`` prints the node types instead, as
docs/rknn-files.md has them. With ``--simulator`` the NPU's integers are rounded as the simulator
does, once a node: what differs then is not a matter of rounding.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu.errors import ModelError
from anynpu.soft.engines import ModelSource, Port, Program, load
from anynpu.soft.engines.compiled.layers import computing_nodes
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.rknpu.rounding import SILICON, SIMULATOR, Rounding
from anynpu.soft.formats.rknn.model import Device
from anynpu.soft.formats.rknn.reader import read_model
from anynpu.soft.values import store_real
from tests.shared import SAMPLES

CHIPS = ("rk3588", "rk3566", "rv1106")
_VARIANTS = ("_b4", "_dyn", "_ms", "_rw")
"""Variants of a file that have no values of their own, or no weights."""


@dataclass(frozen=True)
class Comparison:
    """One output against the simulator's.

    `steps` is the largest difference in steps of the output's quantisation, None where it has
    none; `relative` the largest difference as a share of the largest value; `equal` the share of
    elements that are the same.
    """

    steps: int | None
    relative: float
    equal: float
    cosine: float

    def __str__(self) -> str:
        worst = f"rel {self.relative:.1e}" if self.steps is None else f"{self.steps:3d} LSB"
        return f"{worst:12s} equal {100 * self.equal:6.2f}%  cosine {self.cosine:.6f}"


@dataclass(frozen=True)
class Report:
    """What became of a file: `outputs` where it was run, else `problem`."""

    name: str
    outputs: tuple[Comparison, ...] = ()
    problem: str = ""
    load_seconds: float = 0.0
    run_seconds: float = 0.0


def sample_files(words: Sequence[str] = ()) -> list[Path]:
    """The compiled samples, those whose path contains one of the words, if any are given."""
    found = sorted(SAMPLES.glob("*/*.rknn"))
    return [file for file in found if not words or any(word in str(file) for word in words)]


def examine(file: Path, *, timed: bool = False, rounding: Rounding = SILICON) -> Report:
    """Load and run a file, and compare its outputs; `timed` runs it a second time."""
    name = f"{file.parent.name}/{file.stem}"
    try:
        start = time.perf_counter()
        program = CompiledProgram(file.read_bytes(), _partner(file), rounding)
        loaded = time.perf_counter()
        values = _values_for(file)
        if values is None:
            return Report(name, problem="no values to compare with")
        outputs, run_seconds = run_program(program, values, timed=timed)
        compared = tuple(_compare(*each) for each in outputs)
    except ModelError as error:
        return Report(name, problem=str(error))
    return Report(name, compared, "", loaded - start, run_seconds)


def base_of(file: Path) -> Path:
    """The file that a variant was made from, or the file itself."""
    for suffix in _VARIANTS:
        if file.stem.endswith(suffix):
            return file.with_name(file.stem.removesuffix(suffix) + ".rknn")
    return file


def _partner(file: Path) -> Program | None:
    """The program that has the weights which were removed from a file."""
    return load(ModelSource.of(base_of(file))) if file.stem.endswith("_rw") else None


@cache
def _values_of(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path) as archive:
        return dict(archive)


def _values_for(file: Path) -> dict[str, NDArray[Any]] | None:
    if file.stem.endswith("_ms"):
        return _values_by_onnxruntime(
            base_of(file), load(ModelSource.of(file)).variant(0).inputs[0]
        )
    for candidate in (file, base_of(file)):
        path = candidate.with_suffix(".npz")
        if path.is_file():
            return _values_of(path)
    return None


def _values_by_onnxruntime(base: Path, port: Port) -> dict[str, NDArray[Any]] | None:
    """Normalised values that the input can hold, and what the source network makes of them."""
    import onnxruntime

    source = SAMPLES / "onnx" / (re.sub("_(i8|fp16)$", "", base.stem) + ".onnx")
    if not source.is_file():
        return None
    q = port.quantization
    low, high = (
        (-2.0, 2.0) if q is None else ((end - q.zero_point) * q.scale for end in (-128, 127))
    )
    values = np.random.default_rng(0).uniform(low, high, port.shape).astype(np.float32)
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return {"in0": values, "sim0": session.run(None, {session.get_inputs()[0].name: values})[0]}


def run_program(
    program: Program, values: dict[str, NDArray[Any]], *, timed: bool = False
) -> tuple[list[tuple[NDArray[Any], Port, NDArray[Any]]], float]:
    """(array, port, the simulator's) of each output, and the seconds of the last run."""
    given = [_in_model_order(values[f"in{index}"]) for index in range(_count(values, "in"))]
    number = _variant_for(program, given)
    variant, instance = program.variant(number), program.instance(number)
    for array, port, data in zip(instance.inputs, variant.inputs, given, strict=True):
        batch = np.repeat(data, port.shape[0] // data.shape[0], axis=0).reshape(port.shape)
        store_real(_before_normalisation(batch, port), port, array)
    if timed:
        instance.run()
    start = time.perf_counter()
    instance.run()
    seconds = time.perf_counter() - start
    wanted = [values[f"sim{index}"] for index in range(_count(values, "sim"))]
    found = [
        (array, port, np.repeat(simulated, array.size // simulated.size, axis=0))
        for array, port, simulated in zip(instance.outputs, variant.outputs, wanted, strict=True)
    ]
    return found, seconds


def _count(values: dict[str, NDArray[Any]], prefix: str) -> int:
    return sum(re.fullmatch(f"{prefix}[0-9]+", name) is not None for name in values)


def _in_model_order(data: NDArray[Any]) -> NDArray[Any]:
    """Pictures are stored as NHWC."""
    return np.ascontiguousarray(data.transpose(0, 3, 1, 2)) if data.dtype == np.uint8 else data


def _variant_for(program: Program, given: Sequence[NDArray[Any]]) -> int:
    """The number of the set of shapes that the inputs have; a batch is a multiple of it."""
    for number, shapes in enumerate(program.input_shapes):
        if all(shape[1:] == data.shape[1:] for shape, data in zip(shapes, given, strict=True)):
            return number
    return 0


def _before_normalisation(data: NDArray[Any], port: Port) -> NDArray[Any]:
    """Real networks get pictures; other samples have values that are normalised already."""
    if port.normalization is None or data.dtype == np.uint8:
        return data
    mean = np.asarray(port.normalization.mean, np.float32)[:, None, None]
    std = np.asarray(port.normalization.std, np.float32)[:, None, None]
    return data * std + mean


def _compare(array: NDArray[Any], port: Port, simulated: NDArray[Any]) -> Comparison:
    expected = simulated.reshape(-1).astype(np.float64)
    real = array.reshape(-1).astype(np.float64)
    steps, equal = None, 0.0
    if port.quantization is not None:
        real = (real - port.quantization.zero_point) * port.quantization.scale
        distance = np.abs(np.rint((real - expected) / port.quantization.scale))
        steps, equal = int(distance.max()), float((distance == 0).mean())
    else:
        equal = float((real == expected).mean())
    norm = np.linalg.norm(real) * np.linalg.norm(expected)
    return Comparison(
        steps,
        float(np.abs(real - expected).max() / max(np.abs(expected).max(), 1e-9)),
        equal,
        float(real @ expected / norm) if norm else float(np.array_equal(real, expected)),
    )


def _lines(reports: Sequence[Report]) -> Iterator[str]:
    width = max((len(report.name) for report in reports), default=0)
    for report in reports:
        label = report.name.ljust(width)
        if report.problem:
            yield f"{label}  not run: {report.problem.splitlines()[0][:120]}"
            continue
        times = f"load {report.load_seconds:5.2f} s  run {1000 * report.run_seconds:7.1f} ms"
        for number, compared in enumerate(report.outputs):
            yield f"{label}  {compared}  {times if not number else ''}"
    run = sum(not report.problem for report in reports)
    yield f"{run} of {len(reports)} files run"


def node_table(reports: Sequence[Report]) -> list[str]:
    """Where the node types of the files that run are computed, as Markdown."""
    found: dict[str, dict[str, set[str]]] = {}
    for report in reports:
        chip = report.name.partition("/")[0]
        for op_type, device in () if report.problem else _nodes(SAMPLES / f"{report.name}.rknn"):
            found.setdefault(op_type, {}).setdefault(chip, set()).add(device)
    lines = [f"| node type | {' | '.join(CHIPS)} |", "|---" * (len(CHIPS) + 1) + "|"]
    for op_type in sorted(found, key=str.lower):
        cells = (", ".join(sorted(found[op_type].get(chip, ()))) for chip in CHIPS)
        lines.append(f"| {op_type} | {' | '.join(cells)} |")
    return lines


def _nodes(file: Path) -> Iterator[tuple[str, str]]:
    """The type of each node that computes something, and the device."""
    for graph in read_model(file.read_bytes()).graphs[:1]:
        with_tasks = {task.node for task in graph.tasks_for(1)}
        for node in computing_nodes(graph):
            if node.index in with_tasks:
                yield node.op_type, "NPU"
            elif node.device is Device.CPU:
                yield node.op_type, "CPU"


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 where there are no samples."""
    words = [argument for argument in arguments if not argument.startswith("--")]
    rounding = SIMULATOR if "--simulator" in arguments else SILICON
    files = sample_files(words)
    if not files:
        print(f"no samples in {SAMPLES}: put them there or set $ANYNPU_SHARED")
        return 1
    reports = [examine(file, timed=True, rounding=rounding) for file in files]
    if "--table" in arguments:
        print("\n".join(node_table(reports)))
    else:
        print("\n".join(_lines(reports)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
