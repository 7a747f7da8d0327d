"""int8 convolutions: gathered rows times a matrix, or depthwise, then the DPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .....native.memory import address_of
from ..elements import Element
from ..memory import Memory
from ..reference.weights import effective_weights
from ..tasks import BlockWriter, Convolution, ConvolutionTask, Features, Image, PhaseWriter
from ..weights import StoredOperand, unpack_weights
from . import kernels
from .arguments import DpuArguments, features_of, in_place, is_supported, overlap, writer_of
from .bounds import FLOAT_SUMS, INTEGER_SUMS, largest_sums, stages_are_exact
from .steps import WORK_OF_A_RESULT, Plan, Step, call, shares, together

_LARGEST_WEIGHT = 32767

_TILE_BYTES = 1 << 18
"""Gathered rows that are multiplied at a time, so that they stay in the cache."""

_BLOCK = 60
"""Pixels that go through the stages at a time: BLOCK in native/npu.c."""

_WORK_OF_A_PLACE = 4
"""What a depthwise product costs, in products of a dense convolution."""


def plan_convolution(task: ConvolutionTask) -> Plan | None:
    """A plan, where the kernels know the task and its exactness is proved."""
    convolution, writer = task.convolution, task.writer
    if not isinstance(writer, BlockWriter | PhaseWriter) or not _is_known(convolution):
        return None
    lanes = writer.atom
    if not is_supported(task.dpu, lanes) or not _operand_may_be_read(task):
        return None
    if convolution.weights.layout.is_depthwise:
        return _plan_depthwise(task, writer, lanes)
    return _plan_dense(task, writer, lanes)


def _plan_dense(
    task: ConvolutionTask, writer: BlockWriter | PhaseWriter, lanes: int
) -> Plan | None:
    matrix = _matrix(task.convolution, lanes)
    sums = largest_sums(matrix, task.convolution)
    if np.abs(matrix).max() > _LARGEST_WEIGHT or not stages_are_exact(
        task.dpu, sums[: task.convolution.channels]
    ):
        return None
    return _Dense(task, writer, lanes, matrix) if sums.max() < INTEGER_SUMS else None


def _plan_depthwise(
    task: ConvolutionTask, writer: BlockWriter | PhaseWriter, lanes: int
) -> Plan | None:
    matrix = _depthwise_matrix(task.convolution)
    sums = largest_sums(matrix, task.convolution)[: task.convolution.channels]
    if sums.max() >= FLOAT_SUMS or not stages_are_exact(task.dpu, sums):
        return None
    return None if _overwrites_input(task) else _Depthwise(task, writer, lanes, matrix)


def _is_known(convolution: Convolution) -> bool:
    weights = convolution.weights
    source = convolution.source
    if source.element is not Element.INT8 or not weights.is_constant:
        return False
    if convolution.conversion or any(convolution.inserted):
        return False
    if isinstance(convolution.weight_offset, StoredOperand):
        return False
    padding = float(convolution.padding_value)
    return padding.is_integer() and abs(padding) <= _LARGEST_WEIGHT


def _operand_may_be_read(task: ConvolutionTask) -> bool:
    stage = task.dpu.elementwise
    if stage is None or not isinstance(stage.operand, Features):
        return True
    return not overlap(stage.operand, task.writer, _shape(task)) or in_place(
        stage.operand, task.writer
    )


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
        return overlap(surface, task.writer, _shape(task))
    return overlap(source, task.writer, _shape(task))


def _shape(task: ConvolutionTask) -> tuple[int, int, int, int]:
    convolution, writer = task.convolution, task.writer
    atom = writer.atom if isinstance(writer, BlockWriter | PhaseWriter) else 16
    surfaces = -(-convolution.channels // atom)
    return surfaces, convolution.height, convolution.width, atom


def _unpacked_weights(convolution: Convolution) -> NDArray[np.float32]:
    stored = convolution.weights
    # The whole is only needed here: what is cached would take four times the file.
    values = unpack_weights(stored.data, stored.layout) if stored.data is not None else None
    assert values is not None, "only constant weights have plans"
    return effective_weights(convolution, values, convolution.weight_offset)


def _matrix(convolution: Convolution, lanes: int) -> NDArray[np.float32]:
    """Weights as (height * width * stored channels, kernels), zeros in all places that pad."""
    weights = _unpacked_weights(convolution)
    kernels_, channels, height, width = weights.shape
    source = convolution.source
    stored = channels if isinstance(source, Image) else source.surfaces * source.lanes
    padded = np.zeros((height, width, stored, -(-kernels_ // lanes) * lanes), np.float32)
    padded[:, :, :channels, :kernels_] = weights.transpose(2, 3, 1, 0)
    return padded.reshape(-1, padded.shape[-1])


def _depthwise_matrix(convolution: Convolution) -> NDArray[np.float32]:
    """Weights as (height * width, stored channels)."""
    weights = _unpacked_weights(convolution)
    channels, height, width = weights.shape
    source = convolution.source
    assert isinstance(source, Features), "pictures aren't convolved channel by channel"
    padded = np.zeros((height, width, source.surfaces * source.lanes), np.float32)
    padded[:, :, :channels] = weights.transpose(1, 2, 0)
    return padded.reshape(height * width, -1)


def _window(convolution: Convolution) -> kernels.Window:
    layout = convolution.weights.layout
    return kernels.Window(
        layout.height,
        layout.width,
        *convolution.stride,
        *convolution.dilation,
        *convolution.padding,
        convolution.height,
        convolution.width,
        int(convolution.padding_value),
    )


class _Depthwise(Plan):
    def __init__(
        self,
        task: ConvolutionTask,
        writer: BlockWriter | PhaseWriter,
        lanes: int,
        matrix: NDArray[np.float32],
    ) -> None:
        convolution = self._convolution = task.convolution
        self._writer, self._lanes = writer, lanes
        self._dpu = DpuArguments(task.dpu, convolution.channels, lanes)
        # One surface's weights after another: (surfaces, places, lanes).
        surfaces = matrix.reshape(len(matrix), -1, lanes).transpose(1, 0, 2)
        self._weights = np.ascontiguousarray(surfaces)
        layout = convolution.weights.layout
        reach = [
            (count - 1) * stride + (size - 1) * dilation + 1
            for count, stride, size, dilation in zip(
                (convolution.height, convolution.width),
                convolution.stride,
                (layout.height, layout.width),
                convolution.dilation,
                strict=True,
            )
        ]
        self.scratch_bytes = reach[0] * reach[1] * lanes * 4

    def bind(self, memory: Memory, scratch: Sequence[NDArray[np.uint8]]) -> Step:
        convolution = self._convolution
        function = kernels.function("anynpu_npu_depthwise")
        common = (
            self._dpu.bind(memory),
            writer_of(self._writer, convolution.channels, convolution.width, self._lanes, memory),
            features_of(convolution.source, memory, convolution.valid_channels),
            _window(convolution),
            address_of(self._weights),
        )
        per_pixel = self._weights.size * _WORK_OF_A_PLACE + convolution.channels * WORK_OF_A_RESULT
        work = per_pixel * convolution.height * convolution.width
        parts = shares(len(self._weights), 1, work, len(scratch))
        return together(
            [
                call(function, *common, address_of(own), *part, keeps=(self, own))
                for own, part in zip(scratch, parts, strict=False)
            ]
        )


class _Dense(Plan):
    """Tiles of output pixels: gather what they see, multiply, finish."""

    def __init__(
        self,
        task: ConvolutionTask,
        writer: BlockWriter | PhaseWriter,
        lanes: int,
        matrix: NDArray[np.float32],
    ) -> None:
        convolution = self._convolution = task.convolution
        self._writer, self._lanes = writer, lanes
        self._dpu = DpuArguments(task.dpu, convolution.channels, lanes)
        self._depth = -(-len(matrix) // 2) * 2
        pairs = np.zeros((self._depth, matrix.shape[1]), np.int16)
        pairs[: len(matrix)] = matrix
        # One surface after another, two products side by side: (surfaces, depth / 2, lanes, 2).
        pairs = pairs.reshape(self._depth // 2, 2, -1, lanes).transpose(2, 0, 3, 1)
        self._weights = np.ascontiguousarray(pairs)
        pixels = convolution.height * convolution.width
        self._is_whole = _overwrites_input(task)
        blocks = -(-pixels // _BLOCK)
        if not self._is_whole:
            blocks = min(blocks, max(1, _TILE_BYTES // (self._depth * 2 * _BLOCK)))
        self._tile = blocks * _BLOCK
        self.scratch_bytes = self._tile * self._depth * 2

    def bind(self, memory: Memory, scratch: Sequence[NDArray[np.uint8]]) -> Step:
        convolution = self._convolution
        function = kernels.function("anynpu_npu_dense")
        common = (
            self._dpu.bind(memory),
            writer_of(self._writer, convolution.channels, convolution.width, self._lanes, memory),
            features_of(convolution.source, memory, convolution.valid_channels),
            _window(convolution),
            address_of(self._weights),
            self._depth,
        )
        pixels = convolution.height * convolution.width
        work = float(pixels) * (self._weights.size + convolution.channels * WORK_OF_A_RESULT)
        parts = shares(pixels, _BLOCK, work, 1 if self._is_whole else len(scratch))
        return together(
            [
                call(
                    function,
                    *common,
                    first,
                    end - first,
                    self._tile,
                    address_of(own),
                    keeps=(self, own),
                )
                for own, (first, end) in zip(scratch, parts, strict=False)
            ]
        )
