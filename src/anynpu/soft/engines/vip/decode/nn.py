"""The NN core's commands."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....formats.nbg.model import OperationKind, Source
from ..coefficients import Kernels, KernelShape
from ..commands.nn import CIRCLE_ENDS, POINTERS, NnCommand, TransposeCommand
from ..memory import Window
from ..numbers import coarse_table_values, scale_of, table_values
from ..operation import A733, CORES, OperationContext
from ..planes import Planes
from ..refusal import Unknown
from ..tasks import (
    BlockTranspose,
    Convolution,
    HalfValues,
    MaxPooling,
    Second,
    Sums,
    Table,
    Task,
)

UINT8, FLOAT16, INT8, INT16, FLOAT32 = 0, 1, 2, 4, 7
_TYPES = {0: "uint8", 1: "float16", 2: "int8", 3: "bfloat16", 4: "int16"}
_LARGEST_HALF = 65504.0
_RECORDS_END = 64
"""Bytes that records are filled up to."""
_WIDTH_BITS = 4
_TRANSPOSE_BIT = 2
_FIRST_PIXEL = 3
_WITH_TABLE = 2
_TABLE_WORDS = 1027
_TABLE_FORMS = {
    0x37: (True, 128),
    0x36: (True, 64),
    0x35: (True, 32),
    0x34: (True, 16),
    0x27: (False, 128),
    0x26: (False, 64),
    0x25: (False, 32),
}
"""Whether a table has a half for negative arguments, and for how many powers of two entries."""
_COARSE_TABLE = 0x08
"""A function of what isn't negative: four entries for each power of two that a float32 has."""


def decode_nn(context: OperationContext) -> Task:
    """A command of the NN core; raises `Unknown` for what isn't known of it."""
    kind = context.operation.kind
    if kind == OperationKind.NN_TRANSPOSE or context.words[31] & _TRANSPOSE_BIT:
        return _transpose(context, TransposeCommand(context.words))
    command = NnCommand(context.words)
    if command.INPUT_TYPE == FLOAT16 or _has_long_input(command):
        return _half_values(context, command)
    return _convolution(context, command)


def _has_long_input(command: NnCommand) -> bool:
    """Whether values are float32, which the type of kernels says."""
    return (command.KERNEL_TYPE, command.INPUT_TYPE) == (FLOAT32, UINT8)


def decode_sums(context: OperationContext, command: NnCommand) -> Sums:
    """The part of a command that makes sums of products, which a stream processor's has too."""
    _check_types(command)
    has_coefficients = context.has(POINTERS["coefficients"]) and not command.NO_COEFFICIENTS
    if not has_coefficients and not command.NO_COEFFICIENTS:
        raise Unknown("it has no coefficients, and nothing says that it needs none")
    height = kernel_height(command) if has_coefficients else 1
    width = kernel_width(command) if has_coefficients else 1
    kernels = _kernels(context, command) if has_coefficients else None
    top, left = _before(command.OFFSET_Y), _before(command.OFFSET_X)
    is_depthwise = bool(command.DEPTHWISE) or not has_coefficients
    is_wide = command.INPUT_TYPE == INT16
    source = input_planes(context, command, 2 if is_wide else 1)
    if is_depthwise:
        source = replace(source, channels=command.OUTPUT_CHANNELS)
    # Rows that no output sees aren't read; of an output that sees only the border, one is.
    source = replace(
        source,
        height=min(source.height, max(command.OUTPUT_HEIGHT + height - 1 - top, 1)),
        width=min(source.width, max(command.OUTPUT_WIDTH + width - 1 - left, 1)),
    )
    if min(source.height, source.width, source.channels) < 1:
        raise Unknown("an input without a pixel")
    source.check(context.layout)
    is_signed = command.INPUT_TYPE == INT8
    border = command.BORDER_CONSTANT & (0xFFFF if is_wide else 255)
    if is_wide and (border or command.COEFFICIENT_ZERO_POINT):
        raise Unknown("int16 values with a zero point")
    zero_point = command.COEFFICIENT_ZERO_POINT or border
    return Sums(
        source=source,
        is_signed=is_signed,
        kernels=kernels,
        bias=0 if kernels else 128 - zero_point,
        is_depthwise=is_depthwise,
        kernel_height=height,
        kernel_width=width,
        top=top,
        left=left,
        border=border,
        channels=command.OUTPUT_CHANNELS,
        height=command.OUTPUT_HEIGHT,
        width=command.OUTPUT_WIDTH,
        is_wide=is_wide,
    )


