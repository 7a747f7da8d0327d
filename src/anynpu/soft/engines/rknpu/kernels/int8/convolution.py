"""int8 convolutions: gathered rows times a matrix, or depthwise, then the DPU."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ......native.memory import address_of, aligned_bytes
from ...elements import Element
from ...layout import written
from ...memory import Memory
from ...reference.weights import effective_weights
from ...rounding import Ties
from ...tasks import BlockWriter, Convolution, ConvolutionTask, Dpu, Features, Image, PhaseWriter
from ...weights import StoredOperand, unpack_weights
from .. import structures
from ..aliasing import in_place, overlap
from ..arguments import features_of, window_of
from ..steps import WORK_OF_A_RESULT, KernelStep, Plan, Scratch
from ..structures import BLOCK, COLUMNS, LANES, PAIRED_TOGETHER, SLICE
from ..value_ranges import INTEGER_SUMS, largest_input, leaving_core
from . import kernels
from .arguments import writer_of
from .dense_weights import DenseWeights, dense_weights
from .stages import DpuArguments, is_supported, operand_of, signature, stage_arguments

_LARGEST_PADDING = _LARGEST_SHORT = 32767

_TILE_BYTES = 1 << 17
_LARGEST_TILE = 4 * BLOCK
"""Gathered rows that are multiplied at a time, so that they and their sums stay in the cache."""
_SMALL_TILE, _WHOLE_ROWS = 2 * BLOCK, 4
"""What isn't worth halving; and as many rows as fill a vector with their results."""

_BAND_BYTES = 1 << 17
"""The same for the rows of a depthwise convolution."""

_FEW_PIXELS = 512
_PARTS = 8
"""Few pixels with many kernels: threads share the kernels instead of the pixels."""

_WORK_OF_A_PAIR = 4
"""What two products of a depthwise convolution cost, in products of a dense one."""

_WORK_OF_PAIRING = 20
"""What laying out a value as pairs costs."""

_WORK_OF_GATHERING = 20
"""What moving a value into a row costs."""

_VECTOR, _ALIASED = 16, 512
_SUM = 4
"""Bytes of a row's sum, which forms with products of bytes keep after it."""


_prepared: WeakKeyDictionary[
    DenseWeights, dict[tuple[Hashable, ...], tuple[Dpu, DpuArguments | None]]
] = WeakKeyDictionary()
"""By signature; the stages are kept with what follows from them, and so are their arrays."""


def plan_convolution(task: ConvolutionTask) -> Plan | None:
    """A plan, where the kernels know the task and its exactness is proved."""
    convolution, writer = task.convolution, task.writer
    if not isinstance(writer, BlockWriter | PhaseWriter) or not _is_known(convolution):
        return None
    if not _operand_may_be_read(task):
        return None
    if convolution.weights.layout.is_depthwise:
        return _plan_depthwise(task, writer.atom)
    return _plan_dense(task, writer.atom)


def _plan_dense(task: ConvolutionTask, lanes: int) -> Plan | None:
    weights = dense_weights(task.convolution)
    if weights is None:
        return None
    dpu = _stages(task, lanes, weights)
    return None if dpu is None else _Dense(task, dpu, weights)


def _stages(task: ConvolutionTask, lanes: int, weights: DenseWeights) -> DpuArguments | None:
    """The stages where sums and they are exact: tasks of one convolution have the same ones."""
    convolution, dpu = task.convolution, task.dpu
    if not is_supported(dpu, convolution.shape, lanes):
        return None
    largest = largest_input(convolution)
    key = signature(dpu), convolution.channels, lanes, largest, convolution.truncate
    known = _prepared.setdefault(weights, {})
    if key not in known:
        sums = weights.magnitudes * largest
        entering = leaving_core(convolution, sums)
        stages = stage_arguments(dpu, convolution.shape, lanes, entering)
        known[key] = dpu, stages if sums.max() < INTEGER_SUMS else None
    return known[key][1]


