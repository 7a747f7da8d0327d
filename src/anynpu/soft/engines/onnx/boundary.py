"""Cut an ONNX model where the device begins and ends.

A vendor's compiler keeps the quantised tensors inside and makes them the model's inputs and
outputs; float tensors become float16. `cut` rewrites a model to that: the QuantizeLinear after an
input and the DequantizeLinear before an output go, so that the boundary is the quantised tensor;
other float tensors get a pair of casts that rounds their values to float16.

`fit` is for whoever quantises outside of the model: it leaves real tensors real, but for those that
the model quantises in the very way that is wanted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
import onnx
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from onnxruntime.tools.onnx_model_utils import make_input_shape_fixed

from ....errors import ModelError
from ....tensor import DType, Quantization
from ...build.metadata import Metadata, Shapes
from ..program import Normalization, Port
from .nodes import STANDARD

_FLOAT_TYPES = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
_PLAIN_TYPES: dict[int, DType] = {
    TensorProto.INT8: DType.INT8,
    TensorProto.UINT8: DType.UINT8,
    TensorProto.INT16: DType.INT16,
    TensorProto.UINT16: DType.UINT16,
    TensorProto.INT32: DType.INT32,
    TensorProto.UINT32: DType.UINT32,
    TensorProto.INT64: DType.INT64,
    TensorProto.BOOL: DType.BOOL,
}
_UNSIGNED_OFFSET = 128
_QUANTIZED_TYPES = (TensorProto.INT8, TensorProto.UINT8)


@dataclass(frozen=True)
class Terminal:
    """An input or output of the rewritten model.

    `name` is its name there, `port` what the device shows. `is_unsigned` says that the rewritten
    model has uint8 where the device has int8: the sign bit differs.
    """

    name: str
    port: Port
    is_unsigned: bool = False

    @property
    def bound_quantization(self) -> Quantization | None:
        """Scale and zero point of the tensor as the rewritten model has it."""
        found = self.port.quantization
        if found is None or not self.is_unsigned:
            return found
        return Quantization(found.scale, found.zero_point + _UNSIGNED_OFFSET)


@dataclass(frozen=True)
class Boundary:
    """The inputs and outputs of a rewritten model, in the original's order."""

    inputs: tuple[Terminal, ...]
    outputs: tuple[Terminal, ...]


def cut(model: ModelProto, metadata: Metadata, *, keeps_sizes_open: bool = False) -> Boundary:
    """Rewrite `model` (changed in place) as the module says.

    Inputs that have one set of shapes get these sizes, unless it `keeps_sizes_open`. The ports'
    shapes are empty: those of inputs are a matter of `shape_sets`, those of outputs follow from
    them. Raises `ModelError` for types that no NPU takes, and for metadata that doesn't fit the
    model.
    """
    if len(metadata.shapes) == 1 and not keeps_sizes_open:
        fix_shapes(model, metadata.shapes[0])
    cutter = _cutter(model, metadata)
    inputs = tuple(cutter.cut_input(info) for info in fed_inputs(model.graph))
    outputs = tuple(cutter.cut_output(info) for info in list(model.graph.output))
    return Boundary(inputs, outputs)


def fit(
    model: ModelProto, metadata: Metadata, inputs: Sequence[Port], outputs: Sequence[Port]
) -> Boundary:
    """Rewrite `model` (changed in place) to have edges like the ports that are wanted.

    A real tensor becomes the quantised one inside where that has the dtype, scale and zero point
    of the port in its place; else it is float32 (casts are put in for other floats). The ports'
    shapes are empty and `ModelError` is raised as by `cut`.
    """
    cutter = _cutter(model, metadata)
    return Boundary(
        tuple(
            cutter.fit_input(info, port)
            for info, port in zip_longest(fed_inputs(model.graph), inputs)
            if info is not None
        ),
        tuple(
            cutter.fit_output(info, port)
            for info, port in zip_longest(list(model.graph.output), outputs)
            if info is not None
        ),
    )


def _cutter(model: ModelProto, metadata: Metadata) -> _Cutter:
    unknown = set(metadata.normalization) - {info.name for info in fed_inputs(model.graph)}
    if unknown:
        raise ModelError(f"anynpu.mean or anynpu.std names {sorted(unknown)}, which aren't inputs")
    return _Cutter(model.graph, metadata.normalization)


# ------------------------------------------------------------------------------------- shapes


