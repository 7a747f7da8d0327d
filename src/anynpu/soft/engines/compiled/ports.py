"""A compiled graph's inputs and outputs as ports."""

from __future__ import annotations

import math
from dataclasses import replace

from ....errors import ModelError
from ....rknn.abi import MAX_DIMS
from ....tensor import DType, Layout
from ...formats.rknn.model import (
    CompiledModel,
    Device,
    Graph,
    InputNormalization,
    Tensor,
    TensorLayout,
)
from ..program import NativeForm, Normalization, Port, Variant

_IMAGE_CHANNELS = (1, 3, 4)
"""Channel counts of inputs that lie as images do: one block, as wide as that."""

_INPUT_OPERATOR = "InputOperator"
"""The node that stands for an input itself, where a file has it."""

_MOST_BYTES = 2**31 - 1
"""Sizes in the C API are 32 bits wide; twice a float32 tensor of this many bytes still fits."""

_LAYOUTS = {
    TensorLayout.PLAIN: Layout.UNDEFINED,
    TensorLayout.NHWC: Layout.NHWC,
    TensorLayout.NCHW: Layout.NCHW,
}


def variant_of(model: CompiledModel, graph: Graph) -> Variant:
    """The ports of a graph; a batch that the file asks for multiplies their first axes."""
    inputs = tuple(
        replace(
            _port(graph.tensors[index], model.batch),
            normalization=_normalization(graph.tensors[index], given),
            is_read_by_cpu=_is_read_by_cpu(graph, index),
        )
        for index, given in zip(graph.inputs, graph.normalizations, strict=True)
    )
    outputs = tuple(_port(graph.tensors[index], model.batch) for index in graph.outputs)
    return Variant(inputs, outputs)


def _is_read_by_cpu(graph: Graph, tensor: int) -> bool:
    return any(
        node.device is Device.CPU and node.op_type != _INPUT_OPERATOR and tensor in node.inputs
        for node in graph.nodes
    )


def _port(tensor: Tensor, batch: int) -> Port:
    dtype = tensor.element.dtype
    if dtype is None or dtype.numpy_name is None:
        raise ModelError(f"tensor {tensor.name!r} has elements of type {tensor.element.name}")
    if not 1 <= len(tensor.shape) <= MAX_DIMS or 0 in tensor.shape:
        raise ModelError(f"tensor {tensor.name!r} has the shape {tensor.shape}")
    form = _native_form(tensor)
    port = Port(
        name=tensor.name,
        shape=_times(tensor.shape, batch),
        dtype=dtype,
        quantization=tensor.quantization,
        native=NativeForm(form.layout, _times(form.shape, batch)),
    )
    if max(port.elements, math.prod(form.shape) * batch) * port.carrier.itemsize > _MOST_BYTES:
        raise ModelError(f"tensor {port.name!r} of shape {port.shape} is too large for the API")
    return port


def _native_form(tensor: Tensor) -> NativeForm:
    shape = tensor.native_shape
    if tensor.layout is not TensorLayout.BLOCKED:
        layout = _LAYOUTS.get(tensor.layout)
        if layout is Layout.UNDEFINED and math.prod(shape) == math.prod(tensor.shape):
            # Older toolkits give some of them more axes in memory.
            return NativeForm(layout, tensor.shape)
        if layout is None or len(shape) != len(tensor.shape):
            raise ModelError(f"tensor {tensor.name!r} lies in memory as {tensor.layout.name}")
        return NativeForm(layout, shape)
    if len(shape) != 5 or len(tensor.shape) != 4:
        raise ModelError(
            f"tensor {tensor.name!r} of shape {tensor.shape} lies in channel blocks as {shape}"
        )
    n, c1, h, w, c2 = shape
    if c1 == 1 and c2 == tensor.shape[1] and c2 in _IMAGE_CHANNELS:
        return NativeForm(Layout.NHWC, (n, h, w, c2))
    return NativeForm(Layout.NC1HWC2, shape)


def _normalization(tensor: Tensor, given: InputNormalization) -> Normalization | None:
    if not any(given.mean) and all(value == 1 for value in given.std):
        return None
    channels = tensor.shape[1] if len(tensor.shape) == 4 else 0
    if given.channel_order[:channels] != tuple(range(channels))[: len(given.channel_order)]:
        raise ModelError(
            f"input {tensor.name!r} takes its channels in the order {given.channel_order}, which "
            "anynpu doesn't know"
        )
    is_uniform = len(set(given.mean)) == len(set(given.std)) == 1
    if not channels and is_uniform and tensor.element.dtype is DType.FLOAT16:
        return Normalization(given.mean[:1], given.std[:1])
    if not channels:
        # The vendor's runtime 1.5.2 normalises int8 ones and forgets the scale: nearly all numbers
        # become one. What later ones do isn't known.
        raise ModelError(
            f"input {tensor.name!r} of {tensor.element.name} and shape {tensor.shape} has mean "
            f"{given.mean} and std {given.std}: only float16 is known with other than four "
            "dimensions, and the same numbers for all"
        )
    if channels > len(given.mean) and not is_uniform:
        raise ModelError(
            f"input {tensor.name!r} of shape {tensor.shape} has mean {given.mean} and std "
            f"{given.std}, which anynpu doesn't know"
        )
    if channels > len(given.mean):
        return Normalization(given.mean[:1], given.std[:1])
    return Normalization(given.mean[:channels], given.std[:channels])


def _times(shape: tuple[int, ...], batch: int) -> tuple[int, ...]:
    return (shape[0] * batch, *shape[1:])
