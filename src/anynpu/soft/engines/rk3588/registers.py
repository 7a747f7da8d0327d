"""The NPU's registers: number, name and bit fields of each, declared once.

Names are those of the open rocket driver (Mesa, `registers.xml`, MIT) and of the RK3588 TRM,
part 1, section 36.4. Registers are told apart by their number alone: its top four bits are the
block. `INERT` are those that only steer buffers, clocks and bursts, which change when a result is
there and not what it is. Strides that the manual counts in atoms of 16 bytes from bit 4
on are byte counts as a whole, and are declared as such.
"""

from __future__ import annotations

from typing import ClassVar

CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA = 1, 3, 4, 5, 6, 7
BLOCKS = {CNA: "CNA", CORE: "CORE", DPU: "DPU", DPU_RDMA: "RDMA", PPU: "PPU", PPU_RDMA: "PPU_RDMA"}
"""The blocks whose registers a task may write, by the top four bits of the number."""


def sign_extend(value: int, bits: int) -> int:
    """The two's complement number that the lowest `bits` bits of a value hold."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Field:
    """Bits `low` to `high` of a register; `values` lists what is known, None for any number."""

    register: type[Register]
    name: str

    def __init__(self, low: int, high: int, values: tuple[int, ...] | None) -> None:
        self.low = low
        self.bits = high - low + 1
        self.mask = (1 << self.bits) - 1
        self.values = values

    def __set_name__(self, owner: type[Register], name: str) -> None:
        self.register, self.name = owner, name

    def of(self, word: int) -> int:
        """The field's value, without a sign."""
        return word >> self.low & self.mask

    def signed(self, word: int) -> int:
        """The field's value as a two's complement number."""
        return sign_extend(word >> self.low, self.bits)

    def put(self, value: int) -> int:
        """A register word in which only this field is set."""
        return (value & self.mask) << self.low


def bits(low: int, high: int | None = None, only: tuple[int, ...] | None = None) -> Field:
    """A field of one bit, or of bits `low` to `high`; `only` lists the values that are known."""
    return Field(low, low if high is None else high, only)


class Register:
    """One register; a subclass names its number and its fields.

    Bits outside the fields have no known meaning.
    """

    number: ClassVar[int]
    title: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]]
    known_bits: ClassVar[int]

    def __init_subclass__(cls, number: int, title: str) -> None:
        cls.number, cls.title = number, title
        cls.fields = tuple(value for value in vars(cls).values() if isinstance(value, Field))
        cls.known_bits = sum(field.mask << field.low for field in cls.fields)
        REGISTERS[number] = cls
        NAMES[number] = title


REGISTERS: dict[int, type[Register]] = {}
NAMES: dict[int, str] = {}

POINTER = 0x004
"""The lowest twelve bits of each block's S_POINTER."""

LUT_ACCESS_CFG, LUT_ACCESS_DATA = 0x4100, 0x4104


# --- CNA: reads features and weights -----------------------------------------------------------


class CnaConv1(Register, number=0x100C, title="CNA_CONV_CON1"):
    CONV_MODE = bits(0, 3, only=(0, 3))
    IN_PRECISION = bits(4, 6)
    PROC_PRECISION = bits(7, 9, only=(0, 2, 3))
    ARGB_IN = bits(12, 15, only=(0, 8, 9, 10, 11))
    DECONV = bits(16)
    GROUP_LINE_OFF = bits(29)
    NONALIGN_DMA = bits(30)


class CnaConv3(Register, number=0x1014, title="CNA_CONV_CON3"):
    CONV_X_STRIDE = bits(0, 2)
    CONV_Y_STRIDE = bits(3, 5)
    DECONV_X_STRIDE = bits(8, 10)
    DECONV_Y_STRIDE = bits(11, 13)
    ATROUS_X_DILATION = bits(16, 20)
    ATROUS_Y_DILATION = bits(21, 25)
    NN_MODE = bits(28, 30, only=(0,))


class CnaDataSize0(Register, number=0x1020, title="CNA_DATA_SIZE0"):
    DATAIN_HEIGHT = bits(0, 10)
    DATAIN_WIDTH = bits(16, 26)


