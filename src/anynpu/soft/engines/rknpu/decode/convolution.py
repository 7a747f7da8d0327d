"""The CNA and CORE: which convolution a task computes."""

from __future__ import annotations

from ..elements import Element
from ..layout import image_view
from ..registers.cna import (
    CnaConv1,
    CnaConv3,
    CnaConvert0,
    CnaDataSize0,
    CnaDataSize1,
    CnaFeatureAddress,
    CnaPad0,
    CnaPad1,
    CnaWeightAddress,
    CnaWeightSize0,
    CnaWeightSize1,
    CnaWeightSize2,
)
from ..registers.core import CoreClip, CoreMisc, CoreSize0
from ..registers.fields import sign_extend
from ..rounding import Ties
from ..task_registers import TaskRegisters, half
from ..tasks import Convolution, Features, Image, InputConversion
from ..weights import WeightLayout, Weights
from .context import Context

_CHANNEL_GROUP = 64
_MOST_PIXELS = 1 << 26
_CORE_ENABLED = 1 << 2
_PACKED = 7
"""ARGB_IN of a picture with n channels is n + 7."""

_IDENTITY = ((0,) * 4, (1,) * 4, (0,) * 4)


def decode_convolution(task: TaskRegisters, context: Context) -> Convolution:
    """The convolution, without the weight offset, which the DPU's registers hold."""
    element = Element(task[CnaConv1.PROC_PRECISION])
    source = _source(task, context, element)
    is_depthwise = bool(task[CoreMisc.DW_EN])
    if is_depthwise != (task[CnaConv1.CONV_MODE] == 3):
        raise task.error(CnaConv1.CONV_MODE, f"CORE_MISC_CFG has DW_EN = {task[CoreMisc.DW_EN]}")
    weights = _weights(task, context, element, is_depthwise)
    if source.channels > weights.layout.channels:
        raise task.error(
            CnaDataSize1.DATAIN_CHANNEL, f"the weights have {weights.layout.channels} channels"
        )
    dilation = (task[CnaConv3.ATROUS_Y_DILATION] + 1, task[CnaConv3.ATROUS_X_DILATION] + 1)
    is_transposed = task[CnaConv1.DECONV]
    inserted = (task[CnaConv3.DECONV_Y_STRIDE], task[CnaConv3.DECONV_X_STRIDE])
    stride = (task[CnaConv3.CONV_Y_STRIDE], task[CnaConv3.CONV_X_STRIDE])
    channels = source.channels if is_depthwise else weights.layout.kernels
    height, width = task[CoreSize0.DATAOUT_HEIGHT] + 1, task[CoreSize0.DATAOUT_WIDTH] + 1
    context.check_size((channels, height, width))
    _check_reach(task, (height, width), stride)
    return Convolution(
        source,
        _valid_channels(task, context, source),
        _conversion(task, context, source),
        weights,
        inserted if is_transposed else (0, 0),
        (task[CnaPad0.PAD_TOP], task[CnaPad0.PAD_LEFT]),
        _padding_value(task, context, element, is_depthwise),
        stride,
        dilation,
        None,
        channels,
        height,
        width,
        _truncate(task, element),
        Ties.UP if task[CoreClip.ROUND_TYPE] else Ties.EVEN,
    )


def _truncate(task: TaskRegisters, element: Element) -> int:
    bits = task[CoreClip.CLIP_TRUNCATE]
    if bits and element is not Element.INT8:
        raise task.error(CoreClip.CLIP_TRUNCATE, f"sums of {element.name} that lose bits")
    return bits


def _check_reach(task: TaskRegisters, output: tuple[int, int], stride: tuple[int, int]) -> None:
    """Refuse an output of which most lies behind the input's end."""
    reach = output[0] * stride[0], output[1] * stride[1]
    if reach[0] * reach[1] > _MOST_PIXELS:
        raise task.error(CoreSize0, f"an output that reaches over {reach[0]}x{reach[1]} pixels")


def _source(task: TaskRegisters, context: Context, element: Element) -> Features | Image:
    generation = context.generation
    height, width = task[CnaDataSize0.DATAIN_HEIGHT], task[CnaDataSize0.DATAIN_WIDTH]
    channels = task[CnaDataSize1.DATAIN_CHANNEL]
    if not (height and width and channels):
        raise task.error(CnaDataSize0, "there is no input")
    address = task.address(CnaFeatureAddress)
    if packed := task[CnaConv1.ARGB_IN]:
        channels = packed - _PACKED
        line = generation.image_line(task, width, channels, element)
        image = Image(address, element, channels, height, width, line)
        context.memory.check(image_view(image))
        return image
    line, surface = generation.feature_strides(task, width)
    return context.check_features(
        Features(
            address, element, channels, height, width, line, surface, generation.atom_of(element)
        )
    )