def kernel_height(command: NnCommand) -> int:
    """Rows of a kernel; a field of 0 is as many as pixels."""
    if command.KERNEL_HEIGHT_1:
        return 1
    return command.KERNEL_HEIGHT or command.KERNEL_WIDTH


def kernel_width(command: NnCommand) -> int:
    """Pixels of a kernel's row; of a kernel of one row, rows are the upper bits."""
    if command.KERNEL_HEIGHT_1:
        return command.KERNEL_HEIGHT << _WIDTH_BITS | command.KERNEL_WIDTH
    return command.KERNEL_WIDTH


def input_planes(context: OperationContext, command: NnCommand, item: int = 1) -> Planes:
    """The input, as many channels as a kernel is deep."""
    group = command.INPUT_GROUP
    stride, high = command.INPUT_Y_STRIDE, command.INPUT_SLICE_HIGH
    address = context.address(POINTERS["input"])
    return Planes(
        space=address.space,
        offset=address.offset,
        circle=context.circle(CIRCLE_ENDS["input"], command.INPUT_CIRCLE, address.space),
        channels=command.KERNEL_DEPTH,
        height=command.INPUT_HEIGHT,
        width=command.INPUT_WIDTH,
        row=command.INPUT_X_STRIDE,
        plane=_slice(context, command.INPUT_X_STRIDE, stride, high, group),
        group=group,
        item=item,
    )


def output_planes(
    context: OperationContext,
    command: NnCommand,
    shape: tuple[int, int, int],
    item: int = 1,
) -> Planes:
    """The output's (channels, rows, pixels), checked."""
    channels, height, width = shape
    # The stride counts rows that pixels of as many channels lie in.
    row = command.OUTPUT_X_STRIDE * (command.OUTPUT_GROUP if command.DEPTH_TO_SPACE else 1)
    group = 1 if command.DEPTH_TO_SPACE else command.OUTPUT_GROUP
    address = context.address(POINTERS["output"])
    planes = Planes(
        space=address.space,
        offset=address.offset,
        circle=context.circle(CIRCLE_ENDS["output"], command.OUTPUT_CIRCLE, address.space),
        channels=channels,
        height=height,
        width=width,
        row=row,
        plane=_slice(context, row, command.OUTPUT_Y_STRIDE, command.OUTPUT_SLICE_HIGH, group),
        group=group,
        item=item,
    )
    planes.check(context.layout)
    return planes


def second_planes(
    context: OperationContext, command: NnCommand, shape: tuple[int, int, int], item: int = 1
) -> Planes:
    """The second operand, of the output's (channels, rows, pixels), checked."""
    group = command.SECOND_GROUP
    channels, height, width = shape
    slice_bytes = _slice(context, command.SECOND_X_STRIDE, command.SECOND_Y_STRIDE, 0, group)
    if context.target == A733 and channels > group:
        least = ((height - 1) * command.SECOND_X_STRIDE + width * item) * group
        if slice_bytes < least:
            raise Unknown(
                f"the second operand's channels are {slice_bytes} bytes apart, fewer than the "
                f"{least} that one takes"
            )
    address = context.address(POINTERS["second"])
    planes = Planes(
        space=address.space,
        offset=address.offset,
        circle=context.circle(CIRCLE_ENDS["second"], command.SECOND_CIRCLE, address.space),
        channels=channels,
        height=height,
        width=width,
        row=command.SECOND_X_STRIDE,
        plane=slice_bytes,
        group=group,
        item=item,
    )
    planes.check(context.layout)
    return planes