class CnaDataSize1(Register, number=0x1024, title="CNA_DATA_SIZE1"):
    DATAIN_CHANNEL = bits(0, 15)
    DATAIN_CHANNEL_REAL = bits(16, 29)


class CnaWeightSize0(Register, number=0x1030, title="CNA_WEIGHT_SIZE0"):
    WEIGHT_BYTES = bits(0, 31)


class CnaWeightSize1(Register, number=0x1034, title="CNA_WEIGHT_SIZE1"):
    WEIGHT_BYTES_PER_KERNEL = bits(0, 18)


class CnaWeightSize2(Register, number=0x1038, title="CNA_WEIGHT_SIZE2"):
    WEIGHT_KERNELS = bits(0, 13)
    WEIGHT_HEIGHT = bits(16, 20)
    WEIGHT_WIDTH = bits(24, 28)


class CnaConvert0(Register, number=0x104C, title="CNA_CVT_CON0"):
    CVT_BYPASS = bits(0)
    CVT_TYPE = bits(1)
    ROUND_TYPE = bits(2, only=(0,))
    DATA_SIGN = bits(3)
    CVT_TRUNCATE_0 = bits(4, 9)
    CVT_TRUNCATE_1 = bits(10, 15)
    CVT_TRUNCATE_2 = bits(16, 21)
    CVT_TRUNCATE_3 = bits(22, 27)


class CnaConvert1(Register, number=0x1050, title="CNA_CVT_CON1"):
    OFFSET = bits(0, 15)
    SCALE = bits(16, 31)


class CnaConvert2(Register, number=0x1054, title="CNA_CVT_CON2"):
    OFFSET = bits(0, 15)
    SCALE = bits(16, 31)


class CnaConvert3(Register, number=0x1058, title="CNA_CVT_CON3"):
    OFFSET = bits(0, 15)
    SCALE = bits(16, 31)


class CnaConvert4(Register, number=0x105C, title="CNA_CVT_CON4"):
    OFFSET = bits(0, 15)
    SCALE = bits(16, 31)


class CnaPad0(Register, number=0x1068, title="CNA_PAD_CON0"):
    PAD_TOP = bits(0, 3)
    PAD_LEFT = bits(4, 7)


class CnaFeatureAddress(Register, number=0x1070, title="CNA_FEATURE_DATA_ADDR"):
    FEATURE_BASE_ADDR = bits(0, 31)


class CnaDma1(Register, number=0x107C, title="CNA_DMA_CON1"):
    LINE_STRIDE = bits(0, 27)


class CnaDma2(Register, number=0x1080, title="CNA_DMA_CON2"):
    SURF_STRIDE = bits(0, 27)


class CnaDecompressControl(Register, number=0x1100, title="CNA_DCOMP_CTRL"):
    DECOMP_CONTROL = bits(0, 2, only=(0,))
    WT_DEC_BYPASS = bits(3)


class CnaDecompressRegisters(Register, number=0x1104, title="CNA_DCOMP_REGNUM"):
    DCOMP_REGNUM = bits(0, 31, only=(0,))


class CnaWeightAddress(Register, number=0x1110, title="CNA_DCOMP_ADDR0"):
    DECOMPRESS_ADDR0 = bits(0, 31)


class CnaPad1(Register, number=0x1184, title="CNA_PAD_CON1"):
    PAD_VALUE = bits(0, 31)


# --- CORE: multiplies and accumulates ----------------------------------------------------------


class CoreMisc(Register, number=0x3010, title="CORE_MISC_CFG"):
    QD_EN = bits(0)
    DW_EN = bits(1)
    PROC_PRECISION = bits(8, 10)
    SOFT_GATING = bits(14, 19)


class CoreSize0(Register, number=0x3014, title="CORE_DATAOUT_SIZE_0"):
    DATAOUT_WIDTH = bits(0, 15)
    DATAOUT_HEIGHT = bits(16, 31)


class CoreSize1(Register, number=0x3018, title="CORE_DATAOUT_SIZE_1"):
    DATAOUT_CHANNEL = bits(0, 15)


class CoreClip(Register, number=0x301C, title="CORE_CLIP_TRUNCATE"):
    CLIP_TRUNCATE = bits(0, 4, only=(0,))
    ROUND_TYPE = bits(6)


