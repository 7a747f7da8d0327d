"""The stream processor's operations: a command of the NN core and a program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ....formats.nbg.model import Source
from ..commands.nn import POINTERS
from ..commands.sp import (
    HALF_AWAY,
    LOADED_TABLE,
    SIGMOID,
    TANH,
    TWO_INPUTS,
    SpCommand,
    SpProgram,
)
from ..operation import A733, OperationContext
from ..refusal import Unknown
from ..shaders.shader import MOST_VALUES
from ..stream.evaluation import Binding
from ..stream.own_tables import SIGMOID_TABLE, TANH_TABLE
from ..stream.tables import TABLE_BYTES, FunctionTable, read_table
from ..stream.task import RealInput, RealOutput, Stored, StreamTask
from ..tasks import Sums
from .nn import decode_sums, first_scale, input_planes, output_planes, second_planes, second_scale

LANES = 16
"""Elements that the unit works on at once, as the depths of its queues show."""

_UINT8, _FLOAT16, _INT8, _INT16, _FLOAT32 = 0, 1, 2, 4, 7
_KEEPS_QUEUE = 2
"""Kinds of input from which on elements come from a queue."""

OWN_TABLES: Mapping[int, FunctionTable] = {
    SIGMOID: SIGMOID_TABLE,
    TANH: TANH_TABLE,
}

_TYPES: Mapping[int, Stored] = {
    _UINT8: np.dtype(np.uint8),
    _FLOAT16: np.dtype(np.float16),
    _INT16: np.dtype(np.int16),
    _FLOAT32: np.dtype(np.float32),
}

_SECOND_TYPES: Mapping[int, Stored] = {
    0: np.dtype(np.uint8),
    1: np.dtype(np.float16),
    4: np.dtype(np.int16),
    8: np.dtype(np.float32),
}
"""The second input has a field of its own, with numbers of its own."""


def decode_sp(context: OperationContext) -> StreamTask:
    """An operation of the stream processor; raises `Unknown` for what isn't known of it."""
    if context.target != A733:
        raise Unknown("a program for a chip without a stream processor")
    command = SpCommand(context.words)
    program = context.program()
    shape = command.OUTPUT_CHANNELS, command.OUTPUT_HEIGHT, command.OUTPUT_WIDTH
    if 0 in shape or math.prod(shape) > MOST_VALUES:
        raise Unknown(f"{shape} elements")
    channels, height, width = shape
    setup = program.header.INPUT_SETUP
    if setup >= _KEEPS_QUEUE:
        rows, length = 1, channels * height * width
    elif command.ROWS_ARE_LINES:
        rows, length = channels * height, width
    else:
        rows, length = channels, height * width
    registers = _registers(command)
    flow = context.flow(program, -(-length // LANES), registers)
    inputs = () if setup >= _KEEPS_QUEUE else _inputs(context, command, shape, setup)
    if flow.inputs != len(inputs) and (flow.inputs > len(inputs) or setup != 0):
        raise Unknown(f"a program that reads {flow.inputs} inputs of {len(inputs)}")
    output = None
    if flow.output is not None and context.has(POINTERS["output"]):
        output = _output(context, command, shape)
    elif flow.output is None and context.has(POINTERS["output"]):
        raise Unknown("a program without an output, and a place for one")
    return StreamTask(
        flow=flow,
        binding=_binding(context, registers, _tables(context, command, program, inputs)),
        inputs=inputs,
        output=output,
        shape=shape,
        rows=rows,
        length=length,
    )


def _inputs(
    context: OperationContext, command: SpCommand, shape: tuple[int, int, int], setup: int
) -> tuple[Sums | RealInput, ...]:
    first: Sums | RealInput
    kind = command.KERNEL_TYPE, command.INPUT_TYPE
    if kind == (_FLOAT32, _UINT8):
        first = _real_input(context, command, shape, _FLOAT32)
    elif kind == (_FLOAT16, _FLOAT16):
        first = _real_input(context, command, shape, _FLOAT16)
    else:
        first = decode_sums(context, command)
    if setup != TWO_INPUTS:
        if command.TWO_INPUTS:
            raise Unknown("a second input that the program doesn't read")
        return (first,)
    if kind[0] not in _TYPES or command.SECOND_TYPE not in _SECOND_TYPES:
        raise Unknown(f"a second input of type {command.SECOND_TYPE} beside one of {kind[0]}")
    dtype = _SECOND_TYPES[command.SECOND_TYPE]
    return first, RealInput(second_planes(context, command, shape, dtype.itemsize), dtype)


def _real_input(
    context: OperationContext, command: SpCommand, shape: tuple[int, int, int], kind: int
) -> RealInput:
    if not command.NO_COEFFICIENTS:
        raise Unknown("a convolution of real numbers")
    if command.INPUT_GROUP > 1:
        raise Unknown("channels of real numbers side by side")
    channels, height, width = shape
    if (height, width) != (command.INPUT_HEIGHT, command.INPUT_WIDTH):
        raise Unknown("real numbers with a border")
    planes = input_planes(context, command, _TYPES[kind].itemsize)
    planes = replace(planes, channels=channels)
    planes.check(context.layout)
    return RealInput(planes, _TYPES[kind])


def _output(
    context: OperationContext, command: SpCommand, shape: tuple[int, int, int]
) -> RealOutput:
    stride = 2 if command.STRIDE_OF_2 else 1
    channels, height, width = shape
    kept = channels, -(-height // stride), -(-width // stride)
    if command.OUTPUT_TYPE not in (_UINT8, _FLOAT16, _INT16):
        raise Unknown(f"results of type {command.OUTPUT_TYPE}")
    dtype = _TYPES[_FLOAT32 if command.FLOAT_OUTPUT else command.OUTPUT_TYPE]
    target = output_planes(context, command, kept, dtype.itemsize)
    halves_go_away = command.ROUNDING_MODE == HALF_AWAY
    return RealOutput(target, dtype, command.OUTPUT_ZERO_POINT, stride, halves_go_away)


def _registers(command: SpCommand) -> Mapping[int, np.float32]:
    """R3 to R7: the multipliers, what is added, and the clamp's limits."""
    if command.PER_CHANNEL:
        raise Unknown("a scale of each channel's own, and a program")
    scale = first_scale(command)
    second = second_scale(command) if command.SECOND_MANTISSA | command.SECOND_EXPONENT else 0.0
    return {
        3: np.float32(-scale if command.NEGATIVE_SCALE else scale),
        4: np.float32(-second if command.NEGATIVE_SECOND_SCALE else second),
        5: np.float32(0),
        6: np.float32(command.real(29)),
        7: np.float32(command.real(30)),
    }


def _binding(
    context: OperationContext,
    registers: Mapping[int, np.float32],
    tables: Mapping[int, FunctionTable],
) -> Binding:
    """What a command gives its program; the tiles of a layer share it."""
    key = tuple(registers.values()), tuple((n, id(table)) for n, table in tables.items())
    return context.shared.bindings.setdefault(key, Binding(registers, tables))


def _tables(
    context: OperationContext,
    command: SpCommand,
    program: SpProgram,
    inputs: tuple[Sums | RealInput, ...],
) -> Mapping[int, FunctionTable]:
    used = {code.TABLE for code in (*program.init, *program.loop) if code.TABLE}
    if not used:
        return {}
    if LOADED_TABLE not in used:
        return OWN_TABLES
    if used != {LOADED_TABLE}:
        raise Unknown("a loaded table beside the unit's own")
    address = context.address(POINTERS["coefficients"])
    if address.space.source is not Source.COEFFICIENTS or address.offset:
        raise Unknown(f"a table from {address.space} + {address.offset}")
    blob = context.layout.blob(address.space)
    # A table lies after the coefficients, if there are any.
    kernels = next((p.kernels for p in inputs if isinstance(p, Sums)), None)
    start = 0 if command.NO_COEFFICIENTS or kernels is None else kernels.end
    if blob.size < start + TABLE_BYTES:
        raise Unknown(f"a table of {max(blob.size - start, 0)} bytes, not {TABLE_BYTES}")
    return {LOADED_TABLE: read_table(blob[start : start + TABLE_BYTES].tobytes())}