def _plan_depthwise(task: ConvolutionTask, lanes: int) -> Plan | None:
    source = task.convolution.source
    if isinstance(source, Image) or source.atom != lanes:
        return None
    weights = _depthwise_weights(task.convolution)
    magnitudes = np.abs(weights).sum((1, 2), dtype=np.float64)
    sums = magnitudes * largest_input(task.convolution)
    entering = leaving_core(task.convolution, sums)
    dpu = stage_arguments(task.dpu, task.convolution.shape, lanes, entering)
    is_exact = sums.max() < INTEGER_SUMS and np.abs(weights).max() <= _LARGEST_SHORT
    if not is_exact or dpu is None or _overwrites_input(task):
        return None
    return _Depthwise(task, dpu, weights)


def _is_known(convolution: Convolution) -> bool:
    weights = convolution.weights
    if not _is_known_source(convolution.source) or not weights.is_constant:
        return False
    if convolution.conversion or any(convolution.inserted) or 0 in convolution.stride:
        return False
    if weights.layout.with_zero_points and not weights.layout.is_depthwise:
        return False
    if isinstance(convolution.weight_offset, StoredOperand):
        return False
    if convolution.truncate_ties is Ties.AWAY:
        return False
    padding = float(convolution.padding_value)
    return padding.is_integer() and abs(padding) <= _LARGEST_PADDING


def _is_known_source(source: Features | Image) -> bool:
    is_odd = isinstance(source, Features) and source.odd is not None
    return source.element is Element.INT8 and not is_odd


def _operand_may_be_read(task: ConvolutionTask) -> bool:
    stage = task.dpu.elementwise
    if stage is None or not isinstance(stage.operand, Features):
        return True
    return not overlap(stage.operand, written(task)) or in_place(stage.operand, task.writer)


def _overwrites_input(task: ConvolutionTask) -> bool:
    source = task.convolution.source
    if isinstance(source, Image):
        surface = Features(
            source.address,
            source.element,
            1,
            source.height,
            source.width * source.channels,
            source.line,
            0,
            1,
        )
        return overlap(surface, written(task))
    return overlap(source, written(task))


def _depthwise_weights(convolution: Convolution) -> NDArray[np.float32]:
    """Whole numbers (channels, height, width)."""
    stored = convolution.weights
    assert stored.data is not None, "only constant weights have plans"
    # What `stored.values` caches would stay as long as the model.
    values = unpack_weights(stored.data, stored.layout)
    return effective_weights(convolution, values, convolution.weight_offset)


