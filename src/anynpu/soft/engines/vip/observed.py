"""What each layer of a compiled file computes: values, kernels, and whose results it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...formats.nbg import Nbg
from ...formats.nbg.model import Source
from ...values import store_real
from ..program import Variant
from .coefficients import Kernels
from .dataflow import Dataflow, dataflow
from .kernels.compile import Compiled
from .memory import Memory, Scattered, Space, Window
from .planes import Planes
from .prepare import Prepared, prepare
from .program import VipInstance
from .shaders.task import ShaderTask
from .stream.task import StreamTask
from .tasks import (
    Convolution,
    FullyConnected,
    HalfFullyConnected,
    HalfValues,
    MatrixByRow,
    Move,
    Sums,
    Task,
)

_SIGN = 128
"""The NN core counts int8 from here on, as if its top bit were turned."""


class Unreadable(Exception):
    """Why values of a layer can't be said to be a tensor's."""


@dataclass(frozen=True)
class Values:
    """What a layer writes, as it is stored: (channels, pixels), row after row.

    A network's output may be one row in its own order. `zero_point` is None for floats. A file
    doesn't say what a step is.
    """

    stored: NDArray[Any]
    zero_point: int | None


@dataclass(eq=False)
class ObservedLayer:
    """A layer of a compiled file, after a run.

    `reads` are the layers whose results it reads, network inputs as -1, -2 and so on, and
    `multiplies` those whose results meet weights; `outputs` the network outputs that have some of
    its results. `weights` are (channels, depth, height, width)
    less their zero points where it is a convolution or a product with a matrix; `is_depthwise`
    says that each channel is of one channel. `has_function` says whether it does more to sums than
    to scale them, `has_second` whether another tensor is added or multiplied; None where that isn't
    known. `only_moves` that values stay what they
    are. `values` is None where `problem` says why.
    """

    number: int
    name: str
    unit: str
    reads: frozenset[int]
    multiplies: frozenset[int]
    outputs: frozenset[int]
    weights: NDArray[np.int16] | NDArray[np.floating[Any]] | None
    is_depthwise: bool
    has_function: bool | None
    has_second: bool | None
    only_moves: bool
    values: Values | None = None
    problem: str = ""


def observe(
    model: Nbg, variant: Variant, inputs: Sequence[NDArray[Any]]
) -> tuple[ObservedLayer, ...]:
    """Run a file once on real values of its inputs; its layers in the order in which they begin.

    Tiles of a layer are put together. Raises `Refusal` for an operation that isn't known.
    """
    prepared = prepare(model)
    layers = _Layers(model, prepared)
    compiled = Compiled.of(prepared.layout, prepared.tasks)
    instance = VipInstance(prepared.layout, compiled, variant)
    for array, port, target in zip(inputs, variant.inputs, instance.inputs, strict=True):
        store_real(array.reshape(target.shape), port, target)
    pieces: dict[int, list[_Piece]] = {}
    problems: dict[int, str] = {}
    memory = None
    for number, memory in enumerate(instance.stepped()):
        layer = layers.of[number]
        try:
            pieces.setdefault(layer, []).append(_piece(prepared.tasks[number], memory))
        except Unreadable as problem:
            problems.setdefault(layer, str(problem))
    found = tuple(
        _with_values(layer, pieces.get(number, ()), problems.get(number, ""))
        for number, layer in enumerate(layers.described())
    )
    if memory is not None:
        _take_outputs(found, memory, variant)
    return found


def _take_outputs(layers: Sequence[ObservedLayer], memory: Memory, variant: Variant) -> None:
    """The order of a network's output is known whatever writes it, if one layer does."""
    for number, port in enumerate(variant.outputs):
        writers = [layer for layer in layers if number in layer.outputs]
        if len(writers) != 1 or writers[0].values is not None or port.dtype.numpy_name is None:
            continue
        content = memory.space(Space(Source.OUTPUT, number))
        stored = content.view(port.dtype.numpy).reshape(1, -1).copy()
        zero_point = None if port.quantization is None else port.quantization.zero_point
        if stored.dtype.kind == "f" or zero_point is not None:
            writers[0].values = Values(stored, zero_point)


@dataclass(frozen=True)
class _Piece:
    """A tile's results, and the planes that they are in; None for a row of its own."""

    stored: NDArray[Any]
    zero_point: int | None
    planes: Planes | None


