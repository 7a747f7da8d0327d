"""Small files that the vendor's compiler wrote, in tests/data/compiled, against its simulator."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anynpu
from anynpu.soft.engines.compiled.program import (
    CompiledInstance,
    CompiledProgram,
    GraphProgram,
)
from anynpu.soft.engines.compiled.unroll import unroll
from anynpu.soft.engines.rknpu import prepare
from anynpu.soft.values import store_real

FOLDER = Path(__file__).parents[3] / "data" / "compiled"
# The one with an operator of its own is for test_custom_nodes.py.
FILES = sorted(path for path in FOLDER.glob("*.npz") if "_custom_" not in path.name)

# e^x from the bits of a float16 number, as the commands of toolkit 2.5 have it.
_APPROXIMATE = {"rk3588_softmax_two_float16": 0.03, "rv1106_softmax_parts_int8": 0.03}


def archive_of(path: Path) -> tuple[bytes, list[NDArray[Any]], NDArray[np.float32]]:
    """The compiled file, its inputs, and the simulator's output."""
    with np.load(path) as archive:
        inputs = [archive[name] for name in sorted(archive) if name.startswith("in")]
        return lzma.decompress(archive["compiled"].tobytes()), inputs, archive["sim0"]


def named(path: Path) -> str:
    return path.stem


def test_there_are_files() -> None:
    assert {path.stem.partition("_")[0] for path in FILES} == {
        "rk3562",
        "rk3566",
        "rk3576",
        "rk3588",
        "rv1106",
    }


@pytest.mark.parametrize("path", FILES, ids=named)
def test_results_are_the_simulator_s(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, inputs, expected = archive_of(path)
    chip = path.stem.partition("_")[0]
    monkeypatch.setenv("ANYNPU_SOC", chip)
    # RV1106's runtime takes pictures of bytes and vectors only.
    run = run_by_instance if chip == "rv1106" else run_by_model
    found, step = run(data, inputs, tmp_path)
    assert found.size == expected.size
    distance = np.abs(found.reshape(-1) - expected.reshape(-1)).max()
    if step:
        assert distance < 1.5 * step
    else:
        assert distance <= _APPROXIMATE.get(path.stem, 0.005) * np.abs(expected).max()


def run_by_model(
    data: bytes, inputs: list[NDArray[Any]], folder: Path
) -> tuple[NDArray[Any], float]:
    """The first output's real values, and its quantisation's step or 0."""
    file = folder / "network.rknn"
    file.write_bytes(data)
    with anynpu.Model(file) as model:
        model.run(*inputs)
        quantization = model.output_attrs[0].quantization
        return model.output_f32(0), quantization.scale if quantization else 0.0


def run_by_instance(
    data: bytes, inputs: list[NDArray[Any]], folder: Path
) -> tuple[NDArray[Any], float]:
    program = CompiledProgram(data)
    (held,), port = computed(program, program.graph(0), inputs), program.variant(0).outputs[0]
    if port.quantization is None:
        return held, 0.0
    q = port.quantization
    return (held.astype(np.float32) - q.zero_point) * q.scale, q.scale


def computed(
    program: CompiledProgram, graph: GraphProgram, inputs: list[NDArray[Any]]
) -> list[NDArray[Any]]:
    """What a graph gives for real values, as the device holds it."""
    instance = CompiledInstance(graph, program.model.batch)
    for array, port, values in zip(instance.inputs, graph.variant.inputs, inputs, strict=True):
        store_real(values.reshape(port.shape), port, array)
    instance.run()
    return [np.copy(array) for array in instance.outputs]


@pytest.mark.parametrize("path", FILES, ids=named)
def test_kernels_and_the_reference_give_the_same_bytes(path: Path) -> None:
    data, inputs, _ = archive_of(path)
    program = CompiledProgram(data)
    fast = program.graph(0)
    unrolled, skipped = unroll(program.model.graphs[0])
    reference = replace(
        fast, prepared=prepare(program.model, unrolled, use_fast=False, skipped=skipped)
    )
    results = [computed(program, graph, inputs) for graph in (fast, reference)]
    for kernels, plain in zip(*results, strict=True):
        np.testing.assert_array_equal(kernels, plain)
