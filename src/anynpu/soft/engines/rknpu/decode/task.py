"""One task: which pipeline its enable mask starts, and what flows through it."""

from __future__ import annotations

from dataclasses import replace

from .....errors import ModelError
from ..elements import Element
from ..registers.dpu import (
    DpuBn,
    DpuBs,
    DpuBsOw,
    DpuChannel,
    DpuDataFormat,
    DpuEw,
    DpuFeatureMode,
    DpuHeight,
    DpuOutOffset,
    DpuOutScale,
    DpuOutShift,
    DpuWidth,
)
from ..registers.rdma import (
    RdmaChannel,
    RdmaEwAddress,
    RdmaFeatureMode,
    RdmaHeight,
    RdmaSource,
    RdmaSourceDma,
    RdmaSurfaceNotch,
    RdmaWidth,
)
from ..task_registers import TaskRegisters
from ..tasks import ConvolutionTask, CopyTask, ElementwiseTask, Features, Task, Writer
from .context import Context
from .convolution import decode_convolution
from .pooling import decode_pooling
from .stages import bs_operands, decode_dpu, decode_weight_offset
from .writer import decode_writer

_CNA, _CORE, _DPU, _RDMA = 1 << 0, 1 << 2, 1 << 3, 1 << 4
_PPU, _PPU_RDMA = 1 << 5, 1 << 6
_CNA2 = 1 << 1
"""A second CNA of RK3566, which has no registers of its own here."""

_CONVOLUTIONS = {_CNA | _CORE | _DPU, _CNA | _CORE | _DPU | _RDMA}
_POOLING = _PPU | _PPU_RDMA


def decode_task(task: TaskRegisters, context: Context) -> Task:
    """What a task computes; raises `ModelError` for what isn't known or leaves memory."""
    decoded = _decode(task, context)
    context.check_written(decoded)
    return decoded


def _decode(task: TaskRegisters, context: Context) -> Task:
    mask = task.state.enable_mask & ~_CNA2
    if mask == _POOLING:
        return decode_pooling(task, context)
    is_bare = mask == _CNA | _DPU and context.generation.works_without_core
    if mask & ~_PPU in _CONVOLUTIONS or is_bare:
        return _convolution(task, context)
    if mask & ~_PPU == _DPU | _RDMA:
        return _from_memory(task, context)
    raise ModelError(f"the enable mask {task.state.enable_mask:#x} is not known")


def _convolution(task: TaskRegisters, context: Context) -> ConvolutionTask:
    convolution = decode_convolution(task, context)
    shape = convolution.shape
    is_float = convolution.source.element.is_float
    parts = bs_operands(task, context, shape[0], is_float)
    offset = decode_weight_offset(task, is_float, parts)
    dpu = decode_dpu(task, context, shape, is_float, parts)
    if dpu.reduction:
        dpu = context.generation.reduced(task, dpu, shape)
    return ConvolutionTask(
        task.state.index,
        task.state.node,
        replace(convolution, weight_offset=offset),
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
    if task[RdmaSourceDma.UNPOOLING_EN]:
        repeats = _repeats(task)
        shape = (source.surfaces * repeats[0], source.height, source.width * repeats[1])
        return CopyTask(
            index, node, source, repeats, decode_writer(task, context, shape, source.element)
        )
    channels = _written_channels(task, source)
    if _only_moves(task, source.element) and not _pads(task, source, channels):
        if not _transposes(task):
            source = replace(source, channels=channels)
        shape = (source.surfaces, source.height, source.width)
        return CopyTask(
            index, node, source, (1, 1), decode_writer(task, context, shape, source.element)
        )
    source = replace(source, channels=channels)
    is_float = source.element.is_float
    parts = bs_operands(task, context, channels, is_float)
    dpu = decode_dpu(task, context, source.shape, is_float, parts)
    writer = _channel_writer(task, context, source.shape, dpu.output.element, source.element)
    return ElementwiseTask(index, node, source, dpu, writer)


def _source(task: TaskRegisters, context: Context) -> Features:
    element = Element(task[RdmaFeatureMode.IN_PRECISION])
    process = Element(task[DpuDataFormat.PROC_PRECISION])
    if element is Element.INT16 and process is Element.FLOAT16:
        # "Raw 16 bits" in and out, around arithmetic in float16.
        element = Element.FLOAT16
    height, width = task[RdmaHeight.HEIGHT] + 1, task[RdmaWidth.WIDTH] + 1
    notch = context.generation.source_line_notch(task)
    atom = context.generation.atom_of(element)
    surface = (height * width + (height - 1) * notch) * atom + task.stride(RdmaSurfaceNotch)
    is_combined = task[RdmaFeatureMode.COMB_USE] & 1
    return context.check_features(
        Features(
            task.address(RdmaSource),
            element,
            task[RdmaChannel.CHANNEL] + 1,
            height,
            width,
            (width + notch) * atom,
            surface,
            atom,
            task.address(RdmaEwAddress) if is_combined else None,
        )
    )


def _repeats(task: TaskRegisters) -> tuple[int, int]:
    kernel = (task[RdmaSourceDma.KERNEL_HEIGHT] + 1, task[RdmaSourceDma.KERNEL_WIDTH] + 1)
    stride = (
        task[RdmaSourceDma.KERNEL_STRIDE_HEIGHT] + 1,
        task[RdmaSourceDma.KERNEL_STRIDE_WIDTH] + 1,
    )
    if kernel != stride:
        raise task.error(RdmaSourceDma, "un-pooling is only known with kernels as its strides")
    return kernel


def _transposes(task: TaskRegisters) -> bool:
    return bool(task[DpuFeatureMode.TP_EN] or task[DpuBsOw.TP_ORG_EN])


def _written_channels(task: TaskRegisters, source: Features) -> int:
    """The channels that are written; the lanes behind them are padded.

    Transposers and packers take whole atoms.
    """
    channels = min(task[DpuChannel.CHANNEL] + 1, source.channels)
    pixels = (task[DpuHeight.HEIGHT] + 1) * (task[DpuWidth.WIDTH] + 1)
    if pixels > source.height * source.width and channels <= source.channels - source.lanes:
        raise task.error(DpuChannel, f"{source.channels} channels as fewer are not known")
    if _transposes(task) or task[DpuFeatureMode.NONALIGN]:
        return channels
    own = min(task[DpuChannel.ORIG_CHANNEL] + 1, channels)
    is_padding = -(-own // source.lanes) == source.surfaces
    return own if is_padding else channels


def _pads(task: TaskRegisters, source: Features, channels: int) -> bool:
    """Whether lanes without a channel get something else than the source has there."""
    is_packed = task[DpuFeatureMode.NONALIGN]
    return not (_transposes(task) or is_packed) and channels % source.lanes != 0


def _only_moves(task: TaskRegisters, element: Element) -> bool:
    """Whether every stage is off, so that the bytes go through as they are."""
    return (
        all(task[stage.BYPASS] for stage in (DpuBs, DpuBn, DpuEw))
        and task[DpuDataFormat.OUT_PRECISION] == element.value
        and task[DpuOutScale.OUT_CVT_SCALE] == 1
        and not task[DpuOutShift.OUT_CVT_SHIFT]
        and not task.word(DpuOutOffset)
        and not task[DpuHeight.MINMAX_CTL] & 1
    )
