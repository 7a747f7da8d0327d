"""What RV1106's CNA and CORE say of a convolution."""

from __future__ import annotations

from ...elements import Element
from ...registers.blocks import Enabled
from ...registers.fields import sign_extend
from ...registers.quantities import Quantity
from ...rounding import Ties
from ...task_registers import Derived, TaskRegisters
from ...tasks import InputConversion, OffsetPlace
from ..base import always
from ..rk3588.cna import CnaDataSize1, CnaDma1, CnaPad1, CnaWeightSize0, CnaWeightSize1
from ..rk3588.convolution import DEPTHWISE, filled_row, valid_channels
from ..rk3588.core import CoreSize0
from ..truncation import check_told_again
from .registers import (
    ATOM,
    CnaConv1,
    CnaConvert0,
    CnaConvert1,
    CnaConvert2,
    CnaConvert3,
    CnaConvert4,
    CnaSkip,
    CnaThirdOffset,
    CoreClip,
    CoreMisc,
)

_WORD = 4
_PADDING_BITS, _DEPTHWISE_PADDING_BITS = 16, 8


def check_convolution(task: TaskRegisters) -> None:
    """Raise `ModelError` for what isn't known of the convolution's registers together."""
    if task[CnaSkip.SKIPS] and not _is_bare(task):
        raise task.error(CnaSkip)
    check_told_again(task, CoreClip.AGAIN)
    lowest, bits = task[CnaConvert0.LOWEST_BITS], CnaConvert0.LOWEST_BITS
    repeated = bits.mask * (task[CnaConvert3.OFFSET] >> task[CnaConvert0.CVT_TRUNCATE_0] & 1)
    if task[CnaConvert0.DATA_SIGN] and lowest not in (0, repeated):
        raise task.error(bits)


def _is_bare(task: TaskRegisters) -> bool:
    """Whether a task works without the CORE."""
    return not task.state.enable_mask & Enabled.CORE


def _is_depthwise(task: TaskRegisters) -> int:
    return task[CnaConv1.CONV_MODE] == DEPTHWISE or task[CoreMisc.DW_EN]


def _output_height(task: TaskRegisters) -> int:
    """Without the CORE block its size is the DPU's."""
    return task[Quantity.HEIGHT] if _is_bare(task) else task.own(Quantity.OUTPUT_HEIGHT)


def _output_width(task: TaskRegisters) -> int:
    return task[Quantity.WIDTH] if _is_bare(task) else task.own(Quantity.OUTPUT_WIDTH)


def _kernel_bytes(task: TaskRegisters) -> int:
    if not _is_bare(task):
        return task.own(Quantity.KERNEL_BYTES)
    return task[CnaWeightSize0.WEIGHT_BYTES] // max(1, task[Quantity.KERNELS])


def _input_channels(task: TaskRegisters) -> int:
    """Without the CORE there may be fewer weights than the input has channels."""
    said = task.own(Quantity.INPUT_CHANNELS)
    if not _is_bare(task):
        return said
    return min(said, task[Quantity.KERNEL_BYTES] // Element.FLOAT16.size)


def _valid_channels(task: TaskRegisters) -> int:
    return task[Quantity.INPUT_CHANNELS] if _is_bare(task) else valid_channels(task)


def _zero_points(task: TaskRegisters) -> int:
    """How many depthwise weights their zero points follow, which doubles the bytes, or 0."""
    total, own = task[Quantity.DEPTHWISE_BYTES], task[Quantity.KERNEL_BYTES]
    if total not in (own, 2 * own):
        raise task.error(CnaWeightSize0.WEIGHT_BYTES, f"a kernel has {own} bytes")
    return 1 if total == 2 * own else 0


def _input_line(task: TaskRegisters) -> int:
    return task[CnaDma1.LINE_STRIDE] * (ATOM if task[CnaConv1.GROUP_LINE_OFF] else _WORD)


def _picture_line(task: TaskRegisters) -> int:
    """Each channel fills up atoms; the register counts those of all rows, or twice as many."""
    line = filled_row(task, ATOM)
    area = line * task[Quantity.INPUT_HEIGHT] // ATOM
    if task[CnaDma1.LINE_STRIDE] not in (area, 2 * area):
        raise task.error(CnaDma1.LINE_STRIDE, f"a picture of {area} atoms has it otherwise")
    return line


def _padding_value(task: TaskRegisters) -> int:
    word = task[CnaPad1.PAD_VALUE]
    is_float = Element(task[Quantity.CONVOLUTION_ELEMENT]).is_float
    is_byte = task[Quantity.IS_DEPTHWISE] and not is_float
    return sign_extend(word, _DEPTHWISE_PADDING_BITS if is_byte else _PADDING_BITS)


def input_conversion(task: TaskRegisters) -> InputConversion | None:
    """What the CNA does to its input.

    Two scales a register, then offsets that are shifted up already. Of what isn't a picture they
    are the zero point times the scale, rounded to a whole number (9 x 0.931 gives 8).
    """
    if task[CnaConvert0.CVT_BYPASS]:
        return None
    one, two = task[CnaConvert3.OFFSET], task[CnaConvert4.OFFSET]
    is_unsigned = not task[CnaConvert0.DATA_SIGN]
    if task[CnaConvert0.CVT_TYPE] or (one != two and not is_unsigned):
        raise task.error(CnaConvert0, "the conversion is not known")
    # Pictures of bytes have three channels, and the third offset a register of its own.
    return InputConversion(
        OffsetPlace.BEFORE_SHIFT,
        (one, two, task[CnaThirdOffset.OFFSET], 0) if is_unsigned else (one,) * 4,
        (
            task[CnaConvert1.FIRST_SCALE],
            task[CnaConvert1.SECOND_SCALE],
            task[CnaConvert2.THIRD_SCALE],
            task[CnaConvert2.FOURTH_SCALE],
        ),
        (
            task[CnaConvert0.CVT_TRUNCATE_0],
            task[CnaConvert0.CVT_TRUNCATE_1],
            task[CnaConvert0.CVT_TRUNCATE_2],
            task[CnaConvert0.CVT_TRUNCATE_3],
        ),
        is_unsigned,
        Ties.UP if task[CnaConvert0.ROUND_TYPE] else Ties.EVEN,
    )


DERIVED = {
    Quantity.IS_DEPTHWISE: Derived(_is_depthwise, CoreMisc.DW_EN),
    Quantity.OUTPUT_HEIGHT: Derived(_output_height, CoreSize0.DATAOUT_HEIGHT),
    Quantity.OUTPUT_WIDTH: Derived(_output_width, CoreSize0.DATAOUT_WIDTH),
    Quantity.KERNEL_BYTES: Derived(_kernel_bytes, CnaWeightSize1.WEIGHT_BYTES_PER_KERNEL),
    Quantity.INPUT_CHANNELS: Derived(_input_channels, CnaDataSize1.DATAIN_CHANNEL),
    Quantity.VALID_CHANNELS: Derived(_valid_channels, CnaDataSize1.DATAIN_CHANNEL_REAL),
    Quantity.ZERO_POINTS: Derived(_zero_points, CnaWeightSize0.WEIGHT_BYTES),
    Quantity.ROW_BYTES: always(0, CnaWeightSize0),
    Quantity.INPUT_LINE: Derived(_input_line, CnaDma1.LINE_STRIDE),
    Quantity.PICTURE_LINE: Derived(_picture_line, CnaDma1.LINE_STRIDE),
    Quantity.PADDING_VALUE: Derived(_padding_value, CnaPad1.PAD_VALUE),
    Quantity.TRUNCATES_UP: always(0, CoreClip),
}
