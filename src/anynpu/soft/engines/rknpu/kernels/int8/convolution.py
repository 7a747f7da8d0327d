"""int8 convolutions: gathered rows times a matrix, or depthwise, then the DPU."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ......native.memory import address_of
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
from ..structures import BLOCK, COLUMNS, SLICE
from ..value_ranges import FLOAT_SUMS, INTEGER_SUMS, largest_input, leaving_core
from . import kernels
from .arguments import writer_of
from .dense_weights import DenseWeights, dense_weights
from .stages import DpuArguments, is_supported, operand_of, signature, stage_arguments

_LARGEST_PADDING = 32767

_TILE_BYTES = 1 << 17
_LARGEST_TILE = 4 * BLOCK
"""Gathered rows that are multiplied at a time, so that they and their sums stay in the cache."""

_BAND_BYTES = 1 << 17
"""The same for the rows of a depthwise convolution."""

_FEW_PIXELS = 512
_PARTS = 8
"""Few pixels with many kernels: threads share the kernels instead of the pixels."""

_WORK_OF_A_PLACE = 4
"""What a depthwise product costs, in products of a dense convolution."""

_WORK_OF_GATHERING = 4
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
    matrix = _depthwise_matrix(task.convolution)
    magnitudes = np.abs(matrix).sum(0, dtype=np.float64)[: task.convolution.channels]
    sums = magnitudes * largest_input(task.convolution)
    entering = leaving_core(task.convolution, sums)
    dpu = stage_arguments(task.dpu, task.convolution.shape, lanes, entering)
    if sums.max() >= FLOAT_SUMS or dpu is None or _overwrites_input(task):
        return None
    return _Depthwise(task, dpu, matrix)


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


def _depthwise_matrix(convolution: Convolution) -> NDArray[np.float32]:
    """Weights as (height * width, stored channels), zeros in the lanes that pad."""
    stored, source = convolution.weights, convolution.source
    assert stored.data is not None, "only constant weights have plans"
    assert isinstance(source, Features), "pictures aren't convolved channel by channel"
    # What `stored.values` caches would stay as long as the model.
    values = unpack_weights(stored.data, stored.layout)
    weights = effective_weights(convolution, values, convolution.weight_offset)
    channels, height, width = weights.shape
    padded = np.zeros((height, width, source.surfaces * source.lanes), np.float32)
    padded[:, :, :channels] = weights.transpose(1, 2, 0)
    return padded.reshape(height * width, -1)


class _Depthwise(Plan):
    def __init__(
        self,
        task: ConvolutionTask,
        dpu: DpuArguments,
        matrix: NDArray[np.float32],
    ) -> None:
        convolution = self._convolution = task.convolution
        self._target, self._dpu, self._operand = written(task), dpu, operand_of(task.dpu)
        lanes = self._target.atoms[-1]
        # One surface's weights after another: (surfaces, places, lanes).
        surfaces = matrix.reshape(len(matrix), -1, lanes).transpose(1, 0, 2)
        self._weights = np.ascontiguousarray(surfaces)
        self._band = _band(convolution, lanes)
        self.own_bytes = _reach(convolution, 0, self._band) * _row_bytes(convolution, lanes)

    def bind(self, memory: Memory, scratch: Scratch) -> Sequence[KernelStep]:
        convolution = self._convolution
        arguments = structures.Int8Depthwise(
            self._dpu.bind(memory, self._operand),
            writer_of(self._target, convolution.channels, memory),
            features_of(convolution.source, memory, convolution.valid_channels),
            window_of(convolution),
            address_of(self._weights),
            self._band,
            convolution.truncate,
            convolution.truncate_ties is Ties.UP,
        )
        per_pixel = self._weights.size * _WORK_OF_A_PLACE + convolution.channels * WORK_OF_A_RESULT
        work = float(per_pixel) * convolution.height * convolution.width
        kernel = kernels.kernel("convolve_depthwise")
        return [KernelStep(kernel, arguments, len(self._weights), work, keeps=(self, memory))]


def _reach(convolution: Convolution, axis: int, count: int) -> int:
    """Rows, or columns, that a number of outputs see together."""
    layout = convolution.weights.layout
    size = (layout.height, layout.width)[axis]
    return (count - 1) * convolution.stride[axis] + (size - 1) * convolution.dilation[axis] + 1


def _row_bytes(convolution: Convolution, lanes: int) -> int:
    """A padded input row of one surface as floats."""
    return _reach(convolution, 1, convolution.width) * lanes * 4


def _band(convolution: Convolution, lanes: int) -> int:
    """Output rows whose input stays in the cache."""
    fitting = _BAND_BYTES // _row_bytes(convolution, lanes)
    rows = (fitting - _reach(convolution, 0, 1)) // convolution.stride[0] + 1
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
        blocks = max(1, min(_TILE_BYTES // (row_bytes * BLOCK), _LARGEST_TILE // BLOCK))
        self._tile = min(blocks * BLOCK, self._pixels)
        is_small = self._pixels <= _FEW_PIXELS and weights.groups >= _PARTS
        self._gathers_first = is_small or _overwrites_input(task)
        panel = SLICE * COLUMNS * 2
        if self._gathers_first:
            self.own_bytes = panel + self._pixels * COLUMNS * 4
            self.shared_bytes = self._pixels * row_bytes
        else:
            self.own_bytes = panel + self._tile * (COLUMNS * 4 + row_bytes)

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


def _is_packed(convolution: Convolution) -> bool:
    """Whether neighbours in a row of the input lie side by side, with all their channels."""
    source, dilation = convolution.source, convolution.dilation
    if dilation[1] != 1 or source.channels > convolution.valid_channels:
        return False
    return isinstance(source, Image) or source.channels == source.lanes == source.atom


def _row_stride(convolution: Convolution, depth: int) -> int:
    """Values from one gathered row to the next."""
    # The kernel may write a whole vector past the last value of what is packed.
    depth += _VECTOR if _is_packed(convolution) else _SUM
    stride = -(-depth // _VECTOR) * _VECTOR
    # Rows a multiple of the page apart would share few places of the cache.
    return stride + _VECTOR if stride % _ALIASED == 0 else stride
