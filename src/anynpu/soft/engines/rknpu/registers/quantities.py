"""What a chip's registers say, whatever their numbers, bits and units are.

A register's declaration names the quantity that a field holds; a chip has a function where a
quantity follows from several fields. Decoding asks for quantities alone.
"""

from __future__ import annotations

from enum import Enum, auto


class Quantity(Enum):
    """One number that a task's registers say.

    Sizes count from one. Distances are bytes where nothing else is said. Elements are the numbers
    of `Element`. `IS_`, and verbs, are 0 or 1. Addresses are what `TaskRegisters.address` finds.
    """

    def __repr__(self) -> str:
        return self.name

    # Each is looked up tens of thousands of times as a model is loaded, and Enum's own hash is a
    # function in Python.
    __hash__ = object.__hash__

    # Where the chip reads and writes.
    FEATURES = auto()
    WEIGHTS = auto()
    SOURCE = auto()
    BS_OPERANDS = auto()
    BN_OPERANDS = auto()
    BS_NUMBERS = auto()
    BN_NUMBERS = auto()
    OPERAND = auto()
    DESTINATION = auto()
    POOLED = auto()
    POOLING_DESTINATION = auto()

    # A convolution's input: channel blocks, or a picture, whose format is its channels + 7.
    CONVOLUTION_ELEMENT = auto()
    PICTURE_FORMAT = auto()
    INPUT_CHANNELS = auto()
    INPUT_HEIGHT = auto()
    INPUT_WIDTH = auto()
    VALID_CHANNELS = auto()
    INPUT_LINE = auto()
    INPUT_SURFACE = auto()
    PICTURE_LINE = auto()

    # What is fetched of it, where rows of the task before stay in the buffer.
    FETCHED_HEIGHT = auto()
    FETCHED_WIDTH = auto()

    # Its kernels. Dense ones have KERNEL_BYTES each, depthwise ones DEPTHWISE_BYTES together; a row
    # of packed ones has ROW_BYTES. ZERO_POINTS depthwise weights have theirs behind them.
    IS_DEPTHWISE = auto()
    KERNELS = auto()
    KERNEL_HEIGHT = auto()
    KERNEL_WIDTH = auto()
    KERNEL_BYTES = auto()
    DEPTHWISE_BYTES = auto()
    ROW_BYTES = auto()
    ZERO_POINTS = auto()

    # How they go over it, and what becomes of sums.
    STRIDE_Y = auto()
    STRIDE_X = auto()
    DILATION_Y = auto()
    DILATION_X = auto()
    INSERTED_ROWS = auto()
    INSERTED_COLUMNS = auto()
    PAD_TOP = auto()
    PAD_LEFT = auto()
    PADDING_VALUE = auto()
    """A two's complement number of integers, the bits of floats."""
    OUTPUT_HEIGHT = auto()
    OUTPUT_WIDTH = auto()
    TRUNCATED_BITS = auto()
    TRUNCATES_UP = auto()

    # What the DPU reads. Notches are pixels between rows, distances what lies between surfaces.
    SOURCE_ELEMENT = auto()
    SOURCE_CHANNELS = auto()
    SOURCE_HEIGHT = auto()
    SOURCE_WIDTH = auto()
    SOURCE_NOTCH = auto()
    SOURCE_SURFACE_NOTCH = auto()
    COMBINES_SOURCES = auto()
    UNPOOLS = auto()
    UNPOOLED_HEIGHT = auto()
    UNPOOLED_WIDTH = auto()
    UNPOOLED_STRIDE_Y = auto()
    UNPOOLED_STRIDE_X = auto()

    # Which operands of each channel the two stages' blocks in memory hold: 1 addends, 2 weight
    # offsets, 4 factors.
    BS_USE = auto()
    BN_USE = auto()

    # The element-wise stage's operand in memory: its kind, and bytes of an element. Kinds are
    # those of `OperandKind`.
    OPERAND_IS_OFF = auto()
    OPERAND_BYTES = auto()
    OPERAND_KIND = auto()
    OPERAND_NOTCH = auto()
    OPERAND_SURFACE_NOTCH = auto()
    OPERAND_OFFSET = auto()
    OPERAND_SCALE = auto()
    OPERAND_SHIFT = auto()
    PRODUCT_SHIFT = auto()

    # The stages' element, that of what enters them, and what they see.
    ELEMENT = auto()
    ENTERING_ELEMENT = auto()
    CHANNELS = auto()
    OWN_CHANNELS = auto()
    """Channels that a tensor has, without those that fill up its last block."""
    HEIGHT = auto()
    WIDTH = auto()

    # The look-up tables. Steps are powers of two.
    NEGATIVE_START = auto()
    POSITIVE_START = auto()
    POSITIVE_END = auto()
    NEGATIVE_STEP = auto()
    POSITIVE_STEP = auto()
    SLOPE_BELOW = auto()
    SLOPE_ABOVE = auto()
    SHIFT_BELOW = auto()
    SHIFT_ABOVE = auto()

    # The output's conversion.
    OUTPUT_ELEMENT = auto()
    OUTPUT_SCALE = auto()
    OUTPUT_SHIFT = auto()
    OUTPUT_OFFSET = auto()
    OUTPUT_EXPONENT = auto()
    """Floats are divided by 2 to the power of it; eight bits, in float arithmetic with a sign."""
    OUTPUT_AWAY = auto()

    # The writer. A reduction is 0, 1 for the least and 3 for the greatest value.
    REDUCTION = auto()
    TRANSPOSES_ATOMS = auto()
    TRANSPOSES_PIXELS = auto()
    TRANSPOSED_BYTES = auto()
    TRANSPOSED_PIXELS = auto()
    PACKS = auto()
    PACKED_KIND = auto()
    PACKED_ATOMS = auto()
    LAST_BYTES = auto()
    """Those of the last packed atom of each surface; 0 for a whole one."""
    PACKED_GROUPS = auto()
    ORDER = auto()
    """In which order atoms are written; the bytes of a packed group where there are such."""
    PADDING = auto()
    WRITTEN_CHANNELS = auto()
    """Channels, or rows times channels where each row is written for itself."""
    WRITTEN_HEIGHT = auto()
    WRITTEN_WIDTH = auto()
    TARGET_NOTCH = auto()
    TARGET_SURFACE = auto()
    TARGET_GROUP = auto()
    JOINED_SURFACES = auto()
    """Surfaces of one line that are written as one longer line."""
    SURFACES_IN_GROUP = auto()
    """0 where surfaces don't go in groups."""

    # Pooling.
    POOLING_ELEMENT = auto()
    POOLING_METHOD = auto()
    COUNTS_INSIDE = auto()
    POOLED_CHANNELS = auto()
    POOLED_HEIGHT = auto()
    POOLED_WIDTH = auto()
    POOLED_LINE = auto()
    POOLED_SURFACE = auto()
    POOLING_HEIGHT = auto()
    POOLING_WIDTH = auto()
    POOLING_NOTCH = auto()
    POOLING_SURFACE = auto()
    WINDOW_HEIGHT = auto()
    WINDOW_WIDTH = auto()
    WINDOW_STRIDE_Y = auto()
    WINDOW_STRIDE_X = auto()
    WINDOW_TOP = auto()
    WINDOW_LEFT = auto()
    WINDOW_PADDING = auto()
    RECIPROCAL_HEIGHT = auto()
    RECIPROCAL_WIDTH = auto()
