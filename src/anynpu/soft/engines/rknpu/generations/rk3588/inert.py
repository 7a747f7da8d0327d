"""Registers that don't change a result, or repeat what another one says."""

from __future__ import annotations

_DECOMPRESSED, _OPERANDS = range(0x1140, 0x1180, 4), range(0x4094, 0x40B0, 4)

ALWAYS_ZERO = dict.fromkeys(
    (0x1060, 0x1064, 0x1074, 0x3030, 0x40C4, *_DECOMPRESSED), frozenset({0})
)
"""CNA_FC_CON0 to 2, CNA_DCOMP_AMOUNT0 to 15 and two without a name: without a known effect, so any
other value than 0 is refused."""

INERT = frozenset(
    {
        0x1008,  # CNA_OPERATION_ENABLE
        0x1010,  # CNA_CONV_CON2
        0x1028,  # CNA_DATA_SIZE2
        0x102C,  # CNA_DATA_SIZE3
        0x1040,  # CNA_CBUF_CON0
        0x1078,  # CNA_DMA_CON0
        0x1084,  # CNA_FC_DATA_SIZE0
        0x1088,  # CNA_FC_DATA_SIZE1
        0x1090,  # CNA_CLK_GATE
        0x1180,  # CNA_CVT_CON5
        0x3008,  # CORE_OPERATION_ENABLE
        0x300C,  # CORE_MAC_GATING
        0x4008,  # DPU_OPERATION_ENABLE
        *_OPERANDS,  # DPU_EW_OP_VALUE_1 to 7
        0x5008,  # RDMA_OPERATION_ENABLE
        0x5068,  # RDMA_WEIGHT
        0x6008,  # PPU_OPERATION_ENABLE
        0x6020,  # PPU_DATA_CUBE_OUT_CHANNEL
        0x6048,  # PPU_PADDING_VALUE_2_CFG
        0x60DC,  # PPU_MISC_CTRL
        0x7008,  # PPU_RDMA_OPERATION_ENABLE
        0x700C,  # PPU_RDMA_CUBE_IN_WIDTH
        0x7010,  # PPU_RDMA_CUBE_IN_HEIGHT
        0x7014,  # PPU_RDMA_CUBE_IN_CHANNEL
        0x7030,  # PPU_RDMA_DATA_FORMAT
    }
)
