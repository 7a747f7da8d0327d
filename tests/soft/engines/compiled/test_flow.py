"""Compiled graphs that use memory which nobody wrote are refused when they are loaded."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from anynpu.errors import ModelError
from anynpu.soft.engines.compiled.flow import check_flow
from anynpu.soft.engines.compiled.program import CompiledProgram
from anynpu.soft.formats.rknn.model import ElementType

from .test_networks import FILES, archive_of

_CONVOLUTION = next(path for path in FILES if path.stem == "rk3588_conv_odd_size_int8")
_MOVED = next(path for path in FILES if path.stem == "rv1106_transpose_0321_int8")


def test_an_output_that_hangs_on_nothing_that_was_written() -> None:
    program = CompiledProgram(archive_of(_CONVOLUTION)[0]).graph(0)
    parts = program.prepared, program.cpu_nodes, program.stagings
    check_flow(program.graph, *parts)
    with pytest.raises(
        ModelError, match=r"the output 'y0': values depend on memory that was never"
    ):
        check_flow(replace(program.graph, inputs=()), *parts)


def test_an_input_that_ends_too_early() -> None:
    program = CompiledProgram(archive_of(_CONVOLUTION)[0]).graph(0)
    graph = program.graph
    number = graph.inputs[0]
    given = graph.tensors[number]
    rows, height = given.shape[2] // 2, given.native_shape[2] // 2
    shape, native = list(given.shape), list(given.native_shape)
    shape[2], native[2] = rows, height
    short = replace(given, shape=tuple(shape), native_shape=tuple(native))
    tensors = (*graph.tensors[:number], short, *graph.tensors[number + 1 :])
    with pytest.raises(ModelError, match=r"'y0': values .* bytes past the input 'x0'"):
        check_flow(
            replace(graph, tensors=tensors),
            program.prepared,
            program.cpu_nodes,
            program.stagings,
        )


def test_an_output_of_another_type_than_what_is_written() -> None:
    program = CompiledProgram(archive_of(_CONVOLUTION)[0]).graph(0)
    graph, number = program.graph, program.graph.outputs[0]
    output = graph.tensors[number]
    wrong = replace(output, size=math.prod(output.shape) - 1)
    tensors = (*graph.tensors[:number], wrong, *graph.tensors[number + 1 :])
    parts = program.prepared, program.cpu_nodes, program.stagings
    with pytest.raises(ModelError, match=r"the output 'y0' has \d+ bytes .* of type INT8 take"):
        check_flow(replace(graph, tensors=tensors), *parts)


def test_elements_that_are_moved_to_others() -> None:
    program = CompiledProgram(archive_of(_MOVED)[0]).graph(0)
    graph = program.graph
    node = next(node for node in graph.nodes if node.op_type == "Transpose")
    source = graph.tensors[node.inputs[0]]
    wrong = replace(source, element=ElementType.FLOAT16)
    tensors = (*graph.tensors[: source.index], wrong, *graph.tensors[source.index + 1 :])
    parts = program.prepared, program.cpu_nodes, program.stagings
    with pytest.raises(ModelError, match=r"of type Transpose moves elements of type FLOAT16 to"):
        check_flow(replace(graph, tensors=tensors), *parts)
