"""PPU: pools. All chips have the same one."""

from __future__ import annotations

from .fields import Register, bits
from .quantities import Quantity


class PpuInWidth(Register, number=0x600C, title="PPU_DATA_CUBE_IN_WIDTH"):
    CUBE_IN_WIDTH = bits(0, 12, says=Quantity.POOLED_WIDTH, plus=1)


class PpuInHeight(Register, number=0x6010, title="PPU_DATA_CUBE_IN_HEIGHT"):
    CUBE_IN_HEIGHT = bits(0, 12, says=Quantity.POOLED_HEIGHT, plus=1)


class PpuInChannel(Register, number=0x6014, title="PPU_DATA_CUBE_IN_CHANNEL"):
    CUBE_IN_CHANNEL = bits(0, 12, says=Quantity.POOLED_CHANNELS, plus=1)


class PpuOutWidth(Register, number=0x6018, title="PPU_DATA_CUBE_OUT_WIDTH"):
    CUBE_OUT_WIDTH = bits(0, 12, says=Quantity.POOLING_WIDTH, plus=1)


class PpuOutHeight(Register, number=0x601C, title="PPU_DATA_CUBE_OUT_HEIGHT"):
    CUBE_OUT_HEIGHT = bits(0, 12, says=Quantity.POOLING_HEIGHT, plus=1)


class PpuMode(Register, number=0x6024, title="PPU_OPERATION_MODE_CFG"):
    POOLING_METHOD = bits(0, 1, only=(0, 1, 2), says=Quantity.POOLING_METHOD)
    FLYING_MODE = bits(4)
    USE_CNT = bits(5, 7, only=(0,))
    NOTCH_ADDR = bits(16, 28, says=Quantity.POOLING_NOTCH)
    INDEX_EN = bits(30, only=(0,))


class PpuKernel(Register, number=0x6034, title="PPU_POOLING_KERNEL_CFG"):
    KERNEL_WIDTH = bits(0, 3, says=Quantity.WINDOW_WIDTH, plus=1)
    KERNEL_HEIGHT = bits(8, 11, says=Quantity.WINDOW_HEIGHT, plus=1)
    KERNEL_STRIDE_WIDTH = bits(16, 19, says=Quantity.WINDOW_STRIDE_X, plus=1)
    KERNEL_STRIDE_HEIGHT = bits(20, 23, says=Quantity.WINDOW_STRIDE_Y, plus=1)


class PpuReciprocalWidth(Register, number=0x6038, title="PPU_RECIP_KERNEL_WIDTH"):
    RECIP_KERNEL_WIDTH = bits(0, 16, says=Quantity.RECIPROCAL_WIDTH)


class PpuReciprocalHeight(Register, number=0x603C, title="PPU_RECIP_KERNEL_HEIGHT"):
    RECIP_KERNEL_HEIGHT = bits(0, 16, says=Quantity.RECIPROCAL_HEIGHT)


class PpuPadding(Register, number=0x6040, title="PPU_POOLING_PADDING_CFG"):
    PAD_LEFT = bits(0, 2, says=Quantity.WINDOW_LEFT)
    PAD_TOP = bits(4, 6, says=Quantity.WINDOW_TOP)
    PAD_RIGHT = bits(8, 10)
    PAD_BOTTOM = bits(12, 14)


class PpuPaddingValue(Register, number=0x6044, title="PPU_PADDING_VALUE_1_CFG"):
    PAD_VALUE_0 = bits(0, 31, says=Quantity.WINDOW_PADDING)


class PpuDestination(Register, number=0x6070, title="PPU_DST_BASE_ADDR"):
    DST_BASE_ADDR = bits(0, 31, says=Quantity.POOLING_DESTINATION)


class PpuSurfaceStride(Register, number=0x607C, title="PPU_DST_SURF_STRIDE"):
    DST_SURF_STRIDE = bits(0, 31, says=Quantity.POOLING_SURFACE, signed=True)


class PpuDataFormat(Register, number=0x6084, title="PPU_DATA_FORMAT"):
    PROC_PRECISION = bits(0, 2, only=(0, 2), says=Quantity.POOLING_ELEMENT)
    DPU_FLYIN = bits(3)
    INDEX_ADD = bits(4, 31)


class PpuSource(Register, number=0x701C, title="PPU_RDMA_SRC_BASE_ADDR"):
    SRC_BASE_ADDR = bits(0, 31, says=Quantity.POOLED)


class PpuSourceLine(Register, number=0x7024, title="PPU_RDMA_SRC_LINE_STRIDE"):
    SRC_LINE_STRIDE = bits(0, 31, says=Quantity.POOLED_LINE, signed=True)


class PpuSourceSurface(Register, number=0x7028, title="PPU_RDMA_SRC_SURF_STRIDE"):
    SRC_SURF_STRIDE = bits(0, 31, says=Quantity.POOLED_SURFACE, signed=True)
