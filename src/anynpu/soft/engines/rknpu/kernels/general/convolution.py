"""Convolutions: gathered rows times packed weights, or depthwise, then the DPU.

Weights stay as the file, or another task's output, has them: a kernel turns as many of them into
float32 as it multiplies at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ......native.memory import address_of
from ......native.threads import thread_count
from ...elements import Element
from ...layout import image_view, weight_view, written
from ...memory import Memory, Strided
from ...reference.convolution import convert_input
from ...rounding import Ties
from ...tasks import Convolution, ConvolutionTask, Dpu, Features, Image
from ...weights import StoredOperand, Weights, widen
from .. import structures
from ..arguments import features_of, window_of
from ..rearranging import is_known_writer
from ..steps import WORK_OF_A_RESULT, KernelStep, Plan, Scratch
from ..structures import Method
from ..value_ranges import FLOAT_SUMS, largest_input
from . import kernels
from .arguments import DpuArguments, is_known, is_supported, stages_are_exact
from .followed import FollowedPlan
from .targets import Target, read_operands, stored_operands

_TILE_BYTES = 3 << 17
"""Gathered rows that are multiplied at a time, so that they stay in the cache."""

_FEWEST, _MOST = 48, 240
"""Pixels whose sums are kept together."""

_TOGETHER = 2
"""How often as many pixels a tile has where all that a kernel sees is packed at once."""

_PIXELS_OF_LINES = 2048
"""Pixels of output rows for which rows of the input, some of which they share, are widened once."""

_WIDEST = 512
"""Pixels of an output row that is computed at once."""

_MANY_GROUPS = 8
"""Groups of channels that threads share, rather than rows of all of them."""

_PARTS_OF_A_GROUP = 2
"""In how many parts pixels of fewer groups are shared."""

_ROWS_OF_A_PART = 4
"""How often as many rows as both of two neighbours read are computed by one of them."""

_SKEW = 16
"""Floats between rows: a kernel may write this many past a row, and rows of 4096 bytes would share
sets of the cache."""

_LARGEST_WEIGHT = 128.0
_LARGEST_PADDING = 1 << 15

_WORK_OF_A_PRODUCT = 2
"""What a product of floats costs, in products of a dense int8 convolution."""

_WORK_OF_A_PLACE = 8
"""The same for a depthwise product."""

_WORK_OF_GATHERING = 40
"""The same for a float of the rows that kernels see, where they are gathered beforehand."""

_WORK_OF_A_GROUP = 3e4
"""The same for what has to be prepared for each group of channels."""


def plan_convolution(task: ConvolutionTask) -> Plan | None:
    """A plan, where the kernels know the task."""
    convolution = task.convolution
    shape = convolution.shape
    if not _is_known(convolution) or not is_supported(task.dpu, shape):
        return None
    if task.dpu.reduction or not is_known_writer(task.writer):
        return None
    if convolution.source.element.is_float != task.dpu.is_float:
        return None
    if not task.dpu.is_float and not _is_exact(task):
        return None
    target = convolution_target(task)
    return _kind(convolution)(task, target) if target.is_known else None


def convolution_target(task: ConvolutionTask, after: Dpu | None = None) -> Target:
    """Where results go, those of the task or of stages that follow it."""
    size = (after or task.dpu).output.element.size
    return Target(
        written(task, after), task.convolution.shape, size, _reads(task), read_operands(task.dpu)
    )


def _kind(convolution: Convolution) -> type[_Convolution]:
    if convolution.weights.layout.is_depthwise:
        return _Depthwise
    return _Lines if _has_small_kernels(convolution) else _Dense


def _has_small_kernels(convolution: Convolution) -> bool:
    """Whether neighbours see much of the same, or pictures that lie as they are needed.

    Then the input is widened once, rather than for each place of a kernel. What a kernel sees are
    lines of a few pixels with all their channels, of which there are few.
    """
    source, layout = convolution.source, convolution.weights.layout
    seen = layout.height * layout.width * _seen_channels(convolution)
    return (
        (layout.height * layout.width > 1 or isinstance(source, Image))
        and source.element.is_float
        and seen <= structures.CHUNK
        and convolution.inserted == (0, 0)
        and convolution.dilation[1] == 1
        and min(convolution.stride) > 0
        and convolution.width <= _WIDEST
        and convolution.height * convolution.width > _MOST
    )


def _is_known(convolution: Convolution) -> bool:
    layout, source = convolution.weights.layout, convolution.source
    if source.element.is_float != layout.element.is_float:
        return False
    if layout.with_zero_points:
        return False
    if source.element.is_float:
        if convolution.conversion or convolution.weight_offset is not None:
            return False
    elif not _knows_integers(convolution):
        return False
    if isinstance(source, Features):
        return is_known(source)
    return not layout.is_depthwise


def _knows_integers(convolution: Convolution) -> bool:
    layout, padding = convolution.weights.layout, convolution.padding_value
    elements = convolution.source.element, layout.element
    return (
        elements == (Element.INT8, Element.INT8)
        and not (layout.is_depthwise and convolution.conversion)
        and not isinstance(convolution.weight_offset, StoredOperand)
        and convolution.truncate_ties is not Ties.AWAY
        and float(padding).is_integer()
        and abs(padding) <= _LARGEST_PADDING
    )


def _is_exact(task: ConvolutionTask) -> bool:
    """Whether float32 holds sums of integers, of dense ones a chunk's, and double what follows."""
    convolution = task.convolution
    layout, offset = convolution.weights.layout, convolution.weight_offset
    offsets = np.asarray(0 if offset is None else offset, np.float64)
    largest = largest_input(convolution) * (_LARGEST_WEIGHT + float(np.abs(offsets).max()))
    places = layout.height * layout.width
    products = places if layout.is_depthwise else places * convolution.source.channels
    together = places if layout.is_depthwise else structures.CHUNK
    return largest * together < FLOAT_SUMS and stages_are_exact(task.dpu, largest * products)


