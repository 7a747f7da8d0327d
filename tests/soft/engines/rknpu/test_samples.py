"""Compiled sample files: fast against reference, several cores against one, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from anynpu.errors import ModelError
from anynpu.soft.engines.compiled.buffers import TensorBuffer
from anynpu.soft.engines.rknpu import PreparedGraph, prepare
from anynpu.soft.engines.rknpu.kernels import KernelKind
from anynpu.soft.formats.rknn.model import CompiledModel
from anynpu.soft.formats.rknn.reader import read_model
from tests.shared import SAMPLES

pytestmark = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason=f"no compiled samples in {SAMPLES}; set ANYNPU_SHARED"
)

REFUSED = {
    "rk3588/m_lstm_fp16": "PROC_PRECISION = 1",
    "rk3588/m_lstm_i8": "PROC_PRECISION = 1",
}
"""Files that are refused, and why."""

LARGE = "efficientnet_lite0_224_i8"


@cache
def model(name: str) -> CompiledModel:
    return read_model((SAMPLES / f"{name}.rknn").read_bytes())


def names() -> list[str]:
    """Small files of all chips."""
    files = sorted(SAMPLES.glob("*/*.rknn"))
    return [
        f"{file.parent.name}/{file.stem}"
        for file in files
        if file.stat().st_size < 1 << 20 and not file.stem.endswith("_rw")
    ]


def final_memory(prepared: PreparedGraph, seed: int, halves: bool = False) -> NDArray[np.uint8]:
    """Internal memory after all NPU nodes ran on noise, or on float16 without NaN."""
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, prepared.memory_bytes, np.uint8)
    if halves:
        values = rng.standard_normal(memory.size // 2).astype(np.float16)
        memory[: values.nbytes] = values.view(np.uint8)
    executor = prepared.executor(memory)
    for node in prepared.tasks:
        executor.run_node(node)
    return memory


@pytest.mark.parametrize("name", names())
def test_all_is_fast_and_leaves_the_same_bytes_as_the_reference(name: str) -> None:
    what = model(name)
    if name in REFUSED:
        with pytest.raises(ModelError, match=REFUSED[name]):
            prepare(what, what.graphs[0])
        return
    fast = prepare(what, what.graphs[0])
    kinds = {kind for node in fast.tasks for kind in fast.kernels_of(node)}
    assert KernelKind.REFERENCE not in kinds
    reference = prepare(what, what.graphs[0], use_fast=False)
    assert {kind for node in reference.tasks for kind in reference.kernels_of(node)} <= {
        KernelKind.REFERENCE
    }
    for halves in {False, "fp16" in name}:
        np.testing.assert_array_equal(
            final_memory(fast, 1, halves), final_memory(reference, 1, halves)
        )


@pytest.mark.parametrize("name", ["smallcnn_i8", "conv_silu_i8", "m_attention_i8", "softmax_fp16"])
@pytest.mark.parametrize("cores", [2, 3])
def test_several_cores_compute_the_same_outputs(name: str, cores: int) -> None:
    what = model(f"rk3588/{name}")
    graph = what.graphs[0]
    results = []
    for count in (1, cores):
        memory = final_memory(prepare(what, graph, count), 2)
        output = graph.tensors[graph.outputs[0]]
        results.append(memory[output.offset : output.offset + output.size])
    np.testing.assert_array_equal(results[0], results[1])


def nodes_of_the_simulator() -> Mapping[str, NDArray[np.int8]]:
    file = SAMPLES / "rk3588" / f"{LARGE}.nodes.npz"
    if not file.is_file():
        pytest.skip(f"no {file}")
    return dict(np.load(file))


def test_each_node_fed_the_simulators_tensors() -> None:
    """At most one unit in the last place anywhere, and nearly all values the same."""
    simulated = nodes_of_the_simulator()
    what = model(f"rk3588/{LARGE}")
    graph = what.graphs[0]
    prepared = prepare(what, graph)
    memory = np.zeros(prepared.memory_bytes, np.uint8)
    executor = prepared.executor(memory)
    compared = equal = total = 0
    for node in graph.nodes:
        if not prepared.has_tasks(node.index):
            continue
        inputs = [graph.tensors[index] for index in node.inputs if index >= 0]
        features = [tensor for tensor in inputs if tensor.kind.is_internal]
        output = graph.tensors[node.outputs[0]]
        if any(tensor.name not in simulated for tensor in (*features, output)):
            continue
        for tensor in features:
            TensorBuffer(memory, tensor).write(simulated[tensor.name].reshape(tensor.shape))
        executor.run_node(node.index)
        result = np.empty(output.shape, np.int8)
        TensorBuffer(memory, output).read(result)
        expected = simulated[output.name].reshape(output.shape)
        distance = np.abs(result.astype(np.int16) - expected)
        assert distance.max() <= 1, node.name
        equal, total, compared = equal + (distance == 0).sum(), total + distance.size, compared + 1
    assert compared == len(prepared.tasks)
    # The hardware rounds twice where the simulator rounds once.
    assert equal / total > 0.98
