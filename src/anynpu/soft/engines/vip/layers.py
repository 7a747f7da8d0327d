"""A compiled file's layers as an NPU runs them: shapes, products, bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from ....tensor import DType
from ...formats.nbg import Nbg
from ...formats.nbg.model import Source
from ..program import Layer, LoweredModel, MeasuredLayer
from .memory import Scattered, Window
from .prepare import Prepared
from .tasks import Convolution, Task


def layers_of(model: Nbg, prepared: Prepared) -> tuple[tuple[int, ...], LoweredModel]:
    """The layers in the order of execution, and how many operations each has.

    Tiles of a layer that follow one another are one.
    """
    groups = list(grouped(model, prepared))
    assert model.executable is not None, "it was prepared"
    return tuple(len(tasks) for tasks, _ in groups), LoweredModel(
        layers=tuple(_layer(model, tasks, numbers) for tasks, numbers in groups),
        weight_bytes=sum(blob.size for blob in model.executable.coefficients),
        peak_intermediate_bytes=model.memory_pool_size + model.vip_sram_size,
    )


def measured(
    lowered: LoweredModel, members: Sequence[int], seconds: Sequence[float]
) -> tuple[MeasuredLayer, ...]:
    """What each layer took, by the seconds of each operation."""
    found = []
    spent = iter(seconds)
    for layer, count in zip(lowered.layers, members, strict=True):
        total = sum(islice(spent, count))
        found.append(
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
    return tuple(found)


def grouped(model: Nbg, prepared: Prepared) -> Iterator[tuple[list[Task], list[int]]]:
    """Operations that follow one another and belong to one layer: tasks, places in the file."""

    def layer(pair: tuple[Task, int]) -> tuple[int | None, int]:
        operation = model.operations[pair[1]]
        return operation.layer, -1 if operation.layer is not None else pair[1]

    for _, pairs in groupby(zip(prepared.tasks, prepared.numbers, strict=True), layer):
        tasks, numbers = zip(*pairs, strict=True)
        yield list(tasks), list(numbers)


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