class _Layers:
    """Which tasks are one layer's. `of` is the layer of each task."""

    def __init__(self, model: Nbg, prepared: Prepared) -> None:
        self._model, self._prepared = model, prepared
        self._tasks: list[list[int]] = []
        self.of: list[int] = []
        known: dict[int, int] = {}
        for number, place in enumerate(prepared.numbers):
            own = model.operations[place].layer
            layer = len(self._tasks) if own is None else known.setdefault(own, len(self._tasks))
            if layer == len(self._tasks):
                self._tasks.append([])
            self._tasks[layer].append(number)
            self.of.append(layer)

    def described(self) -> Iterator[ObservedLayer]:
        prepared = self._prepared
        flow = dataflow(prepared.layout, prepared.tasks)
        of_weights = dataflow(prepared.layout, [_Multiplied(task) for task in prepared.tasks])
        outputs = [frozenset(self.of[task] for task in each if task >= 0) for each in flow.outputs]
        for layer, members in enumerate(self._tasks):
            tasks = [prepared.tasks[number] for number in members]
            operation = self._model.operations[prepared.numbers[members[0]]]
            weights, is_depthwise = _weights(tasks)
            yield ObservedLayer(
                number=layer,
                name="" if operation.layer is None else self._model.layers[operation.layer].name,
                unit=operation.unit,
                reads=self._reads(flow, members, layer),
                multiplies=self._reads(of_weights, members, layer),
                outputs=frozenset(n for n, each in enumerate(outputs) if layer in each),
                weights=weights,
                is_depthwise=is_depthwise,
                has_function=_has_function(tasks[0]),
                has_second=_has_second(tasks[0]),
                only_moves=all(map(_only_moves, tasks)),
            )

    def _reads(self, flow: Dataflow, members: Iterable[int], layer: int) -> frozenset[int]:
        found = {source for number in members for source in flow.reads[number]}
        return frozenset(self.of[each] if each >= 0 else each for each in found) - {layer}


class _Multiplied(Task):
    """A task that reads nothing but what its weights are for."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def reads(self) -> Iterator[Window]:
        task = self._task
        if isinstance(task, Convolution):
            return task.sums.reads()
        sums = _sums_of(task) if isinstance(task, StreamTask) else []
        return sums[0].reads() if len(sums) == 1 else task.reads()

    def writes(self) -> Iterator[Window | Scattered]:
        return self._task.writes()


def _sums_of(task: StreamTask) -> list[Sums]:
    return [part for part in task.inputs if isinstance(part, Sums)]


def _weights(tasks: Sequence[Task]) -> tuple[Any, bool]:
    """The kernels of a layer's tasks, one after another, and whether they are depthwise."""
    found = {id(each): each for each in map(_kernels, tasks) if each is not None}
    parts = [
        each.weights if isinstance(each, Kernels) else each[:, :, None, None]
        for each in found.values()
    ]
    if len({part.shape[1:] for part in parts}) != 1:
        return None, False
    first = next(iter(found.values()))
    return np.concatenate(parts), isinstance(first, Kernels) and first.is_depthwise


def _kernels(task: Task) -> Any:
    if isinstance(task, Convolution):
        return task.sums.kernels
    if isinstance(task, StreamTask):
        sums = _sums_of(task)
        return sums[0].kernels if len(sums) == 1 else None
    return task.weights if isinstance(task, MatrixByRow) else None


def _has_function(task: Task) -> bool | None:
    if isinstance(task, FullyConnected | HalfFullyConnected):
        return task.has_relu
    if not isinstance(task, Convolution):
        return None
    if task.has_relu or task.table is not None or task.negative_scale is not None:
        return True
    # A lower limit at the value zero, which may be that of the type.
    lowest = -(1 << 15) if task.is_wide else 0
    return task.low >= 0 or (not task.is_half and lowest - task.zero_point >= 0)


def _has_second(task: Task) -> bool | None:
    if isinstance(task, MatrixByRow):
        return False
    if not isinstance(task, Convolution):
        return None
    return task.addition is not None or task.product is not None


def _only_moves(task: Task) -> bool:
    return (
        isinstance(task, Move)
        and task.table is None
        and task.pooling is None
        and task.scale is None
        and task.normalization is None
        and task.input_is_float == task.output_is_float
    )


