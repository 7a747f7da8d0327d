"""What RK3576's CNA and CORE say of a convolution, and those of its like."""

from __future__ import annotations

from .....formats.rknn.model import Relocation
from ...elements import Element
from ...registers.fields import sign_extend
from ...registers.quantities import Quantity
from ...rounding import Ties
from ...task_registers import Derived, TaskRegisters
from ...tasks import InputConversion, OffsetPlace
from ..base import always
from .cna import (
    ATOM,
    CnaBuffer,
    CnaConv1,
    CnaConvert0,
    CnaFeatureAddress,
    CnaFetched,
    CnaInputSize,
    CnaLine,
    CnaOffset0,
    CnaOffset1,
    CnaOffset2,
    CnaOffset3,
    CnaPadValue,
    CnaScales0,
    CnaScales1,
    CnaWeightOffset,
    CnaWeightSize0,
    CnaWeightSize1,
    CoreClip,
    CoreMisc,
    CoreSize0,
)

_WORD = 4
_PICTURE_CHANNELS = 4
_TWO_BY_TWO = 2
"""Depthwise weights come two at a time with their two zero points behind them."""

_PADDING_BITS, _DEPTHWISE_SUM = 8, 2
_HALF_RANGE = 128


def check_sizes(task: TaskRegisters) -> None:
    """Raise `ModelError` where the sizes of a convolution contradict each other."""
    _check_kept_rows(task)
    if window := _window(task):
        size = task.own(Quantity.OUTPUT_HEIGHT), task.own(Quantity.OUTPUT_WIDTH)
        if size != (1, window[0] * window[1]):
            raise task.error(CoreSize0)


def depthwise_weight_offset(task: TaskRegisters) -> int:
    """What is added to depthwise weights, by the CNA; 0 for dense ones."""
    if not task[CnaConv1.DEPTHWISE]:
        return 0
    value = task[CnaWeightOffset.OFFSET]
    if task[CnaWeightOffset.AGAIN] != value:
        raise task.error(CnaWeightOffset)
    # As with pairs of weights and zero points, -128 stands for 128.
    return -value if value == -_HALF_RANGE else value


def is_picture(task: TaskRegisters) -> bool:
    """Whether the input's channels lie side by side."""
    return bool(task[Quantity.PICTURE_FORMAT])


def _line_unit(task: TaskRegisters) -> int:
    return ATOM if task[CnaConv1.GROUP_LINE_OFF] else _WORD


def _input_line(task: TaskRegisters) -> int:
    return task[CnaLine.LINE_STRIDE] * _line_unit(task)


def _kept_rows(task: TaskRegisters) -> int:
    return task.own(Quantity.INPUT_HEIGHT) - task[Quantity.FETCHED_HEIGHT]


def _is_whole(task: TaskRegisters) -> bool:
    """Whether what is fetched is as wide as what a convolution works on."""
    return task.own(Quantity.INPUT_WIDTH) == task[Quantity.FETCHED_WIDTH]


def kept_bytes(task: TaskRegisters) -> int:
    """How many bytes before the features' address the first row is that the task works on."""
    kept = _kept_rows(task)
    if kept < 0 or is_picture(task) or not _is_whole(task):
        return 0
    return kept * _input_line(task)


def follows(
    task: TaskRegisters, features: Relocation, before: TaskRegisters, fetched: Relocation
) -> bool:
    """Whether a task fetches on where the one before, of which rows are kept, has ended.

    A compiler lets kernels of two rows fetch the kept row again, and lose the last one.
    """
    line = _input_line(task)
    return (
        line == _input_line(before)
        and features.buffer == fetched.buffer
        and features.addend == fetched.addend + before[Quantity.FETCHED_HEIGHT] * line
    )


def _check_kept_rows(task: TaskRegisters) -> None:
    kept = _kept_rows(task)
    if not kept or _window(task):
        return
    if kept < 0 or not task[CnaBuffer.KEEPS_ROWS] or is_picture(task):
        raise task.error(CnaFetched)


def _window(task: TaskRegisters) -> tuple[int, int] | None:
    """The height and width of what is fetched, where a 1x1 convolution sees it as one row."""
    if _is_whole(task) or is_picture(task):
        return None
    height, width = task[Quantity.FETCHED_HEIGHT], task[Quantity.FETCHED_WIDTH]
    size = task.own(Quantity.INPUT_HEIGHT), task.own(Quantity.INPUT_WIDTH)
    plain = {
        Quantity.KERNEL_HEIGHT: 1,
        Quantity.KERNEL_WIDTH: 1,
        Quantity.PAD_TOP: 0,
        Quantity.PAD_LEFT: 0,
        Quantity.STRIDE_Y: 1,
        Quantity.STRIDE_X: 1,
        Quantity.DILATION_Y: 1,
        Quantity.DILATION_X: 1,
        Quantity.INSERTED_ROWS: 0,
        Quantity.INSERTED_COLUMNS: 0,
    }
    if size != (1, height * width) or any(task[what] != one for what, one in plain.items()):
        raise task.error(CnaFetched)
    return height, width


def _input_height(task: TaskRegisters) -> int:
    window = _window(task)
    return window[0] if window else task.own(Quantity.INPUT_HEIGHT)


