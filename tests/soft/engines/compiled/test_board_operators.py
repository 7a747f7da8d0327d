"""What is known of the CPU operators of boards' runtimes."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anynpu.soft.engines.compiled.board_operators import known
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.formats.rknn.model import CompiledModel, Device, Generation, Node

from .parts import cpu_node, model_of, plain

FOLDER = Path(__file__).parents[3] / "data" / "compiled" / "runtime"
FULL = ("rk3588", Generation.V2)
MINI = ("rv1106", Generation.MICRO)


def model_for(chip: tuple[str, Generation], node: Node) -> CompiledModel:
    target, generation = chip
    tensors = [plain("x", (1, 4)), plain("y", (1, 4), offset=64)]
    return model_of(tensors, node, target=target, generation=generation)


def refusal_of(chip: tuple[str, Generation], op_type: str) -> str:
    node = cpu_node(op_type, (0,), (1,))
    refusal = known(model_for(chip, node), node).refusal
    return refusal.runtime if refusal else ""


@pytest.mark.parametrize(
    ("chip", "op_type", "runtime"),
    [
        (FULL, "Einsum", "librknnrt 2.3.2"),
        (FULL, "GatherND", "librknnrt 2.3.2"),
        (FULL, "GridSample", "librknnrt 2.3.2"),
        (FULL, "Mod", "librknnrt 2.3.2"),
        (FULL, "Selu", "librknnrt 2.3.2"),
        (("rk3562", Generation.T4), "GatherElements", "librknnrt"),
        (MINI, "Min", "librknnmrt 2.3.2"),
        (MINI, "ArgMax", "librknnmrt 2.3.2"),
        (MINI, "AveragePool", "librknnmrt 2.3.2"),
        (("rv1103", Generation.MICRO), "Transpose", "librknnmrt 2.3.2"),
        (MINI, "exNorm", "librknnmrt 2.3.2"),
    ],
)
def test_what_boards_refuse(chip: tuple[str, Generation], op_type: str, runtime: str) -> None:
    assert refusal_of(chip, op_type) == runtime


@pytest.mark.parametrize(
    ("chip", "op_type"),
    [
        (FULL, "Min"),
        (FULL, "ArgMax"),
        (FULL, "exSoftmax13"),
        (FULL, "Exp"),
        (FULL, "exConvTransposePad"),
        (FULL, "GatherElements"),
        (("rk3562", Generation.T4), "Mod"),
        (MINI, "exSoftmax13"),
        (MINI, "exDataConvert"),
        (MINI, "ReduceMax"),
    ],
)
def test_what_boards_compute(chip: tuple[str, Generation], op_type: str) -> None:
    assert refusal_of(chip, op_type) == ""


def test_sisters_share_what_was_reported() -> None:
    assert refusal_of(("rk3568", Generation.LITE), "CumSum")
    node = cpu_node("CumSum", (0,), (1,))
    refusal = known(model_for(("rk3568", Generation.LITE), node), node).refusal
    assert refusal is not None
    assert "immich" in refusal.source


def test_an_unknown_chip_has_the_list_alone() -> None:
    assert refusal_of(("rk9999", Generation.V2), "Mod") == ""
    assert refusal_of(("rk9999", Generation.V2), "Einsum") == "librknnrt 2.3.2"


def test_what_an_old_runtime_lacks_is_a_note() -> None:
    node = cpu_node("Erf", (0,), (1,))
    found = known(model_for(FULL, node), node)
    assert found.refusal is None
    assert "1.5.2" in found.note


@pytest.mark.parametrize("op_type", ["InputOperator", "OutputOperator", "cstScale", ""])
def test_edges_and_operators_from_outside_are_nobody_s(op_type: str) -> None:
    assert refusal_of(FULL, op_type) == ""


def test_the_npu_s_nodes_are_not_meant() -> None:
    node = cpu_node("Einsum", (0,), (1,))
    on_npu = Node(**{**vars(node), "device": Device.NPU})
    assert known(model_for(FULL, on_npu), on_npu).refusal is None


def test_a_program_names_its_refused_nodes() -> None:
    with np.load(FOLDER / "rk3588_gather_nd_float16.npz") as archive:
        program = CompiledProgram(lzma.decompress(archive["compiled"].tobytes()))
    (refusal,) = program.refusals(0)
    assert (refusal.op_type, refusal.name) == ("GatherND", "GatherND:y")
    assert program.model.graphs[0].nodes[refusal.index].op_type == "GatherND"


@pytest.mark.parametrize("name", ["min2_i8", "argmax_i8", "avgpad_i8"])
def test_reported_files_are_refused(report_sample: Callable[[str], Path], name: str) -> None:
    program = CompiledProgram(report_sample(f"{name}.rv1106").read_bytes())
    assert program.refusals(0)
