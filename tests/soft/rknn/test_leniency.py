"""What a board lets pass, and what ends a program there: each row of the tables, in both modes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode, Query
from anynpu.rknn.abi import InitFlag as Flag
from anynpu.rknn.abi import TensorFormat as Fmt
from anynpu.rknn.abi import TensorType as Type
from anynpu.rknn.library import RknnLibrary
from anynpu.soft.device_memory import STRICT_VARIABLE
from anynpu.soft.rknn.leniency import CRASHES, LENIENCIES

from ... import models
from ...capi import SUCC, attribute, init, one_input, opened, query, set_input
from ...matmul import Client

SHAPE = (1, 3, 4, 5)
FEATURES = (1, 16, 4, 5)
IMAGE = np.ones(SHAPE, np.float32)
PICTURE = np.ones(SHAPE, np.uint8)
Scenario = Callable[["Program"], int]


class Program:
    """A program that makes one call which it shouldn't; what it opens is closed at the end."""

    def __init__(self, npu: RknnLibrary, stack: ExitStack, folder: Path) -> None:
        self.npu, self.folder = npu, folder
        self._stack = stack

    def open(self, model: bytes, flags: int = 0) -> int:
        self.context = self._stack.enter_context(opened(self.npu, model, flags))
        return self.context

    def set(self, array: np.ndarray, **fields: int) -> int:
        return set_input(self.npu, self.context, array, **fields)

    def set_numbers(self, *arrays: np.ndarray, first_index: int = 0) -> int:
        """Arrays of other than four dimensions, one for each of the first inputs."""
        given = (abi.Input * len(arrays))(
            *(
                one_input(array, index=first_index + i, fmt=Fmt.UNDEFINED)
                for i, array in enumerate(arrays)
            )
        )
        return self.npu.rknn_inputs_set(self.context, len(arrays), given)

    def get(self, *outputs: abi.Output) -> int:
        array = (abi.Output * len(outputs))(*outputs)
        return self.npu.rknn_outputs_get(self.context, len(outputs), array, None)

    def release(self, output: abi.Output | None, count: int = 1) -> int:
        pointer = None if output is None else ctypes.byref(output)
        return self.npu.rknn_outputs_release(self.context, count, pointer)

    def run(self, array: np.ndarray | None = None) -> None:
        if array is not None:
            assert self.set(array) == SUCC
        assert self.npu.rknn_run(self.context, None) == SUCC

    def bind(self, command: Query, size: int = 4096, **fields: int) -> int:
        """rknn_set_io_mem with new memory and a query's answer, but for some fields."""
        attr = attribute(self.npu, self.context, command)
        for name, value in fields.items():
            setattr(attr, name, value)
        self.memory = self.npu.rknn_create_mem(self.context, size)
        return self.npu.rknn_set_io_mem(self.context, self.memory, ctypes.byref(attr))

    def set_shape(self, size: tuple[int, int], index: int = 0) -> int:
        attr = abi.TensorAttr(index=index, n_dims=4, name=b"x", fmt=Fmt.NHWC)
        attr.dims[:4] = (1, *size, 3)
        return self.npu.rknn_set_input_shapes(self.context, 1, ctypes.byref(attr))


@pytest.fixture
def program(npu: RknnLibrary, tmp_path: Path) -> Iterator[Program]:
    with ExitStack() as stack:
        yield Program(npu, stack, tmp_path)


# ------------------------------------------------------------------------- what a board lets pass


