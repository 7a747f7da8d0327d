"""RK3576's CNA, which reads features and weights, and its CORE, which adds up their products."""

from __future__ import annotations

from ...registers.fields import Register, bits
from ...registers.quantities import Quantity

ATOM = 16


class CnaConv1(Register, number=0x100C, title="CNA_CONV_CON1"):
    DEPTHWISE = bits(0)
    PICTURE = bits(1)
    ROWS = bits(2)
    """Kernels are packed row by row."""
    IN_PRECISION = bits(4, 6)
    PROC_PRECISION = bits(7, 9, only=(0, 2, 3), says=Quantity.CONVOLUTION_ELEMENT)
    ARGB_IN = bits(12, 15, only=(0, 8, 9, 10, 11), says=Quantity.PICTURE_FORMAT)
    KIND = bits(20, 21)
    GROUP_LINE_OFF = bits(29)


class CnaConv3(Register, number=0x1014, title="CNA_CONV_CON3"):
    CONV_X_STRIDE = bits(0, 2, says=Quantity.STRIDE_X)
    CONV_Y_STRIDE = bits(3, 5, says=Quantity.STRIDE_Y)
    DECONV_X_STRIDE = bits(8, 10, says=Quantity.INSERTED_COLUMNS)
    DECONV_Y_STRIDE = bits(11, 13, says=Quantity.INSERTED_ROWS)
    ATROUS_X_DILATION = bits(16, 20, says=Quantity.DILATION_X, plus=1)
    ATROUS_Y_DILATION = bits(21, 25, says=Quantity.DILATION_Y, plus=1)
    NN_MODE = bits(28, 30, only=(0,))


class CnaBuffer(Register, number=0x1018, title="CNA_CBUF_CON"):
    STEERING = bits(0, 30)
    KEEPS_ROWS = bits(31)
    """The rows before those that are fetched are in the buffer."""


class CnaWeightSize0(Register, number=0x101C, title="CNA_WEIGHT_SIZE0"):
    WEIGHT_BYTES = bits(0, 31, says=Quantity.DEPTHWISE_BYTES)


class CnaWeightSize1(Register, number=0x1020, title="CNA_WEIGHT_SIZE1"):
    WEIGHT_BYTES_PER_KERNEL = bits(0, 18, says=Quantity.KERNEL_BYTES)


class CnaWeightSize2(Register, number=0x1024, title="CNA_WEIGHT_SIZE2"):
    WEIGHT_KERNELS = bits(0, 13, says=Quantity.KERNELS, plus=1)
    WEIGHT_HEIGHT = bits(16, 20, says=Quantity.KERNEL_HEIGHT, plus=1)
    WEIGHT_WIDTH = bits(24, 28, says=Quantity.KERNEL_WIDTH, plus=1)


class CnaInputSize(Register, number=0x102C, title="CNA_DATA_SIZE0"):
    HEIGHT = bits(0, 12, says=Quantity.INPUT_HEIGHT, plus=1)
    WIDTH = bits(16, 27, says=Quantity.INPUT_WIDTH, plus=1)


class CnaConvert0(Register, number=0x1048, title="CNA_CVT_CON0"):
    CVT_BYPASS = bits(0)
    CVT_TYPE = bits(1)
    ROUND_TYPE = bits(2)
    DATA_SIGN = bits(3)
    CVT_TRUNCATE_0 = bits(4, 9)
    CVT_TRUNCATE_1 = bits(10, 15)
    CVT_TRUNCATE_2 = bits(16, 21)
    CVT_TRUNCATE_3 = bits(22, 27)


class CnaScales0(Register, number=0x104C, title="CNA_CVT_CON1"):
    FIRST = bits(0, 15, signed=True)
    SECOND = bits(16, 31, signed=True)


class CnaScales1(Register, number=0x1050, title="CNA_CVT_CON2"):
    THIRD = bits(0, 15, signed=True)
    FOURTH = bits(16, 31, signed=True)


class CnaOffset0(Register, number=0x1054, title="CNA_CVT_CON3"):
    OFFSET = bits(0, 31, signed=True)


class CnaOffset1(Register, number=0x1058, title="CNA_CVT_CON4"):
    OFFSET = bits(0, 31, signed=True)


