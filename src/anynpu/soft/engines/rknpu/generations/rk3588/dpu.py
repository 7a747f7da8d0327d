"""DPU: adds, multiplies, looks up, converts and writes."""

from __future__ import annotations

from ...registers.fields import Register, bits
from ...registers.quantities import Quantity


class DpuFeatureMode(Register, number=0x400C, title="DPU_FEATURE_MODE_CFG"):
    FLYING_MODE = bits(0)
    OUTPUT_MODE = bits(1, 2, only=(2,))
    CONV_MODE = bits(3, 4, only=(0, 3))
    BURST_LEN = bits(5, 8)
    SURF_LEN = bits(9, 24, says=Quantity.PACKED_ATOMS)
    NONALIGN = bits(25, says=Quantity.PACKS)
    RGP_TYPE = bits(26, 29, only=(0, 2, 3, 4, 5), says=Quantity.PACKED_KIND)
    TP_EN = bits(30, says=Quantity.TRANSPOSES_ATOMS)
    COMB_USE = bits(31)


class DpuDataFormat(Register, number=0x4010, title="DPU_DATA_FORMAT"):
    PROC_PRECISION = bits(0, 2, says=Quantity.ELEMENT)
    MC_SURF_OUT = bits(3, only=(0,))
    BS_MUL_SHIFT_VALUE_NEG = bits(4, 9)
    BN_MUL_SHIFT_VALUE_NEG = bits(10, 15)
    EW_TRUNCATE_NEG = bits(16, 25, only=(0,))
    IN_PRECISION = bits(26, 28, only=(0, 1, 2, 3, 4, 5), says=Quantity.ENTERING_ELEMENT)
    OUT_PRECISION = bits(29, 31, only=(0, 1, 2, 3, 4, 5), says=Quantity.OUTPUT_ELEMENT)


class DpuOffsetPend(Register, number=0x4014, title="DPU_OFFSET_PEND"):
    OFFSET_PEND = bits(0, 15, says=Quantity.PADDING)


class DpuDestination(Register, number=0x4020, title="DPU_DST_BASE_ADDR"):
    DST_BASE_ADDR = bits(0, 31, says=Quantity.DESTINATION)


class DpuSurfaceStride(Register, number=0x4024, title="DPU_DST_SURF_STRIDE"):
    DST_SURF_STRIDE = bits(0, 31, says=Quantity.TARGET_SURFACE, signed=True)


class DpuWidth(Register, number=0x4030, title="DPU_DATA_CUBE_WIDTH"):
    WIDTH = bits(0, 12, says=Quantity.WIDTH, plus=1)


class DpuHeight(Register, number=0x4034, title="DPU_DATA_CUBE_HEIGHT"):
    HEIGHT = bits(0, 12, says=Quantity.HEIGHT, plus=1)
    MINMAX_CTL = bits(22, 24, says=Quantity.REDUCTION)


class DpuNotch(Register, number=0x4038, title="DPU_DATA_CUBE_NOTCH_ADDR"):
    NOTCH_ADDR_0 = bits(0, 12, says=Quantity.TARGET_NOTCH)
    NOTCH_ADDR_1 = bits(16, 28)


class DpuChannel(Register, number=0x403C, title="DPU_DATA_CUBE_CHANNEL"):
    CHANNEL = bits(0, 12, says=Quantity.CHANNELS, plus=1)
    ORIG_CHANNEL = bits(16, 28, says=Quantity.OWN_CHANNELS, plus=1)


class DpuBs(Register, number=0x4040, title="DPU_BS_CFG"):
    BYPASS = bits(0)
    ALU_BYPASS = bits(1)
    MUL_BYPASS = bits(4)
    MUL_PRELU = bits(5)
    RELU_BYPASS = bits(6)
    RELUX_EN = bits(7)
    ALU_SRC = bits(8)
    ALU_ALGO = bits(16, 19, only=(0, 2, 4))


class DpuBsAlu(Register, number=0x4044, title="DPU_BS_ALU_CFG"):
    ALU_OPERAND = bits(0, 31)


