"""What C has addresses of stays alive, and every list of tasks computes the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anynpu.soft.engines.compiled.buffers import TensorBuffer
from anynpu.soft.engines.compiled.layers import computing_nodes
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.rknpu import prepare

from .test_networks import FILES, archive_of

Sample = Callable[[str], Path]


def test_an_executor_keeps_the_memory_that_it_computes_in(compiled_sample: Sample) -> None:
    program = CompiledProgram(compiled_sample("rk3588/conv3x3_i8").read_bytes())
    prepared = program.graph(0).prepared
    memory = np.zeros(prepared.memory_bytes, np.uint8)
    reference = weakref.ref(memory)
    executor = prepared.executor(memory)
    del memory
    gc.collect()
    assert reference() is not None
    del executor
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("name", ["conv3x3_i8", "conv3x3_fp16", "smallcnn_i8", "dwconv_i8"])
def test_several_cores_compute_the_same_bytes(compiled_sample: Sample, name: str) -> None:
    program = CompiledProgram(compiled_sample(f"rk3588/{name}").read_bytes())
    decoded = program.graph(0)
    graph, model = decoded.graph, program.model
    found = []
    for cores in (1, 2, 3):
        prepared = prepare(model, graph, cores)
        memory = np.zeros(prepared.memory_bytes, np.uint8)
        executor = prepared.executor(memory)
        for index in graph.inputs:
            buffer = TensorBuffer(memory, graph.tensors[index])
            values = np.random.default_rng(0).integers(-90, 90, graph.tensors[index].shape)
            buffer.write(values.astype(buffer.array.dtype))
        for node in computing_nodes(graph):
            if prepared.has_tasks(node.index):
                executor.run_node(node.index)
            elif node.index in decoded.cpu_nodes:
                decoded.cpu_nodes[node.index].bind(memory)()
        target = TensorBuffer(memory, graph.tensors[graph.outputs[0]])
        result = np.empty(target.tensor.shape, target.array.dtype)
        target.read(result)
        found.append(result)
    assert found[0].any()
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_a_closed_instance_drops_its_memory() -> None:
    instance = CompiledProgram(archive_of(FILES[0])[0]).instance(0)
    instance.run()
    reference = weakref.ref(instance._sources[0]._memory)
    for _ in range(2):
        instance.close()
    instance.cancel()
    gc.collect()
    assert reference() is None
