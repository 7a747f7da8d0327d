"""RV1106's writer in RK3588's notation."""

from __future__ import annotations

from ..elements import Address
from ..registers.dpu import (
    DpuFeatureMode,
    DpuOutScale,
    DpuWidth,
)
from ..registers.fields import bits
from ..tasks import RowWriter
from ..view import TaskRegisters
from .base import unknown

_TWO_BYTES, _TWO_BYTES_OF_RK3588 = 2, 3
_ROWS = 0x40C4
_ROW_COUNT = bits(16, 31)
_ROW_BYTES = bits(16, 31)
"""Of DPU_DATA_CUBE_WIDTH, where rows are unpacked."""


def translate_writer(words: dict[int, int]) -> None:
    """Surfaces, packing and the output's scale."""
    mode = words.get(DpuFeatureMode.number, 0)
    if DpuFeatureMode.TP_EN.of(mode) and DpuFeatureMode.NONALIGN.of(mode):
        # The first two bytes of every atom, side by side, whatever the order of equal ones.
        if DpuFeatureMode.RGP_TYPE.of(mode) != _TWO_BYTES:
            raise unknown(DpuFeatureMode, mode)
        mode &= ~(DpuFeatureMode.TP_EN.put(1) | DpuFeatureMode.RGP_TYPE.put(15))
        words[DpuFeatureMode.number] = mode | DpuFeatureMode.RGP_TYPE.put(_TWO_BYTES_OF_RK3588)
    elif DpuFeatureMode.NONALIGN.of(mode):
        # `row_writer` takes what these say.
        words[DpuFeatureMode.number] = mode & ~DpuFeatureMode.RGP_TYPE.put(15)
        words.pop(_ROWS, None)
    # Above the width there is a count of bytes where atoms are packed, else a bit that is set where
    # they are only moved or looked up; neither changes what is written.
    words[DpuWidth.number] = words.get(DpuWidth.number, 0) & DpuWidth.WIDTH.mask
    words[DpuOutScale.number] = words.get(DpuOutScale.number, 0) & 0xFFFF


def row_writer(
    task: TaskRegisters, address: Address, shape: tuple[int, int, int], atom: int
) -> RowWriter | None:
    """Rows that end within an atom, from or to rows of whole atoms; None where there are none."""
    words = task.state.words
    mode = words.get(DpuFeatureMode.number, 0)
    if not DpuFeatureMode.NONALIGN.of(mode) or DpuFeatureMode.TP_EN.of(mode):
        return None
    surfaces, height, width = shape
    rest = DpuFeatureMode.RGP_TYPE.of(mode)
    rows = _ROW_COUNT.of(words.get(_ROWS, 0))
    if not rows:
        row = width * atom
        kept = row - atom + rest
        return RowWriter(address, surfaces * height, row, kept, kept) if rest else None
    row = _ROW_BYTES.of(words.get(DpuWidth.number, 0))
    pitch, odd = divmod(DpuFeatureMode.SURF_LEN.of(mode) * atom, rows)
    if rest or odd or not row or pitch < row or rows * row > surfaces * height * width * atom:
        raise task.error(DpuFeatureMode, f"{rows} rows of {row} bytes are not known")
    return RowWriter(address, rows, row, row, pitch)