def _in_pairs(weights: NDArray[np.float32], lanes: int) -> NDArray[np.int16]:
    """Weights as (surfaces, height, pairs, lanes, 2), with zeros in what they don't fill."""
    channels, height, width = weights.shape
    surfaces, pairs = -(-channels // lanes), -(-width // 2)
    padded = np.zeros((surfaces * lanes, height, 2 * pairs), np.int16)
    padded[:channels, :, :width] = weights
    apart = padded.reshape(surfaces, lanes, height, pairs, 2).transpose(0, 2, 3, 1, 4)
    arranged: NDArray[np.int16] = aligned_bytes(apart.nbytes).view(np.int16).reshape(apart.shape)
    arranged[...] = apart
    return arranged


class _Depthwise(Plan):
    """Bands of output rows, whose input is laid out as pairs of neighbours in each thread's space.

    See native/npu_depthwise.h.
    """

    def __init__(
        self,
        task: ConvolutionTask,
        dpu: DpuArguments,
        weights: NDArray[np.float32],
    ) -> None:
        convolution = self._convolution = task.convolution
        self._target, self._dpu, self._operand = written(task), dpu, operand_of(task.dpu)
        lanes = self._target.atoms[-1]
        self._weights = _in_pairs(weights, lanes)
        self._columns = _columns(convolution, self._weights.shape[2])
        row_bytes = self._columns.count * lanes * 4
        self._band = _band(convolution, row_bytes)
        # One row is outside of the input, and what lies past the last one's end is read, too.
        beyond = PAIRED_TOGETHER * self._columns.of_an_output * lanes * 4
        self.own_bytes = (_reach(convolution, self._band) + 1) * row_bytes + beyond

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        convolution, columns = self._convolution, self._columns
        surfaces, _, pairs, lanes, _ = self._weights.shape
        arguments = structures.Int8Depthwise(
            self._dpu.bind(memory, self._operand),
            writer_of(self._target, convolution.channels, memory),
            features_of(convolution.source, memory, convolution.valid_channels),
            window_of(convolution),
            address_of(self._weights),
            pairs,
            columns.count,
            columns.of_an_output,
            columns.of_a_pair,
            columns.count * convolution.dilation[0],
            self._band,
            convolution.truncate,
            convolution.truncate_ties is Ties.UP,
        )
        products = self._weights.size // 2 * _WORK_OF_A_PAIR
        per_pixel = products + surfaces * lanes * WORK_OF_A_RESULT
        seen = convolution.source.height * convolution.source.width
        pairing = float(seen) * surfaces * lanes * _WORK_OF_PAIRING
        work = float(per_pixel) * convolution.height * convolution.width + pairing
        kernel = kernels.kernel("convolve_depthwise")
        units = surfaces * -(-convolution.height // self._band)
        return [KernelStep(kernel, arguments, units, work, keeps=(self, memory))]


@dataclass(frozen=True)
class _Columns:
    """The pairs of a row: how many, and from one output to the next and one of the kernel's."""

    count: int
    of_an_output: int
    of_a_pair: int


def _columns(convolution: Convolution, pairs: int) -> _Columns:
    stride, apart = convolution.stride[1], 2 * convolution.dilation[1]
    # Those between outputs are left out where no pair of the kernel begins there.
    step = stride if pairs == 1 or apart % stride == 0 else 1
    last = (convolution.width - 1) * stride + (pairs - 1) * apart
    return _Columns(last // step + 1, stride // step, apart // step)


def _reach(convolution: Convolution, rows: int) -> int:
    """Input rows that so many output rows see together."""
    height, dilation = convolution.weights.layout.height, convolution.dilation[0]
    return (rows - 1) * convolution.stride[0] + (height - 1) * dilation + 1


def _band(convolution: Convolution, row_bytes: int) -> int:
    """Output rows whose input stays in the cache."""
    fitting = _BAND_BYTES // row_bytes
    rows = (fitting - _reach(convolution, 1)) // convolution.stride[0] + 1
    return min(max(1, rows), convolution.height)


class _Dense(Plan):
    """Rows of what each output pixel sees, times the weights, and through the stages.

    Each thread gathers the rows of its own pixels. Where there are few pixels, or the output goes
    where the input lies, all rows are gathered first, and threads share the kernels.
    """

    def __init__(
        self,
        task: ConvolutionTask,
        dpu: DpuArguments,
        weights: DenseWeights,
    ) -> None:
        convolution = self._convolution = task.convolution
        self._target, self._dpu, self._operand = written(task), dpu, operand_of(task.dpu)
        self._weights = weights
        self._pixels = convolution.height * convolution.width
        self._stride = _row_stride(convolution, weights.depth)
        row_bytes = self._stride * 2
        self._tile = _tile(self._pixels, row_bytes)
        is_small = self._pixels <= _FEW_PIXELS and weights.groups >= _PARTS
        self._gathers_first = is_small or _overwrites_input(task)
        self._is_pointwise = _is_pointwise(convolution) and not _overwrites_input(task)
        panel = SLICE * COLUMNS * 2
        if self._gathers_first:
            self.own_bytes = panel + self._pixels * COLUMNS * 4
            self.shared_bytes = max(self._pixels * row_bytes, _atom_bytes(self._pixels))
        else:
            tile = max(self._tile * (COLUMNS * 4 + row_bytes), _atom_bytes(self._tile))
            self.own_bytes = panel + tile

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        convolution, weights = self._convolution, self._weights
        arguments = structures.Int8Dense(
            self._dpu.bind(memory, self._operand),
            writer_of(self._target, convolution.channels, memory),
            features_of(convolution.source, memory, convolution.valid_channels),
            window_of(convolution),
            address_of(weights.values),
            address_of(weights.offsets),
            address_of(scratch.shared) if self._gathers_first else None,
            convolution.source.channels,
            _is_packed(convolution),
            self._is_pointwise,
            weights.depth,
            self._stride,
            self._tile,
            self._pixels,
            convolution.truncate,
            convolution.truncate_ties is Ties.UP,
        )
        gathering = float(self._pixels) * weights.depth * _WORK_OF_GATHERING
        results = convolution.channels * WORK_OF_A_RESULT
        multiplying = float(self._pixels) * (weights.values.size + results)
        if not self._gathers_first:
            return [
                self._step(
                    memory, "convolve_pixels", arguments, self._pixels, gathering + multiplying
                )
            ]
        return [
            self._step(memory, "gather", arguments, self._pixels, gathering),
            self._step(memory, "convolve_kernels", arguments, weights.groups, multiplying),
        ]

    def _step(
        self, memory: Memory, kernel: str, arguments: structures.Int8Dense, units: int, work: float
    ) -> KernelStep:
        multiple = self._tile if kernel == "convolve_pixels" else 1
        return KernelStep(
            kernels.kernel(kernel), arguments, units, work, multiple=multiple, keeps=(self, memory)
        )


def _tile(pixels: int, row_bytes: int) -> int:
    """Pixels that are computed at a time, of which threads get about the same number."""
    most = min(max(1, _TILE_BYTES // (row_bytes * BLOCK)), _LARGEST_TILE // BLOCK) * BLOCK
    if pixels <= _SMALL_TILE:
        return pixels
    # Two of a few, or as many times two.
    tiles = 2 * -(-pixels // (2 * most))
    return -(-pixels // (tiles * _WHOLE_ROWS)) * _WHOLE_ROWS


def _is_packed(convolution: Convolution) -> bool:
    """Whether neighbours in a row of the input lie side by side, with all their channels."""
    source, dilation = convolution.source, convolution.dilation
    if dilation[1] != 1 or source.channels > convolution.valid_channels:
        return False
    return isinstance(source, Image) or source.channels == source.lanes == source.atom


def _is_pointwise(convolution: Convolution) -> bool:
    """Whether pixels see their own atoms, which lie one after another in each surface."""
    source, layout = convolution.source, convolution.weights.layout
    if isinstance(source, Image) or source.lanes != LANES:
        return False
    is_plain = (
        (layout.height, layout.width) == (1, 1)
        and convolution.stride == (1, 1)
        and convolution.padding == (0, 0)
        and (convolution.height, convolution.width) == (source.height, source.width)
    )
    is_gapless = source.atom == LANES and source.line == source.width * LANES
    return is_plain and is_gapless and convolution.valid_channels > (source.surfaces - 1) * LANES


def _atom_bytes(pixels: int) -> int:
    """What native/npu_fused.h keeps of pointwise ones: an atom and a sum of four pixels more."""
    return (pixels + 4) * (LANES + _SUM)


def _row_stride(convolution: Convolution, depth: int) -> int:
    """Values from one gathered row to the next."""
    # The kernel may write a whole vector past the last value of what is packed.
    depth += _VECTOR if _is_packed(convolution) else _SUM
    stride = -(-depth // _VECTOR) * _VECTOR
    # Rows a multiple of the page apart would share few places of the cache.
    return stride + _VECTOR if stride % _ALIASED == 0 else stride
