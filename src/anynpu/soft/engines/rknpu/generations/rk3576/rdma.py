"""RK3576's DPU_RDMA: reads the DPU's input and operands."""

from __future__ import annotations

from ...registers.fields import Register, bits
from ...registers.quantities import Quantity
from .cna import ATOM


class RdmaWidth(Register, number=0x500C, title="RDMA_DATA_CUBE_WIDTH"):
    WIDTH = bits(0, 12, says=Quantity.SOURCE_WIDTH, plus=1)


class RdmaHeight(Register, number=0x5010, title="RDMA_DATA_CUBE_HEIGHT"):
    HEIGHT = bits(0, 12, says=Quantity.SOURCE_HEIGHT, plus=1)
    REST = bits(16, 28)


class RdmaChannel(Register, number=0x5014, title="RDMA_DATA_CUBE_CHANNEL"):
    CHANNEL = bits(0, 12, says=Quantity.SOURCE_CHANNELS, plus=1)


class RdmaSource(Register, number=0x5018, title="RDMA_SRC_BASE_ADDR"):
    ADDRESS = bits(0, 31, says=Quantity.SOURCE)


class RdmaBs(Register, number=0x501C, title="RDMA_BRDMA_CFG"):
    """What BS reads: numbers for all channels, and such of each."""

    ADD = bits(1)
    WEIGHT_OFFSET = bits(2)
    MULTIPLY = bits(3)
    SHIFT = bits(4)
    DATA_USE = bits(8, 10, says=Quantity.BS_USE)


class RdmaBsAddress(Register, number=0x5020, title="RDMA_BS_BASE_ADDR"):
    ADDRESS = bits(0, 31, says=Quantity.BS_OPERANDS)


class RdmaBsNumbers(Register, number=0x5024, title="RDMA_BS_NUMBERS_ADDR"):
    ADDRESS = bits(0, 31, says=Quantity.BS_NUMBERS)


class RdmaBn(Register, number=0x5028, title="RDMA_NRDMA_CFG"):
    """The same of BN."""

    ADD = bits(1)
    WEIGHT_OFFSET = bits(2)
    MULTIPLY = bits(3)
    SHIFT = bits(4)
    DATA_USE = bits(8, 10, only=(0, 1, 4, 5), says=Quantity.BN_USE)


class RdmaBnAddress(Register, number=0x502C, title="RDMA_BN_BASE_ADDR"):
    ADDRESS = bits(0, 31, says=Quantity.BN_OPERANDS)


class RdmaBnNumbers(Register, number=0x5030, title="RDMA_BN_NUMBERS_ADDR"):
    ADDRESS = bits(0, 31, says=Quantity.BN_NUMBERS)


class RdmaEw(Register, number=0x5034, title="RDMA_ERDMA_CFG"):
    DISABLE = bits(0, says=Quantity.OPERAND_IS_OFF)
    OV4K_BYPASS = bits(1)
    DATA_SIZE = bits(2, 3)
    STEERING = bits(6)
    SURFACES = bits(28, 29, only=(0, 1, 3), plus=1)
    """How many surfaces of the operand are read at a time."""
    DATA_MODE = bits(30, 31, only=(0, 1, 2))


class RdmaEwAddress(Register, number=0x5038, title="RDMA_EW_BASE_ADDR"):
    ADDRESS = bits(0, 31, says=Quantity.OPERAND)


class RdmaEwSurfaceStride(Register, number=0x5040, title="RDMA_EW_SURF_STRIDE"):
    STRIDE = bits(0, 31, signed=True, times=ATOM)


class RdmaFeatureMode(Register, number=0x5044, title="RDMA_FEATURE_MODE_CFG"):
    FLYING_MODE = bits(0)
    STEERING = bits(1, 4)
    PROC_PRECISION = bits(5, 7)
    COMB_USE = bits(8, 10, only=(0, 1, 3))
    BURST_LEN = bits(11, 14)
    IN_PRECISION = bits(15, 17, only=(0, 1, 2, 3, 4, 5), says=Quantity.SOURCE_ELEMENT)
    REST = bits(30)


class RdmaSourceDma(Register, number=0x5048, title="RDMA_SRC_DMA_CFG"):
    KERNEL_WIDTH = bits(0, 2, says=Quantity.UNPOOLED_WIDTH, plus=1)
    KERNEL_HEIGHT = bits(3, 5, says=Quantity.UNPOOLED_HEIGHT, plus=1)
    KERNEL_STRIDE_WIDTH = bits(6, 8, says=Quantity.UNPOOLED_STRIDE_X, plus=1)
    KERNEL_STRIDE_HEIGHT = bits(9, 11, says=Quantity.UNPOOLED_STRIDE_Y, plus=1)
    UNPOOLING_EN = bits(12, says=Quantity.UNPOOLS)
    POOLING_METHOD = bits(13, only=(0,))


class RdmaSurfaceNotch(Register, number=0x504C, title="RDMA_SURF_NOTCH"):
    NOTCH = bits(0, 31, says=Quantity.SOURCE_SURFACE_NOTCH, signed=True, times=ATOM)


class RdmaEwSurfaceNotch(Register, number=0x506C, title="RDMA_EW_SURF_NOTCH"):
    NOTCH = bits(0, 31, signed=True, times=ATOM)


class RdmaLineNotch(Register, number=0x5078, title="RDMA_LINE_NOTCH"):
    NOTCH = bits(0, 31, says=Quantity.SOURCE_NOTCH, signed=True)


class RdmaEwLineNotch(Register, number=0x507C, title="RDMA_EW_LINE_NOTCH"):
    NOTCH = bits(0, 31, says=Quantity.OPERAND_NOTCH, signed=True)


INERT = frozenset({0x5008})
CONSTANTS = {0x5064: frozenset({0})}
"""Registers of which files only have these values."""
