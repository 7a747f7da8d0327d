"""RK3576's writer in RK3588's notation."""

from __future__ import annotations

from collections.abc import Mapping

from ......errors import ModelError
from ...elements import Address
from ...layout import ATOM
from ...registers.dpu import (
    DpuBsOw,
    DpuChannel,
    DpuDataFormat,
    DpuDestination,
    DpuFeatureMode,
    DpuHeight,
    DpuOffsetPend,
    DpuSurfaceAdd,
    DpuSurfaceStride,
    DpuWidth,
    DpuWriteSize0,
    DpuWriteSize1,
)
from ...registers.fields import bits, sign_extend, signed_word
from ...registers.rdma import RdmaChannel
from ...tasks import PackedWriter, SurfacePacker
from ..base import bytes_of_atoms, unknown, unknown_number

_MODE, _PADDING, _DESTINATION, _SURFACE = 0x400C, 0x4014, 0x4018, 0x401C
_WIDTH, _HEIGHT, _NOTCH, _CHANNEL = 0x4020, 0x4024, 0x4028, 0x402C
_WRITE_CHANNEL, _WRITE_SIZE, _GROUPS = 0x4030, 0x4034, 0x4050
_GROUP_COUNTS, _GROUP_NOTCH, _LENGTH, _ORDER = 0x4080, 0x40B8, 0x40C8, 0x40CC

WRITER_REGISTERS = frozenset(
    {
        _MODE,
        _PADDING,
        _DESTINATION,
        _SURFACE,
        _WIDTH,
        _HEIGHT,
        _NOTCH,
        _CHANNEL,
        _WRITE_CHANNEL,
        _WRITE_SIZE,
        _GROUPS,
        _GROUP_NOTCH,
        _LENGTH,
        _ORDER,
    }
)
WRITER_INERT = frozenset({0x4008, 0x4100, 0x5008})
WRITER_CONSTANTS: Mapping[int, frozenset[int]] = {
    0x40C0: frozenset({0x4440000, 0x4440100}),
    0x40D0: frozenset({0x40FFFF, 0x48FFFF}),
}
"""Registers of which files only have these values."""

_MODES = frozenset({0x5, 0x40000004, 0x4000000C})
"""From memory, from a dense and from a depthwise convolution."""

_PACK_MODES = frozenset({0x2000005, 0x42000004})
_FROM_MEMORY, _LAST_BYTES = bits(0), bits(26, 29)
_GROUP_COUNT = bits(16, 31)
_GROUP_SIZE, _KIND = bits(0, 3), bits(20, 22)
_BLOCKS, _REDUCES, _TRANSPOSES_BYTES, _TRANSPOSES_ATOMS, _TRANSPOSES_HALVES = 0, 1, 2, 3, 6
REDUCTION = bits(16, 21)
_HEIGHT_BITS = DpuHeight.HEIGHT.put(DpuHeight.HEIGHT.mask) | REDUCTION.put(REDUCTION.mask)
MAXIMUM = 0x25
_ORDERS = frozenset({0, 0x10})
_REDUCES_TO_LANES = 4
_REDUCES_PACKED = frozenset({0})


def translate_writer(words: Mapping[int, int], translated: dict[int, int]) -> None:
    """Sizes, strides, and in which order atoms are written."""
    mode, kind = words.get(_MODE, 0), _KIND.of(words.get(_GROUPS, 0))
    packs = mode & ~_LAST_BYTES.put(15) in _PACK_MODES
    if mode not in _MODES and not packs:
        raise unknown(DpuFeatureMode, mode)
    order = words.get(_ORDER, 0)
    if REDUCTION.of(words.get(_HEIGHT, 0)):
        known = _REDUCES_PACKED if packs else {_REDUCES_TO_LANES}
        if _LAST_BYTES.of(mode):
            raise unknown(DpuFeatureMode, mode)
    else:
        known = {order} if packs else _ORDERS
    if order not in known:
        raise unknown_number(_ORDER, order)
    translated[DpuFeatureMode.number] = (
        DpuFeatureMode.OUTPUT_MODE.put(2)
        | DpuFeatureMode.NONALIGN.put(packs)
        | DpuFeatureMode.TP_EN.put(kind == _TRANSPOSES_ATOMS)
    )
    translated[DpuOffsetPend.number] = words.get(_PADDING, 0) & 0xFFFF
    translated[DpuDestination.number] = words.get(_DESTINATION, 0)
    translated[DpuSurfaceStride.number] = bytes_of_atoms(words.get(_SURFACE, 0))
    translated[DpuWidth.number] = words.get(_WIDTH, 0)
    translated[DpuHeight.number] = _height(words.get(_HEIGHT, 0))
    channels = DpuChannel.CHANNEL.of(words.get(_CHANNEL, 0))
    translated[DpuChannel.number] = DpuChannel.CHANNEL.put(channels) | DpuChannel.ORIG_CHANNEL.put(
        channels
    )
    channel = words.get(_WRITE_CHANNEL, 0) >> 16
    if kind == _BLOCKS and not packs:
        _check_channels(words, channels, channel)
    translated[DpuWriteSize0.number] = DpuWriteSize0.CHANNEL_WDMA.put(channel)
    translated[DpuWriteSize1.number] = words.get(_WRITE_SIZE, 0)
    translated[DpuSurfaceAdd.number] = signed_word(_group_stride(words, translated) * ATOM)
    _translate_order(words, translated, kind)


