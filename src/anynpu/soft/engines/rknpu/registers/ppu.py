"""PPU: pools."""

from __future__ import annotations

from .fields import Register, bits


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
    COUNTS_INSIDE = bits(3)
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