def fed_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs that a caller feeds: old files list initialisers among them."""
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in constants]
    if not inputs or not graph.output:
        raise ModelError("the ONNX model has no inputs or no outputs")
    return inputs


def fix_shapes(model: ModelProto, shapes: Shapes) -> None:
    """Give inputs fixed shapes (the model is changed); `ModelError` where they contradict it."""
    try:
        for name, shape in shapes.items():
            make_input_shape_fixed(model.graph, name, list(shape))
    except ValueError as error:
        raise ModelError(f"the input shapes {dict(shapes)} don't fit the model: {error}") from None


def shape_sets(model: ModelProto, metadata: Metadata) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The sets of shapes that the inputs may have, each in the order of the inputs.

    Raises `ModelError` for an input whose shape is neither fixed nor given, and for a set that
    contradicts the model.
    """
    inputs = fed_inputs(model.graph)
    return tuple(_shape_set(inputs, shapes) for shapes in metadata.shapes or ({},))


def _shape_set(inputs: Sequence[ValueInfoProto], shapes: Shapes) -> tuple[tuple[int, ...], ...]:
    unknown = set(shapes) - {info.name for info in inputs}
    if unknown:
        raise ModelError(
            f"the shapes are for {sorted(unknown)}; the inputs are {[i.name for i in inputs]}"
        )
    return tuple(_chosen_shape(info, shapes.get(info.name)) for info in inputs)


def _chosen_shape(info: ValueInfoProto, chosen: Sequence[int] | None) -> tuple[int, ...]:
    dims = info.type.tensor_type.shape.dim
    fixed = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
    if chosen is None:
        if any(size is None or size <= 0 for size in fixed):
            raise ModelError(
                f"input {info.name!r} has the shape {_describe_shape(info)}; an NPU needs fixed "
                f"sizes (anynpu build --shape {info.name}=1,3,224,224)"
            )
        return tuple(size for size in fixed if size is not None)
    fits = len(chosen) == len(fixed) and all(
        size is None or size <= 0 or size == wanted
        for size, wanted in zip(fixed, chosen, strict=True)
    )
    if not fits:
        raise ModelError(
            f"input {info.name!r} has the shape {_describe_shape(info)}, not {list(chosen)}"
        )
    return tuple(chosen)


def _describe_shape(info: ValueInfoProto) -> str:
    dims = info.type.tensor_type.shape.dim
    return "[" + ", ".join(str(d.dim_value or d.dim_param or "?") for d in dims) + "]"


# -------------------------------------------------------------------------------------- nodes