class DpuBsMul(Register, number=0x4048, title="DPU_BS_MUL_CFG"):
    MUL_SRC = bits(0)
    TRUNCATE_SRC = bits(1, only=(0,))
    MUL_SHIFT_VALUE = bits(8, 13)
    MUL_OPERAND = bits(16, 31)


class DpuBsRelux(Register, number=0x404C, title="DPU_BS_RELUX_CMP_VALUE"):
    RELUX_CMP_DAT = bits(0, 31)


class DpuBsOw(Register, number=0x4050, title="DPU_BS_OW_CFG"):
    OW_SRC = bits(0)
    OD_BYPASS = bits(1)
    SIZE_E_0 = bits(2, 4, says=Quantity.SURFACES_IN_GROUP, plus=1)
    SIZE_E_1 = bits(5, 7)
    SIZE_E_2 = bits(8, 10)
    TP_ORG_EN = bits(27, says=Quantity.TRANSPOSES_PIXELS)
    RGP_CNTER = bits(28, 31, only=(0,))


class DpuBsOwOperand(Register, number=0x4054, title="DPU_BS_OW_OP"):
    OW_OP = bits(0, 15, signed=True)


class DpuWriteSize0(Register, number=0x4058, title="DPU_WDMA_SIZE_0"):
    CHANNEL_WDMA = bits(0, 12, says=Quantity.WRITTEN_CHANNELS, plus=1)
    SIZE_C_WDMA = bits(16, 26)
    TP_PRECISION = bits(27)


class DpuWriteSize1(Register, number=0x405C, title="DPU_WDMA_SIZE_1"):
    WIDTH_WDMA = bits(0, 12, says=Quantity.WRITTEN_WIDTH, plus=1)
    HEIGHT_WDMA = bits(16, 28, says=Quantity.WRITTEN_HEIGHT, plus=1)


class DpuBn(Register, number=0x4060, title="DPU_BN_CFG"):
    BYPASS = bits(0)
    ALU_BYPASS = bits(1)
    MUL_BYPASS = bits(4)
    MUL_PRELU = bits(5)
    RELU_BYPASS = bits(6)
    RELUX_EN = bits(7)
    ALU_SRC = bits(8)
    ALU_ALGO = bits(16, 19, only=(0, 2, 4))


class DpuBnAlu(Register, number=0x4064, title="DPU_BN_ALU_CFG"):
    ALU_OPERAND = bits(0, 31)


class DpuBnMul(Register, number=0x4068, title="DPU_BN_MUL_CFG"):
    MUL_SRC = bits(0)
    TRUNCATE_SRC = bits(1, only=(0,))
    MUL_SHIFT_VALUE = bits(8, 13)
    MUL_OPERAND = bits(16, 31)


class DpuBnRelux(Register, number=0x406C, title="DPU_BN_RELUX_CMP_VALUE"):
    RELUX_CMP_DAT = bits(0, 31)


class DpuEw(Register, number=0x4070, title="DPU_EW_CFG"):
    BYPASS = bits(0)
    OP_BYPASS = bits(1)
    OP_TYPE = bits(2)
    MUL_PRELU = bits(5)
    OP_SRC = bits(6)
    LUT_BYPASS = bits(7)
    OP_CVT_BYPASS = bits(8)
    RELU_BYPASS = bits(9)
    RELUX_EN = bits(10)
    ALU_ALGO = bits(16, 19, only=(0, 1, 2, 3, 4, 5, 6, 7, 8))
    BINARY_EN = bits(20, only=(0,))
    EQUAL_EN = bits(21, only=(0,))
    EDATA_SIZE = bits(22, 23)
    DATA_MODE = bits(28, 29)
    CVT_ROUND = bits(30)
    CVT_TYPE = bits(31)


class DpuEwConvertOffset(Register, number=0x4074, title="DPU_EW_CVT_OFFSET_VALUE"):
    OP_CVT_OFFSET = bits(0, 31, says=Quantity.OPERAND_OFFSET, signed=True)


class DpuEwConvertScale(Register, number=0x4078, title="DPU_EW_CVT_SCALE_VALUE"):
    OP_CVT_SCALE = bits(0, 15, says=Quantity.OPERAND_SCALE, signed=True)
    OP_CVT_SHIFT = bits(16, 21, says=Quantity.OPERAND_SHIFT)
    TRUNCATE = bits(22, 31, says=Quantity.PRODUCT_SHIFT)


