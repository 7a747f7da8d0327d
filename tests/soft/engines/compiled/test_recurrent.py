"""The copies around recurrent nodes' tasks."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.engines.compiled.recurrent import stagings_of
from anynpu.soft.formats.rknn.model import Device, Graph, Relocation, Task
from anynpu.soft.values import store_real

from .parts import cpu_node, model_of, plain

ATOM = 16
FOLDER = Path(__file__).parents[3] / "data" / "compiled" / "recurrent"


def recurrent(*read: str) -> Graph:
    """A GRU of four rows of 24 bytes, whose tasks point to these tensors."""
    tensors = [
        plain("x", (4, 1, 12), size=128),
        *(plain(name, (4,)) for name in ("w", "r", "b", "lengths")),
        plain("h", (1, 1, 16)),
        plain("x_exSecondary1", (4, 1, 12), size=128, offset=128),
        plain("y", (4, 1, 1, 16), offset=256),
    ]
    node = replace(cpu_node("exGRU", tuple(range(7)), (7,)), device=Device.NPU)
    return replace(
        model_of(tensors, node).graphs[0],
        tasks=(Task(0, node.index, 0x18, 0, 0, len(read)),),
        task_bounds=(1, 1, 1),
        relocations=MappingProxyType({i: Relocation(name, 0) for i, name in enumerate(read)}),
    )


def staged_input(graph: Graph) -> str | None:
    staging = stagings_of(graph, graph.nodes, ATOM, {}).get(0)
    return staging.staged_input.name if staging and staging.staged_input else None


def test_rows_are_padded_in_place_where_nothing_copies_them() -> None:
    assert staged_input(recurrent("x")) == "x"


def test_rows_stay_dense_where_tasks_copy_them() -> None:
    # RK3562's files have 128 bytes for the 96 as well.
    assert staged_input(recurrent("x", "x_exSecondary1")) == "x_exSecondary1"


def test_nothing_is_copied_where_nothing_is_read() -> None:
    assert staged_input(recurrent()) is None


def program_of(name: str) -> CompiledProgram:
    return CompiledProgram(lzma.decompress((FOLDER / f"{name}.rknn.xz").read_bytes()))


def distance(program: CompiledProgram, name: str) -> float:
    """The greatest from ONNX Runtime's float32."""
    instance, ports = program.instance(0), program.variant(0)
    with np.load(FOLDER / "values.npz") as values:
        given = values[f"{name}.in0"].reshape(ports.inputs[0].shape)
        store_real(given, ports.inputs[0], instance.inputs[0])
        instance.run()
        expected = values[f"{name}.out0"]
    found = instance.outputs[0].reshape(expected.shape).astype(np.float64)
    if (how := ports.outputs[0].quantization) is not None:
        found = (found - how.zero_point) * how.scale
    return float(np.abs(found - expected).max())


def test_states_that_tasks_put_behind_the_sequence_are_used() -> None:
    program = program_of("gru_state.rk3576")
    assert program.mistakes(0) == ()
    assert distance(program, "gru_state") < 0.002


def test_a_state_that_the_toolkit_has_taken_from_the_sequence_is_said() -> None:
    """The commands are followed, as a board does; the source model gives other values."""
    program = program_of("lstm_state.rk3576")
    (said,) = program.mistakes(0)
    assert said.startswith("node 'exLSTM:/r/LSTM' begins with values of its input in place of its")
    assert distance(program, "lstm_state") > 0.1


def test_a_state_that_the_runtime_has_to_place_is_refused() -> None:
    with pytest.raises(ModelError, match=r"'exLSTM:/r/LSTM': .*352 bytes, 288 for the input"):
        program_of("refused/lstm_state.rk3588")


@pytest.mark.parametrize(
    ("name", "most"), [("lstm_batch_i8.rk3588", 0.015), ("lstm_batch_fp16.rk3566", 0.002)]
)
def test_several_samples(name: str, most: float) -> None:
    """Bytes that were int16 are packed as they lay; gaps between rows of float32 are RK3566's."""
    program = program_of(name)
    assert program.mistakes(0) == ()
    assert distance(program, "lstm_batch") < most


def test_samples_that_the_toolkit_has_left_out_are_said() -> None:
    (said,) = program_of("gru_batch_fp16.rk3588").mistakes(0)
    assert said.startswith("node 'exGRU:/r/GRU#1' has several samples, of which its tasks compute")