def _reads(task: ConvolutionTask) -> list[Features | Strided]:
    source, weights = task.convolution.source, task.convolution.weights
    reads = [source if isinstance(source, Features) else image_view(source)]
    if not weights.is_constant:
        reads.append(weight_view(weights))
    return [*reads, *stored_operands(task.dpu)]


def _has_exact_products(convolution: Convolution) -> bool:
    """Whether float32 holds every product, so that adding may be fused with multiplying."""
    elements = convolution.source.element, convolution.weights.layout.element
    with np.errstate(over="ignore"):
        padding = float(np.float16(convolution.padding_value))
    if elements == (Element.INT8, Element.INT8):
        return True
    return elements == (Element.FLOAT16, Element.FLOAT16) and padding == convolution.padding_value


def _seen_channels(convolution: Convolution) -> int:
    """How many channels count: products with those that are zero everywhere change no sum."""
    weights, valid = convolution.weights, convolution.valid_channels
    if convolution.padding_value != 0 or convolution.conversion or weights.layout.is_depthwise:
        return convolution.source.channels
    if valid < convolution.source.channels and weights.data is not None:
        values = np.ascontiguousarray(weights.data).view(weights.layout.element.dtype)
        if np.isfinite(widen(values, weights.layout.element)).all():
            return valid
    return convolution.source.channels


def _weights(
    weights: Weights, offsets: NDArray[np.float32] | None, memory: Memory
) -> structures.Weights:
    layout, data = weights.layout, weights.data
    base = memory.pointer(weight_view(weights)) if data is None else memory.constant(data)
    return structures.Weights(
        base, layout.element.value, layout.kernels, layout.channels, layout.kernel_group,
        layout.channel_group, None if offsets is None else address_of(offsets),
        layout.row_bytes // layout.element.size,
    )  # fmt: skip


def _offsets(convolution: Convolution, groups: int) -> NDArray[np.float32] | None:
    """What is added to each kernel's weights, in whole groups."""
    offset = convolution.weight_offset
    if offset is None or isinstance(offset, StoredOperand):
        return None
    result = np.zeros(groups * structures.GROUP, np.float32)
    flat = np.asarray(offset, np.float32).reshape(-1)
    result[: flat.size if flat.size > 1 else None] = flat
    return result