class DpuEwRelux(Register, number=0x407C, title="DPU_EW_RELUX_CMP_VALUE"):
    RELUX_CMP_DAT = bits(0, 31)


class DpuOutOffset(Register, number=0x4080, title="DPU_OUT_CVT_OFFSET"):
    OUT_CVT_OFFSET = bits(0, 31, says=Quantity.OUTPUT_OFFSET, signed=True)


class DpuOutScale(Register, number=0x4084, title="DPU_OUT_CVT_SCALE"):
    OUT_CVT_SCALE = bits(0, 15, says=Quantity.OUTPUT_SCALE, signed=True)
    FP32TOFP16_EN = bits(16)


class DpuOutShift(Register, number=0x4088, title="DPU_OUT_CVT_SHIFT"):
    OUT_CVT_SHIFT = bits(0, 11, says=Quantity.OUTPUT_SHIFT)
    MINUS_EXP = bits(12, 19, says=Quantity.OUTPUT_EXPONENT)
    CVT_ROUND = bits(30, says=Quantity.OUTPUT_AWAY)
    CVT_TYPE = bits(31, only=(0,))


class DpuEwOperand(Register, number=0x4090, title="DPU_EW_OP_VALUE_0"):
    EW_OPERAND_0 = bits(0, 31)


class DpuSurfaceAdd(Register, number=0x40C0, title="DPU_SURFACE_ADD"):
    SURF_ADD = bits(0, 31, says=Quantity.TARGET_GROUP, signed=True)


class DpuLut(Register, number=0x4108, title="DPU_LUT_CFG"):
    ROAD_SEL = bits(0, only=(0,))
    EXPAND_EN = bits(1, only=(0,))
    LO_LE_MUX = bits(2, 3)
    UFLOW_PRIORITY = bits(4)
    OFLOW_PRIORITY = bits(5)
    HYBRID_PRIORITY = bits(6)
    CAL_SEL = bits(7, only=(0,))


class DpuLutInfo(Register, number=0x410C, title="DPU_LUT_INFO"):
    LE_INDEX_SELECT = bits(8, 15, says=Quantity.NEGATIVE_STEP)
    LO_INDEX_SELECT = bits(16, 23, says=Quantity.POSITIVE_STEP)


class DpuLutLeStart(Register, number=0x4110, title="DPU_LUT_LE_START"):
    LE_START = bits(0, 31, says=Quantity.NEGATIVE_START, signed=True)


class DpuLutLeEnd(Register, number=0x4114, title="DPU_LUT_LE_END"):
    LE_END = bits(0, 31)


class DpuLutLoStart(Register, number=0x4118, title="DPU_LUT_LO_START"):
    LO_START = bits(0, 31, says=Quantity.POSITIVE_START, signed=True)


class DpuLutLoEnd(Register, number=0x411C, title="DPU_LUT_LO_END"):
    LO_END = bits(0, 31, says=Quantity.POSITIVE_END, signed=True)


class DpuLutLeScale(Register, number=0x4120, title="DPU_LUT_LE_SLOPE_SCALE"):
    UFLOW_SCALE = bits(0, 15, says=Quantity.SLOPE_BELOW, signed=True)
    OFLOW_SCALE = bits(16, 31)


class DpuLutLeShift(Register, number=0x4124, title="DPU_LUT_LE_SLOPE_SHIFT"):
    UFLOW_SHIFT = bits(0, 4, says=Quantity.SHIFT_BELOW)
    OFLOW_SHIFT = bits(5, 9)


class DpuLutLoScale(Register, number=0x4128, title="DPU_LUT_LO_SLOPE_SCALE"):
    UFLOW_SCALE = bits(0, 15)
    OFLOW_SCALE = bits(16, 31, says=Quantity.SLOPE_ABOVE, signed=True)


class DpuLutLoShift(Register, number=0x412C, title="DPU_LUT_LO_SLOPE_SHIFT"):
    UFLOW_SHIFT = bits(0, 4)
    OFLOW_SHIFT = bits(5, 9, says=Quantity.SHIFT_ABOVE)
