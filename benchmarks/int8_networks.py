"""int8 networks made of tasks, as a compiled file has them, of any size and without a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.graph import PreparedGraph
from anynpu.soft.engines.rknpu.kernels import Plan, plan_task
from anynpu.soft.engines.rknpu.memory import INTERNAL
from anynpu.soft.engines.rknpu.tasks import (
    BlockWriter,
    Convolution,
    ConvolutionTask,
    Dpu,
    Features,
    Output,
    Stage,
)
from anynpu.soft.engines.rknpu.weights import WeightLayout, Weights

_ATOM = 16
_GROUP = 32
_CONSTANTS = 1
_SHIFT = 14


@dataclass(frozen=True)
class Layer:
    """A convolution that keeps the size of (C, side, side) or, with a stride of 2, halves it."""

    inputs: int
    outputs: int
    side: int
    kernel: int
    stride: int = 1

    @property
    def side_after(self) -> int:
        return -(-self.side // self.stride)

    @property
    def macs(self) -> int:
        """Multiplications and additions."""
        return self.side_after**2 * self.kernel**2 * self.inputs * self.outputs


def residual_shape(side: int, channels: int) -> list[Layer]:
    """Four stages, each of half the side and twice the channels: two 3x3 and a 1x1 in each."""
    layers = []
    before = channels
    for number in range(4):
        stride = 1 if number == 0 else 2
        layers += [
            Layer(before, channels, side, 3, stride),
            Layer(channels, channels, -(-side // stride), 3),
            Layer(channels, channels, -(-side // stride), 1),
        ]
        side, before, channels = -(-side // stride), channels, 2 * channels
    return layers


def runner(layers: list[Layer]) -> Callable[[], None]:
    """What computes the layers one after another, each from one half of a memory into the other."""
    half = max(
        max(layer.inputs * layer.side**2, layer.outputs * layer.side_after**2) for layer in layers
    )
    half = -(-half // 4096) * 4096
    tasks, plans = {}, {}
    for index, layer in enumerate(layers):
        task = _task(index, layer, half)
        plan = plan_task(task)
        assert isinstance(plan, Plan), "int8 kernels run such tasks"
        tasks[index], plans[index] = (task,), plan
    memory = np.random.default_rng(0).integers(0, 256, 2 * half, np.uint8)
    executor = PreparedGraph(tasks, memory.size, {}, frozenset(), plans).executor(memory)
    (call,) = executor.calls(range(len(layers)))
    return call


def _task(index: int, layer: Layer, half: int) -> ConvolutionTask:
    source = Features(
        Address(INTERNAL, index % 2 * half), Element.INT8, layer.inputs, layer.side, layer.side,
        layer.side * _ATOM, layer.side**2 * _ATOM, _ATOM,
    )  # fmt: skip
    side = layer.side_after
    writer = BlockWriter(
        Address(INTERNAL, (index + 1) % 2 * half), side, side, side * _ATOM, side**2 * _ATOM,
        layer.outputs, 0, _ATOM, 0,
    )  # fmt: skip
    pad = layer.kernel // 2
    convolution = Convolution(
        source, layer.inputs, None, _weights(index, layer), (0, 0), (pad, pad), 0.0,
        (layer.stride, layer.stride), (1, 1), None, layer.outputs, side, side,
    )  # fmt: skip
    factors = np.random.default_rng(index).integers(1, 64, (layer.outputs, 1, 1))
    stage = Stage(factors * 1000, False, factors, True, False, _SHIFT, _SHIFT, lower=0)
    dpu = Dpu(False, stage, None, None, None, Output(Element.INT8, 16384, 14, -128, 1.0))
    return ConvolutionTask(index, index, convolution, dpu, writer)


def _weights(index: int, layer: Layer) -> Weights:
    layout = WeightLayout(
        Element.INT8, layer.outputs, layer.inputs, layer.kernel, layer.kernel, _GROUP, _GROUP,
        is_depthwise=False,
    )  # fmt: skip
    data = np.random.default_rng(index).integers(0, 256, layout.bytes, np.uint8)
    return Weights(Address(_CONSTANTS, 0), layout, data)
