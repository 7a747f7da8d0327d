"""RK3576's DPU: adds, multiplies, looks up, converts and writes."""

from __future__ import annotations

from ...elements import Element
from ...registers.fields import Register, bits
from ...registers.quantities import Quantity
from ...tasks import Operation
from .cna import ATOM

NO_LOWER, NO_UPPER = 0x80000000, 0x7FFFFFFF


class DpuFeatureMode(Register, number=0x400C, title="DPU_FEATURE_MODE_CFG"):
    FLYING_MODE = bits(0)
    """From memory."""
    MODE = bits(1, 24)
    NONALIGN = bits(25, says=Quantity.PACKS)
    LAST_BYTES = bits(26, 29, says=Quantity.LAST_BYTES)
    FROM_CORE = bits(30)


MODES = frozenset({0x5, 0x40000004, 0x4000000C})
"""DPU_FEATURE_MODE_CFG: from memory, from a dense and from a depthwise convolution."""

PACKING_MODES = frozenset({0x2000005, 0x42000004})
"""The same where atoms are packed, without the bytes of the last one."""


class DpuDataFormat(Register, number=0x4010, title="DPU_DATA_FORMAT"):
    PROC_PRECISION = bits(0, 2, says=Quantity.ELEMENT)
    OUT_PRECISION = bits(29, 31, only=(0, 1, 2, 3, 4, 5), says=Quantity.OUTPUT_ELEMENT)


class DpuPadding(Register, number=0x4014, title="DPU_OFFSET_PEND"):
    PADDING = bits(0, 15, says=Quantity.PADDING)
    AGAIN = bits(16, 31)


class DpuDestination(Register, number=0x4018, title="DPU_DST_BASE_ADDR"):
    ADDRESS = bits(0, 31, says=Quantity.DESTINATION)


class DpuSurfaceStride(Register, number=0x401C, title="DPU_DST_SURF_STRIDE"):
    STRIDE = bits(0, 31, says=Quantity.TARGET_SURFACE, signed=True, times=ATOM)


class DpuWidth(Register, number=0x4020, title="DPU_DATA_CUBE_WIDTH"):
    WIDTH = bits(0, 12, says=Quantity.WIDTH, plus=1)


class DpuHeight(Register, number=0x4024, title="DPU_DATA_CUBE_HEIGHT"):
    HEIGHT = bits(0, 12, says=Quantity.HEIGHT, plus=1)
    REDUCTION = bits(16, 21, only=(0, 0x25))
    """Not 0 for a maximum over channels."""


class DpuNotch(Register, number=0x4028, title="DPU_DATA_CUBE_NOTCH_ADDR"):
    NOTCH = bits(0, 15, says=Quantity.TARGET_NOTCH)
    OF_COPIES = bits(16, 31)
    """Between rows of un-pooling's copies; the same."""


class DpuChannel(Register, number=0x402C, title="DPU_DATA_CUBE_CHANNEL"):
    CHANNEL = bits(0, 12, says=Quantity.CHANNELS, plus=1)
    REST = bits(13, 31)


class DpuWriteChannel(Register, number=0x4030, title="DPU_WDMA_SIZE_0"):
    REST = bits(0, 15)
    CHANNEL = bits(16, 31, says=Quantity.WRITTEN_CHANNELS, plus=1)


class DpuWriteSize(Register, number=0x4034, title="DPU_WDMA_SIZE_1"):
    WIDTH = bits(0, 12, says=Quantity.WRITTEN_WIDTH, plus=1)
    HEIGHT = bits(16, 28, says=Quantity.WRITTEN_HEIGHT, plus=1)


class DpuBs(Register, number=0x4038, title="DPU_BS_CFG"):
    BYPASS = bits(0)
    CONFIG = bits(1, 31)


BS_KNOWN = frozenset({0x100012, 0x100092, 0x120080, 0x20040, 0x52})
"""DPU_BS_CFG where it is on. What it adds and multiplies follows from what is read."""


