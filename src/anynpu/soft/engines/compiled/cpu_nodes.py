"""Nodes that the vendor's runtime leaves to the CPU: dequantise, ONNX Runtime, quantise.

The compiler keeps ONNX's operators and attributes for them, so each becomes a model of one node,
built when the file is loaded and shared by all contexts. The vendor's own code for these nodes
isn't public; rounding to the output's type may differ from it by one step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ...formats.rknn.model import (
    CompiledModel,
    ElementType,
    Generation,
    Graph,
    Node,
    Tensor,
)
from ..node_work import element_work
from ..work import PER_CPU_NODE, Budget
from .averages import OP_TYPE as AVERAGE
from .averages import Average, prepare_average
from .bilinear import OP_TYPE as RESIZE
from .bilinear import Bilinear, prepare_bilinear
from .buffers import TensorBuffer, element_dtype
from .conv_transpose_pad import OP_TYPE as SPREAD
from .conv_transpose_pad import Spread, prepare_spread
from .layers import is_scratch
from .moves import NUMPY, compute_with_numpy
from .real_values import RealValues, as_real, real_dtype
from .sessions import ONNX_RUNTIME, Compute, OneNode, compute_with_onnxruntime, place_of
from .slices import OP_TYPE as SLICE
from .slices import Slice, are_apart, atoms_move_by, has_whole_words, moved_atoms, prepare_slice

# The compiler's own names of operators that ONNX has.
_RENAMES = {"exDataConvert": "Identity", "exSoftmax13": "Softmax"}
# Their attributes repeat what the tensors say.
_WITHOUT_ATTRIBUTES = frozenset({"exDataConvert"})
_RESHAPES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_TRUTHS = {"And": (0, 1), "Not": (0,), "Or": (0, 1), "Where": (0,), "Xor": (0, 1)}
"""The operands that are truth values; files hold them as int8, a board as numbers."""
_PLACEHOLDER = "empty_placeholder"

InSession = Callable[[Node, OneNode, Budget], Compute]


@dataclass(frozen=True)
class CpuNode:
    """One node, ready to run: any thread, any number at a time.

    `inputs` are the tensors that it reads from memory, in the order in which `compute` takes them
    as real values of their logical shapes; `outputs` those that it writes. `runs_on` is what
    `compute` is done by.
    """

    node: Node
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    compute: Compute
    runs_on: str

    def bind(self, memory: NDArray[np.uint8]) -> Callable[[], None]:
        """What computes the node in an internal memory; one thread at a time."""
        sources = [RealValues(memory, tensor) for tensor in self.inputs]
        targets = [RealValues(memory, tensor) for tensor in self.outputs]

        def run() -> None:
            results = self.compute([source.load() for source in sources])
            for target, values in zip(targets, results, strict=True):
                target.store(self.node, values)

        return run


@dataclass(frozen=True)
class Move:
    """A node that only gives its input's elements another shape."""

    node: Node
    source: Tensor
    target: Tensor

    @property
    def runs_on(self) -> str:
        return atoms_move_by() if self._keeps_atoms else NUMPY

    def bind(self, memory: NDArray[np.uint8]) -> Callable[[], None]:
        """What computes the node in an internal memory; one thread at a time."""
        source, target = TensorBuffer(memory, self.source), TensorBuffer(memory, self.target)
        if self._keeps_atoms:
            before, after = (
                buffer.array.reshape(*buffer.array.shape[:2], -1, buffer.array.shape[-1])
                for buffer in (source, target)
            )
            return moved_atoms(memory, before, self.target, after)
        between: NDArray[Any] = np.empty(self.source.shape, element_dtype(self.source))

        def run() -> None:
            source.read(between)
            target.write(between)

        return run

    @property
    def _keeps_atoms(self) -> bool:
        """Whether channels stay what they are, and rows lie without gaps in both."""
        return (
            self.source.shape[:2] == self.target.shape[:2]
            and has_whole_words(self.source)
            and has_whole_words(self.target)
            and self.source.native_shape[-1] == self.target.native_shape[-1]
            and not (self.source.row or self.target.row)
            and are_apart(self.source, self.target)
        )


Runnable = CpuNode | Move | Slice | Spread | Average | Bilinear
"""A node of the CPU that is ready to be bound to a memory; `runs_on` is what computes it."""


def prepare_cpu_node(
    model: CompiledModel,
    graph: Graph,
    node: Node,
    budget: Budget | None = None,
    in_session: InSession = compute_with_onnxruntime,
) -> Runnable:
    """A CPU node of a graph, whose work is taken from `budget`.

    `in_session` computes what nothing here does. Raises `ModelError` that names the node where it
    can't be computed.
    """
    budget = budget or Budget()
    operands = [graph.tensors[index] if index >= 0 else None for index in node.inputs]
    outputs = tuple(graph.tensors[index] for index in node.outputs if index >= 0)
    if not outputs:
        raise ModelError(f"CPU node {node.index} {node.name!r} has no output")
    first = operands[0] if operands else None
    if node.op_type in _RESHAPES and first is not None and _holds_the_same(first, outputs[0]):
        return Move(node, first, outputs[0])
    if node.op_type == SPREAD and first is not None:
        return prepare_spread(node, first, outputs[0])
    if node.op_type == SLICE and first is not None:
        moved = prepare_slice(node, first, outputs[0], _constants(model, node, operands[1:]))
        if moved is not None:
            return moved
    own = _as_the_vendor_computes(node, first, outputs[0]) if first is not None else None
    if own is not None:
        budget.take(_work(own), place_of(node))
        return own
    return _on_real_values(model, node, operands, outputs, budget, in_session)


