"""int8 convolutions: gathered rows times a matrix, or depthwise, then the DPU."""

from __future__ import annotations

from collections.abc import Callable

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
from .bounds import exact_parts, largest_sums, stages_are_exact
from .steps import Plan, Step, step

_TILE_FLOATS = 1 << 18
"""Elements of gathered rows that are multiplied at a time, so that they stay in the cache."""


def plan_convolution(task: ConvolutionTask) -> Plan | None:
    """A plan, where the kernels know the task and its exactness is proved."""
    convolution, writer = task.convolution, task.writer
    if not isinstance(writer, BlockWriter | PhaseWriter) or not _is_known(convolution):
        return None
    lanes = writer.atom if isinstance(writer, BlockWriter) else 16
    if not is_supported(task.dpu, lanes) or not _operand_may_be_read(task):
        return None
    is_depthwise = convolution.weights.layout.is_depthwise
    matrix = _depthwise_matrix(convolution) if is_depthwise else _matrix(convolution, lanes)
    if not stages_are_exact(task.dpu, largest_sums(matrix, convolution)[: convolution.channels]):
        return None
    parts = exact_parts(matrix, convolution)
    if not is_depthwise:
        return _Dense(task, writer, lanes, matrix, parts)
    fits = len(parts) == 1 and not _overwrites_input(task)
    return _Depthwise(task, writer, lanes, matrix) if fits else None


def _is_known(convolution: Convolution) -> bool:
    weights = convolution.weights
    source = convolution.source
    if source.element is not Element.INT8 or not weights.is_constant:
        return False
    if convolution.conversion or any(convolution.inserted):
        return False
    if isinstance(convolution.weight_offset, StoredOperand):
        return False
    return float(convolution.padding_value).is_integer()


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
    atom = writer.atom if isinstance(writer, BlockWriter) else 16
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
        self.scratch_floats = reach[0] * reach[1] * lanes

    def bind(self, memory: Memory, scratch: NDArray[np.float32]) -> Step:
        convolution = self._convolution
        writer = writer_of(
            self._writer, convolution.channels, convolution.width, self._lanes, memory
        )
        return step(
            kernels.function("anynpu_npu_depthwise"),
            self._dpu.bind(memory),
            writer,
            features_of(convolution.source, memory, convolution.valid_channels),
            _window(convolution),
            address_of(self._weights),
            address_of(scratch),
            keeps=(self, scratch),
        )


class _Dense(Plan):
    """Tiles of output pixels: gather what they see, multiply, finish."""

    def __init__(
        self,
        task: ConvolutionTask,
        writer: BlockWriter | PhaseWriter,
        lanes: int,
        matrix: NDArray[np.float32],
        parts: list[slice],
    ) -> None:
        convolution = self._convolution = task.convolution
        self._writer, self._lanes = writer, lanes
        self._matrix, self._parts = matrix, parts
        self._dpu = DpuArguments(task.dpu, convolution.channels, lanes)
        pixels = convolution.height * convolution.width
        per_tile = max(1, _TILE_FLOATS // len(matrix))
        self._tile = pixels if _overwrites_input(task) else min(pixels, per_tile)
        # A sum in two parts is added up in float64, which takes the place of two floats.
        self._is_split = len(parts) > 1
        columns = matrix.shape[1] * (4 if self._is_split else 1)
        self.scratch_floats = self._tile * (len(matrix) + columns) + 1

    def bind(self, memory: Memory, scratch: NDArray[np.float32]) -> Step:
        convolution = self._convolution
        source, window = (
            features_of(convolution.source, memory, convolution.valid_channels),
            _window(convolution),
        )
        dpu = self._dpu.bind(memory)
        writer = writer_of(
            self._writer, convolution.channels, convolution.width, self._lanes, memory
        )
        gather, finish = (kernels.function(f"anynpu_npu_{name}") for name in ("gather", "finish"))
        pixels = convolution.height * convolution.width
        steps: list[Step] = []
        for first in range(0, pixels, self._tile):
            count = min(self._tile, pixels - first)
            rows, sums, multiply = self._product(scratch, count)
            steps.append(step(gather, source, window, first, count, address_of(rows), keeps=self))
            steps.append(multiply)
            narrow, wide = (None, address_of(sums)) if self._is_split else (address_of(sums), None)
            steps.append(
                step(finish, dpu, writer, narrow, wide, sums.shape[1], first, count, keeps=scratch)
            )

        def run() -> None:
            for part in steps:
                part()

        return run

    def _product(
        self, scratch: NDArray[np.float32], count: int
    ) -> tuple[NDArray[np.float32], NDArray[np.floating], Callable[[], None]]:
        """Room for rows and sums in the scratch space, and what computes the sums."""
        matrix = self._matrix
        rows = scratch[: count * len(matrix)].reshape(count, -1)
        # float64 wants an even place.
        behind = scratch[-(-rows.size // 2) * 2 :]
        size = count * matrix.shape[1]
        sums = behind[:size].reshape(count, -1)
        if not self._is_split:

            def multiply() -> None:
                np.matmul(rows, matrix, out=sums)

            return rows, sums, multiply
        total = behind[: 2 * size].view(np.float64).reshape(count, -1)
        part = behind[2 * size : 3 * size].reshape(count, -1)

        def add_up() -> None:
            for place, columns in enumerate(self._parts):
                np.matmul(rows[:, columns], matrix[columns], out=part)
                if place:
                    np.add(total, part, out=total)
                else:
                    np.copyto(total, part)

        return rows, total, add_up