def first_scale(command: NnCommand) -> float:
    """What sums are multiplied by."""
    return scale_of(command.SCALE_MANTISSA, command.SCALE_EXPONENT)


def second_scale(command: NnCommand) -> float:
    """The other multiplier: of negative values, of a second operand, or R4 of a program."""
    return scale_of(command.SECOND_MANTISSA, command.SECOND_EXPONENT)


def decode_max_pooling(command: NnCommand) -> MaxPooling | None:
    """The maximum that follows sums."""
    if command.POOLING != 1:
        return None
    return MaxPooling(
        size=3 if command.POOLING_OF_3 else 2,
        stride=2 if command.POOLING_STRIDE_2 else 1,
        left=command.POOLING_LEFT,
        top=command.POOLING_TOP,
        right=command.POOLING_RIGHT,
        bottom=command.POOLING_BOTTOM,
    )


def pooled_shape(height: int, width: int, pooling: MaxPooling | None) -> tuple[int, int]:
    """Rows and pixels after a maximum; raises `Unknown` where nothing is left."""
    if pooling is None:
        return height, width
    height += pooling.top + pooling.bottom - pooling.size
    width += pooling.left + pooling.right - pooling.size
    if height < 0 or width < 0:
        raise Unknown("a maximum over windows that are larger than the image")
    return height // pooling.stride + 1, width // pooling.stride + 1