class DpuBsMode(Register, number=0x4044, title="DPU_BS_MODE"):
    STEERING = bits(0, 1)
    MUL_PRELU = bits(2)
    REST = bits(3, 31)


class DpuBsSumLowest(Register, number=0x4048, title="DPU_BS_SUM_LOWEST", reset=NO_LOWER):
    LOWEST = bits(0, 31)


class DpuBsSumHighest(Register, number=0x404C, title="DPU_BS_SUM_HIGHEST", reset=NO_UPPER):
    HIGHEST = bits(0, 31)


class DpuBsOw(Register, number=0x4050, title="DPU_BS_OW_CFG"):
    SIZE_E = bits(0, 3, says=Quantity.SURFACES_IN_GROUP, plus=1)
    SIZES = bits(4, 15)
    MUL_SRC = bits(16)
    MUL_BYPASS = bits(17)
    STEERING = bits(18, 19)
    ORDER = bits(20, 22, only=(0, 1, 2, 3, 6))
    """`BLOCKS` and the like."""
    REST = bits(23, 30)
    OFFSETS_WEIGHTS = bits(31)


BLOCKS, REDUCES, TRANSPOSES_BYTES, TRANSPOSES_ATOMS, TRANSPOSES_HALVES = 0, 1, 2, 3, 6
"""In which order atoms are written."""


class DpuBsLowest(Register, number=0x4058, title="DPU_BS_LOWEST", reset=NO_LOWER):
    LOWEST = bits(0, 31)


class DpuBsHighest(Register, number=0x405C, title="DPU_BS_HIGHEST", reset=NO_UPPER):
    HIGHEST = bits(0, 31)


class DpuBn(Register, number=0x4060, title="DPU_BN_CFG"):
    BYPASS = bits(0)
    ALU_BYPASS = bits(1)
    ALU_SRC = bits(2)
    ALU_ALGO = bits(4, 7, only=(0, 2))
    MUL_BYPASS = bits(8)
    MUL_SRC = bits(9)
    MUL_PRELU = bits(10)
    SHIFT_BYPASS = bits(11)


class DpuBnSumLowest(Register, number=0x406C, title="DPU_BN_SUM_LOWEST", reset=NO_LOWER):
    LOWEST = bits(0, 31)


class DpuBnSumHighest(Register, number=0x4070, title="DPU_BN_SUM_HIGHEST", reset=NO_UPPER):
    HIGHEST = bits(0, 31)


class DpuBnLowest(Register, number=0x4074, title="DPU_BN_LOWEST", reset=NO_LOWER):
    LOWEST = bits(0, 31)


class DpuBnHighest(Register, number=0x4078, title="DPU_BN_HIGHEST", reset=NO_UPPER):
    HIGHEST = bits(0, 31)


class DpuEw(Register, number=0x407C, title="DPU_EW_CFG"):
    BYPASS = bits(0)
    CONFIG = bits(1, 29)
    CVT_ROUND = bits(30)
    CONVERTS = bits(31)


LOOKS_UP, ADDS_AND_MULTIPLIES, ADDS_NUMBER, FLOORS = 0x1004140, 0x2C080, 0x241C0, 0x741C0
"""DPU_EW_CFG: the table; a sum with an operand, which is multiplied; a sum with a number; floor."""

OPERATIONS = {
    0xC0C0: Operation.MAX,
    ADDS_AND_MULTIPLIES: Operation.ADD,
    0x2C0C0: Operation.ADD,
    0x4C0C0: Operation.SUBTRACT,
    0x1004194: Operation.MULTIPLY,
    0x1004094: Operation.MULTIPLY,
    0x10F4094: Operation.MULTIPLY,
    0x10F4194: Operation.MULTIPLY,
    0x10021C8: Operation.DIVIDE,
    0x10321C8: Operation.DIVIDE,
    0x10421C8: Operation.DIVIDE,
}
"""The same of operations with an operand from memory, without the two bits of its conversion."""

