"""All registers of RK3576."""

from __future__ import annotations

from ...registers import ppu
from ...registers.fields import bits
from ...registers.map import RegisterMap, registers_of
from ...registers.quantities import Quantity
from . import cna, dpu, rdma


class PpuMode(ppu.PpuMode, number=0x6024, title="PPU_OPERATION_MODE_CFG"):
    COUNTS_INSIDE = bits(3, says=Quantity.COUNTS_INSIDE)


_INERT = frozenset(
    {
        0x6008,
        0x6020,
        0x6048,  # multiples of the first padding value
        0x604C,
        0x6050,
        0x6054,
        0x6058,
        0x605C,
        0x60DC,
        0x7008,
        0x700C,
        0x7010,
        0x7014,
        0x7030,
    }
)
"""Of the PPU, which is that of all chips."""

REGISTERS = RegisterMap(
    [*registers_of(cna, dpu, rdma, ppu), PpuMode],
    cna.INERT | dpu.INERT | rdma.INERT | _INERT,
    {**cna.CONSTANTS, **dpu.CONSTANTS, **rdma.CONSTANTS},
    cna.ABSENT,
)
