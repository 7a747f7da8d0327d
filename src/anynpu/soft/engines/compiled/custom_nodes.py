"""Nodes that an operator from outside computes.

The compiler leaves operators that it doesn't know, whose names begin with ``cst``, to the CPU, and
any CPU node may be taken over. Operators see real numbers in float32, whatever memory holds, in
the model's own order of axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ....tensor import DType
from ...formats.rknn.model import Graph, Node, Tensor
from ..program import CustomCall, CustomNode, MissingOperatorError, Port
from .layers import is_scratch, onnx_name
from .real_values import RealValues, real_dtype

_PREFIX = "cst"


def is_foreign(node: Node) -> bool:
    """Whether only an operator from outside can compute a node."""
    return node.op_type.startswith(_PREFIX)


def describe(graph: Graph, node: Node) -> CustomNode:
    """A CPU node as operators from outside see it."""
    return CustomNode(
        index=node.index,
        op_type=node.op_type,
        name=onnx_name(node),
        attributes=_attributes({**node.options, **node.attributes}),
        inputs=tuple(map(_port, _sources(graph, node))),
        outputs=tuple(map(_port, _targets(graph, node))),
        has_builtin=not is_foreign(node),
        is_foreign=is_foreign(node),
    )


def bind_call(
    graph: Graph, node: Node, call: CustomCall, memory: NDArray[np.uint8]
) -> Callable[[], None]:
    """What computes a node in an internal memory; one thread at a time."""
    sources = [RealValues(memory, tensor) for tensor in _sources(graph, node)]
    targets = [RealValues(memory, tensor) for tensor in _targets(graph, node)]

    def run() -> None:
        for source, array in zip(sources, call.inputs, strict=True):
            np.copyto(array, source.load())
        call.run()
        for target, array in zip(targets, call.outputs, strict=True):
            target.store(node, array)

    return run


def missing(node: Node) -> Callable[[], None]:
    """The error of a node that nothing computes."""

    def run() -> None:
        raise MissingOperatorError([node.op_type])

    return run


def _sources(graph: Graph, node: Node) -> list[Tensor]:
    found = [graph.tensors[index] for index in node.inputs if index >= 0]
    return [tensor for tensor in found if not tensor.section and not is_scratch(tensor)]


def _targets(graph: Graph, node: Node) -> list[Tensor]:
    return [graph.tensors[index] for index in node.outputs if index >= 0]


def _port(tensor: Tensor) -> Port:
    dtype = DType.from_numpy(real_dtype(tensor))
    if dtype is None:
        raise ModelError(f"tensor {tensor.name!r} can't be passed to a custom operator")
    return Port(tensor.name, tensor.shape, dtype)


def _attributes(given: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Attributes as arrays; those that are neither numbers nor a text are left out."""
    found = {name: _values(value) for name, value in given.items()}
    return {name: values for name, values in found.items() if values is not None}


def _values(value: Any) -> NDArray[Any] | None:
    if isinstance(value, str | bytes):
        return np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)
    values = np.atleast_1d(np.asarray(value))
    if values.ndim != 1 or values.dtype.kind not in "bif":
        return None
    return values.astype(np.float32 if values.dtype.kind == "f" else np.int64)
