"""What inspection says of nodes on the CPU is what runs them."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anynpu.soft.engines.compiled import placement
from anynpu.soft.engines.compiled.cpu_nodes import prepare_cpu_node
from anynpu.soft.engines.compiled.layers import computing_nodes
from anynpu.soft.engines.compiled.placement import runners
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.compiled.slices import MovedAtoms
from anynpu.soft.engines.onnx import sessions
from anynpu.soft.engines.rknpu.kernels.rearranging import library
from anynpu.soft.engines.rknpu.kernels.steps import KernelStep
from anynpu.soft.formats.rknn.model import Device

from .parts import blocked, cpu_node, model_of
from .test_cpu_nodes import constant

FOLDER = Path(__file__).parents[3] / "data" / "compiled"
FILES = {
    "rk3566_layernorm_int8.npz": {"NumPy"},
    "rk3588_custom_int8.npz": {"custom operator"},
    "rk3588_deconv_stride3_int8.npz": {"NumPy"},
    "runtime/rk3588_average_ceil_int8.npz": {"NumPy"},
    "runtime/rk3588_gather_nd_float16.npz": {"ONNX Runtime"},
    "runtime/rk3588_resize_half_pixel_float16.npz": {"NumPy"},
    "whole_numbers/stream.rknn.xz": {"NumPy", "ONNX Runtime"},
}
"""What runs nodes on the CPU."""


def content(name: str) -> bytes:
    file = FOLDER / name
    if file.suffix == ".xz":
        return lzma.decompress(file.read_bytes())
    with np.load(file) as archive:
        return lzma.decompress(archive["compiled"].tobytes())


@pytest.mark.parametrize("name", FILES)
def test_a_file_s_nodes_on_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    open_session = sessions.open_session

    def watched(model: bytes, options: Any, op_types: Any, **others: Any) -> Any:
        opened.extend(op_types)
        return open_session(model, options, op_types, **others)

    monkeypatch.setattr(sessions, "open_session", watched)
    (found,) = runners(content(name))
    assert not opened
    program = CompiledProgram(content(name))
    graph = program.model.graphs[0]
    on_cpu = [
        node
        for node in computing_nodes(graph)
        if node.device is Device.CPU and not program.graph(0).prepared.has_tasks(node.index)
    ]
    said = {node.op_type: found.by_node[node.index] for node in on_cpu}
    assert set(said.values()) == FILES[name]
    assert set(opened) == {op_type for op_type, who in said.items() if who == "ONNX Runtime"}


@pytest.mark.parametrize("has_kernels", [True, False])
@pytest.mark.parametrize("op_type", ["Slice", "Reshape", "Concat"])
def test_atoms_are_said_to_be_moved_as_they_are(
    op_type: str, has_kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_kernels and not library():
        pytest.skip("there are no kernels here")
    if not has_kernels:
        monkeypatch.setattr("anynpu.soft.engines.compiled.slices.library", lambda: None)
    numbers = {"s": np.array([1]), "e": np.array([3]), "a": np.array([2])}
    shape = {"Slice": (1, 8, 2, 6), "Reshape": (1, 8, 8, 3), "Concat": (1, 8, 4, 6)}[op_type]
    x = blocked("x", (1, 8, 4, 6), 8, np.float16)
    y = blocked("y", shape, 8, np.float16, offset=4096)
    operands = (0, 2, 3, 4) if op_type == "Slice" else (0,)
    attributes: dict[str, Any] = {"axis": 1} if op_type == "Concat" else {}
    node = cpu_node(op_type, operands, (1,), **attributes)
    tensors = [x, y, *(constant(name, data) for name, data in numbers.items())]
    model = model_of(tensors, node, numbers)
    prepared = prepare_cpu_node(model, model.graphs[0], node)
    step = prepared.bind(np.zeros(1 << 14, np.uint8))
    steps = step.steps if isinstance(step, MovedAtoms) else [step]
    by_kernels = all(isinstance(each, KernelStep) for each in steps)
    assert by_kernels == (has_kernels and op_type != "Concat")
    assert prepared.runs_on == ("fast" if by_kernels else "NumPy")


def test_nodes_that_kernels_move_are_counted_as_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_on_cpu", lambda *_: "fast")
    (found,) = runners(content("rk3588_deconv_stride3_int8.npz"))
    moved = [
        kernels
        for who, kernels in zip(found.by_node, found.kernels, strict=True)
        if dict(kernels) == {"copies": 1} and who == "fast"
    ]
    assert moved
