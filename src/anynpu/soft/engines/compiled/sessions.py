"""ONNX models of one node, in ONNX Runtime sessions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ...formats.rknn.model import Node
from ..work import PER_CPU_NODE, Budget

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_OPSETS = (21, 18, 13, 11, 9)
_WITHOUT_EFFECT = frozenset({"allowzero", "keepdims", "noop_with_empty_axes", "saturate", "to"})
"""Attributes that only decide on shapes, which the tensors say, or on types."""

ONNX_RUNTIME = "ONNX Runtime"
"""What runs a node that has a session."""

Compute = Callable[[Sequence[NDArray[Any]]], Sequence[NDArray[Any]]]


@dataclass(frozen=True)
class OneNode:
    """A model of one node.

    `inputs` are names: of `constants`, or ``input0``, ``input1``... for `sources`, given by dtype
    and shape, or "" for an operand that is left out. `results` are the outputs' shapes, which the
    operator must give, but for axes of one. `attributes` must be the operator's; of
    `options` those that the operator doesn't have are ignored. An operator with attributes is
    refused where the file has none (`is_complete` is False): its defaults may not be meant.
    """

    op_type: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    constants: Mapping[str, NDArray[Any]]
    sources: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]
    results: Sequence[tuple[int, ...]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    is_complete: bool = True


def place_of(node: Node) -> str:
    """What an error calls a node."""
    return f"CPU node {node.index} {node.name!r} of type {node.op_type}"


def compute_with_onnxruntime(node: Node, one: OneNode, budget: Budget) -> Compute:
    """A session for a node: from the sources' values to those of the outputs, by any thread.

    The newest set of operators that takes the node's form is used: older ones have attributes
    where newer ones have operands. Raises `ModelError` that names the node where none does, where
    its results would have other sizes than the file says, where it is more work than there may be,
    or where a run fails.
    """
    from ..onnx import runtime as onnxruntime
    from ..onnx.sessions import open_session

    place = place_of(node)
    budget.take(PER_CPU_NODE, place)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    problem: Exception | None = None
    for opset in _OPSETS:
        try:
            model = _model(one, opset)
            # Nothing is computed before it is known how large it gets.
            session = open_session(
                model.SerializeToString(), options, [one.op_type], disabled=["ConstantFolding"]
            )
        except Exception as error:  # ONNX Runtime's errors have no base of their own
            problem = problem or error
            continue
        _check_results(place, one, [output.shape for output in session.get_outputs()])
        budget.take(_work(one, model.graph.node[0]), place)
        return _running(node, session)
    raise ModelError(f"{place} can't be computed: {problem}")


def _check_results(place: str, one: OneNode, found: Sequence[Sequence[Any]]) -> None:
    """Refuse results of other sizes than the file's, and those whose sizes follow from values."""
    for wanted, shape in zip(one.results, found, strict=True):
        is_known = all(isinstance(size, int) for size in shape)
        if not is_known or math.prod(shape) != math.prod(wanted):
            raise ModelError(f"{place} would give {list(shape)}, but the file has {list(wanted)}")


def _work(one: OneNode, node: NodeProto) -> float:
    from ..node_work import node_work

    shapes = iter([shape for _, shape in one.sources])
    inputs = [
        one.constants[name].shape if name in one.constants else next(shapes)
        for name in node.input
        if name
    ]
    return node_work(node, {**one.options, **one.attributes}, inputs, one.results)


def _model(one: OneNode, opset: int) -> ModelProto:
    import onnx
    from onnx import helper, numpy_helper

    schema = onnx.defs.get_schema(one.op_type, opset)
    unknown = set(one.attributes) - set(schema.attributes)
    if unknown:
        raise ModelError(f"{one.op_type} of opset {opset} has no attributes {sorted(unknown)}")
    lost = set(schema.attributes) - _WITHOUT_EFFECT
    if lost and not one.is_complete:
        raise ModelError(f"the file has no values for its attributes {sorted(lost)}")
    options = {name: value for name, value in one.options.items() if name in schema.attributes}
    inputs = list(one.inputs[: schema.max_input])
    graph = helper.make_graph(
        [helper.make_node(one.op_type, inputs, one.outputs, **{**options, **one.attributes})],
        one.op_type,
        [
            helper.make_tensor_value_info(
                f"input{number}", helper.np_dtype_to_tensor_dtype(dtype), shape
            )
            for number, (dtype, shape) in enumerate(one.sources)
        ],
        [onnx.ValueInfoProto(name=name) for name in one.outputs],
        [numpy_helper.from_array(values, name) for name, values in one.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def _running(node: Node, session: Any) -> Compute:
    from ..onnx.sessions import has_run

    names = [entry.name for entry in session.get_inputs()]

    def compute(values: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        try:
            results: Sequence[NDArray[Any]] = session.run(
                None, dict(zip(names, values, strict=False))
            )
            has_run(session)
        except Exception as error:  # ONNX Runtime's errors have no base of their own
            raise ModelError(f"CPU node {node.index} {node.name!r}: {error}") from error
        return results

    return compute
