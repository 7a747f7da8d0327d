"""The second operand of the element-wise stage."""

from __future__ import annotations

from ..elements import NOWHERE, Element, changed
from ..generations.settings import OperandKind
from ..registers.blocks import Enabled
from ..registers.quantities import Quantity
from ..task_registers import TaskRegisters
from ..tasks import Features
from .context import Context

_WORD_BYTES = 4
_OPERAND_REGISTERS = 8


def decode_operand(
    task: TaskRegisters, context: Context, shape: tuple[int, int, int], is_float: bool
) -> Features:
    """Features of the shape (C, H, W), one pixel of C channels for all, or one number a pixel."""
    given = shape, is_float
    form, combines = context.remembered.of(_operand, task, context, *given, by=given)
    address = task.address(Quantity.OPERAND)
    if combines:
        form = changed(form, address=task.address(Quantity.SOURCE), odd=address)
    else:
        form = changed(form, address=address)
    return context.check_features(form)


def _operand(
    task: TaskRegisters, context: Context, shape: tuple[int, int, int], is_float: bool
) -> tuple[Features, bool]:
    """The features, at no address yet; whether two DMAs read their surfaces in turn."""
    channels, height, width = shape
    if not task.state.enable_mask & Enabled.RDMA or task[Quantity.OPERAND_IS_OFF]:
        raise task.error(Quantity.OPERAND_IS_OFF, "the operand is to come from memory")
    element = _element(task, is_float)
    atom = context.generation.atom_of(element)
    kind = OperandKind(task[Quantity.OPERAND_KIND])
    if kind is OperandKind.PER_CHANNEL:
        return Features(NOWHERE, element, channels, 1, 1, atom, atom, atom), False
    if kind is OperandKind.PER_COLUMN:
        raise task.error(Quantity.OPERAND_KIND, "numbers for columns are not known here")
    if kind is OperandKind.PER_PIXEL:
        size = element.size
        line, surface = width * size, height * width * size
        return Features(NOWHERE, element, 1, height, width, line, surface, size), False
    notch = task[Quantity.OPERAND_SURFACE_NOTCH]
    if task[Quantity.COMBINES_SOURCES]:
        if not task.state.enable_mask & Enabled.CNA:
            raise task.error(Quantity.COMBINES_SOURCES, "two inputs for an operand as well")
        line, surface = width * atom, height * width * atom + notch
        return Features(NOWHERE, element, channels, height, width, line, surface, atom), True
    line_notch = task[Quantity.OPERAND_NOTCH]
    surface = (height * width + (height - 1) * line_notch) * atom + notch
    line = (width + line_notch) * atom
    return Features(NOWHERE, element, channels, height, width, line, surface, atom), False


def decode_columns(
    task: TaskRegisters, context: Context, shape: tuple[int, int, int], is_float: bool
) -> Features:
    """One number a column for all channels: a word each, for no more columns than registers."""
    _, height, width = shape
    is_known = task.state.enable_mask & Enabled.RDMA and not task[Quantity.OPERAND_IS_OFF]
    if not is_known or task[Quantity.OPERAND_KIND] != OperandKind.PER_COLUMN:
        raise task.error(Quantity.OPERAND_KIND, "numbers for columns are to come from memory")
    if height > 1 or width > _OPERAND_REGISTERS:
        raise task.error(Quantity.OPERAND_KIND, f"numbers for columns of {height}x{width} pixels")
    element, line = _element(task, is_float), width * _WORD_BYTES
    return context.check_features(
        Features(task.address(Quantity.OPERAND), element, 1, 1, width, line, line, _WORD_BYTES)
    )


def _element(task: TaskRegisters, is_float: bool) -> Element:
    if is_float:
        is_bfloat = task[Quantity.ELEMENT] == Element.BFLOAT16.value
        elements = {2: Element.BFLOAT16 if is_bfloat else Element.FLOAT16, 4: Element.FLOAT32}
    else:
        elements = {1: Element.INT8, 2: Element.INT16, 4: Element.INT32}
    size = task[Quantity.OPERAND_BYTES]
    if size not in elements:
        raise task.error(Quantity.OPERAND_BYTES, "no element of that size is known here")
    return elements[size]