# --- DPU: adds, multiplies, looks up, converts and writes ---------------------------------------


class DpuFeatureMode(Register, number=0x400C, title="DPU_FEATURE_MODE_CFG"):
    FLYING_MODE = bits(0)
    OUTPUT_MODE = bits(1, 2, only=(2,))
    CONV_MODE = bits(3, 4, only=(0, 3))
    BURST_LEN = bits(5, 8)
    SURF_LEN = bits(9, 24)
    NONALIGN = bits(25)
    RGP_TYPE = bits(26, 29, only=(0, 2, 3, 4, 5))
    TP_EN = bits(30)
    COMB_USE = bits(31)


class DpuDataFormat(Register, number=0x4010, title="DPU_DATA_FORMAT"):
    PROC_PRECISION = bits(0, 2)
    MC_SURF_OUT = bits(3, only=(0,))
    BS_MUL_SHIFT_VALUE_NEG = bits(4, 9)
    BN_MUL_SHIFT_VALUE_NEG = bits(10, 15)
    EW_TRUNCATE_NEG = bits(16, 25, only=(0,))
    IN_PRECISION = bits(26, 28, only=(0, 1, 2, 3, 4, 5))
    OUT_PRECISION = bits(29, 31, only=(0, 1, 2, 3, 4, 5))


class DpuOffsetPend(Register, number=0x4014, title="DPU_OFFSET_PEND"):
    OFFSET_PEND = bits(0, 15)


class DpuDestination(Register, number=0x4020, title="DPU_DST_BASE_ADDR"):
    DST_BASE_ADDR = bits(0, 31)


class DpuSurfaceStride(Register, number=0x4024, title="DPU_DST_SURF_STRIDE"):
    DST_SURF_STRIDE = bits(0, 31)


class DpuWidth(Register, number=0x4030, title="DPU_DATA_CUBE_WIDTH"):
    WIDTH = bits(0, 12)


class DpuHeight(Register, number=0x4034, title="DPU_DATA_CUBE_HEIGHT"):
    HEIGHT = bits(0, 12)
    MINMAX_CTL = bits(22, 24)


class DpuNotch(Register, number=0x4038, title="DPU_DATA_CUBE_NOTCH_ADDR"):
    NOTCH_ADDR_0 = bits(0, 12)
    NOTCH_ADDR_1 = bits(16, 28)


class DpuChannel(Register, number=0x403C, title="DPU_DATA_CUBE_CHANNEL"):
    CHANNEL = bits(0, 12)
    ORIG_CHANNEL = bits(16, 28)


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
    SIZE_E_0 = bits(2, 4)
    SIZE_E_1 = bits(5, 7)
    SIZE_E_2 = bits(8, 10)
    TP_ORG_EN = bits(27)
    RGP_CNTER = bits(28, 31, only=(0,))


class DpuBsOwOperand(Register, number=0x4054, title="DPU_BS_OW_OP"):
    OW_OP = bits(0, 15)


class DpuWriteSize0(Register, number=0x4058, title="DPU_WDMA_SIZE_0"):
    CHANNEL_WDMA = bits(0, 12)
    SIZE_C_WDMA = bits(16, 26)
    TP_PRECISION = bits(27)


class DpuWriteSize1(Register, number=0x405C, title="DPU_WDMA_SIZE_1"):
    WIDTH_WDMA = bits(0, 12)
    HEIGHT_WDMA = bits(16, 28)


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
    OP_CVT_OFFSET = bits(0, 31)


class DpuEwConvertScale(Register, number=0x4078, title="DPU_EW_CVT_SCALE_VALUE"):
    OP_CVT_SCALE = bits(0, 15)
    OP_CVT_SHIFT = bits(16, 21)
    TRUNCATE = bits(22, 31)


class DpuEwRelux(Register, number=0x407C, title="DPU_EW_RELUX_CMP_VALUE"):
    RELUX_CMP_DAT = bits(0, 31)


class DpuOutOffset(Register, number=0x4080, title="DPU_OUT_CVT_OFFSET"):
    OUT_CVT_OFFSET = bits(0, 31)


class DpuOutScale(Register, number=0x4084, title="DPU_OUT_CVT_SCALE"):
    OUT_CVT_SCALE = bits(0, 15)
    FP32TOFP16_EN = bits(16)


