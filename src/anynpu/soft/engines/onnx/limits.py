"""What an ONNX model may ask for: nodes, work and memory, told before anything is computed.

What shape inference doesn't find counts as nothing. How often a Loop turns often follows from
values: a run of a model that has one is ended when it takes longer than the bound on work allows.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from ....errors import ModelError
from ..node_work import SAMPLER, node_work
from ..work import ENVIRONMENT_VARIABLE, PER_SECOND, Budget, most_work
from . import runtime as onnxruntime
from .nodes import STANDARD, all_nodes
from .shapes import Shape, infer_once, shape_of, without_weights

_PER_NODE = 1 << 20
"""What it takes to load a node, in products."""

_LOOP = "Loop"
_DEEPEST = 64
"""Functions that are called by one another."""

_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "DeformConv": 1, "QLinearConv": 3}
"""Which input of an operator are its weights."""

_PER_ELEMENT = 4


def has_loop(model: ModelProto) -> bool:
    """Whether a Loop is in the model, however deep."""
    nodes = [model.graph.node, *(function.node for function in model.functions)]
    return any(node.op_type == _LOOP for some in nodes for node in all_nodes(some))


def check_nodes(model: ModelProto) -> None:
    """Raise `ModelError` for more nodes than a model may have with its functions spelled out."""
    bodies = {(function.domain, function.name): function.node for function in model.functions}
    counts: dict[tuple[str, str], int] = {}
    open_: set[tuple[str, str]] = set()

    def count(nodes: Iterable[NodeProto]) -> int:
        return sum(1 + called((node.domain, node.op_type)) for node in all_nodes(nodes))

    def called(name: tuple[str, str]) -> int:
        if name not in bodies:
            return 0
        if name in open_ or len(open_) == _DEEPEST:
            raise ModelError(f"the model's function {name[1]!r} calls itself, or too many others")
        if name not in counts:
            open_.add(name)
            counts[name] = count(bodies[name])
            open_.remove(name)
        return counts[name]

    nodes = count(model.graph.node)
    Budget().take(float(nodes) * _PER_NODE, f"a model of {nodes} nodes")


class Limits:
    """A model's bounds under its sets of input shapes; keeps the model without its weights."""

    def __init__(self, model: ModelProto) -> None:
        check_nodes(model)
        self._light = without_weights(model)
        self._has_loop = has_loop(model)

    def check(self, fix_shapes: Callable[[ModelProto], None]) -> None:
        """Raise `ModelError` where work or a tensor is too large, for the inputs that are fixed.

        So it is for weights of more axes, or fewer, than what they are applied to.
        """
        light = ModelProto()
        light.CopyFrom(self._light)
        fix_shapes(light)
        infos = infer_once(light)
        _check_tensors(infos)
        budget = Budget()
        _check_weights(light.graph, infos)
        for node in light.graph.node:
            budget.take(_work(node, infos), f"node {node.name or node.output[0]!r}")

    def watched(self, options: onnxruntime.RunOptions) -> Watch:
        """What a run is to happen within."""
        return Watch(options, most_work() / PER_SECOND if self._has_loop else math.inf)


class Watch:
    """Ends runs that take longer than `seconds`."""

    def __init__(self, options: onnxruntime.RunOptions, seconds: float) -> None:
        self._options, self._seconds = options, seconds

    @contextmanager
    def run(self) -> Iterator[None]:
        """One run with the options, which `terminate` ends; `ModelError` where that was needed."""
        if math.isinf(self._seconds):
            yield
            return
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            self._options.terminate = True

        timer = threading.Timer(min(self._seconds, threading.TIMEOUT_MAX), end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception as error:
            if is_late.is_set():
                raise ModelError(
                    f"a Loop didn't end within {self._seconds:.3g} s, which is as long as the work "
                    f"takes that a run may have; ${ENVIRONMENT_VARIABLE} sets another bound"
                ) from error
            raise
        finally:
            timer.cancel()


def _work(node: NodeProto, infos: Mapping[str, ValueInfoProto]) -> float:
    inputs, outputs = _shapes(node.input, infos), _shapes(node.output, infos)
    attributes = {
        entry.name: helper.get_attribute_value(entry)
        for entry in node.attribute
        if entry.type in (AttributeProto.INT, AttributeProto.INTS)
    }
    if node.op_type == SAMPLER:
        attributes["sampling_ratio"] = max(1, int(attributes.get("sampling_ratio", 0)))
    return node_work(node, attributes, inputs, outputs)


def _check_weights(graph: GraphProto, infos: Mapping[str, ValueInfoProto]) -> None:
    """Raise `ModelError` for a convolution whose weights have not as many axes as its input.

    ONNX Runtime, up to 1.26 at least, reads past its own arrays when it is given one.
    """
    ranks = _ranks(graph, infos)
    for node in all_nodes(graph.node):
        place = _WEIGHTS.get(node.op_type, 0)
        if node.domain in STANDARD and 0 < place < len(node.input):
            source, weights = ranks.get(node.input[0]), ranks.get(node.input[place])
            if source is not None and weights is not None and source != weights:
                raise ModelError(
                    f"the {node.op_type} {node.name or ', '.join(node.output)!r} has weights of "
                    f"{weights} axes for an input of {source}"
                )


def _ranks(graph: GraphProto, infos: Mapping[str, ValueInfoProto]) -> dict[str, int]:
    """How many axes each tensor has; of those inside of nodes' graphs the constants alone."""
    ranks = {
        name: len(info.type.tensor_type.shape.dim)
        for name, info in infos.items()
        if info.type.tensor_type.HasField("shape")
    }
    # An input without a shape is fed as one number.
    ranks |= {info.name: len(info.type.tensor_type.shape.dim) for info in graph.input}
    for node in all_nodes(graph.node):
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                ranks |= {tensor.name: len(tensor.dims) for tensor in inner.initializer}
    return ranks


def _shapes(names: Iterable[str], infos: Mapping[str, ValueInfoProto]) -> list[Shape]:
    return [shape for name in names if (shape := shape_of(infos.get(name))) is not None]


def _check_tensors(infos: Mapping[str, ValueInfoProto]) -> None:
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name, info in infos.items():
        size = _PER_ELEMENT * math.prod(shape_of(info) or ())
        if size > most:
            raise ModelError(
                f"tensor {name!r} of shape {shape_of(info)} takes {size} bytes, more than this "
                f"machine's {most}"
            )
