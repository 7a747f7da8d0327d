"""What RK3588's CNA and CORE say of a convolution."""

from __future__ import annotations

from ...elements import Element
from ...registers.fields import sign_extend
from ...registers.quantities import Quantity
from ...rounding import Ties
from ...task_registers import Derived, TaskRegisters
from ...tasks import InputConversion, OffsetPlace
from ..base import always
from .cna import (
    CnaBuffer1,
    CnaConv1,
    CnaConv3,
    CnaConvert0,
    CnaConvert1,
    CnaConvert2,
    CnaConvert3,
    CnaConvert4,
    CnaDataSize1,
    CnaDma1,
    CnaDma2,
    CnaPad1,
    CnaWeightSize0,
)
from .core import CoreMisc

_ATOM = 16
_WORD = 4
_CHANNEL_GROUP = 64
DEPTHWISE = 3
"""The mode of a depthwise convolution."""


def is_depthwise(task: TaskRegisters) -> int:
    """Both blocks say it."""
    says = task[CoreMisc.DW_EN]
    if says != (task[CnaConv1.CONV_MODE] == DEPTHWISE):
        raise task.error(CnaConv1.CONV_MODE, f"{CoreMisc.title} has DW_EN = {says}")
    return says


def valid_channels(task: TaskRegisters) -> int:
    """The register has those of the last 64."""
    before = (task[Quantity.INPUT_CHANNELS] - 1) // _CHANNEL_GROUP * _CHANNEL_GROUP
    return min(task[CnaDataSize1.DATAIN_CHANNEL_REAL], _CHANNEL_GROUP) + before


def inserted_rows(task: TaskRegisters) -> int:
    """Rows that a transposed convolution inserts."""
    return task[CnaConv3.DECONV_Y_STRIDE] if task[CnaConv1.DECONV] else 0


def inserted_columns(task: TaskRegisters) -> int:
    """Columns that a transposed convolution inserts."""
    return task[CnaConv3.DECONV_X_STRIDE] if task[CnaConv1.DECONV] else 0


def _line(task: TaskRegisters) -> int:
    return task[CnaDma1.LINE_STRIDE] * (_ATOM if task[CnaConv1.GROUP_LINE_OFF] else _WORD)


def _surface(task: TaskRegisters) -> int:
    """The register counts atoms from the end of a surface's first row."""
    in_atoms = task[CnaConv1.GROUP_LINE_OFF]
    row = task[Quantity.INPUT_WIDTH] if in_atoms else task[CnaDma1.LINE_STRIDE]
    return (task[CnaDma2.SURF_STRIDE] + row) * _ATOM


def filled_row(task: TaskRegisters, atom: int) -> int:
    """Bytes of a picture's row where each channel fills up whole atoms."""
    element = Element(task[Quantity.CONVOLUTION_ELEMENT])
    return filled_width(task, atom) * task.picture_channels() * element.size


def filled_width(task: TaskRegisters, atom: int) -> int:
    """The pixels that such a row takes."""
    pixels = atom // Element(task[Quantity.CONVOLUTION_ELEMENT]).size
    return -(-task[Quantity.INPUT_WIDTH] // pixels) * pixels


def _picture_line(task: TaskRegisters) -> int:
    """Bytes between rows of a packed picture.

    They are fetched as they follow each other: in the graph's input and where a picture is cut
    into columns filled up to whole atoms a channel, else without gaps. Of columns the register
    says twice their distance; of others the buffer's pixels tell which it is.
    """
    width, height = task[Quantity.INPUT_WIDTH], task[Quantity.INPUT_HEIGHT]
    line, entries = task[CnaDma1.LINE_STRIDE], task[CnaBuffer1.DATA_ENTRIES]
    filled = filled_width(task, _ATOM)
    if line == 2 * filled or (line == width and entries == filled * height):
        return filled_row(task, _ATOM)
    if line != width or (entries != width * height and height > 1):
        raise task.error(CnaDma1.LINE_STRIDE, f"not known of a picture of {width} columns")
    return width * task.picture_channels() * Element(task[Quantity.CONVOLUTION_ELEMENT]).size


def _padding_value(task: TaskRegisters) -> int:
    word = task[CnaPad1.PAD_VALUE]
    if Element(task[Quantity.CONVOLUTION_ELEMENT]).is_float:
        return word
    if not task[Quantity.IS_DEPTHWISE]:
        return sign_extend(word, 16)
    if sign_extend(word, 8) != sign_extend(word >> 8, 8):
        # A board pads even channels with the first byte, and the odd ones among the first 32 with
        # the second.
        raise task.error(CnaPad1.PAD_VALUE, "one value for even channels, one for odd ones")
    return sign_extend(word, 8)


def offset_place(adds_first: int) -> OffsetPlace:
    """Where the conversion's offset is added."""
    # The second turns pictures of bytes into a model's int8: scale and zero point are the model's.
    return OffsetPlace.BEFORE_SCALE if adds_first else OffsetPlace.AFTER_SHIFT


def input_conversion(task: TaskRegisters) -> InputConversion | None:
    """What the CNA does to its input."""
    return None if task[CnaConvert0.CVT_BYPASS] else conversion_of(task)


def conversion_of(task: TaskRegisters) -> InputConversion:
    """The same, where it is on: a scale and an offset a register."""
    return InputConversion(
        offset_place(task[CnaConvert0.CVT_TYPE]),
        (
            task[CnaConvert1.OFFSET],
            task[CnaConvert2.OFFSET],
            task[CnaConvert3.OFFSET],
            task[CnaConvert4.OFFSET],
        ),
        (
            task[CnaConvert1.SCALE],
            task[CnaConvert2.SCALE],
            task[CnaConvert3.SCALE],
            task[CnaConvert4.SCALE],
        ),
        (
            task[CnaConvert0.CVT_TRUNCATE_0],
            task[CnaConvert0.CVT_TRUNCATE_1],
            task[CnaConvert0.CVT_TRUNCATE_2],
            task[CnaConvert0.CVT_TRUNCATE_3],
        ),
        not task[CnaConvert0.DATA_SIGN],
        Ties.UP if task[CnaConvert0.ROUND_TYPE] else Ties.EVEN,
    )


DERIVED = {
    Quantity.IS_DEPTHWISE: Derived(is_depthwise, CnaConv1.CONV_MODE),
    Quantity.VALID_CHANNELS: Derived(valid_channels, CnaDataSize1.DATAIN_CHANNEL_REAL),
    Quantity.INSERTED_ROWS: Derived(inserted_rows, CnaConv3.DECONV_Y_STRIDE),
    Quantity.INSERTED_COLUMNS: Derived(inserted_columns, CnaConv3.DECONV_X_STRIDE),
    Quantity.INPUT_LINE: Derived(_line, CnaDma1.LINE_STRIDE),
    Quantity.INPUT_SURFACE: Derived(_surface, CnaDma2.SURF_STRIDE),
    Quantity.PICTURE_LINE: Derived(_picture_line, CnaDma1.LINE_STRIDE),
    Quantity.PADDING_VALUE: Derived(_padding_value, CnaPad1.PAD_VALUE),
    Quantity.ROW_BYTES: always(0, CnaWeightSize0),
    Quantity.ZERO_POINTS: always(0, CnaWeightSize0),
}
