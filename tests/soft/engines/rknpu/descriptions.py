"""Hand-made tasks: small features in one memory, and stages that do little."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anynpu.layouts import nc1hwc2_to_nchw, nchw_to_nc1hwc2
from anynpu.native.threads import thread_count
from anynpu.soft.engines.rknpu.elements import Address, Element
from anynpu.soft.engines.rknpu.kernels import (
    KernelKind,
    Scratch,
    chained,
    plan_task,
)
from anynpu.soft.engines.rknpu.memory import INTERNAL, Memory
from anynpu.soft.engines.rknpu.reference import run_task
from anynpu.soft.engines.rknpu.tasks import (
    BlockWriter,
    Convolution,
    ConvolutionTask,
    Dpu,
    Features,
    Image,
    Output,
    Stage,
    Task,
)
from anynpu.soft.engines.rknpu.weights import WeightLayout, Weights

SOURCE, OPERAND, TARGET = 0, 1 << 16, 1 << 17
_MEMORY = 1 << 18
_CONSTANTS = 1


def features(
    shape: tuple[int, int, int], element: Element = Element.INT8, offset: int = SOURCE
) -> Features:
    """Features of a shape (C, H, W) without gaps, atoms of 16 bytes."""
    channels, height, width = shape
    return Features(
        Address(INTERNAL, offset), element, channels, height, width, width * 16,
        height * width * 16, 16,
    )  # fmt: skip


def block_writer(height: int, width: int, surfaces: int = 99, **changes: Any) -> BlockWriter:
    """A writer of plain channel blocks to TARGET."""
    arguments: dict[str, Any] = {
        "address": Address(INTERNAL, TARGET),
        "height": height,
        "width": width,
        "line": width * 16,
        "surface": height * width * 16,
        "group": surfaces,
        "group_stride": 0,
        "atom": 16,
        "padding": 0,
        **changes,
    }
    return BlockWriter(**arguments)


def stage(**changes: Any) -> Stage:
    """A stage that changes nothing but what is named."""
    arguments: dict[str, Any] = {
        "add": None,
        "subtracts": False,
        "multiply": None,
        "adds_first": True,
        "multiply_negatives": False,
        "shift_positive": 0,
        "shift_negative": 0,
        **changes,
    }
    return Stage(**arguments)


def output(element: Element = Element.INT8, **changes: Any) -> Output:
    """An output that changes nothing but what is named."""
    arguments: dict[str, Any] = {"scale": 1, "shift": 0, "offset": 0, "factor": 1.0, **changes}
    return Output(element, **arguments)


def dpu(is_float: bool = False, **changes: Any) -> Dpu:
    """A DPU that passes values on, saturated to int8 or rounded to float16."""
    arguments: dict[str, Any] = {
        "bs": None,
        "bn": None,
        "elementwise": None,
        "reduction": None,
        "output": output(Element.FLOAT16 if is_float else Element.INT8),
        **changes,
    }
    return Dpu(is_float, **arguments)


def channels(values: Any) -> NDArray[Any]:
    """Per-channel operands (C, 1, 1) of integers."""
    return np.asarray(values, np.int64)[:, None, None]


def dense_weights(values: NDArray[Any], element: Element = Element.INT8) -> Weights:
    """Kernels (K, C, KH, KW) in the order that the hardware streams them in."""
    kernels, inputs, height, width = values.shape
    groups = {1: (32, 32), 2: (16, 32)}[element.size]
    blocks = [
        values[kernel : kernel + groups[0], channel : channel + groups[1]]
        .transpose(2, 3, 0, 1)
        .ravel()
        for kernel in range(0, kernels, groups[0])
        for channel in range(0, inputs, groups[1])
    ]
    layout = WeightLayout(element, kernels, inputs, height, width, *groups, False)
    data = np.concatenate(blocks).astype(element.dtype).view(np.uint8)
    return Weights(Address(_CONSTANTS, 0), layout, data)


def depthwise_weights(values: NDArray[Any]) -> Weights:
    """int8 weights (C, KH, KW) in groups of 64 channels."""
    count, height, width = values.shape
    blocks = [
        values[first : first + 64].transpose(1, 2, 0).ravel() for first in range(0, count, 64)
    ]
    layout = WeightLayout(Element.INT8, 1, count, height, width, 1, 64, True)
    data = np.concatenate(blocks).astype(np.int8).view(np.uint8)
    return Weights(Address(_CONSTANTS, 0), layout, data)


def convolution(
    source: Features | Image, weights: Weights, height: int, width: int, **changes: Any
) -> Convolution:
    """A convolution of stride 1 without padding but for what is named."""
    layout = weights.layout
    arguments: dict[str, Any] = {
        "valid_channels": source.channels,
        "conversion": None,
        "inserted": (0, 0),
        "padding": (0, 0),
        "padding_value": 0.0,
        "stride": (1, 1),
        "dilation": (1, 1),
        "weight_offset": None,
        "channels": source.channels if layout.is_depthwise else layout.kernels,
        **changes,
    }
    return Convolution(source=source, weights=weights, height=height, width=width, **arguments)


def convolution_task(
    what: Convolution, stages: Dpu | None = None, **writer: Any
) -> ConvolutionTask:
    """The convolution through a DPU to TARGET."""
    target = block_writer(what.height, what.width, **writer)
    return ConvolutionTask(0, 0, what, stages or dpu(), target)


class Scene:
    """A memory of its own, filled with noise."""

    def __init__(self, seed: int = 0) -> None:
        self.bytes = np.random.default_rng(seed).integers(0, 256, _MEMORY, np.uint8)
        self.memory = Memory(self.bytes, {})

    def put(self, values: NDArray[Any], offset: int = SOURCE) -> None:
        """Store (C, H, W) in channel blocks of 16 bytes."""
        packed = nchw_to_nc1hwc2(values[None], 16 // values.itemsize)
        raw = packed.reshape(-1).view(np.uint8)
        self.bytes[offset : offset + raw.size] = raw

    def get(
        self, shape: tuple[int, int, int], dtype: Any = np.int8, offset: int = TARGET
    ) -> NDArray[Any]:
        """What lies in channel blocks of 16 bytes, as (C, H, W)."""
        lanes = 16 // np.dtype(dtype).itemsize
        blocks = -(-shape[0] // lanes)
        size = blocks * shape[1] * shape[2] * 16
        packed = self.bytes[offset : offset + size].view(dtype)
        planes = nc1hwc2_to_nchw(packed.reshape(1, blocks, *shape[1:], lanes), shape[0])
        result: NDArray[Any] = planes[0]
        return result

    def run(self, task: Task, kind: KernelKind) -> None:
        """Run a task with the reference and with the kernels that must take it: the same bytes."""
        assert self.run_any(task) is kind

    def run_any(self, task: Task) -> KernelKind:
        """The same for a task of which it isn't said what runs it; what did."""
        before = self.bytes.copy()
        run_task(self.memory, task)
        plan = plan_task(task)
        if plan is None:
            return KernelKind.REFERENCE
        expected, self.bytes[...] = self.bytes.copy(), before
        scratch = Scratch(plan.own_bytes, plan.shared_bytes, thread_count())
        for call in chained(plan.bind(self.memory, scratch), scratch, ctypes.c_int32()):
            call()
        np.testing.assert_array_equal(self.bytes, expected)
        return plan.kind


def kernels_of(task: Task) -> KernelKind:
    """Which kernels run a task."""
    plan = plan_task(task)
    return KernelKind.REFERENCE if plan is None else plan.kind