def layout(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.set(IMAGE, fmt=Fmt.NCHW)


def kind(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.set(IMAGE.astype(np.int8))


def blocks(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.set(IMAGE, fmt=Fmt.NC1HWC2)


def pass_through(program: Program) -> int:
    program.open(models.quantized((2, 6)))
    return program.set(np.ones((2, 6), np.int8), fmt=Fmt.NHWC, pass_through=1)


def short_pass_through(program: Program) -> int:
    program.open(models.quantized(SHAPE))
    return program.set(IMAGE.astype(np.int8), fmt=Fmt.NHWC, pass_through=1)


def raw_bytes(program: Program) -> int:
    program.open(models.quantized(FEATURES))
    return program.set(np.ones(FEATURES, np.uint8), fmt=Fmt.NHWC, pass_through=1)


def pixels(program: Program) -> int:
    shape = (1, 3, 4, 16)
    program.open(models.quantized(shape))
    assert program.set(np.ones(shape, np.uint8)) == SUCC
    return program.set(np.ones(shape, np.float32))


def bytes_as_pixels(program: Program) -> int:
    program.open(models.quantized(SHAPE))
    assert program.set(PICTURE) == SUCC
    return program.set(IMAGE.astype(np.int8))


def fewer_inputs(program: Program) -> int:
    program.open(models.two_inputs())
    return program.set_numbers(np.ones((2, 3), np.float32))


def input_index(program: Program) -> int:
    program.open(models.two_inputs())
    array = np.ones((2, 3), np.float32)
    return program.set_numbers(array, array, first_index=1)


def wraps(program: Program) -> int:
    program.open(models.quantized((2, 6)))
    return program.set_numbers(np.full((2, 6), 1000, np.float32))


def unset_inputs(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.npu.rknn_run(program.context, None)


def outputs_before_a_run(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.get(abi.Output(want_float=1))


def fewer_outputs(program: Program) -> int:
    program.open(models.two_outputs())
    program.run(np.ones((1, 2), np.float32))
    return program.get(abi.Output(want_float=1))


def output_index(program: Program) -> int:
    program.open(models.two_outputs())
    program.run(np.ones((1, 2), np.float32))
    return program.get(abi.Output(index=1), abi.Output(index=0))


def small_output_buffer(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    program.run(IMAGE)
    return program.get(abi.Output(want_float=1, is_prealloc=1, buf=IMAGE.ctypes.data, size=239))


def release_after_destroy(program: Program) -> int:
    code, program.context = init(program.npu, models.add_one(SHAPE))
    assert code == SUCC
    program.run(IMAGE)
    output = abi.Output(want_float=1)
    npu = program.npu
    assert npu.rknn_outputs_get(program.context, 1, ctypes.byref(output), None) == SUCC
    assert npu.rknn_destroy(program.context) == SUCC
    return program.release(output)


def bound_layout(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.bind(Query.INPUT_ATTR, type=Type.FLOAT32, fmt=Fmt.NCHW)


def bound_type(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.bind(Query.INPUT_ATTR, type=Type.INT8, fmt=Fmt.NHWC)


def raw_type(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.bind(Query.NATIVE_INPUT_ATTR, type=Type.FLOAT32, pass_through=1)


def output_type(program: Program) -> int:
    program.open(models.quantized(SHAPE))
    return program.bind(Query.OUTPUT_ATTR, type=Type.INT32, fmt=Fmt.NCHW)


def shape_index(program: Program) -> int:
    program.open(models.dynamic())
    return program.set_shape((8, 8), index=1)


def no_physical_address(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    mine = np.zeros(64, np.uint8)
    memory = program.npu.rknn_create_mem_from_phys(
        program.context, (1 << 64) - 1, mine.ctypes.data, mine.size
    )
    if not memory:
        return ErrorCode.PARAM_INVALID
    return program.npu.rknn_destroy_mem(program.context, memory)


def performance_before_a_run(program: Program) -> int:
    return query(program.npu, program.open(models.add_one()), Query.PERF_RUN, abi.PerfRun())


def information_only(program: Program) -> int:
    program.open(models.add_one(SHAPE), Flag.COLLECT_MODEL_INFO_ONLY)
    return program.set(IMAGE)


def fences(program: Program) -> int:
    code, context = init(program.npu, models.add_one(), Flag.FENCE_IN_OUTSIDE)
    if code == SUCC:
        assert program.npu.rknn_destroy(context) == SUCC
    return code


PASSED: dict[str, Scenario] = {
    "layout": layout,
    "type": kind,
    "blocks": blocks,
    "pass_through": pass_through,
    "short pass_through": short_pass_through,
    "raw bytes": raw_bytes,
    "pixels": pixels,
    "bytes as pixels": bytes_as_pixels,
    "fewer inputs": fewer_inputs,
    "input index": input_index,
    "wraps": wraps,
    "unset inputs": unset_inputs,
    "outputs before a run": outputs_before_a_run,
    "fewer outputs": fewer_outputs,
    "output index": output_index,
    "small output buffer": small_output_buffer,
    "release after destroy": release_after_destroy,
    "bound layout": bound_layout,
    "bound type": bound_type,
    "raw type": raw_type,
    "output type": output_type,
    "shape index": shape_index,
    "no physical address": no_physical_address,
    "performance before a run": performance_before_a_run,
    "information only": information_only,
    "fences": fences,
}


@pytest.mark.parametrize("name", PASSED)
def test_what_a_board_lets_pass(
    program: Program,
    name: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = LENIENCIES[name]
    monkeypatch.setenv("RKNN_LOG_LEVEL", "1")
    assert PASSED[name](program) == SUCC
    log = capfd.readouterr().err
    assert bool(log) == row.is_logged
    assert "a board answers" not in log
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    assert PASSED[name](program) == row.code
    refusal = capfd.readouterr().err
    assert f"a board answers {row.board}\n" in refusal
    assert refusal.count(f"{row.call}, ") == 1, "the call is named once"


# ------------------------------------------------------------------------ what ends a program there


def input_buffer(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    given = one_input(IMAGE, fmt=Fmt.NHWC)
    given.buf = None
    return program.npu.rknn_inputs_set(program.context, 1, ctypes.byref(given))


def inputs(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.npu.rknn_inputs_set(program.context, 1, None)


def input_format(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.set(IMAGE, fmt=77)


def wide_pass_through(program: Program) -> int:
    shape = (1, 16, 16, 24)
    program.open(models.quantized(shape))
    return program.set(np.ones(shape, np.float32), fmt=Fmt.NHWC, pass_through=1)


def no_shapes(program: Program) -> int:
    program.open(models.dynamic())
    return program.set(np.ones((1, 3, 16, 8), np.float32))


def no_memory(program: Program) -> int:
    program.open(models.convolution(), Flag.MEM_ALLOC_OUTSIDE)
    return program.set(np.ones((1, 3, 16, 16), np.float32))


def no_memory_for_a_run(program: Program) -> int:
    program.open(models.convolution(), Flag.MEM_ALLOC_OUTSIDE)
    assert program.bind(Query.INPUT_ATTR) == SUCC
    return program.npu.rknn_run(program.context, None)


def small_model_memory(program: Program) -> int:
    context = program.open(models.deep(), Flag.INTERNAL_ALLOC_OUTSIDE)
    memory = program.npu.rknn_create_mem(context, 4)
    return program.npu.rknn_set_internal_mem(context, memory)


def memory_for_information(program: Program) -> int:
    program.open(models.add_one(SHAPE), Flag.COLLECT_MODEL_INFO_ONLY)
    return program.bind(Query.INPUT_ATTR)


def outputs(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    program.run(IMAGE)
    return program.npu.rknn_outputs_get(program.context, 1, None, None)


def no_output_buffer(program: Program) -> int:
    program.open(models.add_one(SHAPE, metadata={"anynpu.soc": "rk3566"}))
    program.run(IMAGE)
    return program.get(abi.Output(is_prealloc=1, want_float=1, size=4096))


def release_twice(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    program.run(IMAGE)
    output = abi.Output(want_float=1)
    npu = program.npu
    assert npu.rknn_outputs_get(program.context, 1, ctypes.byref(output), None) == SUCC
    assert program.release(output) == SUCC
    return program.release(output)


def released_outputs(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.release(None)


def small_input_memory(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.bind(Query.INPUT_ATTR, 4 * 5 * 3 * 2, type=Type.FLOAT16, fmt=Fmt.NHWC)


def small_output_memory(program: Program) -> int:
    program.open(models.add_one(SHAPE))
    return program.bind(Query.OUTPUT_ATTR, 8)


def wide_output(program: Program) -> int:
    program.open(models.quantized(SHAPE))
    return program.bind(Query.OUTPUT_ATTR, 2 * 60, type=Type.FLOAT16, fmt=Fmt.NHWC)


def small_matrix_memory(program: Program) -> int:
    with Client(program.npu, "rk3588", abi.MatmulType.INT8_MM_INT8_TO_INT32, (4, 32, 32)) as client:
        memory = program.npu.rknn_create_mem(client.context, 4)
        attr = ctypes.byref(client.attr.A)
        return program.npu.rknn_matmul_set_io_mem(client.context, memory, attr)


def native_output_index(program: Program) -> int:
    context = program.open(models.add_one())
    return query(program.npu, context, Query.NATIVE_OUTPUT_ATTR, abi.TensorAttr(index=1))


def empty_file(program: Program) -> int:
    context = abi.Handle()
    path = str(program.folder).encode()
    return program.npu.rknn_init(ctypes.byref(context), path, 0, 0, None)


def duplicate_of_nothing(program: Program) -> int:
    source, result = abi.Handle(), abi.Handle()
    return program.npu.rknn_dup_context(ctypes.byref(source), ctypes.byref(result))


def destroyed_memory(program: Program) -> int:
    context = program.open(models.add_one())
    memory = program.npu.rknn_create_mem(context, 4096)
    assert program.npu.rknn_destroy_mem(context, memory) == SUCC
    return program.npu.rknn_destroy_mem(context, memory)


def destroyed_binding(program: Program) -> int:
    context = program.open(models.add_one(SHAPE))
    assert program.bind(Query.OUTPUT_ATTR) == SUCC
    assert program.npu.rknn_destroy_mem(context, program.memory) == SUCC
    return program.npu.rknn_run(context, None)


def destroyed_context(program: Program) -> int:
    _, context = init(program.npu, models.add_one())
    assert program.npu.rknn_destroy(context) == SUCC
    return program.npu.rknn_destroy(context)


ENDED: dict[str, Scenario] = {
    "input buffer": input_buffer,
    "inputs": inputs,
    "wide pass_through": wide_pass_through,
    "input format": input_format,
    "no shapes": no_shapes,
    "no memory": no_memory,
    "no memory for a run": no_memory_for_a_run,
    "small model memory": small_model_memory,
    "memory for information": memory_for_information,
    "outputs": outputs,
    "no output buffer": no_output_buffer,
    "release twice": release_twice,
    "released outputs": released_outputs,
    "small input memory": small_input_memory,
    "small output memory": small_output_memory,
    "wide output": wide_output,
    "small matrix memory": small_matrix_memory,
    "native output index": native_output_index,
    "empty file": empty_file,
    "duplicate of nothing": duplicate_of_nothing,
    "destroyed memory": destroyed_memory,
    "destroyed binding": destroyed_binding,
    "destroyed context": destroyed_context,
}

OF_COMPILED_FILES = {"batch": "test_compiled_files.py::test_a_batch_multiplies_the_first_axis"}
"""Rows that take a file of the vendor's compiler, and the test of each."""


REFUSED_BEFORE = ("wide output",)
"""What strict mode refuses as something that a board lets pass."""


@pytest.mark.parametrize("name", ENDED)
@pytest.mark.parametrize("is_strict", [False, True])
def test_what_ends_a_program_on_a_board(
    program: Program,
    name: str,
    is_strict: bool,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = CRASHES[name]
    if is_strict:
        monkeypatch.setenv(STRICT_VARIABLE, "1")
    assert ENDED[name](program) == row.code
    if is_strict and name in REFUSED_BEFORE:
        return
    assert f"a board would answer this with {row.board}\n" in capfd.readouterr().err


def test_every_row_has_a_scenario() -> None:
    assert list(PASSED) == list(LENIENCIES)
    assert sorted([*ENDED, *OF_COMPILED_FILES]) == sorted(CRASHES)