class _Cutter:
    """Rewrites one graph; knows who makes and who takes each tensor."""

    def __init__(self, graph: GraphProto, normalizations: Mapping[str, Normalization]) -> None:
        self._graph = graph
        self._normalizations = normalizations
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._constants.update(_constant_nodes(graph))
        self._names = _fresh_names(graph)

    def cut_input(self, info: ValueInfoProto) -> Terminal:
        """Move the device's edge past an input's quantisation, or round it to float16."""
        port = Port(info.name, (), _dtype(info), normalization=self._normalization(info))
        if info.type.tensor_type.elem_type not in _FLOAT_TYPES:
            return Terminal(info.name, port)
        quantizers = self._quantizers_of(info.name)
        if (found := self._common_parameters(quantizers)) is not None:
            return self._quantized_input(info, port, quantizers, *found)
        return self._rounded_input(info, port)

    def cut_output(self, info: ValueInfoProto) -> Terminal:
        """Move the device's edge before an output's dequantisation, or round it to float16."""
        port = Port(info.name, (), _dtype(info))
        if info.type.tensor_type.elem_type not in _FLOAT_TYPES:
            return Terminal(info.name, port)
        maker = self._maker_of(info.name)
        if maker is not None and _is(maker, "DequantizeLinear"):
            found = self._parameters(maker)
            if found is not None:
                return self._quantized_output(info, port, maker, *found)
        return self._rounded_output(info, port)

    def fit_input(self, info: ValueInfoProto, wanted: Port | None) -> Terminal:
        """Make an input the quantised tensor that is wanted, or float32."""
        quantizers = self._quantizers_of(info.name)
        found = self._common_parameters(quantizers)
        is_wanted = wanted is not None and found is not None and _is_as_wanted(*found, wanted)
        # What is to be normalised has to be real.
        if not is_wanted or info.name in self._normalizations:
            return self._real_input(info)
        assert wanted is not None, "it is as wanted"
        assert found is not None, "it is as wanted"
        port = Port(info.name, (), _dtype(info))
        terminal = self._quantized_input(info, port, quantizers, *found)
        return _without_shift(terminal, wanted)

    def fit_output(self, info: ValueInfoProto, wanted: Port | None) -> Terminal:
        """Make an output the quantised tensor that is wanted, or float32."""
        maker = self._maker_of(info.name)
        if wanted is not None and maker is not None and _is(maker, "DequantizeLinear"):
            found = self._parameters(maker)
            if found is not None and _is_as_wanted(*found, wanted):
                port = Port(info.name, (), _dtype(info))
                return _without_shift(self._quantized_output(info, port, maker, *found), wanted)
        return self._real_output(info)

    def _common_parameters(
        self, quantizers: Sequence[NodeProto]
    ) -> tuple[int, Quantization] | None:
        """What all of an input's quantisers agree on."""
        parameters = {self._parameters(node) for node in quantizers}
        return parameters.pop() if len(parameters) == 1 else None

    def _real_input(self, info: ValueInfoProto) -> Terminal:
        """Make a real input float32."""
        port = Port(info.name, (), _dtype(info), normalization=self._normalization(info))
        original = info.type.tensor_type.elem_type
        if original not in _FLOAT_TYPES:
            return Terminal(info.name, port)
        if original != TensorProto.FLOAT:
            info.name = next(self._names)
            info.type.tensor_type.elem_type = TensorProto.FLOAT
            self._prepend(helper.make_node("Cast", [info.name], [port.name], to=original))
        return Terminal(info.name, replace(port, dtype=DType.FLOAT32))

    def _real_output(self, info: ValueInfoProto) -> Terminal:
        """Make a real output float32."""
        port = Port(info.name, (), _dtype(info))
        original = info.type.tensor_type.elem_type
        if original not in _FLOAT_TYPES:
            return Terminal(info.name, port)
        if original != TensorProto.FLOAT:
            info.name = next(self._names)
            info.type.tensor_type.elem_type = TensorProto.FLOAT
            node = helper.make_node("Cast", [port.name], [info.name], to=TensorProto.FLOAT)
            self._graph.node.append(node)
        return Terminal(info.name, replace(port, dtype=DType.FLOAT32))

    def _normalization(self, info: ValueInfoProto) -> Normalization | None:
        """What the runtime does to an input first; it takes a float image of as many channels."""
        found = self._normalizations.get(info.name)
        if found is None:
            return None
        tensor = info.type.tensor_type
        dims, channels = tensor.shape.dim, len(found.mean)
        is_image = len(dims) == 4 and tensor.elem_type in _FLOAT_TYPES
        if not is_image or dims[1].dim_value != channels:
            raise ModelError(
                f"input {info.name!r} of shape {_describe_shape(info)} can't be normalised with "
                f"{channels} channels: that takes a float input [N, {channels}, H, W]"
            )
        return found

    # An input's consumers, when they are all quantisation and nothing else looks at it.
    def _quantizers_of(self, name: str) -> list[NodeProto]:
        takers = [node for node in _all_nodes(self._graph) if name in node.input]
        is_output = any(info.name == name for info in self._graph.output)
        quantizers = [
            node for node in takers if _is(node, "QuantizeLinear") and node.input[0] == name
        ]
        top_level = [node for node in self._graph.node if name in node.input]
        return (
            quantizers if len(quantizers) == len(takers) == len(top_level) and not is_output else []
        )

    def _maker_of(self, name: str) -> NodeProto | None:
        return next((node for node in self._graph.node if name in node.output), None)

    def _parameters(self, node: NodeProto) -> tuple[int, Quantization] | None:
        """(quantised ONNX type, scale and zero point as int8) of a per-tensor (De)QuantizeLinear.

        None for other kinds: by channel, computed parameters, wider types.
        """
        scale = self._scalar(node.input[1])
        if scale is None or not (scale > 0 and np.isfinite(scale)):
            return None
        if len(node.input) > 2 and node.input[2]:
            zero_point = self._scalar(node.input[2])
            kind = self._constants[node.input[2]].data_type if zero_point is not None else None
        elif _is(node, "QuantizeLinear") and not node.attribute:
            zero_point, kind = 0, TensorProto.UINT8
        else:
            return None
        if zero_point is None or kind not in _QUANTIZED_TYPES:
            return None
        offset = int(zero_point) - (_UNSIGNED_OFFSET if kind == TensorProto.UINT8 else 0)
        return kind, Quantization(scale, offset)

    def _scalar(self, name: str) -> float | None:
        tensor = self._constants.get(name)
        if tensor is None:
            return None
        values = numpy_helper.to_array(tensor)
        return float(values.reshape(-1)[0]) if values.size == 1 else None

    def _quantized_input(
        self,
        info: ValueInfoProto,
        port: Port,
        quantizers: list[NodeProto],
        kind: int,
        quantization: Quantization,
    ) -> Terminal:
        outputs = {node.output[0] for node in quantizers}
        for node in quantizers:
            self._graph.node.remove(node)
        for node in self._graph.node:
            for index, name in enumerate(node.input):
                if name in outputs:
                    node.input[index] = info.name
        for output in self._graph.output:
            if output.name in outputs:
                self._prepend(helper.make_node("Identity", [info.name], [output.name]))
        info.type.tensor_type.elem_type = kind
        port = replace(port, dtype=DType.INT8, quantization=quantization)
        return Terminal(info.name, port, is_unsigned=kind == TensorProto.UINT8)

    def _quantized_output(
        self,
        info: ValueInfoProto,
        port: Port,
        maker: NodeProto,
        kind: int,
        quantization: Quantization,
    ) -> Terminal:
        name = next(self._names)
        self._graph.node.append(helper.make_node("Identity", [maker.input[0]], [name]))
        info.name = name
        info.type.tensor_type.elem_type = kind
        if not any(maker.output[0] in node.input for node in _all_nodes(self._graph)):
            self._graph.node.remove(maker)
        port = replace(port, dtype=DType.INT8, quantization=quantization)
        return Terminal(name, port, is_unsigned=kind == TensorProto.UINT8)

    def _rounded_input(self, info: ValueInfoProto, port: Port) -> Terminal:
        original = info.type.tensor_type.elem_type
        name = next(self._names)
        half = next(self._names)
        self._prepend(helper.make_node("Cast", [half], [port.name], to=original))
        self._prepend(helper.make_node("Cast", [name], [half], to=TensorProto.FLOAT16))
        info.name = name
        info.type.tensor_type.elem_type = TensorProto.FLOAT
        return Terminal(name, port)

    def _rounded_output(self, info: ValueInfoProto, port: Port) -> Terminal:
        name = next(self._names)
        half = next(self._names)
        self._graph.node.append(
            helper.make_node("Cast", [port.name], [half], to=TensorProto.FLOAT16)
        )
        self._graph.node.append(helper.make_node("Cast", [half], [name], to=TensorProto.FLOAT))
        info.name = name
        info.type.tensor_type.elem_type = TensorProto.FLOAT
        return Terminal(name, port)

    def _prepend(self, node: NodeProto) -> None:
        self._graph.node.insert(0, node)


