"""RK3562's registers: those of RK3576, but for these.

Sizes are not reduced by one, scalar operands are in registers, the writer's fields and the tables
are RK3588's.
"""

from __future__ import annotations

from ...registers.fields import Register, bits
from ...registers.quantities import Quantity
from ..rk3576 import cna, dpu, rdma
from ..rk3576.map import REGISTERS as OF_RK3576
from ..rk3588.dpu import (
    DpuLutInfo,
    DpuLutLeScale,
    DpuLutLeShift,
    DpuLutLeStart,
    DpuLutLoEnd,
    DpuLutLoScale,
    DpuLutLoShift,
    DpuLutLoStart,
)


class CnaConv1(cna.CnaConv1, number=0x100C, title="CNA_CONV_CON1"):
    FIRST_MARK = bits(2)
    SECOND_MARK = bits(26)
    THIRD_MARK = bits(28)


class CnaWeightSize1(Register, number=0x1020, title="CNA_WEIGHT_SIZE1"):
    WEIGHT_BYTES_PER_KERNEL = bits(0, 18, says=Quantity.KERNEL_BYTES)
    MARK = bits(29, 31)


class CnaWeightSize2(Register, number=0x1024, title="CNA_WEIGHT_SIZE2"):
    WEIGHT_KERNELS = bits(0, 13, says=Quantity.KERNELS)
    WEIGHT_HEIGHT = bits(16, 20, says=Quantity.KERNEL_HEIGHT)
    WEIGHT_WIDTH = bits(24, 28, says=Quantity.KERNEL_WIDTH)


class CnaInputSize(Register, number=0x102C, title="CNA_DATA_SIZE0"):
    HEIGHT = bits(0, 11, says=Quantity.INPUT_HEIGHT)
    WIDTH = bits(16, 27, says=Quantity.INPUT_WIDTH)


class CnaFetched(Register, number=0x1078, title="CNA_FETCHED_SIZE"):
    """Of pictures it counts bytes; all their rows are fetched."""

    HEIGHT = bits(0, 15, says=Quantity.FETCHED_HEIGHT)
    WIDTH = bits(16, 31, says=Quantity.FETCHED_WIDTH)


class CnaChannels(Register, number=0x107C, title="CNA_DATA_SIZE1"):
    CHANNELS = bits(0, 15, says=Quantity.INPUT_CHANNELS)


class DpuFeatureMode(Register, number=0x400C, title="DPU_FEATURE_MODE_CFG"):
    FLYING_MODE = bits(0)
    """From memory."""
    MODE = bits(1, 4)
    BURST_LEN = bits(5, 8)
    NONALIGN = bits(25, says=Quantity.PACKS)
    LAST_BYTES = bits(26, 29, says=Quantity.LAST_BYTES)


MODES, PACKING_MODES = frozenset({0x4, 0x5, 0xC}), frozenset({0x2000004, 0x2000005})
"""DPU_FEATURE_MODE_CFG without the burst's length, of atoms that aren't packed, and are."""


class DpuDataFormat(dpu.DpuDataFormat, number=0x4010, title="DPU_DATA_FORMAT"):
    BN_MUL_SHIFT_VALUE_NEG = bits(10, 15)


class DpuHeight(Register, number=0x4024, title="DPU_DATA_CUBE_HEIGHT"):
    HEIGHT = bits(0, 12, says=Quantity.HEIGHT, plus=1)
    MINMAX_CTL = bits(22, 24, only=(0, 7), says=Quantity.REDUCTION)


class DpuBs(Register, number=0x4038, title="DPU_BS_CFG"):
    BYPASS = bits(0)
    CONFIG = bits(1, 7)
    MUL_SHIFT_VALUE = bits(8, 13)
    REST = bits(14, 31)


class DpuBsAlu(Register, number=0x4040, title="DPU_BS_ALU_CFG"):
    ALU_OPERAND = bits(0, 31)


class DpuBsMul(Register, number=0x4044, title="DPU_BS_MUL_CFG"):
    STEERING = bits(0, 1)
    MUL_PRELU = bits(2)
    REST = bits(3, 15)
    MUL_OPERAND = bits(16, 31)


class DpuBsOw(Register, number=0x4050, title="DPU_BS_OW_CFG"):
    MUL_SRC = bits(0)
    MUL_BYPASS = bits(1)
    SIZE_E_0 = bits(2, 4, says=Quantity.SURFACES_IN_GROUP, plus=1)
    SIZES = bits(5, 19)
    ORDER = bits(20, 22, only=(0, 1, 2, 3, 6))
    REST = bits(23, 31)


