"""Each layer of a compiled `.nb` against its ONNX source.

A `.nb` names kinds of layers, not tensors. But its kernels are the source's weights, quantised: a
layer with kernels is the node that has them, and what it writes is what the nodes behind it read,
whose layers read it in the file. Nothing is related by values, which are what is compared. The file
has no scales of tensors between layers either: a step there is fitted to the source's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .differences import Difference, difference
from .feeds import Feed
from .onnx_source import OnnxSource, WeightedNode
from .sides import normalized, run_inside_source

if TYPE_CHECKING:
    from ..soft.engines.vip.observed import ObservedLayer, Values
    from ..soft.formats.nbg import Nbg


@dataclass(frozen=True)
class NbgDifference(Difference):
    """A layer's difference. `scale` is what a step is, None where values are floats.

    It is the file's own of a network's output, else that of the least squares.
    """

    layer: str = ""
    dtype: str = ""
    scale: float | None = None
    zero_point: int | None = None


@dataclass(frozen=True)
class NotCompared:
    """A layer that isn't known to be a tensor of the source, and why."""

    layer: str
    shape: tuple[int, ...]
    reason: str


def compare_nbg_layers(
    compiled: str, source: str, feed: Feed
) -> tuple[list[NbgDifference], list[NotCompared]]:
    """The layers in the order in which they begin, and those that can't be compared.

    Raises `ModelError` where one of the files can't be run, or no layer is one of the source's.
    """
    import onnx

    from ..soft.formats import nbg

    with open(compiled, "rb") as file:
        model = nbg.read(file.read())
    layers = _observed(model, feed)
    given = normalized(feed, compiled)
    graph = OnnxSource(onnx.load(source))
    wanted = run_inside_source(source, given)
    wanted |= dict(zip(graph.inputs, given.values(), strict=False))
    related = _Relation(layers, graph, wanted, _outputs(model, graph)).found()
    compared, others = [], []
    for layer, (tensor, reason) in zip(layers, related, strict=True):
        title = f"{layer.number} {layer.name or layer.unit}"
        if tensor and layer.values is not None:
            scale = _scale_of_output(model, layer)
            compared.append(_difference(title, tensor, layer.values, wanted[tensor], scale))
        else:
            shape = () if layer.values is None else layer.values.stored.shape
            others.append(NotCompared(title, shape, reason))
    if not compared:
        raise ModelError(
            f"no layer of {compiled} is known in {source}, which may not be its source: "
            f"{others[0].reason if others else 'there are no layers'}"
        )
    return compared, others


def _observed(model: Nbg, feed: Feed) -> Sequence[ObservedLayer]:
    from ..soft.engines.nbg.vip import contract
    from ..soft.engines.program import Variant
    from ..soft.engines.vip.observed import observe

    described = contract(model)
    variant = Variant(described.inputs, described.outputs)
    return observe(model, variant, list(feed.values()))


def _outputs(model: Nbg, graph: OnnxSource) -> Sequence[str]:
    """The source's outputs in the file's order: by their names, else as they come."""
    names = [tensor.name for tensor in model.outputs]
    return names if set(names) == set(graph.outputs) else graph.outputs


