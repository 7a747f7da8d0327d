"""A compiled `.nb` file behind the seam: its own commands, executed one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ....native import kernels
from ....viplite.formats import stored_dtype, stored_shape
from ...formats.nbg import Nbg
from ...formats.nbg.model import Source
from ..program import (
    NOT_CUSTOMIZED,
    Customization,
    Instance,
    LoweredModel,
    MeasuredLayer,
    Port,
    Program,
    Variant,
)
from ..work import Budget
from .kernels.compile import Calls, Compiled
from .layers import Layers, measured
from .memory import Memory, MemoryMap, Space
from .prepare import Operations
from .tasks import Task


class VipProgram(Program):
    """A compiled file, decoded: immutable, shared by threads. It keeps nothing of the file.

    Raises `Refusal`, which names the operation, its layer and what isn't known of it. Without
    `has_kernels` the reference computes everything, with the same bytes.
    """

    framework = "VIP"
    producer = ""
    custom_string = ""

    def __init__(
        self, model: Nbg, variant: Variant, soc: str | None, *, has_kernels: bool = True
    ) -> None:
        self.soc = soc
        self._variant = variant
        self.input_shapes = (tuple(port.shape for port in variant.inputs),)
        decoded = _Decoded(model)
        layout = decoded.layout
        self._compiled = Compiled.of(layout, decoded, has_kernels=has_kernels)
        self._layout = layout.without_file()
        self._layers = decoded.layers.finish()

    def variant(self, number: int) -> Variant:
        return self._variant

    def lowered(self, number: int) -> LoweredModel:
        return self._layers.lowered()

    def instance(self, number: int, custom: Customization = NOT_CUSTOMIZED) -> VipInstance:
        return VipInstance(self._layout, self._compiled, self._variant)

    def profile(self, instance: Instance) -> tuple[MeasuredLayer, ...]:
        assert isinstance(instance, VipInstance), "an instance of this program"
        other = VipInstance(self._layout, self._compiled, self._variant)
        for own, copy in zip(instance.inputs, other.inputs, strict=True):
            np.copyto(copy, own)
        return measured(self._layers, other.timed())


class _Decoded:
    """The operations' tasks, one by one, within what a run may cost; `layers` get to know them."""

    def __init__(self, model: Nbg) -> None:
        self._model = model
        self._operations = Operations(model)
        self.layout = self._operations.layout

    def __iter__(self) -> Iterator[Task]:
        self.layers = Layers(self._model)
        budget = Budget()
        operations = self._operations
        for number, task in zip(operations.numbers, operations.tasks(), strict=True):
            budget.take(task.macs, f"network {self._model.name!r}")
            self.layers.add(task, number)
            yield task


class VipInstance(Instance):
    """A context's memory; inputs and outputs lie in it where they have the arrays' dtype."""

    def __init__(self, layout: MemoryMap, compiled: Compiled, variant: Variant) -> None:
        memory = Memory(layout)
        self._queues = memory.queues
        self._calls: Calls | None = Calls(compiled, memory)
        self._loads: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._stores: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self.inputs = self._arrays(memory, Source.INPUT, variant.inputs)
        self.outputs = self._arrays(memory, Source.OUTPUT, variant.outputs)

    def _arrays(
        self, memory: Memory, source: Source, ports: Sequence[Port]
    ) -> tuple[NDArray[Any], ...]:
        arrays = []
        for index, port in enumerate(ports):
            content = memory.space(Space(source, index))
            stored = content.view(stored_dtype(port.dtype)).reshape(
                stored_shape(port.shape, port.dtype)
            )
            if port.dtype.numpy_name is None or port.carrier == stored.dtype:
                arrays.append(stored)
                continue
            array = np.zeros(port.shape, port.carrier)
            arrays.append(array)
            if source is Source.INPUT:
                self._loads.append((array, stored))
            else:
                self._stores.append((stored, array))
        return tuple(arrays)

    def run(self) -> None:
        calls = self._begun()
        # A `cancel` that came after the end of the run before is not meant for this one.
        calls.allow()
        for call in calls.calls:
            call()
            if calls.is_cancelled:
                raise ModelError("the run was cancelled")
        for source, target in self._stores:
            kernels.convert(source, target)

    def timed(self) -> list[float]:
        """Run, and give the seconds of each operation."""
        spent = []
        for call in self._begun().single:
            start = time.perf_counter()
            call()
            spent.append(time.perf_counter() - start)
        return spent

    def stepped(self) -> Iterator[Memory]:
        """Run operation by operation: after each of them the memory, in place."""
        calls = self._begun()
        for call in calls.single:
            call()
            yield calls.memory

    def _begun(self) -> Calls:
        calls = self._calls
        assert calls is not None, "run after close"
        self._queues.clear()
        for source, target in self._loads:
            kernels.convert(source, target)
        return calls

    def cancel(self) -> None:
        calls = self._calls
        if calls is not None:
            calls.cancel()

    def close(self) -> None:
        self._calls, self._loads, self._stores = None, [], []
        self.inputs = self.outputs = ()