def _converted_bytes(convolution: Convolution) -> NDArray[np.float32] | None:
    """(4, 256): what the input conversion makes of each byte, by channel % 4."""
    if convolution.conversion is None:
        return None
    values = np.tile(np.arange(-128, 128, dtype=np.float32), (4, 1))
    return convert_input(values, convolution.conversion)


def _truncation(convolution: Convolution) -> tuple[float, bool]:
    """What integer sums are multiplied by, and whether halves go up."""
    return 2.0**-convolution.truncate, convolution.truncate_ties is Ties.UP


class _Convolution(FollowedPlan):
    """What dense and depthwise convolutions have in common."""

    def __init__(self, task: ConvolutionTask, target: Target) -> None:
        convolution = self._convolution = task.convolution
        self._target = target
        self._dpu = DpuArguments(task.dpu, convolution.shape)
        self._groups = -(-convolution.channels // structures.GROUP)
        self._is_fused = _has_exact_products(convolution)
        self._channels = _seen_channels(convolution)
        self._bytes = _converted_bytes(convolution)
        self._offsets = _offsets(convolution, self._groups)
        self.shared_bytes = target.shared_bytes

    def _common(self, memory: Memory, writer: structures.Writer) -> tuple[ctypes.Structure, ...]:
        """What both structures begin with."""
        convolution = self._convolution
        features = features_of(convolution.source, memory, convolution.valid_channels)
        features.channels = self._channels
        if self._bytes is not None:
            features.conversion = address_of(self._bytes)
        return (
            self._dpu.bind(memory),
            writer,
            features,
            window_of(convolution),
            _weights(convolution.weights, self._offsets, memory),
        )


class _Dense(_Convolution):
    """Tiles of output pixels: gather what they see, multiply, finish.

    Where there are few pixels, their rows are gathered first, and threads share the kernels.
    """

    def __init__(self, task: ConvolutionTask, target: Target) -> None:
        super().__init__(task, target)
        convolution, layout = self._convolution, self._convolution.weights.layout
        self._depth = layout.height * layout.width * self._channels + _SKEW
        most = min(max(_TILE_BYTES // (4 * self._depth), _FEWEST), _MOST)
        pixels = self._pixels = convolution.height * convolution.width
        self._is_gathered = pixels <= most
        self._together = self._tile = _parts(pixels, most)
        if self._depth - _SKEW <= structures.CHUNK and not self._is_gathered:
            self._tile = _parts(pixels, most * _TOGETHER)
            self._together = _parts(self._tile, most)
        self._row_bytes = self._tile * self._depth * 4
        if self._is_gathered and self._groups < _MANY_GROUPS:
            parts = min(_PARTS_OF_A_GROUP, thread_count())
            self._together = self._tile = _parts(pixels, -(-pixels // parts))
        totals = 1 if convolution.source.element.is_float else 3
        self.own_bytes = (structures.CHUNK + self._together * totals) * structures.GROUP * 4
        if self._is_gathered:
            self.shared_bytes += self._row_bytes
        else:
            self.own_bytes += self._row_bytes

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        rows = self._row_bytes if self._is_gathered else 0
        writer, after = self._target.bind(memory, scratch.shared[rows:])
        arguments = structures.Dense(
            *self._common(memory, writer),
            address_of(scratch.shared) if self._is_gathered else None,
            self._tile,
            self._together,
            self._depth,
            0,
            self._is_fused,
            *_truncation(self._convolution),
        )
        keeps = self, memory, scratch
        pixels, lanes = float(self._pixels), self._groups * structures.GROUP
        work = pixels * lanes * (self._depth * _WORK_OF_A_PRODUCT + WORK_OF_A_RESULT)
        dense = kernels.kernel("dense")
        if not self._is_gathered:
            step = KernelStep(
                dense, arguments, self._pixels, work, multiple=self._tile, keeps=keeps
            )
            return [step, *after]
        gather = KernelStep(
            kernels.kernel("gather"), arguments, self._pixels,
            pixels * self._depth * _WORK_OF_GATHERING, keeps=keeps,
        )  # fmt: skip
        units = self._groups * -(-self._pixels // self._tile)
        return [gather, KernelStep(dense, arguments, units, work, keeps=keeps), *after]


class _Lines(_Convolution):
    """Output rows: widen the input's rows, multiply them where they lie, finish."""

    def __init__(self, task: ConvolutionTask, target: Target) -> None:
        super().__init__(task, target)
        convolution, layout = self._convolution, self._convolution.weights.layout
        (stride, across), width = convolution.stride, convolution.width
        self._columns = (width - 1) * across + layout.width
        self._depth = self._columns * self._channels + _SKEW
        most = max(1, min(_PIXELS_OF_LINES // width, _TILE_BYTES // (4 * self._depth * stride)))
        parts = -(-convolution.height // most)
        self._tile = -(-convolution.height // (-(-parts // thread_count()) * thread_count()))
        rows = (self._tile - 1) * stride + (layout.height - 1) * convolution.dilation[0] + 1
        self.own_bytes = ((structures.CHUNK + width) * structures.GROUP + rows * self._depth) * 4

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        writer, after = self._target.bind(memory, scratch.shared)
        convolution, layout = self._convolution, self._convolution.weights.layout
        arguments = structures.Dense(
            *self._common(memory, writer), None, self._tile, convolution.width, self._depth,
            self._columns, self._is_fused, *_truncation(convolution),
        )  # fmt: skip
        results = float(convolution.height * convolution.width) * self._groups * structures.GROUP
        seen = layout.height * layout.width * self._channels
        step = KernelStep(
            kernels.kernel("lines"), arguments, convolution.height,
            results * (seen * _WORK_OF_A_PRODUCT + WORK_OF_A_RESULT), multiple=self._tile,
            keeps=(self, memory, scratch),
        )  # fmt: skip
        return [step, *after]


def _evenly(units: int, least: int) -> int:
    """Units of parts that threads share evenly, each of at least `least`."""
    parts, threads = units // least, thread_count()
    return -(-units // (parts - parts % threads if parts >= threads else parts))


def _parts(pixels: int, most: int) -> int:
    """Pixels of parts that threads share evenly, each of at most `most`."""
    parts = -(-pixels // most)
    threads = thread_count()
    if parts > 1:
        parts = -(-parts // threads) * threads
    return -(-pixels // (parts * structures.ROWS)) * structures.ROWS


class _Depthwise(_Convolution):
    """Rows of the input in a ring, one group of channels after the other."""

    def __init__(self, task: ConvolutionTask, target: Target) -> None:
        super().__init__(task, target)
        convolution, layout = self._convolution, self._convolution.weights.layout
        ring = (layout.height - 1) * convolution.dilation[0] + 1
        columns = (convolution.width - 1) * convolution.stride[1]
        columns += (layout.width - 1) * convolution.dilation[1] + 1
        self._places = layout.height * layout.width
        self.own_bytes = (self._places + ring * columns) * structures.GROUP * 4

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        convolution = self._convolution
        writer, after = self._target.bind(memory, scratch.shared)
        arguments = structures.Depthwise(
            *self._common(memory, writer), Method.PRODUCTS, self._is_fused, False,
            *_truncation(convolution),
        )  # fmt: skip
        per_result = self._places * _WORK_OF_A_PLACE + WORK_OF_A_RESULT
        results = float(convolution.channels) * convolution.height * convolution.width
        return [channel_step(arguments, results * per_result, (self, memory, scratch)), *after]


def channel_step(arguments: structures.Depthwise, work: float, keeps: object) -> KernelStep:
    """A step whose units are groups of channels, or where there are few of them rows."""
    groups = -(-arguments.writer.channels // structures.GROUP)
    window = arguments.window
    reach = (window.height - 1) * window.dilation_y + 1
    multiple = _ROWS_OF_A_PART * -(-reach // max(window.stride_y, 1))
    arguments.by_rows = groups < _MANY_GROUPS and window.out_height >= 2 * multiple
    if arguments.by_rows:
        multiple = _evenly(window.out_height, multiple)
    units = window.out_height if arguments.by_rows else groups
    return KernelStep(
        kernels.kernel("depthwise"), arguments, units, work + groups * _WORK_OF_A_GROUP,
        multiple=multiple if arguments.by_rows else 1, keeps=keeps,
    )  # fmt: skip
