"""RK3562's registers in RK3576's notation."""

from __future__ import annotations

from collections.abc import Mapping

from ...elements import Element
from ...registers.cna import CnaConv1
from ...registers.dpu import DpuBn, DpuBnMul, DpuBsOw, DpuDataFormat, DpuFeatureMode, DpuHeight
from ...registers.fields import bits
from ..base import unknown_number
from ..rk3576.writer import MAXIMUM, REDUCTION
from ..truncation import told_as_of_features

_MODE, _KERNEL_BYTES, _KERNELS = 0x100C, 0x1020, 0x1024
_INPUT_SIZE, _INPUT_CHANNELS, _FETCHED, _CORE_CLIP = 0x102C, 0x107C, 0x1078, 0x3024
_FEATURE_MODE, _HEIGHT_REGISTER, _WRITE_SIZE, _NOTCH = 0x400C, 0x4024, 0x4034, 0x4028
_BS, _BS_MULTIPLY, _GROUPS, _BS_SHIFT = 0x4038, 0x4044, 0x4050, 0x4054
_BN, _BN_MULTIPLY = 0x4060, 0x4068
_GROUP_COUNTS, _GROUP_STRIDE, GROUP_COUNTS = 0x4080, 0x40B8, 0x40BC

_IGNORED_MODE = bits(2).put(1) | bits(26).put(1) | bits(28).put(1)
_KERNEL_SIZE = bits(0, 28)
_COUNT, _HEIGHT, _WIDTH = bits(0, 13), bits(16, 20), bits(24, 28)
_LOW, _HIGH = bits(0, 15), bits(16, 31)
_ROWS, _COLUMNS = bits(0, 11), bits(16, 27)

_BURST = DpuFeatureMode.BURST_LEN.put(15)
_FROM_MEMORY, _FROM_CONVOLUTION = bits(0), bits(30)
_SHIFT = bits(8, 13).put(0x3F)
_PRELU = bits(2)
_EW, _DIVIDES = 0x407C, frozenset({0x10321C8, 0x10421C8})
_OFFSETS = bits(31)
_GREATEST = 7
_KIND = bits(20, 22)
_FACTOR, _OWN_FACTOR = bits(16, 17), bits(0, 1)
_BN_KNOWN = (
    DpuBn.BYPASS.put(1)
    | DpuBn.ALU_BYPASS.put(1)
    | DpuBn.MUL_BYPASS.put(1)
    | DpuBn.MUL_PRELU.put(1)
    | DpuBn.ALU_SRC.put(1)
    | DpuBn.ALU_ALGO.put(2)
)


def in_rk3576_notation(words: Mapping[int, int]) -> dict[int, int]:
    """A task's registers as RK3576 would have them; those of its own are left as they are."""
    changed = dict(words)
    if _MODE in words:
        _change_convolution(changed)
    if _FEATURE_MODE in words:
        _change_writer(changed)
        _change_stages(changed)
    return changed


def _change_convolution(words: dict[int, int]) -> None:
    mode = words[_MODE]
    words[_MODE] = mode & ~_IGNORED_MODE
    words[_KERNEL_BYTES] = _KERNEL_SIZE.of(words.get(_KERNEL_BYTES, 0))
    kernels = words.get(_KERNELS, 0)
    counts = [field.of(kernels) for field in (_COUNT, _HEIGHT, _WIDTH)]
    _check_size(words)
    size, channels = words.get(_INPUT_SIZE, 0), words.get(_INPUT_CHANNELS, 0)
    if not (all(counts) and channels and _LOW.of(size) and _HIGH.of(size)):
        raise unknown_number(_INPUT_SIZE, size)
    words[_KERNELS] = (
        _COUNT.put(counts[0] - 1) | _HEIGHT.put(counts[1] - 1) | _WIDTH.put(counts[2] - 1)
    )
    words[_INPUT_SIZE] = _less_one(size)
    words[_INPUT_CHANNELS] = channels - 1
    # Of pictures it counts bytes; all their rows are fetched.
    is_picture = CnaConv1.ARGB_IN.of(mode)
    words[_FETCHED] = _less_one(size if is_picture else words.get(_FETCHED, 0))
    clip = words.get(_CORE_CLIP, 0)
    words[_CORE_CLIP] = told_as_of_features(clip, is_picture=is_picture)


