"""RK3566's registers: those of RK3588, but for these.

Distances are counted in atoms of 8 bytes. There are no registers for the writer's own size, and the
CORE block's lie four bytes lower.
"""

from __future__ import annotations

from ...registers.fields import Register, bits
from ...registers.quantities import Quantity
from ..rk3588 import cna, core, dpu, rdma
from ..rk3588.map import REGISTERS as OF_RK3588

ATOM = 8


class CnaConv1(cna.CnaConv1, number=0x100C, title="CNA_CONV_CON1"):
    PROC_PRECISION = bits(8, 9, only=(0, 2, 3), says=Quantity.CONVOLUTION_ELEMENT)


class CnaDataSize0(cna.CnaDataSize0, number=0x1020, title="CNA_DATA_SIZE0"):
    DATAIN_HEIGHT = bits(0, 10, says=Quantity.INPUT_HEIGHT)
    DATAIN_WIDTH = bits(16, 26, says=Quantity.INPUT_WIDTH)


class CnaDataSize1(cna.CnaDataSize1, number=0x1024, title="CNA_DATA_SIZE1"):
    DATAIN_CHANNEL_REAL = bits(16, 29, says=Quantity.VALID_CHANNELS, plus=1)


class CnaConvert0(cna.CnaConvert0, number=0x104C, title="CNA_CVT_CON0"):
    CONVERTS = bits(0)


class CnaPad(Register, number=0x1068, title="CNA_PAD_CON0"):
    PAD_TOP = bits(0, 3, says=Quantity.PAD_TOP)
    PAD_LEFT = bits(4, 7, says=Quantity.PAD_LEFT)
    REST = bits(8, 15)
    PAD_VALUE = bits(16, 31, signed=True)


class CnaDma1(cna.CnaDma1, number=0x107C, title="CNA_DMA_CON1"):
    LINE_STRIDE = bits(0, 27, says=Quantity.INPUT_LINE, times=ATOM)


class CnaDma2(cna.CnaDma2, number=0x1080, title="CNA_DMA_CON2"):
    SURF_STRIDE = bits(0, 27, says=Quantity.INPUT_SURFACE, signed=True, times=ATOM)


class CoreMisc(Register, number=0x300C, title="CORE_MISC_CFG"):
    QD_EN = bits(0)
    DW_EN = bits(1)
    STEERING = bits(2, 31)


class CoreSize0(Register, number=0x3010, title="CORE_DATAOUT_SIZE_0"):
    DATAOUT_WIDTH = bits(0, 15, says=Quantity.OUTPUT_WIDTH, plus=1)
    DATAOUT_HEIGHT = bits(16, 31, says=Quantity.OUTPUT_HEIGHT, plus=1)


class CoreSize1(Register, number=0x3014, title="CORE_DATAOUT_SIZE_1"):
    DATAOUT_CHANNEL = bits(0, 15, plus=1)


class CoreClip(Register, number=0x3018, title="CORE_CLIP_TRUNCATE"):
    CLIP_TRUNCATE = bits(0, 4, says=Quantity.TRUNCATED_BITS)
    ROUND_TYPE = bits(6, says=Quantity.TRUNCATES_UP)


class DpuFeatureMode(Register, number=0x400C, title="DPU_FEATURE_MODE_CFG"):
    MODE = bits(0, 8, only=(0x102, 0x103, 0x108, 0x109, 0x138))
    """From memory or not, into the PPU or memory, depthwise or not."""
    SURF_LEN = bits(9, 24, says=Quantity.PACKED_ATOMS)
    NONALIGN = bits(25, says=Quantity.PACKS)
    TP_EN = bits(30, says=Quantity.TRANSPOSES_ATOMS)


class DpuBs(dpu.DpuBs, number=0x4040, title="DPU_BS_CFG"):
    ALU_ALGO = bits(2, 3, only=(0, 2))


class DpuBsOwOperand(dpu.DpuBsOwOperand, number=0x4054, title="DPU_BS_OW_OP"):
    OW_OP = bits(0, 31, signed=True)


class DpuBn(dpu.DpuBn, number=0x4060, title="DPU_BN_CFG"):
    ALU_ALGO = bits(2, 3, only=(0, 2))


class DpuEw(dpu.DpuEw, number=0x4070, title="DPU_EW_CFG"):
    ALU_ALGO = bits(3, 4)
    REST = bits(16, 19)


class RdmaBs(rdma.RdmaBs, number=0x501C, title="RDMA_BRDMA_CFG"):
    DISABLE = bits(0)


class RdmaBn(rdma.RdmaBn, number=0x5028, title="RDMA_NRDMA_CFG"):
    DISABLE = bits(0)


class RdmaEw(Register, number=0x5034, title="RDMA_ERDMA_CFG"):
    DISABLE = bits(0, says=Quantity.OPERAND_IS_OFF)
    STEERING = bits(1, 29)
    DATA_MODE = bits(30, 31, only=(0, 1, 2))


class RdmaFeatureMode(rdma.RdmaFeatureMode, number=0x5044, title="RDMA_FEATURE_MODE_CFG"):
    COMBINES = bits(18)


class PpuDataFormat(Register, number=0x6084, title="PPU_DATA_FORMAT"):
    PROC_PRECISION = bits(0, 1, only=(0, 2), says=Quantity.POOLING_ELEMENT)
    INDEX_ADD = bits(2, 31)


_INERT = frozenset(
    {
        0x1018,
        *range(0x1114, 0x1140, 4),
        *range(0x1210, 0x1234, 4),
        0x2004,  # the pointer of a second CNA, whose only register steers it
        0x200C,
        0x302C,
        0x5024,
        0x5030,
        0x503C,
        0x604C,  # more padding values: multiples of the first
        0x6050,
        0x7018,
    }
)

REGISTERS = OF_RK3588.changed(
    [
        CnaConv1, CnaDataSize0, CnaDataSize1, CnaConvert0, CnaPad, CnaDma1, CnaDma2, CoreMisc,
        CoreSize0, CoreSize1, CoreClip, DpuFeatureMode, DpuBs, DpuBsOwOperand, DpuBn, DpuEw,
        RdmaBs, RdmaBn, RdmaEw, RdmaFeatureMode, PpuDataFormat,
    ],
    without=[
        register.number
        for register in (
            cna.CnaPad1, core.CoreClip, dpu.DpuWriteSize0, dpu.DpuWriteSize1,
            rdma.RdmaEwSurfaceNotch,
        )
    ],
    inert=_INERT,
)  # fmt: skip