def _type_of(task: Convolution) -> tuple[np.dtype[Any], int | None]:
    """What a convolution's results are, and their zero point; None for floats."""
    if task.is_half:
        return np.dtype(np.float16), None
    if task.is_wide:
        return np.dtype(np.int16), task.zero_point
    if task.is_signed:
        return np.dtype(np.int8), task.zero_point - _SIGN
    return np.dtype(np.uint8), task.zero_point


def _piece(task: Task, memory: Memory) -> _Piece:
    """What a task has written; raises `Unreadable` where its values' order or type isn't known."""
    if isinstance(task, Convolution):
        return _of_planes(task.target, *_type_of(task), memory)
    if isinstance(task, HalfValues):
        kind = f"f{task.target.item}" if task.zero_point is None else "u1"
        return _of_planes(task.target, np.dtype(kind), task.zero_point, memory)
    if isinstance(task, StreamTask):
        if task.output is None:
            raise Unreadable("its program leaves its results to the next one")
        output = task.output
        zero_point = output.zero_point if output.dtype.kind in "iu" else None
        return _of_planes(output.target, output.dtype, zero_point, memory)
    if isinstance(task, ShaderTask):
        if task.output.dtype.kind != "f" or task.others:
            raise Unreadable("the file doesn't say what a shader's integers stand for")
        return _of_window(task.output.window, task.output.dtype, None, memory)
    if isinstance(task, FullyConnected):
        return _of_window(task.target, np.dtype(np.uint8), task.output_zero_point, memory)
    if _only_moves(task):
        raise Unreadable("it only moves values")
    raise Unreadable("in which order its unit writes a tensor isn't known")


def _of_planes(
    planes: Planes, dtype: np.dtype[Any], zero_point: int | None, memory: Memory
) -> _Piece:
    content = np.ascontiguousarray(planes.read(memory))
    return _Piece(content.view(dtype).reshape(planes.channels, -1).copy(), zero_point, planes)


def _of_window(
    window: Window, dtype: np.dtype[Any], zero_point: int | None, memory: Memory
) -> _Piece:
    content = np.ascontiguousarray(memory.read(window))
    return _Piece(
        content.reshape(-1).view(dtype).reshape(content.shape[0], -1).copy(), zero_point, None
    )


def _with_values(layer: ObservedLayer, pieces: Sequence[_Piece], problem: str) -> ObservedLayer:
    if not problem:
        try:
            layer.values = _together(pieces)
        except Unreadable as reason:
            problem = str(reason)
    layer.problem = problem
    return layer


def _together(pieces: Sequence[_Piece]) -> Values:
    """A layer's tiles as one; raises `Unreadable` where they don't follow one another."""
    first = pieces[0]
    if len({(piece.stored.dtype, piece.zero_point) for piece in pieces}) != 1:
        raise Unreadable("its tiles have several types")
    if len(pieces) == 1:
        return Values(first.stored, first.zero_point)
    if all(_are_rows(a, b) for a, b in pairwise(pieces)):
        axis = 1
    elif all(_are_channels(a, b) for a, b in pairwise(pieces)):
        axis = 0
    else:
        raise Unreadable("its tiles don't follow one another in memory")
    return Values(np.concatenate([piece.stored for piece in pieces], axis), first.zero_point)


def _are_rows(piece: _Piece, after: _Piece) -> bool:
    """Whether a tile's rows are those behind another's, of the same channels."""
    a, b = piece.planes, after.planes
    if a is None or b is None or a.channels != b.channels or a.group != b.group:
        return False
    return _is_dense(a) and _is_dense(b) and _is_apart(a, b, a.height * a.row * a.group)


def _are_channels(piece: _Piece, after: _Piece) -> bool:
    """Whether a tile's channels are those behind another's, of the same rows."""
    a, b = piece.planes, after.planes
    if a is None or b is None or piece.stored.shape[1] != after.stored.shape[1]:
        return False
    return not a.channels % a.group and _is_apart(a, b, a.channels // a.group * a.plane)


def _is_dense(planes: Planes) -> bool:
    """Whether rows follow one another without gaps, or there is but one of a whole width."""
    return planes.row == planes.width * planes.item


def _is_apart(a: Planes, b: Planes, distance: int) -> bool:
    if a.space != b.space:
        return False
    gap = b.offset - a.offset - distance
    return gap == 0 or (a.circle is not None and gap % a.circle.size == 0)
