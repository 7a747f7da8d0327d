"""RV1106's CNA and CORE registers in RK3588's notation."""

from __future__ import annotations

from ...elements import Element
from ...registers.cna import (
    CnaConv1,
    CnaConv3,
    CnaDataSize1,
    CnaPad0,
    CnaPad1,
    CnaWeightSize0,
    CnaWeightSize1,
    CnaWeightSize2,
)
from ...registers.core import CoreClip, CoreMisc, CoreSize0
from ...registers.dpu import (
    DpuHeight,
    DpuWidth,
)
from ...registers.fields import bits, sign_extend
from ..base import unknown
from ..truncation import told_as_of_features, truncation

_FC_SKIP, _SKIPS_ZEROS = 0x1060, 0xFFFF0001
_PAD_TOP, _PAD_LEFT = bits(0, 3), bits(8, 11)
_CORE_DEPTHWISE = bits(3)


def translate_convolution(words: dict[int, int]) -> None:
    """Padding, mode and sizes."""
    padding = words.get(CnaPad0.number, 0)
    if padding & ~(_PAD_TOP.put(_PAD_TOP.mask) | _PAD_LEFT.put(_PAD_LEFT.mask)):
        raise unknown(CnaPad0, padding)
    words[CnaPad0.number] = CnaPad0.PAD_TOP.put(_PAD_TOP.of(padding)) | CnaPad0.PAD_LEFT.put(
        _PAD_LEFT.of(padding)
    )
    words[CnaPad1.number] = sign_extend(words.get(CnaPad1.number, 0), 16) & 0xFFFFFFFF
    mode, misc = words[CnaConv1.number], words.get(CoreMisc.number, 0)
    is_depthwise = CnaConv1.CONV_MODE.of(mode) == 3 or _CORE_DEPTHWISE.of(misc)
    strides = words.get(CnaConv3.number, 0)
    inserts = CnaConv3.DECONV_X_STRIDE.of(strides) or CnaConv3.DECONV_Y_STRIDE.of(strides)
    words[CnaConv1.number] = (
        mode & ~CnaConv1.CONV_MODE.put(15)
        | CnaConv1.CONV_MODE.put(3 if is_depthwise else 0)
        | CnaConv1.DECONV.put(bool(inserts))
    )
    words[CoreMisc.number] = CoreMisc.DW_EN.put(bool(is_depthwise))
    clip = words.get(CoreClip.number, 0)
    clip = told_as_of_features(clip, is_picture=CnaConv1.ARGB_IN.of(mode))
    words[CoreClip.number] = truncation(clip)


def translate_bare_convolution(words: dict[int, int]) -> None:
    """Without the CORE block its size is the DPU's, and skipping zeros changes no sum."""
    words[CoreSize0.number] = CoreSize0.DATAOUT_HEIGHT.put(
        DpuHeight.HEIGHT.of(words.get(DpuHeight.number, 0))
    ) | CoreSize0.DATAOUT_WIDTH.put(DpuWidth.WIDTH.of(words.get(DpuWidth.number, 0)))
    if words.get(_FC_SKIP) == _SKIPS_ZEROS:
        del words[_FC_SKIP]
    # Weights lie channel by channel, all kernels side by side; there may be fewer than the input.
    kernels = max(1, CnaWeightSize2.WEIGHT_KERNELS.of(words.get(CnaWeightSize2.number, 0)))
    size = words.get(CnaWeightSize0.number, 0) // kernels
    words[CnaWeightSize1.number] = size
    channels = CnaDataSize1.DATAIN_CHANNEL.of(words.get(CnaDataSize1.number, 0))
    channels = min(channels, size // Element.FLOAT16.size)
    words[CnaDataSize1.number] = CnaDataSize1.DATAIN_CHANNEL.put(
        channels
    ) | CnaDataSize1.DATAIN_CHANNEL_REAL.put(channels - 1)
