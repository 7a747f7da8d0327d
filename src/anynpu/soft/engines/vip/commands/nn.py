"""The NN core's command: 48 words. The stream processor's begins with the same ones."""

from __future__ import annotations

from .fields import Command, Field, bits, count, inert, joined


class NnCommand(Command, length=48):
    """One pass of the convolution core, and what follows it before a value is written."""

    LAYER_TYPE = bits(0, 0, only=(0,))
    NO_Z_OFFSET = inert(0, 1, 1)
    KERNEL_WIDTH = bits(0, 2, 5)
    KERNEL_DEPTH = joined((5, 26, 31), (0, 6, 19))
    KERNELS_PER_CORE = bits(0, 20, 26)
    POOLING = bits(0, 27, 28, only=(0, 1, 3))
    POOLING_OF_3 = bits(0, 29)
    PIPELINED = inert(0, 30, 31)

    KERNEL_TYPE = joined((15, 19, 19), (1, 0, 1))
    INPUT_TYPE = joined((15, 20, 20), (1, 2, 3))
    OUTPUT_TYPE = joined((15, 21, 21), (1, 4, 5))
    INPUT_WIDTH = bits(1, 6, 18)
    INPUT_HEIGHT = bits(1, 19, 31)
    OFFSET_X = joined((4, 16, 16), (2, 0, 2))
    OFFSET_Y = joined((4, 17, 17), (2, 3, 5))
    RELU = bits(2, 24)
    SCALE_MANTISSA = joined((22, 18, 25), (17, 24, 31), (15, 22, 27), (2, 26, 26))
    SCALE_EXPONENT = joined((27, 30, 30), (15, 28, 29), (2, 27, 31))

    FLUSH = inert(3, 2, 3)
    OUTPUT_WIDTH = bits(3, 6, 18)
    OUTPUT_HEIGHT = bits(3, 19, 31)
    OUTPUT_CHANNELS = bits(4, 0, 13)
    ROUNDING_MODE = bits(4, 14, 15, only=(1,))
    TILE_SIZES = inert(4, 18, 31)

    COEFFICIENT_ADDRESS = inert(5, 0, 25)
    INPUT_ADDRESS = inert(6)
    OUTPUT_ADDRESS = inert(7)
    CACHING = inert(8, 0, 11)
    KERNEL_HEIGHT = bits(8, 12, 15)
    CACHE_PATTERN = inert(9)
    CACHE_PATTERN_HIGH = inert(10)
    KERNEL_CACHE_START = inert(11)
    KERNEL_CACHE_END = inert(12)
    IMAGE_CACHE_START = inert(13)
    IMAGE_CACHE_END = inert(14)

    BORDER_MODE = bits(15, 0, 1, only=(0,))
    BORDER_CONSTANT = bits(15, 2, 17)
    INPUT_X_STRIDE = bits(16, 0, 15)
    INPUT_Y_STRIDE = bits(16, 16, 31)
    OUTPUT_X_STRIDE = bits(17, 0, 15)
    OUTPUT_Y_STRIDE = bits(8, 16, 31)
    INPUT_SLICE_HIGH = bits(26, 0, 15)
    OUTPUT_SLICE_HIGH = bits(26, 16, 31)

    OUTPUT_CIRCLE = bits(18, 0, 25)
    PER_CHANNEL = bits(18, 26)
    OVERLAP = inert(18, 28, 31)
    OUTPUT_CIRCLE_END = inert(19)
    INPUT_CIRCLE = bits(20, 0, 25)
    FLOAT_OUTPUT = bits(20, 26)
    ADDITION = bits(20, 27)
    LEAKY = bits(20, 28)
    MULTIPLICATION = bits(20, 29)
    STRIDE_OF_2 = bits(20, 30)
    INPUT_CIRCLE_END = inert(21)

    COEFFICIENT_ZERO_POINT = bits(22, 0, 7)
    OUTPUT_ZERO_POINT = bits(22, 8, 15)
    DIRECT_STREAM = inert(22, 16, 16)
    DEPTHWISE = bits(22, 17)
    TABLE_FORM = bits(23, 0, 1)
    SECOND_MANTISSA = bits(23, 2, 24)
    SECOND_EXPONENT = joined((27, 31, 31), (23, 25, 31))
    INPUT_GROUP = count(24, 0, 3)
    INPUT_CACHE = inert(24, 8, 19)
    OUTPUT_GROUP = count(25, 0, 3)
    OUTPUT_CACHE = inert(25, 8, 19)

    SCHEDULE = inert(27, 0, 18)
    COMPUTED_KERNELS = bits(27, 19, only=(0,))
    SCHEDULE_HIGH = inert(27, 20, 28)
    SUBTRACTION = bits(27, 29)
    TILE_ORDER = inert(28, 2, 4)
    NO_COEFFICIENTS = bits(28, 26)
    DEPTH_TO_SPACE = bits(28, 29)
    TILE_IS_PART = inert(28, 31, 31)
    CLAMP_HIGH = inert(29)
    CLAMP_LOW = inert(30)

    KERNEL_HEIGHT_1 = bits(31, 0)
    BLOCK_TRANSPOSE = bits(31, 1)
    POOLING_STRIDE_2 = bits(31, 2)
    POOLING_LEFT = bits(31, 3, 4)
    POOLING_TOP = bits(31, 5, 6)
    POOLING_RIGHT = bits(31, 7, 8)
    POOLING_BOTTOM = bits(31, 9, 10)
    CACHE_MODES = inert(31, 11, 15)
    RELU_OF_SUM = bits(31, 16)
    SECOND_X_STRIDE = bits(32, 0, 15)
    SECOND_Y_STRIDE = bits(32, 16, 31)
    SECOND_HINT = inert(33, 0, 0)
    SECOND_CIRCLE = bits(33, 1, 26)
    SECOND_GROUP = count(33, 27, 31)
    SECOND_ADDRESS = inert(34)
    SECOND_CIRCLE_END = inert(35)
    ADDEND = bits(36, 0, 13)
    ADDITION_HINT = inert(40, 31, 31)
    SHUFFLED_ROWS = Field([(43, 30, 31), (36, 14, 15)], None, 1)