def _check_size(words: Mapping[int, int]) -> None:
    size = words.get(_INPUT_SIZE, 0)
    if size & ~(_ROWS.put(_ROWS.mask) | _COLUMNS.put(_COLUMNS.mask)):
        raise unknown_number(_INPUT_SIZE, size)


def _less_one(word: int) -> int:
    return _LOW.put(_LOW.of(word) - 1) | _HIGH.put(_HIGH.of(word) - 1)


def _change_writer(words: dict[int, int]) -> None:
    mode = words[_FEATURE_MODE] & ~_BURST
    words[_FEATURE_MODE] = mode | _FROM_CONVOLUTION.put(not _FROM_MEMORY.of(mode))
    groups = words.get(_GROUPS, 0)
    offsets = _OFFSETS.of(words.get(_BS_SHIFT, 0))
    words[_GROUPS] = (
        DpuBsOw.SIZE_E_0.of(groups)
        | _FACTOR.put(_OWN_FACTOR.of(groups))
        | _KIND.put(_KIND.of(groups))
        | _OFFSETS.put(offsets)
    )
    words[_HEIGHT_REGISTER] = _reduction(words.get(_HEIGHT_REGISTER, 0))
    # RK3576 counts from where a group of surfaces ends.
    size, notch = words.get(_WRITE_SIZE, 0), words.get(_NOTCH, 0)
    height, width = _HIGH.of(size) + 1, _LOW.of(size) + 1
    end = height * width + (height - 1) * (notch & 0xFFFF)
    words[_GROUP_STRIDE] = words.get(_GROUP_STRIDE, 0) - end & 0xFFFFFFFF
    words[_GROUP_COUNTS] = _HIGH.put(_HIGH.of(words.get(GROUP_COUNTS, 0))) | _LOW.put(
        words.get(_GROUP_COUNTS, 0)
    )


def _reduction(word: int) -> int:
    """The height, and RK3576's mark of a maximum over channels, which RK3588's stands for here."""
    how = DpuHeight.MINMAX_CTL.of(word)
    if how not in (0, _GREATEST):
        raise unknown_number(_HEIGHT_REGISTER, word)
    return word & ~DpuHeight.MINMAX_CTL.put(how) | (REDUCTION.put(MAXIMUM) if how else 0)


def _change_stages(words: dict[int, int]) -> None:
    words[_BS] = words.get(_BS, 0) & ~_SHIFT
    words[_BS_MULTIPLY] = words.get(_BS_MULTIPLY, 0) & _PRELU.put(1)
    config = words.get(_BN, 0)
    if config & ~_BN_KNOWN:
        raise unknown_number(_BN, config)
    from_memory = DpuBnMul.MUL_SRC.of(words.get(_BN_MULTIPLY, 0))
    words[_BN] = (
        DpuBn.BYPASS.of(config)
        | bits(1).put(DpuBn.ALU_BYPASS.of(config))
        | bits(2).put(DpuBn.ALU_SRC.of(config))
        | bits(8).put(DpuBn.MUL_BYPASS.of(config))
        | bits(9).put(from_memory)
        | bits(10).put(DpuBn.MUL_PRELU.of(config))
    )
    formats = words.get(DpuDataFormat.number, 0)
    negative = DpuDataFormat.BN_MUL_SHIFT_VALUE_NEG
    formats &= ~negative.put(negative.mask)
    precision = DpuDataFormat.PROC_PRECISION
    if words.get(_EW, 0) in _DIVIDES and precision.of(formats) == Element.INT16.value:
        # Division only says "16 bits" where RK3588 says that arithmetic is in float16.
        formats = formats & ~precision.put(precision.mask) | precision.put(Element.FLOAT16.value)
    words[DpuDataFormat.number] = formats
