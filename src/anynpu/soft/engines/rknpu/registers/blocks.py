"""The blocks of the NPU: by the numbers of their registers, and in a task's enable mask."""

from __future__ import annotations

from enum import IntFlag

CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA = 1, 3, 4, 5, 6, 7
BLOCKS = {CNA: "CNA", CORE: "CORE", DPU: "DPU", DPU_RDMA: "RDMA", PPU: "PPU", PPU_RDMA: "PPU_RDMA"}
"""The blocks whose registers a task may write, by the top four bits of the number."""

POINTER = 0x004
"""The lowest twelve bits of each block's S_POINTER, which says where commands go to."""

TABLE_ACCESS, TABLE_DATA = 0x4100, 0x4104
"""The two that load look-up tables; the register machine carries them out."""


class Enabled(IntFlag):
    """The blocks that a task starts."""

    CNA = 1 << 0
    CNA2 = 1 << 1
    """A second one of RK3566 that follows the first, and has no registers of its own here."""
    CORE = 1 << 2
    DPU = 1 << 3
    RDMA = 1 << 4
    PPU = 1 << 5
    PPU_RDMA = 1 << 6


STARTED = {
    Enabled.CNA: CNA,
    Enabled.CORE: CORE,
    Enabled.DPU: DPU,
    Enabled.RDMA: DPU_RDMA,
    Enabled.PPU: PPU,
    Enabled.PPU_RDMA: PPU_RDMA,
}
"""Which block's registers a bit starts."""