COMPARES_NUMBER, COMPARES = 0x9041C0, 0x90C0C0
"""The same of what is greater than a number, than an operand; it becomes a number of its own."""

WIDE_SUMS = {0x42C1C0: Element.FLOAT32, 0x8042C1C0: Element.INT32}
"""The same of a sum of two values of 32 bits, and the precision that it is for."""


class DpuEwOffset(Register, number=0x4080, title="DPU_EW_CVT_OFFSET_VALUE"):
    OFFSET = bits(0, 15, says=Quantity.OPERAND_OFFSET, signed=True)
    GROUPS = bits(16, 31, says=Quantity.PACKED_GROUPS)


class DpuEwScale(Register, number=0x4084, title="DPU_EW_CVT_SCALE_VALUE"):
    SCALE = bits(0, 15, says=Quantity.OPERAND_SCALE, signed=True)
    SHIFT = bits(16, 21, says=Quantity.OPERAND_SHIFT)
    TRUNCATE = bits(22, 31, says=Quantity.PRODUCT_SHIFT)


class DpuEwSumLowest(Register, number=0x4088, title="DPU_EW_SUM_LOWEST", reset=NO_LOWER):
    LOWEST = bits(0, 31)


class DpuEwSumHighest(Register, number=0x408C, title="DPU_EW_SUM_HIGHEST", reset=NO_UPPER):
    HIGHEST = bits(0, 31)


class DpuEwNumber(Register, number=0x4090, title="DPU_EW_OP_VALUE"):
    NUMBER = bits(0, 31)
    """What a sum is multiplied by, a float16, or what is added."""


GREATER_OF_FLOATS = 0x3F800000
"""1 as a float: what greater floats become."""


class DpuEwGreater(Register, number=0x4094, title="DPU_EW_GREATER_VALUE"):
    NUMBER = bits(0, 31)
    """What becomes of values that are greater; the others become 0."""


class DpuEwLowest(Register, number=0x40A4, title="DPU_EW_LOWEST", reset=NO_LOWER):
    LOWEST = bits(0, 31)


class DpuEwHighest(Register, number=0x40A8, title="DPU_EW_HIGHEST", reset=NO_UPPER):
    HIGHEST = bits(0, 31)


class DpuOutOffset(Register, number=0x40AC, title="DPU_OUT_CVT_OFFSET"):
    OFFSET = bits(0, 31, says=Quantity.OUTPUT_OFFSET, signed=True)


class DpuOutScale(Register, number=0x40B0, title="DPU_OUT_CVT_SCALE"):
    SCALE = bits(0, 15, says=Quantity.OUTPUT_SCALE, signed=True)
    REST = bits(16, 31)


class DpuOutShift(Register, number=0x40B4, title="DPU_OUT_CVT_SHIFT"):
    SHIFT = bits(0, 11, says=Quantity.OUTPUT_SHIFT)
    MINUS_EXP = bits(12, 19, says=Quantity.OUTPUT_EXPONENT)
    CVT_ROUND = bits(30, says=Quantity.OUTPUT_AWAY)
    CVT_TYPE = bits(31, only=(0,))


class DpuGroupNotch(Register, number=0x40B8, title="DPU_GROUP_NOTCH"):
    """From the end of a group of surfaces to the next one."""

    NOTCH = bits(0, 31, signed=True, times=ATOM)


class DpuPackedAtoms(Register, number=0x40C8, title="DPU_PACKED_ATOMS"):
    ATOMS = bits(0, 31, says=Quantity.PACKED_ATOMS)


class DpuOrder(Register, number=0x40CC, title="DPU_ORDER"):
    ORDER = bits(0, 31, says=Quantity.ORDER)


BLOCK_ORDERS, REDUCES_TO_LANES, REDUCES_PACKED = frozenset({0, 0x10}), 4, 0
"""DPU_ORDER: of blocks, and of a reduction that isn't packed, or is."""


