"""RV1106's registers: those of RK3588, but for these."""

from __future__ import annotations

from ...registers.blocks import Enabled
from ...registers.fields import Register, bits
from ...registers.quantities import Quantity
from ...tasks import Operation
from ..rk3588 import cna, dpu, rdma
from ..rk3588.map import REGISTERS as OF_RK3588

ATOM = 16
NO_LOWER, NO_UPPER = 0x80000000, 0x7FFFFFFF
WITHOUT_CORE = Enabled.CNA | Enabled.DPU
"""Weights lie channel by channel then, all kernels side by side."""


class CnaConv1(cna.CnaConv1, number=0x100C, title="CNA_CONV_CON1"):
    CONV_MODE = bits(0, 3)


class CnaConv3(cna.CnaConv3, number=0x1014, title="CNA_CONV_CON3"):
    DECONV_X_STRIDE = bits(8, 10, says=Quantity.INSERTED_COLUMNS)
    DECONV_Y_STRIDE = bits(11, 13, says=Quantity.INSERTED_ROWS)


class CnaThirdOffset(Register, number=0x101C, title="CNA_CVT_CON6"):
    """What is added to the third channel of a picture."""

    OFFSET = bits(0, 31, signed=True)


class CnaDataSize0(cna.CnaDataSize0, number=0x1020, title="CNA_DATA_SIZE0"):
    DATAIN_HEIGHT = bits(0, 11, says=Quantity.INPUT_HEIGHT)
    DATAIN_WIDTH = bits(16, 27, says=Quantity.INPUT_WIDTH)


class CnaConvert0(cna.CnaConvert0, number=0x104C, title="CNA_CVT_CON0"):
    LOWEST_BITS = bits(28, 31)
    """The lowest bit of each zero point once more."""


class CnaConvert1(Register, number=0x1050, title="CNA_CVT_CON1"):
    FIRST_SCALE = bits(0, 15, signed=True)
    SECOND_SCALE = bits(16, 31, signed=True)


class CnaConvert2(Register, number=0x1054, title="CNA_CVT_CON2"):
    THIRD_SCALE = bits(0, 15, signed=True)
    FOURTH_SCALE = bits(16, 31, signed=True)


class CnaConvert3(Register, number=0x1058, title="CNA_CVT_CON3"):
    OFFSET = bits(0, 31, signed=True)


class CnaConvert4(Register, number=0x105C, title="CNA_CVT_CON4"):
    OFFSET = bits(0, 31, signed=True)


class CnaSkip(Register, number=0x1060, title="CNA_FC_CON0", only=frozenset({0, 0xFFFF0001})):
    """Not 0 where zeros are skipped, which changes no sum."""

    SKIPS = bits(0, 31)


class CnaPad0(Register, number=0x1068, title="CNA_PAD_CON0"):
    PAD_TOP = bits(0, 3, says=Quantity.PAD_TOP)
    PAD_LEFT = bits(8, 11, says=Quantity.PAD_LEFT)


class CnaWeightOffset(Register, number=0x1074, title="CNA_FC_CON2"):
    """What the CORE adds to all weights, where they come without zero points."""

    OFFSET = bits(0, 15, signed=True)


class CnaDma2(cna.CnaDma2, number=0x1080, title="CNA_DMA_CON2"):
    SURF_STRIDE = bits(0, 27, says=Quantity.INPUT_SURFACE, times=ATOM)


class CoreMisc(Register, number=0x3010, title="CORE_MISC_CFG"):
    KIND = bits(0, 2)
    DW_EN = bits(3)
    STEERING = bits(4, 31)


class CoreClip(Register, number=0x301C, title="CORE_CLIP_TRUNCATE"):
    CLIP_TRUNCATE = bits(0, 4, says=Quantity.TRUNCATED_BITS)
    AGAIN = bits(5, 9)


class DpuFeatureMode(dpu.DpuFeatureMode, number=0x400C, title="DPU_FEATURE_MODE_CFG"):
    RGP_TYPE = bits(26, 29)
    """Of packed rows the bytes of their last atom; two bytes of every atom with TP_EN."""
    TP_EN = bits(30)


FIRST_TWO_BYTES = 2
KEPT_KINDS = frozenset({0, 2, 3, 4, 5})
"""RGP_TYPE where atoms aren't packed."""


class DpuDataFormat(Register, number=0x4010, title="DPU_DATA_FORMAT"):
    PROC_PRECISION = bits(0, 2, says=Quantity.ELEMENT)
    REST = bits(3, 9)
    BN_MUL_SHIFT_VALUE_NEG = bits(10, 15)
    AGAIN = bits(16, 28)
    OUT_PRECISION = bits(29, 31, only=(0, 1, 2, 3, 4, 5), says=Quantity.OUTPUT_ELEMENT)


class DpuInputOffset(Register, number=0x4018, title="DPU_INPUT_OFFSET"):
    """What BS adds where nothing is fetched from memory."""

    OFFSET = bits(0, 31)


class DpuWidth(Register, number=0x4030, title="DPU_DATA_CUBE_WIDTH"):
    WIDTH = bits(0, 12, says=Quantity.WIDTH, plus=1)
    REST = bits(13, 15)
    ROW_BYTES = bits(16, 31)
    """Bytes where rows are unpacked or atoms packed, else a bit that is set where atoms are only
    moved or looked up, which changes nothing."""


class DpuBs(Register, number=0x4040, title="DPU_BS_CFG"):
    BYPASS = bits(0)
    CONFIG = bits(1, 8)
    MUL_SHIFT_VALUE = bits(9, 14)
    REST = bits(15, 31)


BS_KNOWN = frozenset(
    {0x52, 0x100012, 0x100092, 0x20040, 0x20140, 0x100080, 0x120100, 0x120180, 0x100180}
)
"""DPU_BS_CFG where it is on, without the shift. What it does follows from what is read."""


