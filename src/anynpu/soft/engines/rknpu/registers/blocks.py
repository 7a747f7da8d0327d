"""The blocks of the NPU: by the numbers of their registers, and in a task's enable mask."""

from __future__ import annotations

from enum import IntFlag

CNA, CORE, DPU, DPU_RDMA, PPU, PPU_RDMA = 1, 3, 4, 5, 6, 7
BLOCKS = {CNA: "CNA", CORE: "CORE", DPU: "DPU", DPU_RDMA: "RDMA", PPU: "PPU", PPU_RDMA: "PPU_RDMA"}
"""The blocks whose registers a task may write, by the top four bits of the number."""

BLOCK_SHIFT, IN_BLOCK = 12, 0xFFF
"""A register's number: its block, and its place in that."""

COMMAND_REGISTER, COMMAND_SHIFT, COMMAND_VALUE = 0xFFFF, 16, 0xFFFFFFFF
"""A command of 64 bits: the register that it writes, and the value."""

POINTER = 0x004
"""The place of each block's S_POINTER, which says where commands go to."""

POINTER_GROUP, PING_PONG, POINTER_CLEAR = 1 << 0, 1 << 1, 1 << 4
"""Its bits."""

TABLE_ACCESS, TABLE_DATA = 0x4100, 0x4104
"""The two that load look-up tables; the register machine carries them out."""

TABLE_PLACE, TABLE_NUMBER, TABLE_WRITES = 0x3FF, 1 << 16, 1 << 17
"""Fields of the first: the entry, which of two tables, and whether it is written."""


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