def _is(node: NodeProto, op_type: str) -> bool:
    """Whether a node is ONNX's own operator: other domains may have one of the same name."""
    return node.op_type == op_type and node.domain in STANDARD


def _is_as_wanted(kind: int, quantization: Quantization, wanted: Port) -> bool:
    """Whether a port has the dtype, scale and zero point of a tensor inside a model."""
    dtype, offset = DType.INT8, quantization.zero_point
    if kind == TensorProto.UINT8:
        dtype, offset = DType.UINT8, offset + _UNSIGNED_OFFSET
    return wanted.dtype is dtype and wanted.quantization == Quantization(quantization.scale, offset)


def _without_shift(terminal: Terminal, wanted: Port) -> Terminal:
    """A terminal whose port has what the model has, unsigned where that is."""
    port = replace(terminal.port, dtype=wanted.dtype, quantization=wanted.quantization)
    return Terminal(terminal.name, port)


def _all_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs inside its If, Loop and Scan nodes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _all_nodes(attribute.g)


def _constant_nodes(graph: GraphProto) -> dict[str, TensorProto]:
    return {
        node.output[0]: attribute.t
        for node in graph.node
        if node.op_type == "Constant" and node.output
        for attribute in node.attribute
        if attribute.name == "value" and attribute.type == onnx.AttributeProto.TENSOR
    }


def _fresh_names(graph: GraphProto) -> Iterator[str]:
    taken = {name for node in _all_nodes(graph) for name in (*node.input, *node.output)}
    return (name for name in (f"anynpu_edge_{i}" for i in itertools.count()) if name not in taken)


def _dtype(info: ValueInfoProto) -> DType:
    """What the device holds for a tensor of the model's type."""
    kind = info.type.tensor_type.elem_type
    dtype = DType.FLOAT16 if kind in _FLOAT_TYPES else _PLAIN_TYPES.get(kind)
    if dtype is None:
        named = kind in TensorProto.DataType.values()
        what = TensorProto.DataType.Name(kind) if named else f"number {kind}"
        raise ModelError(f"tensor {info.name!r} has the type {what}, which no NPU takes")
    return dtype
