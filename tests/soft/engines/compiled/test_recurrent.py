"""The copies around recurrent nodes' tasks."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from anynpu.soft.engines.compiled.recurrent import stagings_of
from anynpu.soft.formats.rknn.model import Device, Graph, Relocation, Task

from .parts import cpu_node, model_of, plain

ATOM = 16


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
    staging = stagings_of(graph, graph.nodes, ATOM).get(0)
    return staging.staged_input.name if staging and staging.staged_input else None


def test_rows_are_padded_in_place_where_nothing_copies_them() -> None:
    assert staged_input(recurrent("x")) == "x"


def test_rows_stay_dense_where_tasks_copy_them() -> None:
    # RK3562's files have 128 bytes for the 96 as well.
    assert staged_input(recurrent("x", "x_exSecondary1")) == "x_exSecondary1"


def test_nothing_is_copied_where_nothing_is_read() -> None:
    assert staged_input(recurrent()) is None
