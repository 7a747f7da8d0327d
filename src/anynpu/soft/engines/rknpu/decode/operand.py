"""The second operand of the element-wise stage."""

from __future__ import annotations

from ..elements import Element
from ..registers.dpu import DpuDataFormat, DpuEw
from ..registers.rdma import (
    RdmaEw,
    RdmaEwAddress,
    RdmaEwSurfaceNotch,
    RdmaFeatureMode,
    RdmaSource,
)
from ..task_registers import TaskRegisters
from ..tasks import Features
from .context import Context

_CNA_ENABLED, _RDMA_ENABLED = 1 << 0, 1 << 4
_PER_CHANNEL, _PER_PIXEL = 0, 2
COLUMNS = 2
"""DATA_MODE of numbers for the columns, which RDMA puts into the operand registers."""

_WORD_BYTES = 4
_OPERAND_REGISTERS = 8


def decode_operand(
    task: TaskRegisters, context: Context, shape: tuple[int, int, int], is_float: bool
) -> Features:
    """Features of the shape (C, H, W), one pixel of C channels for all, or one number a pixel."""
    channels, height, width = shape
    if not task.state.enable_mask & _RDMA_ENABLED or task[RdmaEw.DISABLE]:
        raise task.error(RdmaEw.DISABLE, "the operand is to come from memory")
    element = _element(task, is_float)
    atom = context.generation.atom_of(element)
    address = task.address(RdmaEwAddress)
    if task[RdmaEw.DATA_MODE] == _PER_CHANNEL:
        return context.check_features(Features(address, element, channels, 1, 1, atom, atom, atom))
    if task[RdmaEw.DATA_MODE] == _PER_PIXEL:
        if not context.generation.has_pixel_operands:
            raise task.error(RdmaEw.DATA_MODE, "it is only known on RV1106")
        size = element.size
        return context.check_features(
            Features(address, element, 1, height, width, width * size, height * width * size, size)
        )
    notch = task.stride(RdmaEwSurfaceNotch)
    if task[RdmaFeatureMode.COMB_USE] & 1:
        if not task.state.enable_mask & _CNA_ENABLED:
            raise task.error(RdmaFeatureMode.COMB_USE, "two inputs for an operand as well")
        line, surface = width * atom, height * width * atom + notch
        source = task.address(RdmaSource)
        return context.check_features(
            Features(source, element, channels, height, width, line, surface, atom, address)
        )
    line_notch = context.generation.operand_line_notch(task)
    surface = (height * width + (height - 1) * line_notch) * atom + notch
    line = (width + line_notch) * atom
    return context.check_features(
        Features(address, element, channels, height, width, line, surface, atom)
    )


def decode_columns(
    task: TaskRegisters, context: Context, shape: tuple[int, int, int], is_float: bool
) -> Features:
    """One number a column for all channels: a word each, for no more columns than registers."""
    _, height, width = shape
    is_known = task.state.enable_mask & _RDMA_ENABLED and not task[RdmaEw.DISABLE]
    if not is_known or task[RdmaEw.DATA_MODE] != COLUMNS:
        raise task.error(RdmaEw.DATA_MODE, "numbers for columns are to come from memory")
    if height > 1 or width > _OPERAND_REGISTERS:
        raise task.error(DpuEw.DATA_MODE, f"numbers for columns of {height}x{width} pixels")
    element, line = _element(task, is_float), width * _WORD_BYTES
    return context.check_features(
        Features(task.address(RdmaEwAddress), element, 1, 1, width, line, line, _WORD_BYTES)
    )


def _element(task: TaskRegisters, is_float: bool) -> Element:
    size = 1 << task[RdmaEw.DATA_SIZE] >> 1
    if is_float:
        is_bfloat = task[DpuDataFormat.PROC_PRECISION] == Element.BFLOAT16.value
        elements = {2: Element.BFLOAT16 if is_bfloat else Element.FLOAT16, 4: Element.FLOAT32}
    else:
        elements = {1: Element.INT8, 2: Element.INT16, 4: Element.INT32}
    if size not in elements:
        raise task.error(RdmaEw.DATA_SIZE, "no element of that size is known here")
    return elements[size]
