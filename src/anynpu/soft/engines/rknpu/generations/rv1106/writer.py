"""RV1106's writer in RK3588's notation."""

from __future__ import annotations

from ...elements import Address, Element
from ...layout import ATOM
from ...registers.dpu import (
    DpuChannel,
    DpuFeatureMode,
    DpuHeight,
    DpuOutScale,
    DpuSurfaceAdd,
    DpuSurfaceStride,
    DpuWidth,
    DpuWriteSize0,
    DpuWriteSize1,
)
from ...registers.fields import bits
from ...registers.rdma import (
    RdmaChannel,
    RdmaFeatureMode,
    RdmaHeight,
    RdmaSourceDma,
    RdmaSurfaceNotch,
    RdmaWidth,
)
from ...task_registers import TaskRegisters
from ...tasks import RowWriter
from ..base import unknown

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


def translate_joined_surfaces(words: dict[int, int]) -> None:
    """Surfaces of one line that are written as one longer line: as the surfaces that they are."""
    width = RdmaWidth.WIDTH.of(words.get(RdmaWidth.number, 0)) + 1
    channels = RdmaChannel.CHANNEL.of(words.get(RdmaChannel.number, 0)) + 1
    element = Element(RdmaFeatureMode.IN_PRECISION.of(words.get(RdmaFeatureMode.number, 0)))
    lanes = ATOM // element.size
    count, rest = divmod(channels, lanes)
    one_line = not any(
        words.get(register.number, 0)
        for register in (RdmaHeight, RdmaSourceDma, RdmaSurfaceNotch, DpuHeight)
    )
    written, joined = words.get(DpuChannel.number, 0), words.get(DpuWidth.number, 0)
    of_one = DpuChannel.CHANNEL.put(lanes - 1) | DpuChannel.ORIG_CHANNEL.put(lanes - 1)
    is_joined = (written, joined) == (of_one, width * count - 1)
    if count < 2 or rest or not one_line or not is_joined:
        return
    words[DpuChannel.number] = DpuChannel.CHANNEL.put(channels - 1) | DpuChannel.ORIG_CHANNEL.put(
        channels - 1
    )
    words[DpuWidth.number] = DpuWidth.WIDTH.put(width - 1)
    words[DpuWriteSize1.number] = DpuWriteSize1.WIDTH_WDMA.put(width - 1)
    words[DpuWriteSize0.number] = words.get(
        DpuWriteSize0.number, 0
    ) | DpuWriteSize0.SIZE_C_WDMA.put(count - 1)
    for register in (DpuSurfaceStride, DpuSurfaceAdd):
        words[register.number] = width * ATOM


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
