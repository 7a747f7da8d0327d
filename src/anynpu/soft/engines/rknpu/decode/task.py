"""One task: which pipeline its enable mask starts, and what flows through it."""

from __future__ import annotations

from dataclasses import replace

from .....errors import ModelError
from ..elements import Element, changed
from ..registers.blocks import Enabled
from ..registers.quantities import Quantity
from ..task_registers import TaskRegisters
from ..tasks import ConvolutionTask, CopyTask, ElementwiseTask, Features, Task, Writer
from .context import Context
from .convolution import decode_convolution
from .pooling import decode_pooling
from .stages import decode_dpu
from .writer import decode_writer

_POOLING = Enabled.PPU | Enabled.PPU_RDMA
_FROM_MEMORY = Enabled.DPU | Enabled.RDMA


def decode_task(task: TaskRegisters, context: Context) -> Task:
    """What a task computes; raises `ModelError` for what isn't known or leaves memory."""
    decoded = _decode(task, context)
    context.check_written(decoded)
    return decoded


def _decode(task: TaskRegisters, context: Context) -> Task:
    mask = Enabled(task.state.enable_mask) & ~Enabled.CNA2
    if mask == _POOLING:
        return decode_pooling(task, context)
    if mask & ~Enabled.PPU in context.generation.convolutions:
        return _convolution(task, context)
    if mask & ~Enabled.PPU == _FROM_MEMORY:
        return _from_memory(task, context)
    raise ModelError(f"the enable mask {task.state.enable_mask:#x} is not known")


def _convolution(task: TaskRegisters, context: Context) -> ConvolutionTask:
    convolution = decode_convolution(task, context)
    shape = convolution.shape
    dpu, offset = decode_dpu(task, context, shape, convolution.source.element.is_float)
    if dpu.reduction:
        dpu = context.generation.reduced(task, dpu, shape)
    return ConvolutionTask(
        task.state.index,
        task.state.node,
        changed(convolution, weight_offset=offset),
        dpu,
        _channel_writer(task, context, dpu.reduced_shape(shape), dpu.output.element),
    )


def _channel_writer(
    task: TaskRegisters,
    context: Context,
    shape: tuple[int, int, int],
    element: Element,
    source: Element | None = None,
) -> Writer:
    lanes = context.generation.atom_of(element) // element.size
    return decode_writer(task, context, (-(-shape[0] // lanes), *shape[1:]), element, source)


def _from_memory(task: TaskRegisters, context: Context) -> Task:
    source = _source(task, context)
    index, node = task.state.index, task.state.node
    if task[Quantity.UNPOOLS]:
        repeats = _repeats(task)
        shape = (source.surfaces * repeats[0], source.height, source.width * repeats[1])
        return CopyTask(
            index, node, source, repeats, decode_writer(task, context, shape, source.element)
        )
    channels = _written_channels(task, source)
    if _only_moves(task, context, source.element) and not _pads(task, source, channels):
        if not _transposes(task):
            source = replace(source, channels=channels)
        shape = (source.surfaces, source.height, source.width)
        return CopyTask(
            index, node, source, (1, 1), decode_writer(task, context, shape, source.element)
        )
    source = replace(source, channels=channels)
    dpu, _ = decode_dpu(task, context, source.shape, source.element.is_float)
    writer = _channel_writer(task, context, source.shape, dpu.output.element, source.element)
    return ElementwiseTask(index, node, source, dpu, writer)


def _source(task: TaskRegisters, context: Context) -> Features:
    element = Element(task[Quantity.SOURCE_ELEMENT])
    process = Element(task[Quantity.ELEMENT])
    if element is Element.INT16 and process is Element.FLOAT16:
        # "Raw 16 bits" in and out, around arithmetic in float16.
        element = Element.FLOAT16
    height, width = task[Quantity.SOURCE_HEIGHT], task[Quantity.SOURCE_WIDTH]
    notch = task[Quantity.SOURCE_NOTCH]
    atom = context.generation.atom_of(element)
    # What is left out between rows counts the chip's atoms, also where an element has larger ones.
    gap = notch * context.generation.atom
    rows = height * width * atom + (height - 1) * gap
    surface = rows + task[Quantity.SOURCE_SURFACE_NOTCH]
    return context.check_features(
        Features(
            task.address(Quantity.SOURCE),
            element,
            task[Quantity.SOURCE_CHANNELS],
            height,
            width,
            width * atom + gap,
            surface,
            atom,
            task.address(Quantity.OPERAND) if task[Quantity.COMBINES_SOURCES] else None,
        )
    )


def _repeats(task: TaskRegisters) -> tuple[int, int]:
    kernel = task[Quantity.UNPOOLED_HEIGHT], task[Quantity.UNPOOLED_WIDTH]
    stride = task[Quantity.UNPOOLED_STRIDE_Y], task[Quantity.UNPOOLED_STRIDE_X]
    if kernel != stride:
        raise task.error(Quantity.UNPOOLS, "un-pooling is only known with kernels as its strides")
    return kernel


def _transposes(task: TaskRegisters) -> bool:
    return bool(task[Quantity.TRANSPOSES_ATOMS] or task[Quantity.TRANSPOSES_PIXELS])


def _written_channels(task: TaskRegisters, source: Features) -> int:
    """The channels that are written; the lanes past them are padded.

    Transposers and packers take whole atoms.
    """
    channels = min(task[Quantity.CHANNELS], source.channels)
    pixels = task[Quantity.HEIGHT] * task[Quantity.WIDTH]
    if pixels > source.height * source.width and channels <= source.channels - source.lanes:
        raise task.error(Quantity.CHANNELS, f"{source.channels} channels as fewer are not known")
    if _transposes(task) or task[Quantity.PACKS]:
        return channels
    own = min(task[Quantity.OWN_CHANNELS], channels)
    is_padding = -(-own // source.lanes) == source.surfaces
    return own if is_padding else channels


def _pads(task: TaskRegisters, source: Features, channels: int) -> bool:
    """Whether lanes without a channel get something else than the source has there."""
    return not (_transposes(task) or task[Quantity.PACKS]) and channels % source.lanes != 0


def _only_moves(task: TaskRegisters, context: Context, element: Element) -> bool:
    """Whether every stage is off, so that the bytes go through as they are."""
    stages = (*context.generation.stages(task), context.generation.elementwise(task))
    return (
        all(stage is None for stage in stages)
        and task[Quantity.OUTPUT_ELEMENT] == element.value
        and task[Quantity.OUTPUT_SCALE] == 1
        and not task[Quantity.OUTPUT_SHIFT]
        and not task[Quantity.OUTPUT_OFFSET]
        and not task[Quantity.REDUCTION] & 1
    )