def _on_real_values(
    model: CompiledModel,
    node: Node,
    operands: Sequence[Tensor | None],
    outputs: tuple[Tensor, ...],
    budget: Budget,
    in_session: InSession,
) -> CpuNode:
    wanted = [tensor for tensor in operands if tensor is None or not is_scratch(tensor)]
    # Files for RV1106 have none of ONNX's own.
    loses_attributes = model.generation is Generation.MICRO
    names, constants, sources = _name_operands(model, node, wanted)
    truths = {names[place] for place in _TRUTHS.get(node.op_type, ()) if place < len(names)}
    constants |= {name: constants[name] != 0 for name in truths & constants.keys()}
    is_truth = [f"input{number}" in truths for number in range(len(sources))]
    one = OneNode(
        op_type=_RENAMES.get(node.op_type, node.op_type),
        inputs=names,
        outputs=[f"output{number}" for number in range(len(outputs))],
        constants=constants,
        sources=[
            (np.dtype(bool) if truth else real_dtype(tensor), tensor.shape)
            for tensor, truth in zip(sources, is_truth, strict=True)
        ],
        results=[tensor.shape for tensor in outputs],
        attributes=_attributes(node, outputs[0]),
        options=node.options,
        is_complete=bool(node.attributes) or node.has_options or not loses_attributes,
    )
    moved = compute_with_numpy(node, one, budget)
    compute = moved or in_session(node, one, budget)
    return CpuNode(
        node,
        tuple(sources),
        outputs,
        _with_truths(compute, is_truth) if truths else compute,
        NUMPY if moved else ONNX_RUNTIME,
    )


def _with_truths(compute: Compute, is_truth: Sequence[bool]) -> Compute:
    """`compute`, which takes some operands as truth values, from numbers for all of them."""

    def run(values: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        return compute(
            [given != 0 if truth else given for given, truth in zip(values, is_truth, strict=True)]
        )

    return run


def _as_the_vendor_computes(
    node: Node, source: Tensor, target: Tensor
) -> Average | Bilinear | None:
    """A node whose arithmetic isn't ONNX Runtime's, None for the others."""
    if node.op_type == AVERAGE:
        return prepare_average(node, source, target)
    if node.op_type == RESIZE:
        return prepare_bilinear(node, source, target)
    return None


def _work(own: Average | Bilinear) -> float:
    node = own.node
    attributes = {**node.options, **node.attributes}
    return PER_CPU_NODE + element_work(
        node.op_type, attributes, [own.source.shape], [own.target.shape]
    )


def _attributes(node: Node, output: Tensor) -> Mapping[str, Any]:
    if node.op_type in _WITHOUT_ATTRIBUTES:
        return {}
    if node.op_type == "Cast":
        # Files for RV1106 don't repeat what the output is.
        real = real_dtype(output)
        code = ElementType.FLOAT32.code if real == np.float32 else output.element.code
        return {"to": code, **node.attributes}
    return node.attributes


def _holds_the_same(source: Tensor, target: Tensor) -> bool:
    """Whether an element's bytes mean the same value in both."""
    return (
        source.kind.is_internal
        and source.element is target.element
        and source.quantization == target.quantization
        and math.prod(source.shape) == math.prod(target.shape)
    )


def _name_operands(
    model: CompiledModel, node: Node, operands: Sequence[Tensor | None]
) -> tuple[list[str], dict[str, NDArray[Any]], list[Tensor]]:
    """Names of the operands for `OneNode`, the constants' values by name, the other tensors."""
    names: list[str] = []
    constants: dict[str, NDArray[Any]] = {}
    sources: list[Tensor] = []
    for tensor in operands:
        if tensor is None or tensor.name.startswith(_PLACEHOLDER):
            names.append("")
        elif tensor.section:
            names.append(f"constant{len(constants)}")
            constants[names[-1]] = _constant(model, node, tensor)
        else:
            names.append(f"input{len(sources)}")
            sources.append(tensor)
    while names and not names[-1]:
        names.pop()
    return names, constants, sources


def _constants(
    model: CompiledModel, node: Node, operands: Sequence[Tensor | None]
) -> Sequence[NDArray[Any]]:
    """The operands up to the first one that isn't a constant of the file."""
    found = takewhile(lambda tensor: tensor is not None and tensor.section, operands)
    return [_constant(model, node, tensor) for tensor in found if tensor is not None]


def _constant(model: CompiledModel, node: Node, tensor: Tensor) -> NDArray[Any]:
    dtype = element_dtype(tensor)
    data = model.data(tensor)
    needed = math.prod(tensor.shape) * dtype.itemsize
    if len(data) < needed:
        raise ModelError(
            f"CPU node {node.index} {node.name!r}: constant {tensor.name!r} of shape "
            f"{tensor.shape} has {len(data)} bytes, {needed} are needed"
        )
    values = np.frombuffer(data[:needed], dtype).reshape(tensor.shape)
    real = as_real(values, tensor.quantization)
    # Pages of the file aren't kept for it.
    return real.copy() if real is values else real
