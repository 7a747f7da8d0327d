"""What mistakes are looked for in: a graph's nodes with their tensors and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .....tensor import Quantization
from ....formats.rknn.model import CompiledModel, ElementType, Graph, Node, Tensor
from ...rknpu.elements import Address
from ...rknpu.tasks import Features, Task


@dataclass(frozen=True)
class Subject:
    """A graph, the nodes that compute, and each node's tasks by its index."""

    model: CompiledModel
    graph: Graph
    nodes: Sequence[Node]
    tasks: Mapping[int, Sequence[Task]]

    def of_type(self, *op_types: str) -> Iterator[tuple[Node, Sequence[Task]]]:
        """The nodes of some types that have tasks, and these."""
        for node in self.nodes:
            own = self.tasks.get(node.index, ())
            if own and node.op_type in op_types:
                yield node, own

    def inputs(self, node: Node) -> list[Tensor]:
        """A node's operands, constants and scratch, without those that are left out."""
        return [self.graph.tensors[index] for index in node.inputs if index >= 0]

    def output(self, node: Node) -> Tensor | None:
        """What a node writes first."""
        return next((self.graph.tensors[index] for index in node.outputs if index >= 0), None)

    def quantization(self, node: Node) -> Quantization | None:
        """That of a node's first input, None where there is none that means something."""
        first = next(iter(self.inputs(node)), None)
        found = first.quantization if first is not None else None
        return found if found is not None and found.scale > 0 else None

    def constants(self, node: Node) -> list[Tensor]:
        """Those operands of a node that lie in the file."""
        return [tensor for tensor in self.inputs(node) if tensor.section]

    def constant_at(self, node: Node, address: Address) -> Tensor | None:
        """The constant operand of a node that begins at an address."""
        for tensor in self.constants(node):
            if (tensor.section, tensor.offset) == (address.section, address.offset):
                return tensor
        return None

    def numbers(self, tensor: Tensor) -> NDArray[np.float64]:
        """A constant tensor's elements as the file has them, without what pads them.

        Empty where the file hasn't them, or has another type than numbers.
        """
        if tensor.element in (ElementType.OPAQUE, ElementType.UNSET, ElementType.BFLOAT16):
            return np.empty(0)
        dtype = tensor.element.dtype
        assert dtype is not None, "every other element has one"
        data, count = self.model.data(tensor), int(np.prod(tensor.shape))
        if len(data) < count * dtype.numpy.itemsize:
            return np.empty(0)
        return np.frombuffer(data, dtype.numpy, count).astype(np.float64)


def operand_of(task: Task) -> Features | None:
    """The second operand of a task's element-wise stage, where it is features."""
    dpu = getattr(task, "dpu", None)
    return dpu.features_operand if dpu is not None else None