def _input_width(task: TaskRegisters) -> int:
    window = _window(task)
    return window[1] if window else task.own(Quantity.INPUT_WIDTH)


def _output_height(task: TaskRegisters) -> int:
    window = _window(task)
    return window[0] if window else task.own(Quantity.OUTPUT_HEIGHT)


def _output_width(task: TaskRegisters) -> int:
    window = _window(task)
    return window[1] if window else task.own(Quantity.OUTPUT_WIDTH)


def _is_depthwise(task: TaskRegisters) -> int:
    """Both blocks say it."""
    sums = bool(task[CoreMisc.KIND] & _DEPTHWISE_SUM)
    if task[CnaConv1.DEPTHWISE] != sums:
        raise task.error(CnaConv1.DEPTHWISE, f"{CoreMisc.title} has KIND = {task[CoreMisc.KIND]}")
    return sums


def _valid_channels(task: TaskRegisters) -> int:
    return task[Quantity.INPUT_CHANNELS]


def _picture_line(task: TaskRegisters) -> int:
    width = task[Quantity.INPUT_WIDTH]
    element = Element(task[Quantity.CONVOLUTION_ELEMENT])
    line = task[CnaLine.LINE_STRIDE] * ATOM
    if line < width * task.picture_channels() * element.size:
        raise task.error(CnaLine.LINE_STRIDE, f"less than {width} columns")
    return line


def _kernel_bytes(task: TaskRegisters) -> int:
    """The kernel as if it weren't packed."""
    if not task[CnaConv1.ROWS]:
        return task.own(Quantity.KERNEL_BYTES)
    return task[Quantity.KERNEL_HEIGHT] * task[Quantity.KERNEL_WIDTH] * _PICTURE_CHANNELS


def _row_bytes(task: TaskRegisters) -> int:
    """What the rows of a packed kernel take in memory, filled up to 16 bytes."""
    stored, height = task.own(Quantity.KERNEL_BYTES), task[Quantity.KERNEL_HEIGHT]
    if stored == task[Quantity.KERNEL_BYTES]:
        return 0
    if stored % height:
        raise task.error(CnaWeightSize1, f"not whole rows of {height}")
    return stored // height


def _zero_points(task: TaskRegisters) -> int:
    """How many depthwise weights their zero points follow, which doubles the bytes, or 0."""
    total, own = task[Quantity.DEPTHWISE_BYTES], task[Quantity.KERNEL_BYTES]
    if total not in (own, 2 * own):
        raise task.error(CnaWeightSize0.WEIGHT_BYTES, f"a kernel has {own} bytes")
    return _TWO_BY_TWO if total == 2 * own else 0


def _padding_value(task: TaskRegisters) -> int:
    word = task[CnaPadValue.PAD_VALUE]
    is_float = Element(task[Quantity.CONVOLUTION_ELEMENT]).is_float
    return word if is_float else sign_extend(word, _PADDING_BITS)


def input_conversion(task: TaskRegisters) -> InputConversion | None:
    """What the CNA does to its input: two scales a register, then one offset a register."""
    if task[CnaConvert0.CVT_BYPASS]:
        return None
    return InputConversion(
        OffsetPlace.BEFORE_SCALE if task[CnaConvert0.CVT_TYPE] else OffsetPlace.AFTER_SHIFT,
        (
            task[CnaOffset0.OFFSET],
            task[CnaOffset1.OFFSET],
            task[CnaOffset2.OFFSET],
            task[CnaOffset3.OFFSET],
        ),
        (
            task[CnaScales0.FIRST],
            task[CnaScales0.SECOND],
            task[CnaScales1.THIRD],
            task[CnaScales1.FOURTH],
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
    Quantity.INPUT_HEIGHT: Derived(_input_height, CnaInputSize.HEIGHT),
    Quantity.INPUT_WIDTH: Derived(_input_width, CnaInputSize.WIDTH),
    Quantity.OUTPUT_HEIGHT: Derived(_output_height, CoreSize0.HEIGHT),
    Quantity.OUTPUT_WIDTH: Derived(_output_width, CoreSize0.WIDTH),
    Quantity.INPUT_LINE: Derived(_input_line, CnaLine.LINE_STRIDE),
    Quantity.PICTURE_LINE: Derived(_picture_line, CnaLine.LINE_STRIDE),
    Quantity.VALID_CHANNELS: Derived(_valid_channels, CnaFeatureAddress),
    Quantity.IS_DEPTHWISE: Derived(_is_depthwise, CnaConv1.DEPTHWISE),
    Quantity.KERNEL_BYTES: Derived(_kernel_bytes, CnaWeightSize1.WEIGHT_BYTES_PER_KERNEL),
    Quantity.ROW_BYTES: Derived(_row_bytes, CnaWeightSize1.WEIGHT_BYTES_PER_KERNEL),
    Quantity.ZERO_POINTS: Derived(_zero_points, CnaWeightSize0.WEIGHT_BYTES),
    Quantity.PADDING_VALUE: Derived(_padding_value, CnaPadValue.PAD_VALUE),
    Quantity.TRUNCATES_UP: always(0, CoreClip),
}
