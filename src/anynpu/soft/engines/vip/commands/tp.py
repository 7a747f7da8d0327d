"""The tensor processor's command: 31 words are used of its 48."""

from __future__ import annotations

from .fields import Command, bits, count, inert, joined


class TpCommand(Command, length=48):
    """A copy through nested loops, with arithmetic on the way; or a fully connected layer."""

    INPUT_WIDTH = bits(0, 0, 15)
    INPUT_HEIGHT = bits(1, 0, 15)
    INPUT_DEPTH = bits(1, 16, 31)
    ROW_STRIDE = bits(2, 0, 15)
    SLICE_STRIDE = bits(3, 0, 31)
    WINDOW_LEFT = bits(4, 0, 15)
    WINDOW_TOP = bits(4, 16, 31)
    WINDOW_RIGHT = bits(5, 0, 15)
    WINDOW_BOTTOM = bits(5, 16, 31)

    SEQUENCE = bits(6, 0, 1, only=(0, 3))
    GLOBAL_MEMORY = inert(6, 2, 3)
    INTEGER_TO_FLOAT = inert(6, 4, 4)
    SQUARE = bits(6, 5)
    POOLING = bits(6, 6, 8, only=(0, 1, 3, 4, 6))
    POOLING_WIDTH = count(6, 9, 14)
    POOLING_X_STRIDE = bits(6, 15)
    VERTICAL = inert(6, 16, 17)
    POOLING_HEIGHT = count(6, 19, 24)
    POOLING_Y_STRIDE = bits(6, 25)
    NMS = bits(6, 26, only=(0,))
    TABLE = bits(6, 27)
    MULTIPLY = bits(6, 28)
    FLOAT_TO_INTEGER = inert(6, 29, 29)
    LOAD_TABLE = inert(6, 30, 31)

    TILE_WIDTH = bits(8, 0, 15)
    TILE_HEIGHT = bits(8, 16, 31)
    TILE_STEP_X = bits(9, 0, 15)
    TILE_STEP_Y = bits(9, 16, 31)
    INPUT_ADDRESS = inert(10)
    TABLE_ADDRESS = inert(11)
    SKIP_AT_BORDER = bits(12, 0, only=(0,))
    OUTPUT_GLOBAL = inert(12, 1, 1)
    RESET_1 = bits(12, 2)
    RESET_2 = bits(12, 3)
    RESET_3 = bits(12, 4)
    BRICK_MODE = bits(12, 5, only=(0,))
    Z_FILTER = bits(12, 6, only=(0,))
    PLANES_BEFORE = bits(12, 8, 10)
    PLANES_AFTER = bits(12, 11, 13)
    SQUARE_SHIFT = bits(12, 14, 17)
    INPUT_TYPE = bits(12, 18, 20)
    OUTPUT_TYPE = bits(12, 21, 23)
    SIGNED_TABLE = bits(12, 28)
    RELU = bits(12, 29)
    FLUSH = inert(12, 30, 31)
    OUTPUT_ADDRESS = inert(13)

    INCREMENT_0 = bits(14, 0, 31)
    INCREMENT_1 = bits(15, 0, 31)
    COUNT_0 = bits(16, 0, 15)
    COUNT_1 = bits(16, 16, 31)
    INCREMENT_2 = bits(17, 0, 31)
    INCREMENT_3 = bits(18, 0, 31)
    COUNT_2 = bits(19, 0, 15)
    COUNT_3 = bits(19, 16, 31)
    INCREMENT_4 = bits(20, 0, 31)
    INCREMENT_5 = bits(21, 0, 31)
    COUNT_4 = bits(22, 0, 15)
    COUNT_5 = bits(22, 16, 31)
    INCREMENT_6 = bits(23, 0, 31)

    FILTER_SWAP = bits(24, 0, only=(0,))
    ROUNDING_MODES = bits(24, 1, 4, only=(5,))
    INPUT_SHIFT = bits(24, 5, 9)
    SHIFT = joined((24, 26, 27), (24, 10, 14))
    REORDER = bits(24, 15, 19, only=(0,))
    BORDER_MODE = bits(24, 24, 25, only=(0, 1, 3))
    INPUT_CIRCLE = bits(25, 0, 25)
    INPUT_CIRCLE_END = inert(26)
    OUTPUT_CIRCLE = bits(27, 0, 25)
    OUTPUT_CIRCLE_END = inert(28)
    BORDER_CONSTANT = bits(29, 0, 15)
    COEFFICIENT_ZERO_POINT = bits(29, 16, 23)
    INPUT_ZERO_POINT = bits(29, 24, 31)
    OUTPUT_ZERO_POINT = bits(30, 0, 7)
    MULTIPLIER = bits(30, 8, 22)

    INCREMENTS = (14, 15, 17, 18, 20, 21, 23)
    """The words of the loops' increments, the innermost first."""


POINTERS = {"input": 40, "table": 44, "output": 52}
"""Bytes at which a command has the addresses of its operands."""

CIRCLE_ENDS = {"input": 104, "output": 112}
"""Bytes at which it has where an operand's circular buffer ends."""
