"""A compiled `.nb` file behind the seam: its own commands, executed one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
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
from .layers import layers_of, measured
from .memory import Memory, Space
from .prepare import Prepared, prepare
from .reference.compute import compute

Step = Callable[[], None]


class VipProgram(Program):
    """A compiled file, decoded: immutable, shared by threads.

    Raises `Refusal`, which names the operation, its layer and what isn't known of it.
    """

    framework = "VIP"
    producer = ""
    custom_string = ""

    def __init__(self, model: Nbg, variant: Variant, soc: str | None) -> None:
        self.model = model
        self.soc = soc
        self.prepared = prepare(model)
        self._variant = variant
        self.input_shapes = (tuple(port.shape for port in variant.inputs),)
        budget = Budget()
        for task in self.prepared.tasks:
            budget.take(task.macs, f"network {model.name!r}")

    def variant(self, number: int) -> Variant:
        return self._variant

    def lowered(self, number: int) -> LoweredModel:
        return layers_of(self.model, self.prepared)

    def instance(self, number: int, custom: Customization = NOT_CUSTOMIZED) -> VipInstance:
        return VipInstance(self.prepared, self._variant)

    def profile(self, instance: Instance) -> tuple[MeasuredLayer, ...]:
        assert isinstance(instance, VipInstance), "an instance of this program"
        other = VipInstance(self.prepared, self._variant)
        for own, copy in zip(instance.inputs, other.inputs, strict=True):
            np.copyto(copy, own)
        return measured(self.model, self.prepared, other.timed())


class VipInstance(Instance):
    """A context's memory; inputs and outputs lie in it where they have the arrays' dtype."""

    def __init__(self, prepared: Prepared, variant: Variant) -> None:
        memory = Memory(prepared.layout)
        self._cancelled = threading.Event()
        self._memory = memory
        self._steps = steps(prepared, memory)
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
        # A `cancel` that came after the end of the run before is not meant for this one.
        self._cancelled.clear()
        self._memory.queues.clear()
        for source, target in self._loads:
            kernels.convert(source, target)
        for step in self._steps:
            step()
            if self._cancelled.is_set():
                raise ModelError("the run was cancelled")
        for source, target in self._stores:
            kernels.convert(source, target)

    def timed(self) -> list[float]:
        """Run, and give the seconds of each step."""
        self._memory.queues.clear()
        for source, target in self._loads:
            kernels.convert(source, target)
        spent = []
        for step in self._steps:
            start = time.perf_counter()
            step()
            spent.append(time.perf_counter() - start)
        return spent

    def cancel(self) -> None:
        self._cancelled.set()

    def close(self) -> None:
        self._steps, self._loads, self._stores = [], [], []
        self.inputs = self.outputs = ()


def steps(prepared: Prepared, memory: Memory) -> list[Step]:
    """What each operation does to a memory, in their order."""
    return [_step(task, memory) for task in prepared.tasks]


def _step(task: Any, memory: Memory) -> Step:
    return lambda: compute(task, memory)
