"""CORE: multiplies and accumulates."""

from __future__ import annotations

from ...registers.fields import Register, bits
from ...registers.quantities import Quantity


class CoreMisc(Register, number=0x3010, title="CORE_MISC_CFG"):
    QD_EN = bits(0)
    DW_EN = bits(1)
    PROC_PRECISION = bits(8, 10)
    SOFT_GATING = bits(14, 19)


class CoreSize0(Register, number=0x3014, title="CORE_DATAOUT_SIZE_0"):
    DATAOUT_WIDTH = bits(0, 15, says=Quantity.OUTPUT_WIDTH, plus=1)
    DATAOUT_HEIGHT = bits(16, 31, says=Quantity.OUTPUT_HEIGHT, plus=1)


class CoreSize1(Register, number=0x3018, title="CORE_DATAOUT_SIZE_1"):
    DATAOUT_CHANNEL = bits(0, 15)


class CoreClip(Register, number=0x301C, title="CORE_CLIP_TRUNCATE"):
    CLIP_TRUNCATE = bits(0, 4, says=Quantity.TRUNCATED_BITS)
    ROUND_TYPE = bits(6, says=Quantity.TRUNCATES_UP)
