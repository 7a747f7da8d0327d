"""How an ONNX model is run: sessions of ONNX Runtime, and custom nodes between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, numpy_helper

from ....errors import ModelError
from ..program import CustomNode
from . import runtime as onnxruntime
from . import trials
from .custom import Edge, Knowledge, NodeKey, custom_node
from .limits import Limits
from .segments import Part, part_model, split

SessionOpener = Callable[[ModelProto], onnxruntime.InferenceSession]

_DTYPES = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_,
    "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16, "int32": np.int32,
    "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64,
}  # fmt: skip


@dataclass(frozen=True)
class Cut:
    """The nodes that operators from outside compute, and those that ONNX's own compute for them."""

    taken: frozenset[int]
    builtin: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Segment:
    """A session of ONNX Runtime, what it reads and makes, and values to try it with."""

    session: onnxruntime.InferenceSession
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    trial: trials.Values


@dataclass(frozen=True)
class Resolved:
    """A plan under one set of input shapes: every tensor between steps, every custom node."""

    edges: Mapping[str, Edge]
    nodes: Mapping[int, CustomNode]


class Plan:
    """The steps of a model, shared by all its instances: sessions, and indices of taken nodes.

    `constants` are the weights that custom nodes read.
    """

    def __init__(
        self,
        model: ModelProto,
        taken: Sequence[NodeKey],
        inputs: Mapping[str, Edge],
        known: Knowledge,
        open_session: SessionOpener,
        limits: Limits,
        *,
        has_fixed_shapes: bool,
    ) -> None:
        self._limits = limits
        self._keys = {key.index: key for key in taken}
        # Copies, so that the model with its weights can go.
        self._nodes = {index: _copy(model.graph.node[index]) for index in self._keys}
        read = {name for node in self._nodes.values() for name in node.input}
        self.constants = {
            tensor.name: numpy_helper.to_array(tensor)
            for tensor in model.graph.initializer
            if tensor.name in read
        }
        self.steps: list[Segment | int] = []
        edges = self._first_edges(inputs)
        for step in step_models(model, self._keys, edges, has_fixed_shapes=has_fixed_shapes):
            if isinstance(step, int):
                self.steps.append(step)
                edges |= self._custom(step, edges, known)[1]
            else:
                names = tuple(info.name for info in step.graph.input if info.name in edges)
                results = tuple(info.name for info in step.graph.output)
                segment = Segment(open_session(step), names, results, trials.compared_with(step))
                self.steps.append(segment)
                edges |= _results(segment, edges, limits)

    def resolve(self, inputs: Mapping[str, Edge], known: Knowledge) -> Resolved:
        """What flows between the steps for inputs of these shapes."""
        edges = self._first_edges(inputs)
        nodes = {}
        for step in self.steps:
            if isinstance(step, Segment):
                edges |= _results(step, edges, self._limits)
            else:
                nodes[step], outputs = self._custom(step, edges, known)
                edges |= outputs
        return Resolved(edges, nodes)

    def _first_edges(self, inputs: Mapping[str, Edge]) -> dict[str, Edge]:
        return {
            **{name: Edge(array.dtype, array.shape) for name, array in self.constants.items()},
            **inputs,
        }

    def _custom(
        self, index: int, edges: Mapping[str, Edge], known: Knowledge
    ) -> tuple[CustomNode, dict[str, Edge]]:
        return custom_node(self._keys[index], self._nodes[index], edges, known)


def step_models(
    model: ModelProto,
    taken: Collection[int],
    edges: Mapping[str, Edge],
    *,
    has_fixed_shapes: bool = True,
) -> Iterator[ModelProto | int]:
    """The steps in order, what ONNX Runtime computes as models; `edges` may grow meanwhile."""
    if not taken:
        yield model
        return
    for step in split(model, taken):
        if isinstance(step, Part):
            yield part_model(model, step, edges, has_fixed_shapes=has_fixed_shapes)
        else:
            yield step


def _copy(node: NodeProto) -> NodeProto:
    copied = NodeProto()
    copied.CopyFrom(node)
    return copied


def _results(segment: Segment, edges: Mapping[str, Edge], limits: Limits) -> dict[str, Edge]:
    """What a session makes: as ONNX Runtime infers it, else by computing once."""
    nodes = segment.session.get_outputs()
    if all(isinstance(size, int) for node in nodes for size in node.shape):
        shapes = [tuple(node.shape) for node in nodes]
    else:
        zeros = {name: np.zeros(edges[name].shape, edges[name].dtype) for name in segment.inputs}
        filled = trials.filled(zeros, segment.trial)
        try:
            shapes = _shapes_by_running(segment.session, filled, limits)
        except ModelError:
            if not segment.trial:
                raise
            shapes = _shapes_by_running(segment.session, zeros, limits)
    return {
        node.name: Edge(_dtype(node.name, node.type), shape)
        for node, shape in zip(nodes, shapes, strict=True)
    }


def _dtype(name: str, kind: str) -> np.dtype[Any]:
    """The dtype for a type as ONNX Runtime names it."""
    found = _DTYPES.get(kind.removeprefix("tensor(").removesuffix(")"))
    if found is None:
        raise ModelError(
            f"the model is cut at a custom operator where {name!r} of the type {kind} passes, "
            f"which can't be passed on"
        )
    return np.dtype(found)


def _shapes_by_running(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, NDArray[Any]], limits: Limits
) -> list[tuple[int, ...]]:
    """The shapes of a session's outputs for these inputs; `ModelError` where it can't run."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4  # the exception says it
    try:
        with limits.watched(options).run():
            return [np.shape(output) for output in session.run(None, dict(feeds), options)]
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise ModelError(f"the shapes of the outputs can't be determined: {error}") from error
