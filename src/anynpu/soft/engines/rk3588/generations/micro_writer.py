"""RV1106's writer in RK3588's notation."""

from __future__ import annotations

from ..registers.dpu import (
    DpuFeatureMode,
    DpuOutScale,
    DpuWidth,
)
from .base import unknown

_TWO_BYTES, _TWO_BYTES_OF_RK3588 = 2, 3


def translate_writer(words: dict[int, int]) -> None:
    """Surfaces, packing and the output's scale."""
    mode = words.get(DpuFeatureMode.number, 0)
    if DpuFeatureMode.TP_EN.of(mode) and DpuFeatureMode.NONALIGN.of(mode):
        # The first two bytes of every atom, side by side, whatever the order of equal ones.
        if DpuFeatureMode.RGP_TYPE.of(mode) != _TWO_BYTES:
            raise unknown(DpuFeatureMode, mode)
        mode &= ~(DpuFeatureMode.TP_EN.put(1) | DpuFeatureMode.RGP_TYPE.put(15))
        words[DpuFeatureMode.number] = mode | DpuFeatureMode.RGP_TYPE.put(_TWO_BYTES_OF_RK3588)
    # Above the width there is a count of bytes where atoms are packed, else a bit that is set where
    # they are only moved or looked up; neither changes what is written.
    words[DpuWidth.number] = words.get(DpuWidth.number, 0) & DpuWidth.WIDTH.mask
    words[DpuOutScale.number] = words.get(DpuOutScale.number, 0) & 0xFFFF
