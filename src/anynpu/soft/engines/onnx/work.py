"""How many multiply-accumulates an ONNX operator takes, from its shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnx import NodeProto

from .shapes import Shape


@dataclass(frozen=True)
class Work:
    """Multiply-accumulates of an operator, its groups, the channels of one group, its kernel."""

    macs: int = 0
    channels_in: int = 0
    channels_out: int = 0
    groups: int = 1
    kernel: Shape = ()

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is convolved for itself."""
        return self.groups > 1 and self.channels_in == 1

    @property
    def filters(self) -> int:
        """The channels that all groups give together."""
        return self.channels_out * self.groups


NONE = Work()


def work(node: NodeProto, inputs: Sequence[Shape | None], output: Shape | None) -> Work:
    """The work of a node, given the shapes of its inputs and of its first output.

    `NONE` for operators that don't multiply and accumulate, and for shapes that aren't known or
    don't fit the operator.
    """
    count = _COUNTERS.get(node.op_type)
    known = [shape for shape in inputs[:3] if shape is not None]
    if count is None or output is None or len(known) != len(inputs[:3]):
        return NONE
    try:
        return count(node, known, output)
    except (IndexError, ValueError, ZeroDivisionError):
        return NONE


def _convolution(node: NodeProto, inputs: Sequence[Shape], output: Shape) -> Work:
    groups = _attribute(node, "group", 1)
    filters, channels, *kernel = inputs[1]
    macs = math.prod(output) * channels * math.prod(kernel)
    return Work(macs, channels, filters // groups, groups, tuple(kernel))


def _transposed_convolution(node: NodeProto, inputs: Sequence[Shape], output: Shape) -> Work:
    groups = _attribute(node, "group", 1)
    channels, filters, *kernel = inputs[1]
    macs = math.prod(inputs[0]) * filters * math.prod(kernel)
    return Work(macs, channels // groups, filters, groups, tuple(kernel))


def _product(node: NodeProto, inputs: Sequence[Shape], output: Shape) -> Work:
    """Gemm and MatMul."""
    depth = inputs[0][0 if _attribute(node, "transA", 0) else -1]
    return Work(math.prod(output) * depth, depth, output[-1] if len(inputs[1]) > 1 else 1)


def _recurrence(node: NodeProto, inputs: Sequence[Shape], output: Shape) -> Work:
    """LSTM, GRU and RNN: every step multiplies with the weights of its input and of its state."""
    steps, batch, channels = inputs[0]
    weights = math.prod(inputs[1]) + math.prod(inputs[2])
    return Work(steps * batch * weights, channels, inputs[1][1])


_COUNTERS = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Gemm": _product,
    "MatMul": _product,
    "GRU": _recurrence,
    "LSTM": _recurrence,
    "RNN": _recurrence,
}


def _attribute(node: NodeProto, name: str, default: int) -> int:
    return next((entry.i for entry in node.attribute if entry.name == name), default)
