"""Products of two tensors: an NN command whose kernels come from memory (A733), or from a blob of
coefficients that a shader made (T527).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ....formats.nbg.model import OperationKind, PatchedPlace, Source
from ..commands.fields import bits, joined
from ..commands.nn import CIRCLE_ENDS, POINTERS, NnCommand
from ..memory import Window, space_of
from ..operation import A733, CORES, OperationContext
from ..planes import Planes
from ..refusal import Unknown
from ..shaders.coefficients import LAYER, MadeKernels, made_kernels
from ..shaders.shader import Shader
from ..tasks import Table, Task
from .nn import (
    FLOAT16,
    INT8,
    INT16,
    UINT8,
    decode_table,
    first_scale,
    input_planes,
    output_planes,
)


class MatrixCommand(NnCommand, length=48):
    """The command's fields where kernels are computed.

    The addend's place has the input's zero point, the coefficients' has the kernels'.
    """

    ADDITION = bits(20, 27, only=(0,))
    LEAKY = bits(20, 28, only=(0,))
    MULTIPLICATION = bits(20, 29, only=(0,))
    STRIDE_OF_2 = bits(20, 30, only=(0,))
    FLOAT_OUTPUT = bits(20, 26, only=(0,))
    POOLING = bits(0, 27, 28, only=(0,))
    KERNEL_WIDTH = bits(0, 2, 5, only=(1,))
    KERNEL_HEIGHT = bits(8, 12, 15, only=(1,))
    PER_CHANNEL = bits(18, 26, only=(0,))
    DEPTHWISE = bits(22, 17, only=(0,))
    TABLE_FORM = bits(23, 0, 1, only=(0,))
    COMPUTED_KERNELS = bits(27, 19, only=(1,))
    SUBTRACTION = bits(27, 29, only=(0,))
    NO_COEFFICIENTS = bits(28, 26, only=(1,))
    DEPTH_TO_SPACE = bits(28, 29, only=(0,))
    INPUT_ZERO_POINT = bits(36, 0, 7)
    ADDEND = bits(36, 8, 15, only=(0,))
    SHUFFLED_ROWS = joined((43, 30, 31), (36, 14, 15), only=(0,))


class TurnedMatrixCommand(MatrixCommand, length=48):
    """The same where each row of memory has one value of every kernel."""

    COMPUTED_KERNELS = bits(27, 19, only=(0,))


class TableMatrixCommand(MatrixCommand, length=48):
    """The same with a table, which is all that there is of coefficients."""

    ADDITION = bits(20, 27, only=(1,))
    LEAKY = bits(20, 28, only=(1,))
    TABLE_FORM = bits(23, 0, 1, only=(2,))


class MadeMatrixCommand(MatrixCommand, length=48):
    """The same where a shader made the coefficients: the border is the input's zero point."""

    COMPUTED_KERNELS = bits(27, 19, only=(0,))
    INPUT_ZERO_POINT = bits(15, 2, 17)
    ADDEND = bits(36, 0, 15, only=(0,))
    SECOND_X_STRIDE = bits(32, 0, 15, only=(0,))
    SECOND_Y_STRIDE = bits(32, 16, 31, only=(0,))


_BYTE: np.dtype[np.generic] = np.dtype(np.uint8)

_STORED: Mapping[tuple[int, int, int], np.dtype[np.generic]] = {
    (UINT8, UINT8, UINT8): np.dtype(np.uint8),
    (UINT8, UINT8, INT8): np.dtype(np.int8),
    (UINT8, UINT8, FLOAT16): np.dtype(np.float16),
    (INT16, INT16, INT16): np.dtype(np.int16),
    (INT16, INT16, FLOAT16): np.dtype(np.float16),
}
"""What results are stored as, by the types of both tensors and of the output."""


@dataclass(frozen=True)
class MatrixProduct(Task):
    """(kernels, depth) bytes by (depth, rows, pixels) bytes, each less its zero point.

    With `is_wide` both are int16; their window has bytes as its last axis. Results, which may go
    through `table`, are of `stored`.
    """

    kernels: Window
    source: Planes
    target: Planes
    kernel_zero_point: int
    input_zero_point: int
    output_zero_point: int
    scale: float
    low: float
    high: float
    is_wide: bool = False
    stored: np.dtype[np.generic] = _BYTE
    table: Table | None = None

    @property
    def macs(self) -> int:
        return math.prod(self.kernels.shape[:2]) * self.source.height * self.source.width

    def reads(self) -> Iterator[Window]:
        yield self.kernels
        for _, window in self.source.windows():
            yield window

    def writes(self) -> Iterator[Window]:
        for _, window in self.target.windows():
            yield window


def is_turned_product(context: OperationContext) -> bool:
    """Whether a second operand is there, and nothing says that it is added or multiplied."""
    words = context.words
    kinds = NnCommand.ADDITION, NnCommand.LEAKY, NnCommand.MULTIPLICATION
    if not NnCommand.NO_COEFFICIENTS.of(words) or any(kind.of(words) for kind in kinds):
        return False
    return context.target == A733 and context.has(POINTERS["second"])


