"""Values with which a model is run once, to see the shapes of what it makes.

Zeros do for most. A model that compares an input with a number, and has an If for what comes of it,
such as a sample rate, may have a branch for that number alone that fits the other inputs' shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, ModelProto, NodeProto, numpy_helper

from .nodes import STANDARD, all_nodes

Values = dict[str, NDArray[Any]]


def has_branches(model: ModelProto) -> bool:
    """Whether an If is in the model, however deep."""
    nodes = [model.graph.node, *(function.node for function in model.functions)]
    return any(node.op_type == "If" for some in nodes for node in all_nodes(some))


def compared_with(model: ModelProto) -> Values:
    """For inputs that the model compares with constants: the last of these."""
    if not has_branches(model):
        return {}
    inputs = {info.name for info in model.graph.input}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    constants |= {n.output[0]: t for n in model.graph.node if (t := _constant(n)) is not None}
    return {
        name: numpy_helper.to_array(constants[other])
        for node in model.graph.node
        if node.op_type == "Equal" and node.domain in STANDARD and len(node.input) == 2
        for name, other in (node.input, reversed(node.input))
        if name in inputs and other in constants
    }


def filled(arrays: Mapping[str, NDArray[Any]], values: Values) -> Values:
    """The arrays, those for which there is one value filled with that."""
    return {
        name: np.full_like(array, values[name].item())
        if name in values and values[name].size == 1
        else array
        for name, array in arrays.items()
    }


def _constant(node: NodeProto) -> Any:
    """The tensor of a Constant node, or None."""
    if node.op_type != "Constant" or not node.output:
        return None
    found = (a.t for a in node.attribute if a.name == "value" and a.type == AttributeProto.TENSOR)
    return next(found, None)
