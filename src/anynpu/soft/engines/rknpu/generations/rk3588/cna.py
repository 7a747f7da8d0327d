"""CNA: reads features and weights."""

from __future__ import annotations

from ...registers.fields import Register, bits
from ...registers.quantities import Quantity


class CnaConv1(Register, number=0x100C, title="CNA_CONV_CON1"):
    CONV_MODE = bits(0, 3, only=(0, 3))
    IN_PRECISION = bits(4, 6)
    PROC_PRECISION = bits(7, 9, only=(0, 2, 3), says=Quantity.CONVOLUTION_ELEMENT)
    ARGB_IN = bits(12, 15, only=(0, 8, 9, 10, 11), says=Quantity.PICTURE_FORMAT)
    DECONV = bits(16)
    GROUP_LINE_OFF = bits(29)
    NONALIGN_DMA = bits(30)


class CnaConv3(Register, number=0x1014, title="CNA_CONV_CON3"):
    CONV_X_STRIDE = bits(0, 2, says=Quantity.STRIDE_X)
    CONV_Y_STRIDE = bits(3, 5, says=Quantity.STRIDE_Y)
    DECONV_X_STRIDE = bits(8, 10)
    DECONV_Y_STRIDE = bits(11, 13)
    ATROUS_X_DILATION = bits(16, 20, says=Quantity.DILATION_X, plus=1)
    ATROUS_Y_DILATION = bits(21, 25, says=Quantity.DILATION_Y, plus=1)
    NN_MODE = bits(28, 30, only=(0,))


class CnaDataSize0(Register, number=0x1020, title="CNA_DATA_SIZE0"):
    DATAIN_HEIGHT = bits(0, 12, says=Quantity.INPUT_HEIGHT)
    DATAIN_WIDTH = bits(16, 26, says=Quantity.INPUT_WIDTH)


class CnaDataSize1(Register, number=0x1024, title="CNA_DATA_SIZE1"):
    DATAIN_CHANNEL = bits(0, 15, says=Quantity.INPUT_CHANNELS)
    DATAIN_CHANNEL_REAL = bits(16, 29, plus=1)


class CnaWeightSize0(Register, number=0x1030, title="CNA_WEIGHT_SIZE0"):
    WEIGHT_BYTES = bits(0, 31, says=Quantity.DEPTHWISE_BYTES)


class CnaWeightSize1(Register, number=0x1034, title="CNA_WEIGHT_SIZE1"):
    WEIGHT_BYTES_PER_KERNEL = bits(0, 18, says=Quantity.KERNEL_BYTES)


class CnaWeightSize2(Register, number=0x1038, title="CNA_WEIGHT_SIZE2"):
    WEIGHT_KERNELS = bits(0, 13, says=Quantity.KERNELS)
    WEIGHT_HEIGHT = bits(16, 20, says=Quantity.KERNEL_HEIGHT)
    WEIGHT_WIDTH = bits(24, 28, says=Quantity.KERNEL_WIDTH)


class CnaBuffer1(Register, number=0x1044, title="CNA_CBUF_CON1"):
    DATA_ENTRIES = bits(0, 31)


class CnaConvert0(Register, number=0x104C, title="CNA_CVT_CON0"):
    CVT_BYPASS = bits(0)
    CVT_TYPE = bits(1)
    ROUND_TYPE = bits(2)
    DATA_SIGN = bits(3)
    CVT_TRUNCATE_0 = bits(4, 9)
    CVT_TRUNCATE_1 = bits(10, 15)
    CVT_TRUNCATE_2 = bits(16, 21)
    CVT_TRUNCATE_3 = bits(22, 27)


class CnaConvert1(Register, number=0x1050, title="CNA_CVT_CON1"):
    OFFSET = bits(0, 15, signed=True)
    SCALE = bits(16, 31, signed=True)


class CnaConvert2(Register, number=0x1054, title="CNA_CVT_CON2"):
    OFFSET = bits(0, 15, signed=True)
    SCALE = bits(16, 31, signed=True)


class CnaConvert3(Register, number=0x1058, title="CNA_CVT_CON3"):
    OFFSET = bits(0, 15, signed=True)
    SCALE = bits(16, 31, signed=True)


class CnaConvert4(Register, number=0x105C, title="CNA_CVT_CON4"):
    OFFSET = bits(0, 15, signed=True)
    SCALE = bits(16, 31, signed=True)


class CnaPad0(Register, number=0x1068, title="CNA_PAD_CON0"):
    PAD_TOP = bits(0, 3, says=Quantity.PAD_TOP)
    PAD_LEFT = bits(4, 7, says=Quantity.PAD_LEFT)


class CnaFeatureAddress(Register, number=0x1070, title="CNA_FEATURE_DATA_ADDR"):
    FEATURE_BASE_ADDR = bits(0, 31, says=Quantity.FEATURES)


class CnaDma1(Register, number=0x107C, title="CNA_DMA_CON1"):
    LINE_STRIDE = bits(0, 27)


class CnaDma2(Register, number=0x1080, title="CNA_DMA_CON2"):
    SURF_STRIDE = bits(0, 27, signed=True)


class CnaDecompressControl(Register, number=0x1100, title="CNA_DCOMP_CTRL"):
    DECOMP_CONTROL = bits(0, 2, only=(0,))
    WT_DEC_BYPASS = bits(3)


class CnaDecompressRegisters(Register, number=0x1104, title="CNA_DCOMP_REGNUM"):
    DCOMP_REGNUM = bits(0, 31, only=(0,))


class CnaWeightAddress(Register, number=0x1110, title="CNA_DCOMP_ADDR0"):
    DECOMPRESS_ADDR0 = bits(0, 31, says=Quantity.WEIGHTS)


class CnaPad1(Register, number=0x1184, title="CNA_PAD_CON1"):
    PAD_VALUE = bits(0, 31)
