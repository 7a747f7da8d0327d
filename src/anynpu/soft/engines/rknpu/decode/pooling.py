"""The PPU: pooling."""

from __future__ import annotations

import math

from ..elements import Element
from ..registers.fields import sign_extend
from ..registers.ppu import (
    PpuDataFormat,
    PpuDestination,
    PpuInChannel,
    PpuInHeight,
    PpuInWidth,
    PpuKernel,
    PpuMode,
    PpuOutHeight,
    PpuOutWidth,
    PpuPadding,
    PpuPaddingValue,
    PpuReciprocalHeight,
    PpuReciprocalWidth,
    PpuSource,
    PpuSourceLine,
    PpuSourceSurface,
    PpuSurfaceStride,
)
from ..task_registers import TaskRegisters, half
from ..tasks import BlockWriter, Features, PoolingMethod, PoolingTask
from .context import Context


def decode_pooling(task: TaskRegisters, context: Context) -> PoolingTask:
    """The pooling of features in memory."""
    element = Element(task[PpuDataFormat.PROC_PRECISION])
    atom = context.generation.atom_of(element)
    source = context.check_features(
        Features(
            task.address(PpuSource),
            element,
            task[PpuInChannel.CUBE_IN_CHANNEL] + 1,
            task[PpuInHeight.CUBE_IN_HEIGHT] + 1,
            task[PpuInWidth.CUBE_IN_WIDTH] + 1,
            task.stride(PpuSourceLine),
            task.stride(PpuSourceSurface),
            atom,
        )
    )
    height, width = task[PpuOutHeight.CUBE_OUT_HEIGHT] + 1, task[PpuOutWidth.CUBE_OUT_WIDTH] + 1
    method = PoolingMethod(task[PpuMode.POOLING_METHOD])
    if task[PpuMode.COUNTS_INSIDE] and method is not PoolingMethod.AVERAGE:
        raise task.error(PpuMode.COUNTS_INSIDE, "only an average counts")
    writer = BlockWriter(
        task.address(PpuDestination),
        height,
        width,
        (width + task[PpuMode.NOTCH_ADDR]) * atom,
        task.stride(PpuSurfaceStride),
        source.surfaces,
        0,
        atom,
        0,
    )
    return PoolingTask(
        task.state.index,
        task.state.node,
        source,
        method,
        (task[PpuKernel.KERNEL_HEIGHT] + 1, task[PpuKernel.KERNEL_WIDTH] + 1),
        (task[PpuKernel.KERNEL_STRIDE_HEIGHT] + 1, task[PpuKernel.KERNEL_STRIDE_WIDTH] + 1),
        (task[PpuPadding.PAD_TOP], task[PpuPadding.PAD_LEFT]),
        _padding_value(task, method, element),
        _reciprocals(task, element),
        height,
        width,
        writer,
        bool(task[PpuMode.COUNTS_INSIDE]),
    )


def _padding_value(task: TaskRegisters, method: PoolingMethod, element: Element) -> float:
    if method is PoolingMethod.AVERAGE:
        word = task[PpuPaddingValue.PAD_VALUE_0]
        return half(word) if element.is_float else float(sign_extend(word, 16))
    if element.is_float:
        return -math.inf if method is PoolingMethod.MAX else math.inf
    return -128.0 if method is PoolingMethod.MAX else 127.0


def _reciprocals(task: TaskRegisters, element: Element) -> tuple[float, float]:
    height = task[PpuReciprocalHeight.RECIP_KERNEL_HEIGHT]
    width = task[PpuReciprocalWidth.RECIP_KERNEL_WIDTH]
    if element.is_float:
        return _reciprocal(height), _reciprocal(width)
    return height / 65536, width / 65536


def _reciprocal(word: int) -> float:
    """A float16, scaled by 2^16; 1 is what would be infinity elsewhere."""
    return min(half(word), 65536.0) / 65536
