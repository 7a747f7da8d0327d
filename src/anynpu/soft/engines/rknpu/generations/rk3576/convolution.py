"""RK3576's CNA and CORE registers in RK3588's notation."""

from __future__ import annotations

from collections.abc import Mapping

from .....formats.rknn.model import Relocation
from ...registers.cna import (
    CnaConv1,
    CnaConv3,
    CnaConvert0,
    CnaDataSize0,
    CnaDataSize1,
    CnaDma1,
    CnaDma2,
    CnaPad0,
    CnaPad1,
    CnaWeightSize0,
    CnaWeightSize1,
    CnaWeightSize2,
)
from ...registers.core import CoreClip, CoreMisc, CoreSize0, CoreSize1
from ...registers.dpu import DpuBsOwOperand
from ...registers.fields import bits, sign_extend
from ...tasks import InputConversion
from ..base import input_ties, offset_place, unknown, unknown_number
from ..truncation import truncation

_MODE, _STRIDES = 0x100C, 0x1014
_WEIGHT_BYTES, _KERNEL_BYTES, _KERNELS = 0x101C, 0x1020, 0x1024
_INPUT_SIZE, _INPUT_CHANNELS = 0x102C, 0x107C
_CONVERSION, _SCALES, _OFFSETS = 0x1048, (0x104C, 0x1050), range(0x1054, 0x1064, 4)
_BUFFER, _FETCHED = 0x1018, 0x1078
_WEIGHT_OFFSET, _PADDING, _PADDING_VALUE = 0x1074, 0x1080, 0x1084
FEATURES, _LINE, _SURFACE, _WEIGHTS = 0x1088, 0x1090, 0x1094, 0x1110
_CORE_MODE, _CORE_SIZE, _CORE_CHANNELS, _CORE_CLIP = 0x3018, 0x301C, 0x3020, 0x3024

CONVOLUTION_REGISTERS = frozenset(
    {
        _MODE,
        _STRIDES,
        _WEIGHT_BYTES,
        _KERNEL_BYTES,
        _KERNELS,
        _INPUT_SIZE,
        _INPUT_CHANNELS,
        _CONVERSION,
        *_SCALES,
        *_OFFSETS,
        _BUFFER,
        _FETCHED,
        _WEIGHT_OFFSET,
        _PADDING,
        _PADDING_VALUE,
        FEATURES,
        _LINE,
        _SURFACE,
        _WEIGHTS,
        _CORE_MODE,
        _CORE_SIZE,
        _CORE_CHANNELS,
        _CORE_CLIP,
    }
)
CONVOLUTION_INERT = frozenset(
    {
        0x1008,
        0x1010,  # lines that are fetched before work begins
        0x1028,
        0x1030,  # the output's width, as the CORE has it
        0x1034,  # the output's area
        0x1038,
        0x103C,
        0x1040,  # banks of the buffer
        0x1044,
        0x1070,  # the padding value of pictures once more
        0x108C,
        0x1098,  # the area that is fetched
        0x118C,
        0x3008,
    }
)
CONVOLUTION_CONSTANTS: Mapping[int, frozenset[int]] = {
    0x1064: frozenset({0, 0xFFFFFFFF}),
    **dict.fromkeys((0x1068, 0x106C, 0x109C, 0x1100, 0x1104, 0x1140, 0x1144), frozenset({0})),
}
"""Registers of which files only have these values."""

_DEPTHWISE, _PICTURE, _ROWS = bits(0), bits(1), bits(2)
_TYPES = CnaConv1.IN_PRECISION.put(7) | CnaConv1.PROC_PRECISION.put(7) | CnaConv1.ARGB_IN.put(15)
_KIND = bits(20, 21)
_KNOWN_MODE = (
    _DEPTHWISE.put(1)
    | _PICTURE.put(1)
    | _ROWS.put(1)
    | _TYPES
    | _KIND.put(3)
    | CnaConv1.GROUP_LINE_OFF.put(1)
)
_KERNEL_COUNT, _KERNEL_HEIGHT, _KERNEL_WIDTH = bits(0, 13), bits(16, 20), bits(24, 28)
_CHANNELS = bits(0, 13)
_PICTURE_CHANNELS = 4
_LOW, _HIGH = bits(0, 15), bits(16, 31)
_HEIGHT, _WIDTH = bits(0, 12), bits(16, 27)
_KEEPS_ROWS = bits(31)
_NO_STRIDES = CnaConv3.CONV_X_STRIDE.put(1) | CnaConv3.CONV_Y_STRIDE.put(1)
_TOP, _LEFT = bits(0, 7), bits(8, 15)
_FIELDS = {
    _INPUT_SIZE: (_HEIGHT, _WIDTH),
    _FETCHED: (_HEIGHT, _WIDTH),
    _KERNELS: (_KERNEL_COUNT, _KERNEL_HEIGHT, _KERNEL_WIDTH),
    _INPUT_CHANNELS: (_CHANNELS,),
}
"""Registers that are fields alone; other bits have no known meaning."""