class _Relation:
    """Which tensor of the source each layer writes."""

    def __init__(
        self,
        layers: Sequence[ObservedLayer],
        graph: OnnxSource,
        wanted: Mapping[str, NDArray[Any]],
        outputs: Sequence[str],
    ) -> None:
        self._layers, self._graph, self._wanted, self._outputs = layers, graph, wanted, outputs
        self._nodes: list[WeightedNode | None] = []
        self._reasons: list[str] = []
        for layer in layers:
            node, reason = None, ""
            if layer.weights is not None:
                node, reason = graph.of_weights(layer.weights, layer.is_depthwise)
            self._nodes.append(node)
            self._reasons.append(reason)
        self._tensors: list[str] = []
        self._readers: list[list[ObservedLayer]] = [[] for _ in layers]
        for layer in layers:
            for number in layer.multiplies:
                if number >= 0:
                    self._readers[number].append(layer)

    def found(self) -> list[tuple[str, str]]:
        """Of each layer a tensor, or "" and why it has none."""
        found = []
        for layer in self._layers:
            tensor, reason = self._of(layer)
            self._tensors.append(tensor)
            found.append((tensor, reason))
        # What only gives a network's output its place has another layer's values.
        own = [
            each
            for each, layer in zip(self._tensors, self._layers, strict=True)
            if each and not layer.problem
        ]
        return [
            ("", f"several layers may be {tensor}") if own.count(tensor) > 1 else (tensor, reason)
            for tensor, reason in found
        ]

    def _of(self, layer: ObservedLayer) -> tuple[str, str]:
        if layer.values is None:
            return "", layer.problem
        if layer.problem:
            # In the order of the network's output, which is all that is known of it.
            (output,) = layer.outputs
            return self._outputs[output], ""
        starts = self._starts(layer)
        known = [each for start in starts for each in self._graph.behind(start)] or self._wanted
        fitting = [each for each in dict.fromkeys(known) if self._fits(layer.values, each)]
        read = self._distinct(
            [hit for hits in self._read(layer) for hit in self._hit(hits, fitting)]
        )
        if len(read) == 1:
            return read[0], ""
        if not read and self._nodes[layer.number] is not None:
            fitting = [each for each in fitting if self._computes(layer, starts[0], each)]
            read = self._distinct(fitting[::-1])
            if len(read) == 1:
                return read[0], ""
        if len(read) > 1:
            return "", f"it may be {' or '.join(sorted(read))}"
        reason = self._reasons[layer.number] or "it has no weights to be known by"
        return "", f"{reason}, and no layer that is known reads a tensor of its shape from it"

    def _starts(self, layer: ObservedLayer) -> list[str]:
        """From where on the layer's tensor comes: from its node, or what it reads.

        None where that isn't known.
        """
        node = self._nodes[layer.number]
        if node is not None:
            return [node.output]
        claimed = {each.output for each in self._nodes if each is not None}
        free = [each for each in self._graph.weighted if each.output not in claimed]
        read = [self._tensor(number) for number in sorted(layer.reads)]
        if "" in read:
            return []
        starts = [each for start in read for each in self._graph.behind(start) if each not in read]
        return starts + [each.output for each in free if each.source in (*read, *starts)]

    def _tensor(self, number: int) -> str:
        """That of a layer that comes before, or of a network input; "" where it isn't known."""
        if number < 0:
            return self._graph.inputs[-1 - number]
        return self._tensors[number] if number < len(self._tensors) else ""

    def _read(self, layer: ObservedLayer) -> Iterator[list[str]]:
        """What layers that read this one's results are known to read; the network's outputs."""
        passed = [layer]
        for writer in passed:
            for number in writer.outputs:
                yield self._graph.moved_to(self._outputs[number])
            for other in self._readers[writer.number]:
                node = self._nodes[other.number]
                if node is not None:
                    yield self._graph.moved_to(node.source)
                elif other.only_moves and other not in passed:
                    passed.append(other)

    def _hit(self, read: Sequence[str], fitting: Sequence[str]) -> Iterator[str]:
        """Tensors that fit, of which several may be side by side, and what they may stand for."""
        for tensor in read:
            hit = tensor
            while hit in fitting:
                yield hit
                hit = "" if hit in self._outputs else self._graph.before_factors(hit)

    def _distinct(self, tensors: Sequence[str]) -> list[str]:
        """Without those whose values another one has in the same order."""
        found: list[str] = []
        for each in dict.fromkeys(tensors):
            if not any(each in self._graph.moved_to(other) for other in found):
                found.append(each)
        return found

    def _computes(self, layer: ObservedLayer, first: str, last: str) -> bool:
        """Whether a layer computes what lies between, as far as its command says."""
        known = layer.has_function, layer.has_second
        between = self._graph.operators(first, last)
        return all(own in (None, each) for own, each in zip(known, between, strict=True))

    def _fits(self, values: Values, tensor: str) -> bool:
        """Whether a tensor has as many channels and pixels as a layer writes."""
        array = self._wanted.get(tensor)
        if array is None or array.size != values.stored.size or array.dtype.kind != "f":
            return False
        channels = values.stored.shape[0]
        sizes = [size for size in array.shape if size != 1]
        return channels in (1, array.size) or not sizes or sizes[0] == channels


def _scale_of_output(model: Nbg, layer: ObservedLayer) -> float | None:
    """What the file says a step of a network's output is, for the layer that writes it."""
    from ..viplite.abi import QuantizeFormat

    for number in layer.outputs:
        tensor = model.outputs[number]
        if tensor.quantization == QuantizeFormat.TF_ASYMM:
            return tensor.scale
        if tensor.quantization == QuantizeFormat.DYNAMIC_FIXED_POINT:
            return float(2.0**-tensor.fixed_point_pos)
    return None


def _difference(
    title: str, tensor: str, values: Values, wanted: NDArray[Any], scale: float | None
) -> NbgDifference:
    real = values.stored.astype(np.float64)
    if values.zero_point is None:
        scale = None
    else:
        real -= values.zero_point
        scale = scale or _least_squares(real.ravel(), wanted.astype(np.float64).ravel())
        real *= scale
    quantization = None if scale is None else (scale, values.zero_point or 0)
    return NbgDifference(
        **vars(difference(tensor, real.reshape(wanted.shape), wanted, quantization)),
        layer=title,
        dtype=values.stored.dtype.name,
        scale=scale,
        zero_point=values.zero_point,
    )


def _least_squares(steps: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """What a step is, so that the squares of the errors are least; 1 where nothing says it."""
    length = float(steps @ steps)
    scale = float(steps @ wanted) / length if length else 1.0
    return scale if scale > 0 else 1.0