class DpuBsOwOperand(Register, number=0x4054, title="DPU_BS_OW_OP"):
    OW_OP = bits(0, 15, signed=True)
    MUL_SHIFT_VALUE_NEG = bits(16, 21)
    REST = bits(22, 30)
    OFFSETS_WEIGHTS = bits(31)


class DpuBn(Register, number=0x4060, title="DPU_BN_CFG"):
    BYPASS = bits(0)
    ALU_BYPASS = bits(1)
    MUL_BYPASS = bits(4)
    MUL_PRELU = bits(5)
    ALU_SRC = bits(8)
    ALU_ALGO = bits(16, 19, only=(0, 2))


class DpuBnAlu(Register, number=0x4064, title="DPU_BN_ALU_CFG"):
    ALU_OPERAND = bits(0, 31)


class DpuBnMul(Register, number=0x4068, title="DPU_BN_MUL_CFG"):
    MUL_SRC = bits(0)
    STEERING = bits(1, 7)
    MUL_SHIFT_VALUE = bits(8, 13)
    REST = bits(14, 15)
    MUL_OPERAND = bits(16, 31)


DIVIDES = frozenset({0x10321C8, 0x10421C8})
"""DPU_EW_CFG of divisions, which say "16 bits" where their arithmetic is in float16."""


class DpuEwOffset(Register, number=0x4080, title="DPU_EW_CVT_OFFSET_VALUE"):
    OFFSET = bits(0, 15, says=Quantity.OPERAND_OFFSET, signed=True)


class DpuGroupStride(Register, number=0x40B8, title="DPU_SURFACE_ADD"):
    STRIDE = bits(0, 31, says=Quantity.TARGET_GROUP, signed=True, times=cna.ATOM)


class DpuGroups(Register, number=0x40BC, title="DPU_PACKED_GROUPS"):
    REST = bits(0, 15)
    GROUPS = bits(16, 31, says=Quantity.PACKED_GROUPS)


class DpuLut(Register, number=0x4108, title="DPU_LUT_CFG", only=frozenset({0, 0x160})):
    CONFIG = bits(0, 31)


class RdmaBs(Register, number=0x501C, title="RDMA_BRDMA_CFG"):
    DATA_USE = bits(1, 4, only=(0, 1, 2, 3, 4, 5, 6, 7), says=Quantity.BS_USE)


class RdmaBn(Register, number=0x5028, title="RDMA_NRDMA_CFG"):
    DATA_USE = bits(1, 4, only=(0, 1, 4, 5), says=Quantity.BN_USE)


_TABLE = (
    DpuLutInfo, DpuLutLeStart, DpuLutLoStart, DpuLutLoEnd, DpuLutLeScale, DpuLutLeShift,
    DpuLutLoScale, DpuLutLoShift,
)  # fmt: skip
_OTHER_TABLE = (
    dpu.DpuLutStart1, dpu.DpuLutEnd0, dpu.DpuLutEnd1, dpu.DpuLutEnd2, dpu.DpuLutEnd3,
    dpu.DpuLutSlopesBelow0, dpu.DpuLutSlopesBelow1, dpu.DpuLutShiftsBelow,
    dpu.DpuLutSlopesAbove0, dpu.DpuLutSlopesAbove1, dpu.DpuLutShiftsAbove,
)  # fmt: skip
"""Registers of RK3576's tables, which do nothing here."""

REGISTERS = OF_RK3576.changed(
    [
        CnaConv1, CnaWeightSize1, CnaWeightSize2, CnaInputSize, CnaFetched, CnaChannels,
        DpuFeatureMode, DpuDataFormat, DpuHeight, DpuBs, DpuBsAlu, DpuBsMul, DpuBsOw,
        DpuBsOwOperand, DpuBn, DpuBnAlu, DpuBnMul, DpuEwOffset, DpuGroupStride, DpuGroups, DpuLut,
        RdmaBs, RdmaBn, *_TABLE,
    ],
    without=[register.number for register in (rdma.RdmaBsNumbers, rdma.RdmaBnNumbers)],
    inert={
        *range(0x6060, 0x6070, 4), 0x8028, 0x802C,
        *(register.number for register in _OTHER_TABLE),
    },
    constants={
        **dict.fromkeys((0x4098, 0x40A0), frozenset({0})),
        0x106C: frozenset({0x20}),
        0x40C0: frozenset({0x40002, 0x40102, 0x4440002, 0x4440102}),
    },
)  # fmt: skip