def packed_atoms(words: Mapping[int, int]) -> int:
    """How many atoms a packing task writes; more than RK3588's field can count."""
    return words.get(_LENGTH, 0)


def _check_channels(words: Mapping[int, int], channels: int, written: int) -> None:
    """That the stages have the channels that are written, or rows of them.

    A compiler cuts more than 8192 to what the stages' register holds; the writer's has more bits.
    """
    rows = DpuHeight.HEIGHT.of(words.get(_HEIGHT, 0)) + 1
    if written + 1 not in (channels + 1, (channels + 1) * rows):
        raise ModelError(
            f"the registers {_CHANNEL:#06x} and {_WRITE_CHANNEL:#06x} ask for {channels + 1} and "
            f"{written + 1} channels; the compiler cut what the first one can't hold"
        )


def target_notch(words: Mapping[int, int]) -> int:
    """Pixels between rows; between those of un-pooling's copies it is the same."""
    return words.get(_NOTCH, 0) & 0xFFFF


def surfaces_in_group(words: Mapping[int, int]) -> int:
    """How many surfaces lie together; there are more than RK3588's field can count."""
    return _GROUP_SIZE.of(words.get(_GROUPS, 0)) + 1


def surface_packer(
    words: Mapping[int, int], shape: tuple[int, int, int], address: Address, together: int
) -> SurfacePacker | PackedWriter:
    """What writes surfaces side by side, and groups of them where there are any."""
    surfaces, height, width = shape
    last = _LAST_BYTES.of(words.get(_MODE, 0)) or ATOM
    count = surfaces * ((height * width - 1) * ATOM + last)
    groups = _GROUP_COUNT.of(words.get(_GROUP_COUNTS, 0))
    size = words.get(_ORDER, 0) if groups else count
    if groups and not 0 < groups * size <= count:
        raise unknown_number(_ORDER, size)
    if _FROM_MEMORY.of(words.get(_MODE, 0)) and _pixels_written(words) != height * width:
        return _half_atoms(words, shape, address)
    if height * width == 1:
        together = 1
    if together > 1 and (groups or last != ATOM or surfaces % together):
        # Of what gets wider as it is written only whole atoms were seen.
        raise unknown_number(_MODE, words.get(_MODE, 0))
    limit = packed_atoms(words) * ATOM
    return SurfacePacker(address, last, max(groups, 1), size, limit, together)


def _pixels_written(words: Mapping[int, int]) -> int:
    height = DpuHeight.HEIGHT.of(words.get(_HEIGHT, 0)) + 1
    return height * (DpuWidth.WIDTH.of(words.get(_WIDTH, 0)) + 1)


def _half_atoms(
    words: Mapping[int, int], shape: tuple[int, int, int], address: Address
) -> PackedWriter:
    """What puts pixels of half an atom together to such of a whole one."""
    surfaces, height, width = shape
    is_half = surfaces == 1 and 2 * _pixels_written(words) == height * width
    read = RdmaChannel.CHANNEL.of(words.get(RdmaChannel.number, 0)) + 1
    written = DpuChannel.CHANNEL.of(words.get(_CHANNEL, 0)) + 1
    is_byte = not DpuDataFormat.OUT_PRECISION.of(words.get(DpuDataFormat.number, 0))
    cuts = _LAST_BYTES.of(words.get(_MODE, 0)) or _GROUP_COUNT.of(words.get(_GROUP_COUNTS, 0))
    if not (is_half and is_byte and 2 * read == written == ATOM) or cuts:
        raise unknown_number(_CHANNEL, words.get(_CHANNEL, 0))
    return PackedWriter(address, read, packed_atoms(words) * ATOM, 1, ATOM)


def _height(word: int) -> int:
    reduction = REDUCTION.of(word)
    if reduction and reduction != MAXIMUM:
        raise unknown_number(_HEIGHT, word)
    if word & ~_HEIGHT_BITS:
        raise unknown_number(_HEIGHT, word)
    height = DpuHeight.HEIGHT.put(DpuHeight.HEIGHT.of(word))
    return height | DpuHeight.MINMAX_CTL.put(3 if reduction else 0)


def _group_stride(words: Mapping[int, int], translated: Mapping[int, int]) -> int:
    """Atoms between groups of surfaces; the register counts from where one ends."""
    size = translated[DpuWriteSize1.number]
    height = DpuWriteSize1.HEIGHT_WDMA.of(size) + 1
    width = DpuWriteSize1.WIDTH_WDMA.of(size) + 1
    notch = target_notch(words)
    own = sign_extend(words.get(_GROUP_NOTCH, 0), 32)
    return own + height * width + (height - 1) * notch


def _translate_order(words: Mapping[int, int], translated: dict[int, int], kind: int) -> None:
    groups = words.get(_GROUPS, 0)
    order = translated.get(DpuBsOw.number, DpuBsOw.OD_BYPASS.put(1))
    if kind in (_TRANSPOSES_BYTES, _TRANSPOSES_HALVES):
        order |= DpuBsOw.TP_ORG_EN.put(1)
    elif kind not in (_BLOCKS, _TRANSPOSES_ATOMS, _REDUCES):
        raise unknown(DpuBsOw, groups)
    if kind == _TRANSPOSES_HALVES:
        translated[DpuWriteSize0.number] |= DpuWriteSize0.TP_PRECISION.put(1)
    translated[DpuBsOw.number] = order
