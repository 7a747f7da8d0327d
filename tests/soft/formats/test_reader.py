"""Compiled files to their description."""

from __future__ import annotations

import math
import struct

import pytest

import anynpu
from anynpu.soft.formats.rknn import is_compiled, write_soft
from anynpu.soft.formats.rknn.model import (
    Device,
    ElementType,
    Generation,
    TensorKind,
    TensorLayout,
)
from anynpu.soft.formats.rknn.reader import read_model
from anynpu.tensor import Quantization

from ...shared import SAMPLES, VENDOR_RUNTIME
from .compiled_file import COMPILER, U32, U64, Table, early_file, frame, micro_file, standard_file


@pytest.mark.parametrize("make", [standard_file, micro_file])
def test_what_a_file_says(make: object) -> None:
    is_standard = make is standard_file
    data = standard_file() if is_standard else micro_file()
    assert is_compiled(data)
    model = read_model(data)
    assert model.container == (6 if is_standard else 0x1004)
    assert model.generation is (Generation.V2 if is_standard else Generation.MICRO)
    assert (model.target, model.toolkit) == ("rk3588" if is_standard else "rv1106", "2.3.2")
    assert (model.compiler, model.framework, model.custom_string) == (COMPILER, "ONNX", "mine")
    assert (model.batch, model.is_dynamic, len(model.graphs)) == (1, False, 1)
    assert (model.memory.weight, model.memory.internal) == (64, 4096 if is_standard else 512)
    graph = model.graphs[0]
    assert (graph.inputs, graph.outputs) == ((1,), (2,))
    assert graph.normalizations[0].mean[:3] == (1, 2, 3)
    assert graph.normalizations[0].std[:3] == (4, 5, 6)
    assert graph.relocations[1].buffer == "x"
    assert graph.relocations[1].addend == 0x40


def test_the_tensors() -> None:
    model = read_model(standard_file())
    tensors = model.graphs[0].tensors
    x, weights = tensors[1], tensors[3]
    assert (x.name, x.kind, x.element) == ("x", TensorKind.INPUT, ElementType.INT8)
    assert x.layout is TensorLayout.BLOCKED
    assert (x.native_shape, x.shape) == ((1, 1, 2, 2, 3), (1, 3, 2, 2))
    assert (x.quantization, x.size, x.offset) == (Quantization(0.5, -3), 12, 0)
    assert weights.quantization is None
    assert bytes(model.data(weights)) == bytes(range(64))


def test_constants_are_views_of_the_file() -> None:
    data = standard_file()
    section = read_model(data).sections[3]
    assert section.obj is data
    assert section.readonly


def test_the_nodes_and_their_tasks() -> None:
    graph = read_model(standard_file()).graphs[0]
    conv = graph.nodes[1]
    assert (conv.op_type, conv.name, conv.device) == ("Conv", "Conv:conv0", Device.NPU)
    assert (conv.inputs, conv.outputs) == ((1, 3, -1), (2,))
    assert conv.attributes == {"strides": [1, 1]}
    assert conv.options["kernel_shape"] == (1, 1)
    assert conv.task_counts == (1, 0, 0, 0, 0, 0)
    (task,) = graph.tasks_for(1)
    assert (task.node, task.enable_mask, task.first_command, task.commands) == (1, 0x1D, 0, 3)
    assert graph.tasks_for(2) == graph.tasks_for(3) == ()
    assert struct.unpack_from("<Q", graph.commands)[0] & 0xFFFF == 0x100C