_CORE_KIND = bits(0, 3)
_CORE_KNOWN = {0: 0, 1: 0, 2: 1, 0xA: 1}
"""The kind of sum to whether it is depthwise."""


def translate_convolution(words: Mapping[int, int], translated: dict[int, int]) -> None:
    """Mode, sizes, strides, padding."""
    mode = words.get(_MODE, 0)
    if mode & ~_KNOWN_MODE:
        raise unknown(CnaConv1, mode)
    for number, fields in _FIELDS.items():
        word = words.get(number, 0)
        if word & ~sum(field.put(field.mask) for field in fields):
            raise unknown_number(number, word)
    _check_kept_rows(words)
    _translate_mode(mode, words, translated)
    _translate_sizes(mode, words, translated)
    _translate_core(words, translated)


def kept_bytes(words: Mapping[int, int]) -> int:
    """How many bytes before the features' address the first row is that the task works on."""
    mode = words.get(_MODE, 0)
    kept = _kept_rows(words)
    if kept < 0 or CnaConv1.ARGB_IN.of(mode) or not _is_whole(words):
        return 0
    return kept * words.get(_LINE, 0) * _line_unit(words)


def follows(
    words: Mapping[int, int], features: Relocation, before: Mapping[int, int], fetched: Relocation
) -> bool:
    """Whether a task fetches on where the one before, of which rows are kept, has ended.

    A compiler lets kernels of two rows fetch the kept row again, and lose the last one.
    """
    line = words.get(_LINE, 0) * _line_unit(words)
    rows = _HEIGHT.of(before.get(_FETCHED, 0)) + 1
    return (
        line == before.get(_LINE, 0) * _line_unit(before)
        and features.buffer == fetched.buffer
        and features.addend == fetched.addend + rows * line
    )


def _line_unit(words: Mapping[int, int]) -> int:
    return 16 if CnaConv1.GROUP_LINE_OFF.of(words.get(_MODE, 0)) else 4


def _kept_rows(words: Mapping[int, int]) -> int:
    return _HEIGHT.of(words.get(_INPUT_SIZE, 0)) - _HEIGHT.of(words.get(_FETCHED, 0))


def _is_whole(words: Mapping[int, int]) -> bool:
    """Whether what is fetched is as wide as what a convolution works on."""
    return _WIDTH.of(words.get(_INPUT_SIZE, 0)) == _WIDTH.of(words.get(_FETCHED, 0))


def _check_kept_rows(words: Mapping[int, int]) -> None:
    kept = _kept_rows(words)
    if not kept or _window(words):
        return
    is_picture = CnaConv1.ARGB_IN.of(words.get(_MODE, 0))
    if kept < 0 or not _KEEPS_ROWS.of(words.get(_BUFFER, 0)) or is_picture:
        raise unknown_number(_FETCHED, words.get(_FETCHED, 0))


def _window(words: Mapping[int, int]) -> tuple[int, int] | None:
    """The height and width of what is fetched, where a 1x1 convolution sees it as one row."""
    size, fetched = words.get(_INPUT_SIZE, 0), words.get(_FETCHED, 0)
    if _is_whole(words) or CnaConv1.ARGB_IN.of(words.get(_MODE, 0)):
        return None
    height, width = _HEIGHT.of(fetched) + 1, _WIDTH.of(fetched) + 1
    area = _KERNEL_HEIGHT.of(words.get(_KERNELS, 0)) | _KERNEL_WIDTH.of(words.get(_KERNELS, 0))
    is_row = not _HEIGHT.of(size) and _WIDTH.of(size) + 1 == height * width
    if not is_row or area or words.get(_PADDING, 0) or words.get(_STRIDES, 0) != _NO_STRIDES:
        raise unknown_number(_FETCHED, fetched)
    return height, width


def input_conversion(words: Mapping[int, int]) -> InputConversion:
    """What the CNA does to its input: two scales a register, then one offset a register."""
    how = words.get(_CONVERSION, 0)
    first, second = (words.get(number, 0) for number in _SCALES)
    offsets = [sign_extend(words.get(number, 0), 32) for number in _OFFSETS]
    return InputConversion(
        offset_place(how),
        (offsets[0], offsets[1], offsets[2], offsets[3]),
        (_LOW.signed(first), _HIGH.signed(first), _LOW.signed(second), _HIGH.signed(second)),
        (
            CnaConvert0.CVT_TRUNCATE_0.of(how),
            CnaConvert0.CVT_TRUNCATE_1.of(how),
            CnaConvert0.CVT_TRUNCATE_2.of(how),
            CnaConvert0.CVT_TRUNCATE_3.of(how),
        ),
        not CnaConvert0.DATA_SIGN.of(how),
        input_ties(how),
    )