class CnaOffset2(Register, number=0x105C, title="CNA_CVT_CON5"):
    OFFSET = bits(0, 31, signed=True)


class CnaOffset3(Register, number=0x1060, title="CNA_CVT_CON6"):
    OFFSET = bits(0, 31, signed=True)


class CnaWeightOffset(Register, number=0x1074, title="CNA_WEIGHT_OFFSET"):
    """What is added to depthwise weights: one byte, which stands there twice."""

    OFFSET = bits(0, 7, signed=True)
    AGAIN = bits(8, 15, signed=True)


class CnaFetched(Register, number=0x1078, title="CNA_FETCHED_SIZE"):
    HEIGHT = bits(0, 12, says=Quantity.FETCHED_HEIGHT, plus=1)
    WIDTH = bits(16, 27, says=Quantity.FETCHED_WIDTH, plus=1)


class CnaChannels(Register, number=0x107C, title="CNA_DATA_SIZE1"):
    CHANNELS = bits(0, 15, says=Quantity.INPUT_CHANNELS, plus=1)


class CnaPad(Register, number=0x1080, title="CNA_PAD_CON0"):
    TOP = bits(0, 3, says=Quantity.PAD_TOP)
    LEFT = bits(8, 11, says=Quantity.PAD_LEFT)
    BOTTOM = bits(16, 23)
    RIGHT = bits(24, 31)


class CnaPadValue(Register, number=0x1084, title="CNA_PAD_CON1"):
    PAD_VALUE = bits(0, 31)


class CnaFeatureAddress(Register, number=0x1088, title="CNA_FEATURE_DATA_ADDR"):
    ADDRESS = bits(0, 31, says=Quantity.FEATURES)


class CnaLine(Register, number=0x1090, title="CNA_DMA_CON1"):
    LINE_STRIDE = bits(0, 27)
    """Words of four bytes, or atoms."""


class CnaSurface(Register, number=0x1094, title="CNA_DMA_CON2"):
    SURF_STRIDE = bits(0, 27, says=Quantity.INPUT_SURFACE, times=ATOM)


class CnaWeightAddress(Register, number=0x1110, title="CNA_DCOMP_ADDR0"):
    ADDRESS = bits(0, 31, says=Quantity.WEIGHTS)


class CoreMisc(Register, number=0x3018, title="CORE_MISC_CFG"):
    KIND = bits(0, 3, only=(0, 1, 2, 0xA))
    """Of sums; bit 1 for those of a depthwise convolution."""
    STEERING = bits(4, 31)


class CoreSize0(Register, number=0x301C, title="CORE_DATAOUT_SIZE_0"):
    WIDTH = bits(0, 15, says=Quantity.OUTPUT_WIDTH, plus=1)
    HEIGHT = bits(16, 31, says=Quantity.OUTPUT_HEIGHT, plus=1)


class CoreSize1(Register, number=0x3020, title="CORE_DATAOUT_SIZE_1"):
    CHANNELS = bits(0, 15)


class CoreClip(Register, number=0x3024, title="CORE_CLIP_TRUNCATE"):
    CLIP_TRUNCATE = bits(0, 4, says=Quantity.TRUNCATED_BITS)
    AGAIN = bits(5, 9)


INERT = frozenset(
    {
        0x1008,
        0x1010,  # lines that are fetched before work begins
        0x1028,
        0x1030,  # the output's width, as the CORE has it
        0x1034,  # the output's area
        0x1038,
        0x103C,
        0x1040,  # banks of the buffer
        0x1044,
        0x1070,  # the padding value of pictures once more
        0x108C,
        0x1098,  # the area that is fetched
        0x118C,
        0x3008,
    }
)
ALWAYS_ZERO = (0x1068, 0x106C, 0x109C, 0x1100, 0x1104, 0x1140, 0x1144)
CONSTANTS = {
    0x1064: frozenset({0, 0xFFFFFFFF}),
    **dict.fromkeys(ALWAYS_ZERO, frozenset({0})),
}
"""Registers of which files only have these values."""

ABSENT = frozenset(range(0x2810, 0x2824, 4))
"""Registers of a block that isn't there; files of toolkit 2.2 write 0 to them."""