def test_a_batch_and_dynamic_shapes() -> None:
    model = read_model(standard_file(batch="4", shape_mode="dynamic_shape"))
    assert (model.batch, model.is_dynamic) == (4, True)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": U32(7)}, "format version 7"),
        ({"generation": "RKNPU v9"}, "unknown NPU: 'RKNPU v9'"),
        ({"graphs": []}, "0 graphs"),
        ({"memory": Table({1: U64(100)})}, "'y' ends at 128 in 100 bytes"),
        ({"memory": Table({1: U64(1 << 50)})}, "bytes of internal memory"),
        ({"sections": [Table()]}, "data section 3 of 1"),
    ],
)
def test_what_cannot_be(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(anynpu.ModelError, match=problem):
        read_model(standard_file(**changes))


def test_other_files_are_named() -> None:
    with pytest.raises(anynpu.ModelError, match="encrypted"):
        read_model(b"CYPTRKNN" + bytes(100))
    assert is_compiled(b"CYPTRKNN" + bytes(100))
    with pytest.raises(anynpu.ModelError, match="container version 0x9 at offset 8"):
        read_model(frame(bytes(128), 9))
    with pytest.raises(anynpu.ModelError, match=r"version 0x5 .*convert the model anew"):
        read_model(frame(bytes(128), 5))
    soft = write_soft(b"onnx", target="rk3588", toolkit="t", inputs=[], outputs=[])
    assert not is_compiled(soft)
    with pytest.raises(anynpu.ModelError, match="soft"):
        read_model(soft)


@pytest.mark.parametrize("container", [1, 2, 3, 4])
def test_containers_before_6_list_tasks_by_node(container: int) -> None:
    data = early_file(container)
    assert is_compiled(data)
    model = read_model(data)
    assert (model.container, model.format, model.target) == (container, 1, "rk3588")
    graph = model.graphs[0]
    assert bytes(model.data(graph.tensors[3])) == bytes(range(64))
    loading, *computing = graph.tasks_for(1)
    assert (loading.enable_mask, loading.commands) == (0, 2), "the table is loaded once"
    assert [(t.node, t.enable_mask, t.commands) for t in computing] == [(1, 0x1D, 3)] * 2
    words = struct.unpack(f"<{len(graph.commands) // 8}Q", graph.commands)
    assert [word & 0xFFFF for word in words[2:5]] == [0x100C, 0x1070, 0x4020]
    assert words[2] >> 16 == 0x10
    for task in computing:
        found = [graph.relocations[task.first_command + place] for place in (1, 2)]
        assert [(r.buffer, r.addend) for r in found] == [("x", 0x40), ("y", 0)]


def test_the_first_toolkits_call_every_chip_rk3566() -> None:
    assert read_model(early_file(1, target="rk3566")).target == "rk3588"
    named = early_file(1, target="rk3566", generation=Generation.LITE.value)
    assert read_model(named).target == "rk3566"


def test_memory_that_a_file_doesn_t_tell_is_what_its_tensors_need() -> None:
    memory = read_model(early_file(memory=None)).memory
    assert (memory.weight, memory.internal) == (64, 128)


@pytest.mark.parametrize(
    ("file", "soc"),
    [("mi_RK3566_RK3568", "rk3566"), ("mi_RK3588", "rk3588"), ("mi_RK3562", "rk3562")],
)
def test_a_file_of_a_toolkit_before_1_6_is_read(file: str, soc: str) -> None:
    path = VENDOR_RUNTIME / f"{file}.rknn"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    model = read_model(path.read_bytes())
    assert (model.container, model.target) == (2, soc)
    assert [node.op_type for node in model.graphs[0].nodes][2:4] == ["Conv", "ConvAdd"]
    assert model.graphs[0].tasks


@pytest.mark.parametrize("chip", ["rk3566", "rk3588", "rv1106"])
def test_every_sample_is_read(chip: str) -> None:
    files = sorted((SAMPLES / chip).glob("*.rknn"))
    if not files:
        pytest.skip(f"{SAMPLES / chip} has no files")
    for file in files:
        model = read_model(file.read_bytes())
        assert model.target == chip
        assert model.toolkit in file.stem or "_tk" not in file.stem
        for graph in model.graphs:
            assert graph.inputs
            assert graph.outputs
            names = {tensor.name for tensor in graph.tensors}
            assert math.prod(graph.tensors[graph.inputs[0]].shape) > 0
            single = graph.tasks_for(1)
            assert sum(entry.buffer in names for entry in graph.relocations.values()) > 0 or not (
                single
            )
