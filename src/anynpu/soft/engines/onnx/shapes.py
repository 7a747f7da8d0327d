"""The shape of every tensor of an ONNX model with fixed input shapes.

ONNX infers shapes. Where a model computes some itself (Shape, then Gather, Concat, Reshape) and
ONNX gives up, the computation is carried out here and ONNX is asked again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from .nodes import check_bodies

Shape = tuple[int, ...]
Values = NDArray[Any]

_MOST_VALUES = 1024
"""Shapes follow from the values of small tensors (shapes, axes, scales), never from weights."""

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
_GENERATORS = frozenset({
    "Bernoulli", "BlackmanWindow", "CenterCropPad", "Col2Im", "ConstantOfShape", "ConvTranspose",
    "DFT", "Expand", "EyeLike", "HammingWindow", "HannWindow", "MelWeightMatrix", "Multinomial",
    "OneHot", "Pad", "RandomNormal", "RandomUniform", "Range", "Resize", "STFT", "Tile", "Upsample",
})  # fmt: skip
"""Operators that make much of a few values."""


def infer_types(model: ModelProto) -> dict[str, ValueInfoProto]:
    """The element type and, where it can be known, the shape of every tensor by name."""
    light = without_weights(model)
    infos = infer_once(light)
    while not _are_known(light.graph, infos) and _compute_shapes(light, infos):
        infos = infer_once(light)
    return infos | {tensor.name: _info(tensor) for tensor in model.graph.initializer}


def shape_of(info: ValueInfoProto | None) -> Shape | None:
    """The shape where every size is known, else None."""
    if info is None or not info.type.tensor_type.HasField("shape"):
        return None
    dims = info.type.tensor_type.shape.dim
    sizes = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims)
    return None if any(size < 0 for size in sizes) else sizes


def without_weights(model: ModelProto) -> ModelProto:
    """A copy in which large initialisers are inputs, so that inference is cheap.

    Raises `ModelError` as `check_bodies` does.
    """
    check_bodies(model)
    light = ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    names = {info.name for info in graph.input}
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= _MOST_VALUES and not tensor.external_data:
            graph.initializer.append(tensor)
        elif tensor.name not in names:
            graph.input.append(_info(tensor))
    return light


def _info(tensor: TensorProto) -> ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def infer_once(light: ModelProto) -> dict[str, ValueInfoProto]:
    """What ONNX finds in one pass."""
    try:
        graph = onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    except Exception:  # a model that ONNX can't infer may still run
        graph = light.graph
    infos = [*graph.value_info, *graph.input, *graph.output, *map(_info, graph.initializer)]
    return {info.name: info for info in infos}


def _are_known(graph: GraphProto, infos: Mapping[str, ValueInfoProto]) -> bool:
    names = [name for node in graph.node for name in node.output if name]
    return all(shape_of(infos.get(name)) is not None for name in names)


def _compute_shapes(light: ModelProto, infos: Mapping[str, ValueInfoProto]) -> bool:
    """Replace nodes by their values where these follow from known shapes; False if none did."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in light.graph.initializer}
    remaining = GraphProto()
    for node in light.graph.node:
        feeds = _feeds(node, values, infos)
        results = None if feeds is None else _compute(node, feeds, light)
        if results is None:
            remaining.node.append(node)
        else:
            values.update(results)
    is_changed = len(remaining.node) < len(light.graph.node)
    light.graph.ClearField("node")
    light.graph.node.extend(remaining.node)
    light.graph.ClearField("initializer")
    light.graph.initializer.extend(map(numpy_helper.from_array, values.values(), values))
    return is_changed


def _feeds(
    node: NodeProto, values: Mapping[str, Values], infos: Mapping[str, ValueInfoProto]
) -> dict[str, Values] | None:
    """What a node computes with, None where that isn't known or is too much to compute here."""
    shapes = [shape_of(infos.get(name)) for name in node.output]
    if any(shape is not None and math.prod(shape) > _MOST_VALUES for shape in shapes):
        return None
    if any(entry.type in _GRAPHS for entry in node.attribute):
        return None
    if node.op_type in _GENERATORS and None in shapes:
        return None
    if node.op_type == "Shape" and (shape := shape_of(infos.get(node.input[0]))) is not None:
        return {node.input[0]: np.broadcast_to(np.False_, shape)}
    names = [name for name in node.input if name]
    return {n: values[n] for n in names} if all(name in values for name in names) else None


def _compute(
    node: NodeProto, feeds: Mapping[str, Values], light: ModelProto
) -> dict[str, Values] | None:
    """The outputs of one node by name; None where they can't be computed, or are large."""
    from onnx.reference import ReferenceEvaluator  # takes a third of a second to import

    inputs, outputs = ([ValueInfoProto(name=n) for n in names] for names in (feeds, node.output))
    graph = helper.make_graph([node], "", inputs, outputs)
    try:
        model = helper.make_model(graph, opset_imports=light.opset_import)
        with np.errstate(all="ignore"):
            results = list(ReferenceEvaluator(model).run(None, dict(feeds)))
    except Exception:  # what can't be computed stays unknown
        return None
    return dict(zip(node.output, results, strict=True)) if all(map(_is_small, results)) else None


def _is_small(values: object) -> bool:
    """Whether an output is a small array of numbers: neither strings nor a sequence."""
    if not isinstance(values, np.ndarray):
        return False
    return values.dtype.kind in "biuf" and values.size <= _MOST_VALUES