POINTERS = {"coefficients": 20, "input": 24, "output": 28, "second": 136}
"""Bytes at which a command has the addresses of its operands."""

CIRCLE_ENDS = {"input": 84, "output": 76, "second": 140}
"""Bytes at which it has where an operand's circular buffer ends."""


class TransposeCommand(Command, length=48):
    """The NN core as a copier of blocks: each word has a meaning of its own."""

    PIPELINED = inert(0)
    INPUT_TYPES = inert(1, 0, 5)
    WIDTH = bits(1, 6, 18)
    HEIGHT = bits(1, 19, 31)
    FLUSH = inert(3, 2, 3)
    OUTPUT_SIZES = inert(3, 6, 31)
    DEPTH = bits(4, 0, 13)
    ROUNDING_MODE = inert(4, 14, 15)
    BLOCK_BYTES = bits(5, 0, 31)
    INPUT_ADDRESS = inert(6)
    OUTPUT_ADDRESS = inert(7)
    CACHING = inert(8, 0, 15)
    CACHE_PATTERN = inert(9)
    CACHE_PATTERN_HIGH = inert(10)
    IMAGE_CACHE_START = inert(13)
    IMAGE_CACHE_END = inert(14)
    BORDER = inert(15, 0, 17)
    INPUT_ROW = joined((11, 0, 11), (16, 0, 15))
    INPUT_SLICE = joined((11, 12, 31), (16, 16, 31))
    OUTPUT_ROW = joined((12, 0, 11), (17, 0, 15))
    OUTPUT_SLICE = joined((12, 12, 31), (8, 16, 31))
    OUTPUT_CIRCLE = bits(18, 0, 25)
    OUTPUT_CIRCLE_END = inert(19)
    INPUT_CIRCLE = bits(20, 0, 25)
    INPUT_CIRCLE_END = inert(21)
    INPUT_CACHE = inert(24, 8, 19)
    OUTPUT_CACHE = inert(25, 8, 19)
    SCHEDULE = inert(27)
    BLOCK_TRANSPOSE = bits(31, 1, only=(1,))
    CACHE_MODES = inert(31, 11, 15)


__all__ = ["CIRCLE_ENDS", "POINTERS", "Field", "NnCommand", "TransposeCommand"]
