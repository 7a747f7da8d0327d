"""A compiled file's layers as an NPU runs them: shapes, products, bytes."""

from __future__ import annotations

import math
import pickle
import zlib
from array import array
from collections.abc import Sequence
from io import BytesIO
from itertools import islice

from ....tensor import DType
from ...formats.nbg import Nbg
from ...formats.nbg.model import Source
from ..program import Layer, LoweredModel, MeasuredLayer
from .memory import Scattered, Window
from .prepare import Prepared
from .tasks import Convolution, Task


class FoundLayers:
    """The layers of a file in the order of execution, as few bytes: they are seldom asked for.

    `members` are how many operations each has.
    """

    def __init__(self, members: Sequence[int], layers: bytes, weights: int, others: int) -> None:
        self._layers, self._weight_bytes, self._other_bytes = layers, weights, others
        self.members = array("i", members)

    def lowered(self) -> LoweredModel:
        content = BytesIO(zlib.decompress(self._layers))
        return LoweredModel(
            layers=tuple(pickle.load(content) for _ in self.members),
            weight_bytes=self._weight_bytes,
            peak_intermediate_bytes=self._other_bytes,
        )


def layers_of(model: Nbg, prepared: Prepared) -> FoundLayers:
    """The layers of operations."""
    found = Layers(model)
    for task, number in zip(prepared.tasks, prepared.numbers, strict=True):
        found.add(task, number)
    return found.finish()


class Layers:
    """The layers of operations that come in the order of execution.

    Tiles of a layer that follow one another are one.
    """

    def __init__(self, model: Nbg) -> None:
        self._model = model
        self._tasks: list[Task] = []
        self._numbers: list[int] = []
        self._members: list[int] = []
        self._layers = bytearray()

    def add(self, task: Task, number: int) -> None:
        """The next one, and its place in the file."""
        operations = self._model.operations
        if self._numbers:
            before, own = operations[self._numbers[0]].layer, operations[number].layer
            if own is None or own != before:
                self._end()
        self._tasks.append(task)
        self._numbers.append(number)

    def _end(self) -> None:
        layer = _layer(self._model, self._tasks, self._numbers)
        self._members.append(len(self._tasks))
        self._layers += pickle.dumps(layer, pickle.HIGHEST_PROTOCOL)
        self._tasks, self._numbers = [], []

    def finish(self) -> FoundLayers:
        """All layers; there can't be more."""
        if self._tasks:
            self._end()
        executable = self._model.executable
        assert executable is not None, "it was prepared"
        return FoundLayers(
            self._members,
            zlib.compress(self._layers, 1),
            sum(blob.size for blob in executable.coefficients),
            self._model.memory_pool_size + self._model.vip_sram_size,
        )


def measured(found: FoundLayers, seconds: Sequence[float]) -> tuple[MeasuredLayer, ...]:
    """What each layer took, by the seconds of each operation."""
    layers = []
    spent = iter(seconds)
    for layer, count in zip(found.lowered().layers, found.members, strict=True):
        total = sum(islice(spent, count))
        layers.append(
            MeasuredLayer(
                name=layer.name,
                op_type=layer.op_type,
                inputs=layer.inputs,
                output=layer.output,
                dtype=layer.dtype.name.lower(),
                microseconds=round(total * 1e6),
                kilobytes=(layer.read_bytes + layer.written_bytes) / 1024,
            )
        )
    return tuple(layers)


def _layer(model: Nbg, tasks: Sequence[Task], numbers: Sequence[int]) -> Layer:
    operation = model.operations[numbers[0]]
    name = "" if operation.layer is None else model.layers[operation.layer].name
    first = tasks[0]
    sums = first.sums if isinstance(first, Convolution) else None
    weight_bytes = _coefficient_bytes(model, numbers)
    return Layer(
        name=name,
        op_type=operation.unit,
        inputs=tuple(window.shape for window in first.reads()),
        output=next((_shape(target) for target in first.writes()), ()),
        dtype=DType.UINT8,
        macs=sum(task.macs for task in tasks),
        read_bytes=weight_bytes + sum(math.prod(w.shape) for task in tasks for w in task.reads()),
        written_bytes=sum(_bytes(target) for task in tasks for target in task.writes()),
        weight_bytes=weight_bytes,
        channels_in=sums.source.channels if sums else 0,
        channels_out=sums.channels if sums else 0,
        kernel=(sums.kernel_height, sums.kernel_width) if sums else (),
        is_depthwise=sums.is_depthwise if sums else False,
    )


def _coefficient_bytes(model: Nbg, numbers: Sequence[int]) -> int:
    """Packed, as the chip reads them; tiles of a layer share a blob."""
    assert model.executable is not None, "it was prepared"
    blobs = model.executable.coefficients
    patches = model.executable.patches
    used = {
        patches[place].number
        for number in numbers
        for place in model.operations[number].patches
        if patches[place].source == Source.COEFFICIENTS
    }
    return sum(blobs[number].size for number in used if 0 <= number < len(blobs))


def _shape(target: Window | Scattered) -> tuple[int, ...]:
    return target.shape if isinstance(target, Window) else (target.places.size,)


def _bytes(target: Window | Scattered) -> int:
    if isinstance(target, Scattered):
        return target.places.size * target.item
    return math.prod(target.shape)
