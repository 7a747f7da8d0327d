"""The CNA and CORE: which convolution a task computes."""

from __future__ import annotations

from dataclasses import dataclass

from ..elements import Element
from ..layout import image_view
from ..registers.blocks import Enabled
from ..registers.quantities import Quantity
from ..rounding import Ties
from ..task_registers import TaskRegisters, half
from ..tasks import Convolution, Features, Image, InputConversion
from ..weights import WeightLayout
from .context import Context

_MOST_PIXELS = 1 << 26
_IDENTITY = ((0,) * 4, (1,) * 4, (0,) * 4)


@dataclass(frozen=True)
class _Form:
    """What the tasks of one convolution have in common: all but addresses and heights.

    The strides of features are those of rows and surfaces; of a picture, `packed` channels side by
    side, and the registers that say it speak of its height as well.
    """

    element: Element
    packed: int
    channels: int
    width: int
    line: int
    surface: int
    valid_channels: int
    conversion: InputConversion | None
    weights: WeightLayout
    inserted: tuple[int, int]
    pad_left: int
    padding_value: float
    stride: tuple[int, int]
    dilation: tuple[int, int]
    output_width: int
    truncate: int
    truncate_ties: Ties


def decode_convolution(task: TaskRegisters, context: Context) -> Convolution:
    """The convolution, without the weight offset, which the DPU's registers hold."""
    form = context.remembered.of(_form, task, context)
    source = _source(task, context, form)
    weights = context.weights(task.address(Quantity.WEIGHTS), form.weights)
    is_depthwise = form.weights.is_depthwise
    channels = source.channels if is_depthwise else form.weights.kernels
    height, width = task[Quantity.OUTPUT_HEIGHT], form.output_width
    context.check_size((channels, height, width))
    _check_reach(task, (height, width), form.stride)
    return Convolution(
        source,
        source.channels if isinstance(source, Image) else min(form.valid_channels, source.channels),
        form.conversion,
        weights,
        form.inserted,
        (task[Quantity.PAD_TOP], form.pad_left),
        form.padding_value,
        form.stride,
        form.dilation,
        None,
        channels,
        height,
        width,
        form.truncate,
        form.truncate_ties,
    )


def _form(task: TaskRegisters, context: Context) -> _Form:
    element = Element(task[Quantity.CONVOLUTION_ELEMENT])
    width, channels = task[Quantity.INPUT_WIDTH], task[Quantity.INPUT_CHANNELS]
    if not (width and channels):
        raise task.error(Quantity.INPUT_HEIGHT, "there is no input")
    packed = task.picture_channels()
    is_depthwise = bool(task[Quantity.IS_DEPTHWISE])
    weights = _weights(task, context, element, is_depthwise)
    if (packed or channels) > weights.channels:
        raise task.error(Quantity.INPUT_CHANNELS, f"the weights have {weights.channels} channels")
    return _Form(
        element,
        packed,
        channels,
        width,
        task[Quantity.PICTURE_LINE] if packed else task[Quantity.INPUT_LINE],
        0 if packed else task[Quantity.INPUT_SURFACE],
        0 if packed else task[Quantity.VALID_CHANNELS],
        _conversion(task, context, element, is_picture=bool(packed)),
        weights,
        (task[Quantity.INSERTED_ROWS], task[Quantity.INSERTED_COLUMNS]),
        task[Quantity.PAD_LEFT],
        _padding_value(task, element),
        (task[Quantity.STRIDE_Y], task[Quantity.STRIDE_X]),
        (task[Quantity.DILATION_Y], task[Quantity.DILATION_X]),
        task[Quantity.OUTPUT_WIDTH],
        _truncate(task, element),
        Ties.UP if task[Quantity.TRUNCATES_UP] else Ties.EVEN,
    )


def _truncate(task: TaskRegisters, element: Element) -> int:
    bits = task[Quantity.TRUNCATED_BITS]
    if bits and element is not Element.INT8:
        raise task.error(Quantity.TRUNCATED_BITS, f"sums of {element.name} that lose bits")
    return bits


def _check_reach(task: TaskRegisters, output: tuple[int, int], stride: tuple[int, int]) -> None:
    """Refuse an output of which most lies past the input's end."""
    reach = output[0] * stride[0], output[1] * stride[1]
    if reach[0] * reach[1] > _MOST_PIXELS:
        raise task.error(
            Quantity.OUTPUT_HEIGHT, f"an output that reaches over {reach[0]}x{reach[1]} pixels"
        )


def _source(task: TaskRegisters, context: Context, form: _Form) -> Features | Image:
    height = task[Quantity.INPUT_HEIGHT]
    if not height:
        raise task.error(Quantity.INPUT_HEIGHT, "there is no input")
    address, element = task.address(Quantity.FEATURES), form.element
    if form.packed:
        image = Image(address, element, form.packed, height, form.width, form.line)
        context.memory.check(image_view(image))
        return image
    atom = context.generation.atom_of(element)
    return context.check_features(
        Features(address, element, form.channels, height, form.width, form.line, form.surface, atom)
    )


def _conversion(
    task: TaskRegisters, context: Context, element: Element, *, is_picture: bool
) -> InputConversion | None:
    how = context.generation.input_conversion(task)
    if how is None:
        return None
    if context.pictures_are_quantised and is_picture and how.is_unsigned:
        return None
    is_identity = (how.offsets, how.scales, how.shifts) == _IDENTITY
    if element is Element.INT8:
        return None if is_identity and not how.is_unsigned else how
    if not is_identity:
        raise task.error(
            Quantity.CONVOLUTION_ELEMENT, f"a conversion of {element.name} is not known"
        )
    return None


def _padding_value(task: TaskRegisters, element: Element) -> float:
    value = task[Quantity.PADDING_VALUE]
    if element is Element.FLOAT16:
        return half(value)
    if element is Element.BFLOAT16:
        if value:
            raise task.error(Quantity.PADDING_VALUE, "padding bfloat16 with it is not known")
        return 0.0
    return float(value)


def _weights(
    task: TaskRegisters, context: Context, element: Element, is_depthwise: bool
) -> WeightLayout:
    height, width = task[Quantity.KERNEL_HEIGHT], task[Quantity.KERNEL_WIDTH]
    if not (height and width):
        raise task.error(Quantity.KERNEL_HEIGHT, "the kernels have no area")
    groups = context.generation.groups
    with_zero_points = task[Quantity.ZERO_POINTS] if is_depthwise else 0
    if is_depthwise:
        says_size = Quantity.DEPTHWISE_BYTES
        kernels, kernel_group = 1, 1
        channel_group = groups.depthwise[element.size]
    else:
        says_size = Quantity.KERNEL_BYTES
        kernels = task[Quantity.KERNELS]
        kernel_group = groups.kernels[element.size]
        channel_group = groups.channels[element.size]
    if not task.state.enable_mask & Enabled.CORE:
        kernel_group, channel_group = kernels, 1
    size = task[says_size] // 2 if with_zero_points else task[says_size]
    channels, rest = divmod(size, height * width * element.size)
    if rest or not channels or not kernels:
        raise task.error(says_size, f"not whole channels of {height}x{width} {element.name}")
    row_bytes = 0 if is_depthwise else task[Quantity.ROW_BYTES]
    if row_bytes % element.size or 0 < row_bytes < width * channels * element.size:
        raise task.error(says_size, f"{width} places of {channels} channels in {row_bytes} bytes")
    if with_zero_points and channels * height * width % with_zero_points:
        raise task.error(says_size, f"not whole groups of {with_zero_points} weights")
    return WeightLayout(
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
