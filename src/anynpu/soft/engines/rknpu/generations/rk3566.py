"""RK3566 and RK3568 ("RKNPU lite"), the first generation.

Atoms have half the size, operand and weight groups half the channels, strides are plain bytes, and
some fields lie elsewhere. There are no registers for the writer's own size.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..command_stream import TaskState
from ..elements import Element
from ..registers.cna import (
    CnaConv1,
    CnaConvert0,
    CnaDataSize0,
    CnaDma1,
    CnaDma2,
    CnaPad0,
    CnaPad1,
)
from ..registers.core import CoreClip, CoreMisc, CoreSize0, CoreSize1
from ..registers.dpu import (
    DpuBn,
    DpuBs,
    DpuBsOwOperand,
    DpuChannel,
    DpuDataFormat,
    DpuEw,
    DpuFeatureMode,
    DpuHeight,
    DpuWidth,
    DpuWriteSize0,
    DpuWriteSize1,
)
from ..registers.fields import Field, bits, sign_extend
from ..registers.ppu import PpuDataFormat, PpuMode
from ..registers.rdma import (
    RdmaBn,
    RdmaBs,
    RdmaEw,
    RdmaEwAddress,
    RdmaEwSurfaceNotch,
    RdmaEwSurfaceStride,
    RdmaFeatureMode,
    RdmaHeight,
    RdmaSource,
    RdmaSurfaceNotch,
)
from ..task_registers import TaskRegisters
from .base import Constants, Generation, Groups, unknown

_CORE_MISC, _CORE_SIZE0, _CORE_SIZE1, _CORE_CLIP = 0x300C, 0x3010, 0x3014, 0x3018
"""The CORE block's registers lie four bytes lower."""

_PRECISION = bits(8, 9)
_PAD_VALUE = bits(16, 31)
_CORE_DEPTHWISE = bits(1)
_EW_ALGORITHM = bits(3, 4)
_DISABLED = bits(0)
_COMBINES = bits(18)
_POOLING_PRECISION = bits(0, 1)


_ALGORITHM = bits(2, 3)
"""Of both stages' additions."""


_MODES = frozenset({0x102, 0x103, 0x108, 0x109, 0x138})
"""DPU_FEATURE_MODE_CFG: from memory or not, into the PPU or memory, depthwise or not."""