class DpuOutShift(Register, number=0x4088, title="DPU_OUT_CVT_SHIFT"):
    OUT_CVT_SHIFT = bits(0, 11)
    MINUS_EXP = bits(12, 19)
    CVT_ROUND = bits(30)
    CVT_TYPE = bits(31, only=(0,))


class DpuEwOperand(Register, number=0x4090, title="DPU_EW_OP_VALUE_0"):
    EW_OPERAND_0 = bits(0, 31)


class DpuSurfaceAdd(Register, number=0x40C0, title="DPU_SURFACE_ADD"):
    SURF_ADD = bits(0, 31)


class DpuLut(Register, number=0x4108, title="DPU_LUT_CFG"):
    ROAD_SEL = bits(0, only=(0,))
    EXPAND_EN = bits(1, only=(0,))
    LO_LE_MUX = bits(2, 3)
    UFLOW_PRIORITY = bits(4)
    OFLOW_PRIORITY = bits(5)
    HYBRID_PRIORITY = bits(6)
    CAL_SEL = bits(7, only=(0,))


class DpuLutInfo(Register, number=0x410C, title="DPU_LUT_INFO"):
    LE_INDEX_SELECT = bits(8, 15)
    LO_INDEX_SELECT = bits(16, 23)


class DpuLutLeStart(Register, number=0x4110, title="DPU_LUT_LE_START"):
    LE_START = bits(0, 31)


class DpuLutLeEnd(Register, number=0x4114, title="DPU_LUT_LE_END"):
    LE_END = bits(0, 31)


class DpuLutLoStart(Register, number=0x4118, title="DPU_LUT_LO_START"):
    LO_START = bits(0, 31)


class DpuLutLoEnd(Register, number=0x411C, title="DPU_LUT_LO_END"):
    LO_END = bits(0, 31)


class DpuLutLeScale(Register, number=0x4120, title="DPU_LUT_LE_SLOPE_SCALE"):
    UFLOW_SCALE = bits(0, 15)
    OFLOW_SCALE = bits(16, 31)


class DpuLutLeShift(Register, number=0x4124, title="DPU_LUT_LE_SLOPE_SHIFT"):
    UFLOW_SHIFT = bits(0, 4)
    OFLOW_SHIFT = bits(5, 9)


class DpuLutLoScale(Register, number=0x4128, title="DPU_LUT_LO_SLOPE_SCALE"):
    UFLOW_SCALE = bits(0, 15)
    OFLOW_SCALE = bits(16, 31)


class DpuLutLoShift(Register, number=0x412C, title="DPU_LUT_LO_SLOPE_SHIFT"):
    UFLOW_SHIFT = bits(0, 4)
    OFLOW_SHIFT = bits(5, 9)


# --- DPU_RDMA: reads the DPU's input and operands ------------------------------------------------


class RdmaWidth(Register, number=0x500C, title="RDMA_DATA_CUBE_WIDTH"):
    WIDTH = bits(0, 12)


class RdmaHeight(Register, number=0x5010, title="RDMA_DATA_CUBE_HEIGHT"):
    HEIGHT = bits(0, 12)
    EW_LINE_NOTCH_ADDR = bits(16, 28)


class RdmaChannel(Register, number=0x5014, title="RDMA_DATA_CUBE_CHANNEL"):
    CHANNEL = bits(0, 12)


class RdmaSource(Register, number=0x5018, title="RDMA_SRC_BASE_ADDR"):
    SRC_BASE_ADDR = bits(0, 31)


class RdmaBs(Register, number=0x501C, title="RDMA_BRDMA_CFG"):
    DATA_USE = bits(1, 4, only=(0, 1, 2, 3, 4, 5, 6, 7))


class RdmaBsAddress(Register, number=0x5020, title="RDMA_BS_BASE_ADDR"):
    BASE_ADDR = bits(0, 31)


class RdmaBn(Register, number=0x5028, title="RDMA_NRDMA_CFG"):
    DATA_USE = bits(1, 4, only=(0, 1, 4, 5))


class RdmaBnAddress(Register, number=0x502C, title="RDMA_BN_BASE_ADDR"):
    BASE_ADDR = bits(0, 31)