def _convolution(context: OperationContext, command: NnCommand) -> Convolution:
    if command.OUTPUT_TYPE not in (UINT8, INT8, FLOAT16, INT16):
        kind = _TYPES.get(command.OUTPUT_TYPE, str(command.OUTPUT_TYPE))
        raise Unknown(f"an output of {kind}")
    table, is_table = decode_table(context, command)
    sums = decode_sums(context, command)
    stride = 2 if command.STRIDE_OF_2 or command.POOLING == _FIRST_PIXEL else 1
    pooling = decode_max_pooling(command)
    height, width = pooled_shape(
        -(-command.OUTPUT_HEIGHT // stride), -(-command.OUTPUT_WIDTH // stride), pooling
    )
    shape = (command.OUTPUT_CHANNELS, height, width)
    product = addition = None
    if is_table:
        pass
    elif command.MULTIPLICATION:
        if command.ADDITION or command.LEAKY or context.target != A733:
            raise Unknown("a product with a second operand in this form")
        product = _product(context, command, shape)
    elif command.ADDITION:
        if command.LEAKY:
            raise Unknown("an addition and a second slope at once")
        addition = _addition(context, command, shape)
    elif context.has(POINTERS["second"]):
        raise Unknown("a second operand, and nothing says what for")
    if addition is None and (command.SUBTRACTION or command.RELU_OF_SUM):
        raise Unknown("what comes after a sum of two operands, without one")
    if command.FLOAT_OUTPUT:
        raise Unknown("an output of float32")
    is_half = command.OUTPUT_TYPE == FLOAT16
    is_wide = command.OUTPUT_TYPE == INT16
    others = table, product, addition, command.LEAKY, pooling, command.DEPTH_TO_SPACE, command.RELU
    is_widening = is_wide and not sums.is_wide and not any(others)
    if is_wide != (sums.is_wide and not is_half) and not is_widening:
        raise Unknown("int16 values in this form")
    if is_wide and command.OUTPUT_ZERO_POINT:
        raise Unknown("int16 values with a zero point")
    if is_half and (command.OUTPUT_GROUP > 1 or command.DEPTH_TO_SPACE or command.RELU):
        raise Unknown("float16 values in this form")
    has_slope = command.LEAKY and not is_table
    low, high = _limits(command, has_slope=bool(has_slope))
    return Convolution(
        sums=sums,
        target=output_planes(
            context, command, _shuffled(context, command, shape), 2 if is_half or is_wide else 1
        ),
        is_signed=command.OUTPUT_TYPE == INT8,
        is_half=is_half,
        table=table,
        scale=first_scale(command),
        negative_scale=second_scale(command) if has_slope else None,
        low=low,
        high=high,
        has_relu=bool(command.RELU),
        stride=stride,
        pooling=pooling,
        addition=addition,
        has_short_sums=context.target != A733,
        cuts_sum=bool(command.RELU_OF_SUM),
        product=product,
        zero_point=command.OUTPUT_ZERO_POINT,
        shuffle=_shuffle(command),
        is_wide=is_wide,
    )


def _limits(command: NnCommand, *, has_slope: bool) -> tuple[float, float]:
    """What results lie between, or sums that have a slope of their own."""
    low, high = command.real(30), command.real(29)
    if not (low <= high and low < math.inf and high > -math.inf):
        raise Unknown(f"a clamp from {low} to {high}")
    if (command.RELU and high < 0) or (has_slope and (low > 0 or high < 0)):
        raise Unknown(f"a clamp from {low} to {high} in this form")
    return low, high


def decode_table(context: OperationContext, command: NnCommand) -> tuple[Table | None, bool]:
    """The table after the coefficients, and whether the command has the form for one.

    T527 has the form without a table: then values stay as they are.
    """
    is_table = command.ADDITION and command.LEAKY and not command.MULTIPLICATION
    if not (is_table and command.TABLE_FORM == _WITH_TABLE):
        if command.TABLE_FORM or context.operation.kind == OperationKind.NN_TABLE:
            raise Unknown("a table after the coefficients in this form")
        return None, False
    is_sum = not command.NO_COEFFICIENTS
    others = command.POOLING or (is_sum and command.FLOAT_OUTPUT)
    if others or command.SECOND_MANTISSA or command.SECOND_EXPONENT or command.PER_CHANNEL:
        raise Unknown("a table after the coefficients in this form")
    address = context.address(POINTERS["coefficients"])
    blob = context.layout.blob(address.space)
    start = 0 if command.NO_COEFFICIENTS else _kernels(context, command).end
    content = blob[start:]
    if context.target != A733 and not content.size:
        return None, True
    if context.target != A733 or content.size < 4 * _TABLE_WORDS or address.offset:
        raise Unknown(f"a table of {content.size} bytes, not {4 * _TABLE_WORDS}")
    return _read_table(np.frombuffer(content[: 4 * _TABLE_WORDS].tobytes(), "<u4")), True


def _read_table(words: NDArray[np.uint32]) -> Table:
    """1,024 entries, then the slopes at both ends and at zero, as the upper bits of float32.

    The first of them has the form above it. Of an odd function the second is that at zero, too.
    """
    form = int(words[-3]) >> 24
    if form == _COARSE_TABLE:
        return Table(coarse_table_values(words[:-3]), False, False, exponents=256, slopes=(0, 0, 0))
    if form not in _TABLE_FORMS:
        raise Unknown(f"a table of form {form:#x}")
    is_signed, exponents = _TABLE_FORMS[form]
    bits = words[-3:] << np.uint32(8)
    if not is_signed:
        # A bit of another meaning is where the sign would be.
        bits[1:] &= np.uint32(0x7FFFFFFF)
    positive, negative, zero = bits.view(np.float32).astype(np.float64).tolist()
    return Table(
        table_values(words[:-3]),
        is_signed=is_signed,
        is_flipped=True,
        exponents=exponents,
        slopes=(positive, negative if is_signed else positive, zero),
    )


def _shuffled(
    context: OperationContext, command: NnCommand, shape: tuple[int, int, int]
) -> tuple[int, int, int]:
    channels, height, width = shape
    rows, pixels = _shuffle(command)
    if (rows, pixels) == (1, 1):
        return shape
    is_known = context.target == A733 and (rows in (1, pixels) or pixels == 1)
    if not is_known or channels % (rows * pixels):
        raise Unknown(f"{channels} channels as {rows} x {pixels} pixels of others")
    return channels // (rows * pixels), height * rows, width * pixels


def _shuffle(command: NnCommand) -> tuple[int, int]:
    """Rows and pixels that so many channels become."""
    rows, pixels = command.SHUFFLED_ROWS, command.OUTPUT_GROUP
    if not command.DEPTH_TO_SPACE:
        if rows > 1:
            raise Unknown("channels as rows in this form")
        return 1, 1
    if (rows, pixels) == (1, 1):
        raise Unknown("channels as pixels, of which there is one")
    return rows, pixels


_LEAST_EXPONENT = 64
"""Of a second operand's scale, 2^-63."""


def _addition(context: OperationContext, command: NnCommand, shape: tuple[int, int, int]) -> Second:
    scale = second_scale(command)
    if command.SECOND_EXPONENT < _LEAST_EXPONENT:
        raise Unknown("an addition whose operand has next to no scale")
    constant = addend(context, command)
    zero_point = -constant / scale
    if not 0 <= zero_point < 255.5 or abs(zero_point - round(zero_point)) > 0.02 * zero_point:
        raise Unknown(f"an addition whose operand has the zero point {zero_point:.3f}")
    is_wide = command.OUTPUT_TYPE == INT16
    if is_wide and (context.target != A733 or constant):
        raise Unknown("an addition of int16 values in this form")
    item = 2 if is_wide else 1
    return Second(
        second_planes(context, command, shape, item),
        scale,
        constant,
        is_subtracted=bool(command.SUBTRACTION),
    )


def addend(context: OperationContext, command: NnCommand) -> float:
    """What is added with a second operand: a float of nine bits of mantissa, with a hidden one.

    It is negative; of a subtraction, with the operand's sign, T527 has it positive.
    """
    word = command.ADDEND
    mantissa = 1 + (word & 511) / 512
    if context.target == A733:
        return -mantissa * 2.0 ** ((word >> 9 & 31) - 15) if word else 0.0
    if not word & 0x1FFF:
        return 0.0
    if bool(word >> 13) == bool(command.SUBTRACTION):
        raise Unknown("an addend of the other sign")
    return -mantissa * 2.0 ** ((word >> 9 & 15) - 7)


def _product(context: OperationContext, command: NnCommand, shape: tuple[int, int, int]) -> Second:
    constant = second_scale(command) if command.SECOND_MANTISSA | command.SECOND_EXPONENT else 0.0
    if command.OUTPUT_TYPE not in (UINT8, INT16) or command.DEPTH_TO_SPACE:
        raise Unknown("a product with a second operand in this form")
    item = 2 if command.OUTPUT_TYPE == INT16 else 1
    return Second(second_planes(context, command, shape, item), 1.0, -constant)


def _kernels(context: OperationContext, command: NnCommand) -> Kernels:
    address = context.address(POINTERS["coefficients"])
    if address.space.source is not Source.COEFFICIENTS or address.offset:
        raise Unknown(f"coefficients from {address.space} + {address.offset}, not from a blob")
    slopes = _slopes(context.layout.blob(address.space), command)
    if slopes is not None:
        return slopes
    shape = KernelShape(
        channels=command.OUTPUT_CHANNELS,
        depth=command.KERNEL_DEPTH,
        height=kernel_height(command),
        width=kernel_width(command),
        is_depthwise=bool(command.DEPTHWISE),
        per_core=command.KERNELS_PER_CORE,
        cores=CORES[context.target],
        is_signed=command.KERNEL_TYPE == INT8,
        zero_point=command.COEFFICIENT_ZERO_POINT,
        has_scales=bool(command.PER_CHANNEL),
        has_negative_scales=bool(command.LEAKY) and not command.ADDITION,
        is_wide=command.KERNEL_TYPE == INT16,
    )
    return context.kernels(address.space, shape)


def _slopes(blob: NDArray[np.uint8], command: NnCommand) -> Kernels | None:
    """Where each channel is its own input: a blob of nothing but a scale and a slope for each.

    A blob with kernels is longer, and begins with what is no normal float32.
    """
    channels = command.OUTPUT_CHANNELS
    is_pixel = kernel_width(command) == kernel_height(command) == 1
    size = channels * _BYTES_OF_SLOPE
    if not (command.DEPTHWISE and is_pixel and command.PER_CHANNEL and command.LEAKY):
        return None
    if command.ADDITION or not size <= blob.size < size + _BLOB_UNIT:
        return None
    types = command.KERNEL_TYPE, command.INPUT_TYPE
    if types not in ((UINT8, UINT8), (INT16, INT16)):
        return None
    factors = np.frombuffer(blob[:size].tobytes(), "<f4").reshape(channels, 2)
    is_normal = (factors[:, 0] > _LEAST_FACTOR) & (np.abs(factors) < 1 / _LEAST_FACTOR).all(1)
    if not is_normal.all():
        return None
    weights = np.ones((channels, 1, 1, 1), np.int16)
    scales, slopes = factors[:, 0].copy(), factors[:, 1].copy()
    if types == (INT16, INT16):
        bias = np.full(channels, 128, np.int64)
        return Kernels.of_wide(weights, True, bias, blob.size, scales, slopes)
    zero_point = command.COEFFICIENT_ZERO_POINT or command.BORDER_CONSTANT & 255
    return Kernels.of_content(
        content=weights.astype(np.uint8),
        zero_points=np.zeros(channels, np.int16),
        is_depthwise=True,
        bias=np.full(channels, 128 - zero_point, np.int32),
        scales=scales,
        negative_scales=slopes,
        end=blob.size,
    )


_BYTES_OF_SLOPE, _BLOB_UNIT, _LEAST_FACTOR = 8, 64, 2.0**-60


def _check_types(command: NnCommand) -> None:
    types = command.KERNEL_TYPE, command.INPUT_TYPE
    if types == (INT16, INT16):
        if command.INPUT_GROUP > 1:
            raise Unknown("channels of int16 side by side")
        return
    if not set(types) <= {UINT8, INT8}:
        kernel, source = (_TYPES.get(number, str(number)) for number in types)
        raise Unknown(f"kernels of {kernel}, an input of {source}")
    if command.INPUT_TYPE == INT8 and command.ADDITION:
        raise Unknown("an addition of int8 values")


def _before(value: int) -> int:
    """Pixels in front of an image with which sums begin: four bits of a negative number."""
    return -value % 16


def _slice(context: OperationContext, row: int, stride: int, high: int, group: int) -> int:
    """Bytes from a slice to the next: A733 tells them, other chips tell the rows of one."""
    if context.target == A733:
        return stride | high << 16
    return row * stride * group


def _half_values(context: OperationContext, command: NnCommand) -> HalfValues:
    has_kind = command.KERNEL_TYPE in (FLOAT16, FLOAT32)
    has_kind = has_kind and command.OUTPUT_TYPE in (FLOAT16, UINT8, INT16)
    slopes = _slopes_of_halves(context, command)
    if not has_kind or not (command.NO_COEFFICIENTS or slopes is not None):
        raise Unknown("a convolution of float16")
    table, is_table = decode_table(context, command)
    uses = slopes is None and (command.ADDITION or command.LEAKY)
    is_long = bool(command.FLOAT_OUTPUT)
    if (is_long or _has_long_input(command)) and not is_table:
        raise Unknown("values of float32 in this form")
    others = command.STRIDE_OF_2, command.RELU, is_long and command.OUTPUT_TYPE
    if (uses and not is_table) or any(others) or context.target != A733:
        raise Unknown("float16 values in this form")
    if command.INPUT_GROUP > 1 or command.OUTPUT_GROUP > 1 or command.DEPTH_TO_SPACE:
        raise Unknown("channels of float16 side by side")
    if command.OFFSET_X or command.OFFSET_Y or command.POOLING == _FIRST_PIXEL:
        raise Unknown("float16 values with a border, or every second of them")
    limit = _LARGEST_HALF if command.MULTIPLICATION else math.inf
    if (command.real(30), command.real(29)) != (-limit, limit):
        raise Unknown("float16 values within limits")
    pooling = decode_max_pooling(command)
    item = 4 if _has_long_input(command) else 2
    source = replace(input_planes(context, command, item), channels=command.OUTPUT_CHANNELS)
    source.check(context.layout)
    shape = command.OUTPUT_CHANNELS, *pooled_shape(source.height, source.width, pooling)
    is_half = command.OUTPUT_TYPE == FLOAT16
    is_wide = command.OUTPUT_TYPE == INT16
    is_whole = not (is_half or is_long or is_wide)
    if is_wide and command.OUTPUT_ZERO_POINT:
        raise Unknown("int16 values with a zero point")
    product = None
    if command.MULTIPLICATION:
        constant = command.SECOND_MANTISSA, command.SECOND_EXPONENT
        if any(constant) or table or pooling or not is_half:
            raise Unknown("a product of float16 in this form")
        product = second_planes(context, command, shape, 2)
    return HalfValues(
        source=source,
        target=output_planes(context, command, shape, 1 if is_whole else 4 if is_long else 2),
        scale=first_scale(command),
        table=table,
        pooling=pooling,
        zero_point=command.OUTPUT_ZERO_POINT if is_whole else None,
        product=product,
        slopes=slopes,
        is_wide=is_wide,
    )


def _slopes_of_halves(context: OperationContext, command: NnCommand) -> NDArray[np.float32] | None:
    """What each channel's values are multiplied by, positive and negative ones: (channels, 2)."""
    is_plain = kernel_width(command) == 1 and kernel_height(command) == 1
    if not (command.PER_CHANNEL and command.LEAKY and is_plain) or command.NO_COEFFICIENTS:
        return None
    others = command.ADDITION, command.MULTIPLICATION, command.FLOAT_OUTPUT, command.POOLING
    address = context.address(POINTERS["coefficients"])
    if any(others) or command.KERNEL_TYPE != FLOAT16 or command.OUTPUT_TYPE != FLOAT16:
        raise Unknown("slopes of float16 values in this form")
    blob = context.layout.blob(address.space)
    size = 8 * command.OUTPUT_CHANNELS
    if address.space.source is not Source.COEFFICIENTS or address.offset or blob.size < size:
        raise Unknown(f"slopes of {command.OUTPUT_CHANNELS} channels from {address.space}")
    if blob.size >= size + _RECORDS_END:
        raise Unknown(f"slopes in {blob.size} bytes, which has more than those")
    slopes = np.frombuffer(blob[:size].tobytes(), "<f4").reshape(-1, 2)
    if not np.isfinite(slopes).all():
        raise Unknown("a channel's slope that is no finite number")
    return slopes


def _signed(stride: int) -> int:
    """28 bits of two's complement: rows are read backwards where a tensor is reversed."""
    return stride - (1 << 28) if stride >> 27 else stride


def _transpose(context: OperationContext, command: TransposeCommand) -> BlockTranspose:
    block, depth = command.BLOCK_BYTES, max(command.DEPTH, 1)
    shape = (depth, command.HEIGHT, command.WIDTH, block)
    sides = {
        "input": (command.INPUT_SLICE, _signed(command.INPUT_ROW), block, command.INPUT_CIRCLE),
        "output": (command.OUTPUT_SLICE, block, command.OUTPUT_ROW, command.OUTPUT_CIRCLE),
    }
    windows = []
    for side, (slice_bytes, y_bytes, x_bytes, circle) in sides.items():
        address = context.address(POINTERS[side])
        window = Window(
            address.space,
            address.offset,
            shape,
            (slice_bytes, y_bytes, x_bytes, 1),
            context.circle(CIRCLE_ENDS[side], circle, address.space),
        )
        context.layout.check(window)
        windows.append(window)
    if 0 in shape:
        raise Unknown(f"blocks of {shape}")
    return BlockTranspose(windows[0], windows[1])