class Rk3566(Generation):
    """RK3566 and RK3568."""

    own = frozenset({_CORE_MISC, _CORE_SIZE0, _CORE_SIZE1, _CORE_CLIP})
    own_inert = frozenset(
        {
            0x1018,
            *range(0x1114, 0x1140, 4),
            *range(0x1210, 0x1234, 4),
            0x2004,  # the pointer of a second CNA, whose only register steers it
            0x200C,
            0x302C,
            0x5024,
            0x5030,
            0x503C,
            0x604C,  # more padding values: multiples of the first
            0x6050,
            0x7018,
        }
    )
    atom = 8
    operand_group = 4
    has_column_operands = False
    field_bits: Mapping[Field, int] = {
        CnaDataSize0.DATAIN_HEIGHT: 11,
        CnaDataSize0.DATAIN_WIDTH: 11,
        DpuWriteSize0.CHANNEL_WDMA: 13,
        PpuMode.COUNTS_INSIDE: 0,
    }
    groups = Groups(kernels={1: 16, 2: 8}, channels={1: 32, 2: 16}, depthwise={1: 32, 2: 16})
    valid_channels_in_last_group = False
    pads_channels_in_pairs = False
    writes_surface_groups = False

    def translate(self, state: TaskState, constants: Constants) -> dict[int, int]:
        words = dict(state.words)
        if CnaConv1.number in words:
            _translate_convolution(words)
        if DpuDataFormat.number in words:
            _translate_combination(state, words)
            _translate_dpu(words)
        if PpuDataFormat.number in words:
            precision = _POOLING_PRECISION.of(words[PpuDataFormat.number])
            words[PpuDataFormat.number] = PpuDataFormat.PROC_PRECISION.put(precision)
        return words

    def feature_strides(self, task: TaskRegisters, width: int) -> tuple[int, int]:
        line, surface = task[CnaDma1.LINE_STRIDE], task.signed(CnaDma2.SURF_STRIDE)
        return line * self.atom, surface * self.atom

    def image_line(self, task: TaskRegisters, width: int, channels: int, element: Element) -> int:
        # Of the whole picture, of which a task may see some columns; each channel fills up atoms.
        atoms = -(-task[CnaDma1.LINE_STRIDE] // channels) * channels
        if atoms * self.atom < width * channels * element.size:
            raise task.error(CnaDma1.LINE_STRIDE, f"less than {width} columns")
        return atoms * self.atom


def _translate_combination(state: TaskState, words: dict[int, int]) -> None:
    """Two DMAs that read one stream, where they have the same surfaces: as good as one."""
    mode = words.get(RdmaFeatureMode.number, 0)
    if not _COMBINES.of(mode):
        return
    sources = [state.relocations.get(register.number) for register in (RdmaSource, RdmaEwAddress)]
    area = (DpuHeight.HEIGHT.of(words.get(DpuHeight.number, 0)) + 1) * (
        DpuWidth.WIDTH.of(words.get(DpuWidth.number, 0)) + 1
    )
    surface = area * Rk3566.atom + words.get(RdmaSurfaceNotch.number, 0)
    is_same = sources[0] == sources[1] and surface == words.get(RdmaEwSurfaceStride.number, 0)
    if not is_same or not DpuEw.BYPASS.of(words.get(DpuEw.number, 0)):
        raise unknown(RdmaFeatureMode, mode)
    words[RdmaFeatureMode.number] = mode & ~_COMBINES.put(1)


def _translate_convolution(words: dict[int, int]) -> None:
    # The bit says that the input is converted, which is set for pictures of bytes alone.
    words[CnaConvert0.number] = words.get(CnaConvert0.number, 0) ^ CnaConvert0.CVT_BYPASS.put(1)
    mode = words[CnaConv1.number]
    precision = _PRECISION.of(mode)
    words[CnaConv1.number] = mode & ~_PRECISION.put(3) | CnaConv1.PROC_PRECISION.put(precision)
    padding = words.get(CnaPad0.number, 0)
    words[CnaPad0.number] = padding & 0xFF
    words[CnaPad1.number] = sign_extend(_PAD_VALUE.of(padding), 16) & 0xFFFFFFFF
    misc = words.pop(_CORE_MISC, 0)
    sizes = [words.pop(number, 0) for number in (_CORE_SIZE0, _CORE_SIZE1, _CORE_CLIP)]
    words[CoreMisc.number] = CoreMisc.DW_EN.put(_CORE_DEPTHWISE.of(misc))
    words[CoreSize0.number], words[CoreSize1.number], words[CoreClip.number] = sizes


def _translate_dpu(words: dict[int, int]) -> None:
    mode = words.get(DpuFeatureMode.number, 0)
    transposes = DpuFeatureMode.TP_EN.of(mode)
    packs = mode & (DpuFeatureMode.NONALIGN.put(1) | DpuFeatureMode.SURF_LEN.put(0xFFFF))
    if mode & ~DpuFeatureMode.TP_EN.put(1) & ~packs not in _MODES:
        raise unknown(DpuFeatureMode, mode)
    words[DpuFeatureMode.number] = (
        DpuFeatureMode.OUTPUT_MODE.put(2) | DpuFeatureMode.TP_EN.put(transposes) | packs
    )
    height = DpuHeight.HEIGHT.of(words.get(DpuHeight.number, 0))
    width = DpuWidth.WIDTH.of(words.get(DpuWidth.number, 0))
    channel = words.get(DpuChannel.number, 0)
    words[DpuWriteSize0.number] = DpuWriteSize0.CHANNEL_WDMA.put(DpuChannel.CHANNEL.of(channel))
    words[DpuChannel.number] = _channels(words, channel)
    # What is written has the input's size; an atom transposer makes rows of its columns.
    words[DpuWriteSize1.number] = (
        DpuWriteSize1.WIDTH_WDMA.put(height)
        if transposes
        else DpuWriteSize1.HEIGHT_WDMA.put(height) | DpuWriteSize1.WIDTH_WDMA.put(width)
    )
    config = words.get(DpuEw.number, 0)
    algorithm = DpuEw.ALU_ALGO.put(_EW_ALGORITHM.of(config))
    words[DpuEw.number] = config & ~(_EW_ALGORITHM.put(3) | DpuEw.ALU_ALGO.put(15)) | algorithm
    weight_offset = words.get(DpuBsOwOperand.number, 0)
    if sign_extend(weight_offset, 16) == sign_extend(weight_offset, 32):
        words[DpuBsOwOperand.number] = weight_offset & 0xFFFF
    for stage in (DpuBs, DpuBn):
        word = words.get(stage.number, 0)
        words[stage.number] = word & ~_ALGORITHM.put(3) | stage.ALU_ALGO.put(_ALGORITHM.of(word))
    for register in (RdmaBs, RdmaBn):
        word = words.get(register.number, 0)
        words[register.number] = 0 if _DISABLED.of(word) else word
    _translate_operand(words, height + 1, width + 1)


def _channels(words: dict[int, int], channel: int) -> int:
    """The channel register as RK3588 has it.

    A convolution that writes one phase of an interpolation has rows times channels in it here, and
    there in the writer's register alone.
    """
    if CoreSize0.number not in words:
        return channel
    rows = CoreSize0.DATAOUT_HEIGHT.of(words[CoreSize0.number]) + 1
    channels = CoreSize1.DATAOUT_CHANNEL.of(words.get(CoreSize1.number, 0)) + 1
    if rows == 1 or DpuChannel.CHANNEL.of(channel) + 1 != rows * channels:
        return channel
    mask = DpuChannel.CHANNEL.put(DpuChannel.CHANNEL.of(0xFFFFFFFF))
    return channel & ~mask | DpuChannel.CHANNEL.put(channels - 1)


def _translate_operand(words: dict[int, int], height: int, width: int) -> None:
    config = words.get(RdmaEw.number, 0)
    is_wide = DpuDataFormat.PROC_PRECISION.of(words[DpuDataFormat.number]) & 3
    words[RdmaEw.number] = (
        RdmaEw.DATA_MODE.put(RdmaEw.DATA_MODE.of(config))
        | RdmaEw.DATA_SIZE.put(2 if is_wide else 1)
        | RdmaEw.DISABLE.put(RdmaEw.DISABLE.of(config))
    )
    notch = RdmaHeight.EW_LINE_NOTCH_ADDR.of(words.get(RdmaHeight.number, 0))
    area = (height * width + (height - 1) * notch) * Rk3566.atom
    surface = words.get(RdmaEwSurfaceStride.number, 0)
    words[RdmaEwSurfaceNotch.number] = (surface - area) & 0xFFFFFFFF