class DpuBsMul(Register, number=0x4048, title="DPU_BS_MUL_CFG"):
    REST = bits(0, 15)
    MUL_OPERAND = bits(16, 31)


class DpuBsOw(Register, number=0x4050, title="DPU_BS_OW_CFG"):
    OPERANDS_IN_MEMORY = bits(0)
    WITHOUT_PRODUCT = bits(1)
    SIZE_E_0 = bits(2, 4, says=Quantity.SURFACES_IN_GROUP, plus=1)
    SIZE_E_1 = bits(5, 7, plus=1)
    SIZE_E_2 = bits(8, 10, plus=1)
    PACKS = bits(20)
    TRANSPOSES_LANES = bits(21)
    TRANSPOSES_ATOMS = bits(27)
    STEERING = bits(28, 30)


class DpuBsOwOperand(Register, number=0x4054, title="DPU_BS_OW_OP"):
    OW_OP = bits(0, 15, signed=True)
    REST = bits(16, 23)
    MUL_SHIFT_VALUE_NEG = bits(24, 29)
    STEERING = bits(30)
    OFFSETS_WEIGHTS = bits(31)


class DpuBn(dpu.DpuBn, number=0x4060, title="DPU_BN_CFG"):
    """Its sum comes first."""


BN_KNOWN = (
    DpuBn.ALU_BYPASS,
    DpuBn.MUL_BYPASS,
    DpuBn.MUL_PRELU,
    DpuBn.ALU_SRC,
    DpuBn.ALU_ALGO,
)
"""The fields of DPU_BN_CFG that may be set where it is on."""

BN_SUM_AND_PRODUCT = 0x20000
"""DPU_BN_CFG of a sum that is multiplied, both by numbers in registers."""


class DpuEw(Register, number=0x4070, title="DPU_EW_CFG"):
    BYPASS = bits(0)
    CONFIG = bits(1, 23)
    OPERATOR = bits(24)
    KIND = bits(25, 29)
    CVT_ROUND = bits(30)
    CVT_TYPE = bits(31)


LOOKS_UP, DIVIDES, WIDE_SUM = 0x4140, 0x810421C8, 0x8042C1C0
"""DPU_EW_CFG: the table; a division, which says "16 bits" where its arithmetic is in float16; the
sum of two values of 32 bits."""

OPERATIONS = {
    0x8000C0C0: Operation.MAX,
    0x0004C0C0: Operation.SUBTRACT,
    0x0002C0C0: Operation.ADD,
    0x8002C0C0: Operation.ADD,
    0x81004094: Operation.MULTIPLY,
    DIVIDES: Operation.DIVIDE,
}
"""The same of operations with an operand from memory, without CVT_ROUND."""


class DpuOutScale(Register, number=0x4084, title="DPU_OUT_CVT_SCALE"):
    OUT_CVT_SCALE = bits(0, 15, says=Quantity.OUTPUT_SCALE, signed=True)
    REST = bits(16, 31)


class DpuRows(Register, number=0x40C4, title="DPU_ROWS"):
    REST = bits(0, 15)
    ROWS = bits(16, 31)


class DpuBsLowest(Register, number=0x40D8, title="DPU_BS_LOWEST", reset=NO_LOWER):
    LOWEST = bits(0, 31)


class DpuBsHighest(Register, number=0x40DC, title="DPU_BS_HIGHEST", reset=NO_UPPER):
    HIGHEST = bits(0, 31)


class DpuBnLowest(Register, number=0x40E0, title="DPU_BN_LOWEST", reset=NO_LOWER):
    LOWEST = bits(0, 31)


class DpuBnHighest(Register, number=0x40E4, title="DPU_BN_HIGHEST", reset=NO_UPPER):
    HIGHEST = bits(0, 31)


class DpuEwLowest(Register, number=0x40E8, title="DPU_EW_LOWEST", reset=NO_LOWER):
    LOWEST = bits(0, 31)


class DpuEwHighest(Register, number=0x40EC, title="DPU_EW_HIGHEST", reset=NO_UPPER):
    HIGHEST = bits(0, 31)


class RdmaEw(rdma.RdmaEw, number=0x5034, title="RDMA_ERDMA_CFG"):
    DATA_MODE = bits(30, 31, only=(0, 1, 2), says=Quantity.OPERAND_KIND)


class RdmaFeatureMode(rdma.RdmaFeatureMode, number=0x5044, title="RDMA_FEATURE_MODE_CFG"):
    REST = bits(18, 31)


_INERT = frozenset(
    {
        0x103C,
        0x1048,
        0x106C,
        0x108C,
        0x1094,
        0x1188,
        0x118C,
        0x401C,
        0x4028,
        0x402C,
        *range(0x604C, 0x6070, 4),
        0x8028,
        0x802C,
    }
)

REGISTERS = OF_RK3588.changed(
    [
        CnaConv1, CnaConv3, CnaThirdOffset, CnaDataSize0, CnaConvert0, CnaConvert1, CnaConvert2,
        CnaConvert3, CnaConvert4, CnaSkip, CnaPad0, CnaWeightOffset, CnaDma2, CoreMisc, CoreClip,
        DpuFeatureMode, DpuDataFormat, DpuInputOffset, DpuWidth, DpuBs, DpuBsMul, DpuBsOw,
        DpuBsOwOperand, DpuBn, DpuEw, DpuOutScale, DpuRows, DpuBsLowest, DpuBsHighest, DpuBnLowest,
        DpuBnHighest, DpuEwLowest, DpuEwHighest, RdmaEw, RdmaFeatureMode,
    ],
    inert=_INERT,
)  # fmt: skip