def _valid_channels(task: TaskRegisters, context: Context, source: Features | Image) -> int:
    valid = task[CnaDataSize1.DATAIN_CHANNEL_REAL] + 1
    if isinstance(source, Image):
        return source.channels
    if context.generation.valid_channels_in_last_group:
        valid = min(valid, _CHANNEL_GROUP)
        valid += (source.channels - 1) // _CHANNEL_GROUP * _CHANNEL_GROUP
    return min(valid, source.channels)


def _conversion(
    task: TaskRegisters, context: Context, source: Features | Image
) -> InputConversion | None:
    if task[CnaConvert0.CVT_BYPASS]:
        return None
    element, how = source.element, context.generation.input_conversion(task)
    if context.pictures_are_quantised and isinstance(source, Image) and how.is_unsigned:
        return None
    is_identity = (how.offsets, how.scales, how.shifts) == _IDENTITY
    if element is Element.INT8:
        return None if is_identity and not how.is_unsigned else how
    if not is_identity:
        raise task.error(CnaConvert0.CVT_BYPASS, f"a conversion of {element.name} is not known")
    return None


def _padding_value(
    task: TaskRegisters, context: Context, element: Element, is_depthwise: bool
) -> float:
    word = task[CnaPad1.PAD_VALUE]
    if element is Element.FLOAT16:
        return half(word)
    if element is Element.BFLOAT16:
        if word:
            raise task.error(CnaPad1.PAD_VALUE, "padding bfloat16 with it is not known")
        return 0.0
    if not is_depthwise:
        return float(sign_extend(word, 16))
    if context.generation.pads_channels_in_pairs and word & 0xFF != word >> 8 & 0xFF:
        # A board pads even channels with the first byte, and the odd ones among the first 32 with
        # the second.
        raise task.error(CnaPad1.PAD_VALUE, "one value for even channels, one for odd ones")
    return float(sign_extend(word, 8))


def _weights(
    task: TaskRegisters, context: Context, element: Element, is_depthwise: bool
) -> Weights:
    height, width = task[CnaWeightSize2.WEIGHT_HEIGHT], task[CnaWeightSize2.WEIGHT_WIDTH]
    if not (height and width):
        raise task.error(CnaWeightSize2, "the kernels have no area")
    groups = context.generation.groups
    with_zero_points = _with_zero_points(task, context) if is_depthwise else 0
    if is_depthwise:
        size_field = CnaWeightSize0.WEIGHT_BYTES
        kernels, kernel_group = 1, 1
        channel_group = groups.depthwise[element.size]
    else:
        size_field = CnaWeightSize1.WEIGHT_BYTES_PER_KERNEL
        kernels = task[CnaWeightSize2.WEIGHT_KERNELS]
        kernel_group = groups.kernels[element.size]
        channel_group = groups.channels[element.size]
    if not task.state.enable_mask & _CORE_ENABLED:
        kernel_group, channel_group = kernels, 1
    size = task[size_field] // 2 if with_zero_points else task[size_field]
    channels, rest = divmod(size, height * width * element.size)
    if rest or not channels or not kernels:
        raise task.error(size_field, f"not whole channels of {height}x{width} {element.name}")
    row_bytes = 0 if is_depthwise else context.generation.weight_row_bytes(task)
    if row_bytes % element.size or 0 < row_bytes < width * channels * element.size:
        raise task.error(size_field, f"{width} places of {channels} channels in {row_bytes} bytes")
    if with_zero_points and channels * height * width % with_zero_points:
        raise task.error(size_field, f"not whole groups of {with_zero_points} weights")
    layout = WeightLayout(
        element,
        kernels,
        channels,
        height,
        width,
        kernel_group,
        channel_group,
        is_depthwise,
        with_zero_points,
        row_bytes,
    )
    return context.weights(task.address(CnaWeightAddress), layout)


def _with_zero_points(task: TaskRegisters, context: Context) -> int:
    """How many depthwise weights their zero points follow, which doubles the bytes, or 0."""
    if not context.generation.weights_with_zero_points:
        return 0
    total, own = task[CnaWeightSize0.WEIGHT_BYTES], task[CnaWeightSize1.WEIGHT_BYTES_PER_KERNEL]
    if total not in (own, 2 * own):
        raise task.error(CnaWeightSize0.WEIGHT_BYTES, f"a kernel has {own} bytes")
    return context.generation.weights_with_zero_points if total == 2 * own else 0