def decode_matrix_product(context: OperationContext) -> MatrixProduct:
    """A command with computed kernels; raises `Unknown` for what isn't known of it."""
    if context.target != A733:
        raise Unknown("a product of two tensors on this chip")
    is_turned = not MatrixCommand.COMPUTED_KERNELS.of(context.words)
    form = TurnedMatrixCommand if is_turned else MatrixCommand
    has_table = context.operation.kind == OperationKind.NN_TABLE
    command = (TableMatrixCommand if has_table else form)(context.words)
    address = context.address(POINTERS["second"])
    shape = command.OUTPUT_CHANNELS, command.KERNEL_DEPTH
    row, item = command.SECOND_X_STRIDE, 2 if command.KERNEL_TYPE == INT16 else 1
    kernels = Window(
        address.space,
        address.offset,
        (*shape, item),
        (item, row, 1) if is_turned else (row, item, 1),
        context.circle(CIRCLE_ENDS["second"], command.SECOND_CIRCLE, address.space),
    )
    if row < item * shape[0 if is_turned else 1]:
        raise Unknown(f"kernels of {shape}, {row} bytes apart")
    product = _product(context, command, kernels)
    if not has_table:
        return product
    return replace(product, table=decode_table(context, command)[0])


def decode_made_product(context: OperationContext) -> MatrixProduct:
    """A command whose coefficients a shader made; raises `Unknown` likewise."""
    command = MadeMatrixCommand(context.words)
    made = _made_for(context)
    is_several = math.ceil(made.kernels / CORES[context.target]) > made.per_core
    if made.per_core > command.KERNELS_PER_CORE or (
        is_several and made.per_core != command.KERNELS_PER_CORE
    ):
        raise Unknown("coefficients that a shader made for other superblocks")
    told = command.OUTPUT_CHANNELS, command.KERNEL_DEPTH, command.INPUT_ZERO_POINT
    if (made.kernels, made.depth, made.input_zero_point) != told:
        raise Unknown("coefficients that a shader made for another command")
    # Where inputs have the zero point 128 the kernels' own one makes no difference to the shader.
    if made.kernel_zero_point not in (None, command.COEFFICIENT_ZERO_POINT):
        raise Unknown("coefficients that a shader made for another zero point")
    window = made.window()
    kernels = replace(window, shape=(*window.shape, 1), strides=(*window.strides, 1))
    return _product(context, command, kernels)


def _made_for(context: OperationContext) -> MadeKernels:
    """A command's coefficients, by the one shader in front of it that makes them."""
    space = context.address(POINTERS["coefficients"]).space
    found = []
    for number, operation in enumerate(context.model.operations[: context.number]):
        if operation.kind != OperationKind.SHADER:
            continue
        other = replace(context, number=number)
        for patch in other.patches(PatchedPlace.STATES).values():
            is_written = patch.source == Source.CONSTANTS_WRITTEN
            if is_written and space_of(patch.source, patch.number) == space:
                found.append(other)
    if len(found) != 1 or found[0].layer != LAYER:
        raise Unknown(f"coefficients in {space}, which {len(found)} shaders make")
    return made_kernels(Shader(found[0]))


def _product(context: OperationContext, command: MatrixCommand, kernels: Window) -> MatrixProduct:
    types = command.KERNEL_TYPE, command.INPUT_TYPE
    stored = _STORED.get((*types, command.OUTPUT_TYPE))
    if stored is None:
        raise Unknown(f"a product of types {types} to {command.OUTPUT_TYPE}")
    is_wide = types == (INT16, INT16)
    zero_points = command.COEFFICIENT_ZERO_POINT, command.INPUT_ZERO_POINT
    if (is_wide and any(zero_points)) or (stored.itemsize > 1 and command.OUTPUT_ZERO_POINT):
        raise Unknown("a product of two tensors to values with a zero point")
    seen = command.INPUT_HEIGHT, command.INPUT_WIDTH
    if seen != (command.OUTPUT_HEIGHT, command.OUTPUT_WIDTH):
        raise Unknown("a product of two tensors with a border")
    if command.INPUT_GROUP > 1 or command.OUTPUT_GROUP > 1 or command.SECOND_GROUP > 1:
        raise Unknown("a product of two tensors whose channels lie side by side")
    low, high = command.real(30), command.real(29)
    if not low <= high:
        raise Unknown(f"a clamp from {low} to {high}")
    source = input_planes(context, command, 2 if is_wide else 1)
    source.check(context.layout)
    context.layout.check(kernels)
    if 0 in kernels.shape:
        raise Unknown(f"kernels of {kernels.shape}")
    shape = command.OUTPUT_CHANNELS, command.OUTPUT_HEIGHT, command.OUTPUT_WIDTH
    return MatrixProduct(
        kernels=kernels,
        source=source,
        target=output_planes(context, command, shape, stored.itemsize),
        kernel_zero_point=command.COEFFICIENT_ZERO_POINT,
        input_zero_point=command.INPUT_ZERO_POINT,
        output_zero_point=command.OUTPUT_ZERO_POINT,
        scale=first_scale(command),
        low=max(low, 0.0) if command.RELU else low,
        high=high,
        is_wide=is_wide,
        stored=stored,
    )
