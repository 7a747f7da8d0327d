"""Recurrent nodes of several steps, which change their own commands on the chip.

An `exLSTM` of one step is a list of ordinary tasks. One of several steps computes the words of its
next tasks with tasks of its own; here the node as a whole is computed instead, by ONNX Runtime's
LSTM. Its weights are ONNX's W and R in the layout of convolution weights, its bias the sum of
both of ONNX's (seen in files of toolkit 2.5). In int8 the scales are in the tasks only, so such a
node is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ...formats.rknn.model import CompiledModel, ElementType, Graph, Node, Tensor, TensorLayout
from .cpu_nodes import CpuNode, name_operands, real_dtype
from .sessions import OneNode, compute_with_onnxruntime

_GATES = 4
_OPERANDS = (
    "x", "w", "r", "b", "sequence_lens", "initial_h", "initial_c", "p", "dropout", "projection",
    "projection bias",
)  # fmt: skip
_UNUSED = ("sequence_lens", "p", "dropout", "projection", "projection bias")


def is_recurrent(node: Node) -> bool:
    """Whether a node is computed here, not by its tasks."""
    return node.op_type == "exLSTM" and node.options.get("sequence_length", 1) > 1


def prepare_lstm(model: CompiledModel, graph: Graph, node: Node) -> CpuNode:
    """The node as a whole; raises `ModelError` that names it for a form that isn't known."""
    if len(node.inputs) < len(_OPERANDS) or min(node.inputs[: len(_OPERANDS)]) < 0:
        raise _unknown(node, f"has {len(node.inputs)} operands")
    found = dict(zip(_OPERANDS, (graph.tensors[index] for index in node.inputs), strict=False))
    _check(model, node, found)
    hidden = int(node.options["hidden_size"])
    steps, batch, _ = found["x"].shape
    names, constants, sources = name_operands(
        model, node, [found["x"], found["initial_h"], found["initial_c"]]
    )
    constants = constants | {
        "w": _weights(model, node, found["w"], _GATES * hidden)[None],
        "r": _weights(model, node, found["r"], _GATES * hidden)[None],
        "b": _bias(model, node, found["b"], _GATES * hidden)[None],
    }
    x, initial_h, initial_c = names
    results = [f"output{number}" if index >= 0 else "" for number, index in enumerate(node.outputs)]
    outputs = tuple(graph.tensors[index] for index in node.outputs if index >= 0)
    expected = (steps * batch * hidden, batch * hidden, batch * hidden)
    for tensor, size in zip(outputs, _kept(expected, node.outputs), strict=True):
        if math.prod(tensor.shape) != size:
            raise _unknown(node, f"has an output of shape {tensor.shape}")
    compute = compute_with_onnxruntime(
        node,
        OneNode(
            op_type="LSTM",
            inputs=[x, "w", "r", "b", "", initial_h, initial_c],
            outputs=results,
            constants=constants,
            sources=[(real_dtype(tensor), tensor.shape) for tensor in sources],
            attributes={"hidden_size": hidden},
        ),
    )
    return CpuNode(node, tuple(sources), outputs, compute)


def _check(model: CompiledModel, node: Node, found: dict[str, Tensor]) -> None:
    hidden = node.options.get("hidden_size", 0)
    direction = node.options.get("direction", "forward")
    if hidden < 1 or direction != "forward" or len(node.outputs) > 3:
        raise _unknown(
            node, f"is {direction}, with {hidden} values and {len(node.outputs)} outputs"
        )
    for name in ("x", "w", "r"):
        if found[name].element is not ElementType.FLOAT16:
            raise _unknown(node, f"has {name} of type {found[name].element.name}")
    if len(found["x"].shape) != 3 or found["x"].shape[0] != node.options["sequence_length"]:
        raise _unknown(node, f"has an input of shape {found['x'].shape}")
    for name in _UNUSED:
        if not found[name].section or any(model.sections[found[name].section]):
            raise _unknown(node, f"uses {name}")


def _weights(model: CompiledModel, node: Node, tensor: Tensor, kernels: int) -> NDArray[np.float32]:
    """(kernels, channels) from groups of kernels and of channels."""
    shape = tensor.native_shape
    if tensor.layout is not TensorLayout.WEIGHT or len(shape) != 6 or shape[2:4] != (1, 1):
        raise _unknown(node, f"has weights {tensor.name!r} in memory as {shape}")
    groups, blocks, _, _, group, block = shape
    if groups * group != kernels:
        raise _unknown(node, f"has weights {tensor.name!r} in memory as {shape}")
    data = _values(model, node, tensor, math.prod(shape), np.float16)
    ordered = data.reshape(groups, blocks, group, block).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(ordered.reshape(kernels, blocks * block)[:, : tensor.shape[1]])


def _bias(model: CompiledModel, node: Node, tensor: Tensor, kernels: int) -> NDArray[np.float32]:
    """ONNX's two biases; the file has their sum, and zeros."""
    return _values(model, node, tensor, 2 * kernels, np.float32)


def _values(
    model: CompiledModel, node: Node, tensor: Tensor, count: int, dtype: Any
) -> NDArray[np.float32]:
    data = model.data(tensor)
    size = count * np.dtype(dtype).itemsize
    if len(data) < size:
        raise _unknown(node, f"has {len(data)} bytes of {tensor.name!r}, {size} are needed")
    return np.frombuffer(data[:size], dtype).astype(np.float32)


def _kept(values: Sequence[int], outputs: Sequence[int]) -> list[int]:
    return [value for value, index in zip(values, outputs, strict=False) if index >= 0]


def _unknown(node: Node, problem: str) -> ModelError:
    return ModelError(
        f"node {node.index} {node.name!r} of type {node.op_type} {problem}, which isn't known"
    )