class RdmaEw(Register, number=0x5034, title="RDMA_ERDMA_CFG"):
    DISABLE = bits(0)
    OV4K_BYPASS = bits(1)
    DATA_SIZE = bits(2, 3)
    NONALIGN = bits(28, only=(0,))
    SURF_MODE = bits(29, only=(0,))
    DATA_MODE = bits(30, 31, only=(0, 1, 2))


class RdmaEwAddress(Register, number=0x5038, title="RDMA_EW_BASE_ADDR"):
    BASE_ADDR = bits(0, 31)


class RdmaEwSurfaceStride(Register, number=0x5040, title="RDMA_EW_SURF_STRIDE"):
    EW_SURF_STRIDE = bits(0, 31)


class RdmaFeatureMode(Register, number=0x5044, title="RDMA_FEATURE_MODE_CFG"):
    FLYING_MODE = bits(0)
    CONV_MODE = bits(1, 2)
    MRDMA_FP16TOFP32_EN = bits(3)
    MRDMA_DISABLE = bits(4)
    PROC_PRECISION = bits(5, 7)
    COMB_USE = bits(8, 10, only=(0, 3, 5))
    BURST_LEN = bits(11, 14)
    IN_PRECISION = bits(15, 17, only=(0, 1, 2, 3, 4, 5))


class RdmaSourceDma(Register, number=0x5048, title="RDMA_SRC_DMA_CFG"):
    KERNEL_WIDTH = bits(0, 2)
    KERNEL_HEIGHT = bits(3, 5)
    KERNEL_STRIDE_WIDTH = bits(6, 8)
    KERNEL_STRIDE_HEIGHT = bits(9, 11)
    UNPOOLING_EN = bits(12)
    POOLING_METHOD = bits(13, only=(0,))
    LINE_NOTCH_ADDR = bits(19, 31)


class RdmaSurfaceNotch(Register, number=0x504C, title="RDMA_SURF_NOTCH"):
    SURF_NOTCH_ADDR = bits(0, 31)


class RdmaPad(Register, number=0x5064, title="RDMA_PAD_CFG"):
    PAD_LEFT = bits(0, 2, only=(0,))
    PAD_TOP = bits(4, 6, only=(0,))
    PAD_VALUE = bits(16, 31)


class RdmaEwSurfaceNotch(Register, number=0x506C, title="RDMA_EW_SURF_NOTCH"):
    EW_SURF_NOTCH = bits(0, 31)


# --- PPU: pools ----------------------------------------------------------------------------------


class PpuInWidth(Register, number=0x600C, title="PPU_DATA_CUBE_IN_WIDTH"):
    CUBE_IN_WIDTH = bits(0, 12)


class PpuInHeight(Register, number=0x6010, title="PPU_DATA_CUBE_IN_HEIGHT"):
    CUBE_IN_HEIGHT = bits(0, 12)


class PpuInChannel(Register, number=0x6014, title="PPU_DATA_CUBE_IN_CHANNEL"):
    CUBE_IN_CHANNEL = bits(0, 12)


class PpuOutWidth(Register, number=0x6018, title="PPU_DATA_CUBE_OUT_WIDTH"):
    CUBE_OUT_WIDTH = bits(0, 12)


class PpuOutHeight(Register, number=0x601C, title="PPU_DATA_CUBE_OUT_HEIGHT"):
    CUBE_OUT_HEIGHT = bits(0, 12)


class PpuMode(Register, number=0x6024, title="PPU_OPERATION_MODE_CFG"):
    POOLING_METHOD = bits(0, 1, only=(0, 1, 2))
    FLYING_MODE = bits(4)
    USE_CNT = bits(5, 7, only=(0,))
    NOTCH_ADDR = bits(16, 28)
    INDEX_EN = bits(30, only=(0,))


class PpuKernel(Register, number=0x6034, title="PPU_POOLING_KERNEL_CFG"):
    KERNEL_WIDTH = bits(0, 3)
    KERNEL_HEIGHT = bits(8, 11)
    KERNEL_STRIDE_WIDTH = bits(16, 19)
    KERNEL_STRIDE_HEIGHT = bits(20, 23)