def _translate_mode(mode: int, words: Mapping[int, int], translated: dict[int, int]) -> None:
    strides = words.get(_STRIDES, 0)
    inserts = CnaConv3.DECONV_X_STRIDE.of(strides) or CnaConv3.DECONV_Y_STRIDE.of(strides)
    depthwise = _DEPTHWISE.of(mode)
    translated[CnaConv1.number] = (
        CnaConv1.CONV_MODE.put(3 if depthwise else 0)
        | mode & _TYPES
        | CnaConv1.DECONV.put(bool(inserts))
        | CnaConv1.GROUP_LINE_OFF.put(CnaConv1.GROUP_LINE_OFF.of(mode))
    )
    translated[CnaConv3.number] = strides
    translated[CnaConvert0.number] = words.get(_CONVERSION, 0)
    padding = words.get(_PADDING, 0)
    translated[CnaPad0.number] = CnaPad0.PAD_TOP.put(_TOP.of(padding)) | CnaPad0.PAD_LEFT.put(
        _LEFT.of(padding)
    )
    if _TOP.of(padding) > CnaPad0.PAD_TOP.mask or _LEFT.of(padding) > CnaPad0.PAD_LEFT.mask:
        raise unknown_number(_PADDING, padding)
    value = words.get(_PADDING_VALUE, 0)
    is_float = CnaConv1.PROC_PRECISION.of(mode)
    translated[CnaPad1.number] = (value if is_float else sign_extend(value, 8)) & 0xFFFFFFFF
    translated[DpuBsOwOperand.number] = _weight_offset(words) if depthwise else 0


def _weight_offset(words: Mapping[int, int]) -> int:
    """What is added to depthwise weights: one byte, which stands there twice."""
    word = words.get(_WEIGHT_OFFSET, 0)
    value = sign_extend(word, 8)
    if word != (word & 0xFF) * 0x0101:
        raise unknown_number(_WEIGHT_OFFSET, word)
    # As with pairs of weights and zero points, -128 stands for 128.
    return DpuBsOwOperand.OW_OP.put_signed(128 if value == -128 else value)


def _translate_sizes(mode: int, words: Mapping[int, int], translated: dict[int, int]) -> None:
    size, channels = words.get(_INPUT_SIZE, 0), _CHANNELS.of(words.get(_INPUT_CHANNELS, 0)) + 1
    height, width = _window(words) or (_HEIGHT.of(size) + 1, _WIDTH.of(size) + 1)
    translated[CnaDataSize0.number] = CnaDataSize0.DATAIN_HEIGHT.put(
        height
    ) | CnaDataSize0.DATAIN_WIDTH.put(width)
    translated[CnaDataSize1.number] = CnaDataSize1.DATAIN_CHANNEL.put(
        channels
    ) | CnaDataSize1.DATAIN_CHANNEL_REAL.put(channels - 1)
    line, surface = words.get(_LINE, 0), words.get(_SURFACE, 0)
    translated[CnaDma1.number] = CnaDma1.LINE_STRIDE.put(line)
    distance = surface - (width if CnaConv1.GROUP_LINE_OFF.of(mode) else line)
    translated[CnaDma2.number] = CnaDma2.SURF_STRIDE.put_signed(distance)
    kernels, bytes_of_kernel = words.get(_KERNELS, 0), words.get(_KERNEL_BYTES, 0)
    depthwise = _DEPTHWISE.of(mode)
    translated[CnaWeightSize0.number] = (
        words.get(_WEIGHT_BYTES, 0) if depthwise else bytes_of_kernel
    )
    translated[CnaWeightSize1.number] = bytes_of_kernel
    if _ROWS.of(mode):
        # The kernel as if it weren't packed; what it takes in memory is the other register's.
        area = (_KERNEL_HEIGHT.of(kernels) + 1) * (_KERNEL_WIDTH.of(kernels) + 1)
        translated[CnaWeightSize1.number] = area * _PICTURE_CHANNELS
    translated[CnaWeightSize2.number] = (
        CnaWeightSize2.WEIGHT_KERNELS.put(1 if depthwise else _KERNEL_COUNT.of(kernels) + 1)
        | CnaWeightSize2.WEIGHT_HEIGHT.put(_KERNEL_HEIGHT.of(kernels) + 1)
        | CnaWeightSize2.WEIGHT_WIDTH.put(_KERNEL_WIDTH.of(kernels) + 1)
    )


def _translate_core(words: Mapping[int, int], translated: dict[int, int]) -> None:
    mode = words.get(_CORE_MODE, 0)
    kind = _CORE_KNOWN.get(_CORE_KIND.of(mode))
    if kind is None:
        raise unknown(CoreMisc, mode)
    translated[CoreMisc.number] = CoreMisc.DW_EN.put(kind)
    translated[CoreSize0.number] = words.get(_CORE_SIZE, 0)
    if window := _window(words):
        if translated[CoreSize0.number] != window[0] * window[1] - 1:
            raise unknown(CoreSize0, translated[CoreSize0.number])
        translated[CoreSize0.number] = CoreSize0.DATAOUT_HEIGHT.put(
            window[0] - 1
        ) | CoreSize0.DATAOUT_WIDTH.put(window[1] - 1)
    translated[CoreSize1.number] = words.get(_CORE_CHANNELS, 0)
    translated[CoreClip.number] = truncation(words.get(_CORE_CLIP, 0))