class DpuLut(
    Register, number=0x4108, title="DPU_LUT_CFG", only=frozenset({0, 0xFF0000, 0x2000006})
):
    CONFIG = bits(0, 31)


TWO_TABLES = 0x2000006
"""DPU_LUT_CFG; the others are off, and tables that are loaded."""


class DpuLutInfo(Register, number=0x410C, title="DPU_LUT_INFO"):
    NEGATIVE = bits(8, 15, says=Quantity.NEGATIVE_STEP)
    POSITIVE = bits(16, 23, says=Quantity.POSITIVE_STEP)


class DpuLutStart0(Register, number=0x4110, title="DPU_LUT_START0"):
    START = bits(0, 31, says=Quantity.NEGATIVE_START, signed=True)


class DpuLutStart1(Register, number=0x4114, title="DPU_LUT_START1"):
    START = bits(0, 31)


class DpuLutStart2(Register, number=0x4118, title="DPU_LUT_START2"):
    START = bits(0, 31)


class DpuLutStart3(Register, number=0x411C, title="DPU_LUT_START3"):
    START = bits(0, 31)


class DpuLutEnd0(Register, number=0x4140, title="DPU_LUT_END0"):
    END = bits(0, 31, says=Quantity.POSITIVE_END, signed=True)


class DpuLutEnd1(Register, number=0x4144, title="DPU_LUT_END1"):
    END = bits(0, 31)


class DpuLutEnd2(Register, number=0x4148, title="DPU_LUT_END2"):
    END = bits(0, 31)


class DpuLutEnd3(Register, number=0x414C, title="DPU_LUT_END3"):
    END = bits(0, 31)


class DpuLutSlopesBelow0(Register, number=0x4150, title="DPU_LUT_SLOPES_BELOW0"):
    FIRST = bits(0, 15, says=Quantity.SLOPE_BELOW, signed=True)
    SECOND = bits(16, 31, signed=True)


class DpuLutSlopesBelow1(Register, number=0x4154, title="DPU_LUT_SLOPES_BELOW1"):
    THIRD = bits(0, 15, signed=True)
    FOURTH = bits(16, 31, signed=True)


class DpuLutShiftsBelow(Register, number=0x4160, title="DPU_LUT_SHIFTS_BELOW"):
    FIRST = bits(0, 4, says=Quantity.SHIFT_BELOW)
    SECOND = bits(8, 12)
    THIRD = bits(16, 20)
    FOURTH = bits(24, 28)


class DpuLutSlopesAbove0(Register, number=0x4170, title="DPU_LUT_SLOPES_ABOVE0"):
    FIRST = bits(0, 15, says=Quantity.SLOPE_ABOVE, signed=True)
    SECOND = bits(16, 31, signed=True)


class DpuLutSlopesAbove1(Register, number=0x4174, title="DPU_LUT_SLOPES_ABOVE1"):
    THIRD = bits(0, 15, signed=True)
    FOURTH = bits(16, 31, signed=True)


class DpuLutShiftsAbove(Register, number=0x4184, title="DPU_LUT_SHIFTS_ABOVE"):
    FIRST = bits(0, 4, says=Quantity.SHIFT_ABOVE)
    SECOND = bits(8, 12)
    THIRD = bits(16, 20)
    FOURTH = bits(24, 28)


INERT = frozenset(
    {
        0x4008,
        *range(0x4188, 0x4198, 4),  # the outermost entries, which the tables have as well
    }
)
ALWAYS_ZERO = (0x403C, 0x409C, 0x40BC, 0x4120, 0x4130)
CONSTANTS = {
    **dict.fromkeys(ALWAYS_ZERO, frozenset({0})),
    0x40C0: frozenset({0x4440000, 0x4440100}),
    0x40D0: frozenset({0x40FFFF, 0x48FFFF}),
}
"""Registers of which files only have these values."""