class PpuReciprocalWidth(Register, number=0x6038, title="PPU_RECIP_KERNEL_WIDTH"):
    RECIP_KERNEL_WIDTH = bits(0, 16)


class PpuReciprocalHeight(Register, number=0x603C, title="PPU_RECIP_KERNEL_HEIGHT"):
    RECIP_KERNEL_HEIGHT = bits(0, 16)


class PpuPadding(Register, number=0x6040, title="PPU_POOLING_PADDING_CFG"):
    PAD_LEFT = bits(0, 2)
    PAD_TOP = bits(4, 6)
    PAD_RIGHT = bits(8, 10)
    PAD_BOTTOM = bits(12, 14)


class PpuPaddingValue(Register, number=0x6044, title="PPU_PADDING_VALUE_1_CFG"):
    PAD_VALUE_0 = bits(0, 31)


class PpuDestination(Register, number=0x6070, title="PPU_DST_BASE_ADDR"):
    DST_BASE_ADDR = bits(0, 31)


class PpuSurfaceStride(Register, number=0x607C, title="PPU_DST_SURF_STRIDE"):
    DST_SURF_STRIDE = bits(0, 31)


class PpuDataFormat(Register, number=0x6084, title="PPU_DATA_FORMAT"):
    PROC_PRECISION = bits(0, 2, only=(0, 2))
    DPU_FLYIN = bits(3)
    INDEX_ADD = bits(4, 31)


class PpuSource(Register, number=0x701C, title="PPU_RDMA_SRC_BASE_ADDR"):
    SRC_BASE_ADDR = bits(0, 31)


class PpuSourceLine(Register, number=0x7024, title="PPU_RDMA_SRC_LINE_STRIDE"):
    SRC_LINE_STRIDE = bits(0, 31)


class PpuSourceSurface(Register, number=0x7028, title="PPU_RDMA_SRC_SURF_STRIDE"):
    SRC_SURF_STRIDE = bits(0, 31)


# --- Registers that don't change a result, or repeat what another one says -----------------------

ALWAYS_ZERO = frozenset({0x1060, 0x1064, 0x1074, 0x3030, 0x40C4, *range(0x1140, 0x1180, 4)})
"""Registers without a known effect: any other value than 0 is refused."""

INERT: dict[int, str] = {
    0x1008: "CNA_OPERATION_ENABLE",
    0x1010: "CNA_CONV_CON2",
    0x1028: "CNA_DATA_SIZE2",
    0x102C: "CNA_DATA_SIZE3",
    0x1040: "CNA_CBUF_CON0",
    0x1044: "CNA_CBUF_CON1",
    0x1060: "CNA_FC_CON0",
    0x1064: "CNA_FC_CON1",
    0x1074: "CNA_FC_CON2",
    0x1078: "CNA_DMA_CON0",
    0x1084: "CNA_FC_DATA_SIZE0",
    0x1088: "CNA_FC_DATA_SIZE1",
    0x1090: "CNA_CLK_GATE",
    **{0x1140 + 4 * place: f"CNA_DCOMP_AMOUNT{place}" for place in range(16)},
    0x1180: "CNA_CVT_CON5",
    0x3008: "CORE_OPERATION_ENABLE",
    0x300C: "CORE_MAC_GATING",
    0x3030: "CORE_3030",
    0x4008: "DPU_OPERATION_ENABLE",
    **{0x4090 + 4 * place: f"DPU_EW_OP_VALUE_{place}" for place in range(1, 8)},
    0x40C4: "DPU_40C4",
    0x5008: "RDMA_OPERATION_ENABLE",
    0x5068: "RDMA_WEIGHT",
    0x6008: "PPU_OPERATION_ENABLE",
    0x6020: "PPU_DATA_CUBE_OUT_CHANNEL",
    0x6048: "PPU_PADDING_VALUE_2_CFG",
    0x60DC: "PPU_MISC_CTRL",
    0x7008: "PPU_RDMA_OPERATION_ENABLE",
    0x700C: "PPU_RDMA_CUBE_IN_WIDTH",
    0x7010: "PPU_RDMA_CUBE_IN_HEIGHT",
    0x7014: "PPU_RDMA_CUBE_IN_CHANNEL",
    0x7030: "PPU_RDMA_DATA_FORMAT",
}
NAMES.update(INERT)
