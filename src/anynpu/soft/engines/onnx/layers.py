"""From an ONNX model to the layers that an NPU would run, and how much work each is."""

from __future__ import annotations

from onnx import ModelProto

from ....tensor import DType
from ..program import Layer, LoweredModel
from .fusion import fuse
from .operators import Operator, operators
from .shapes import Shape
from .tensors import Tensors
from .work import Work, work


def lower(model: ModelProto, *, treat_as_int8: bool = False) -> LoweredModel:
    """The layers of a model with fixed input shapes, float or quantised with QDQ nodes.

    Float tensors are float16 on the device; with `treat_as_int8` they count as int8 with int32
    biases, as quantising would make them. What shape inference can't find counts as zero.
    """
    tensors = Tensors(model, treat_as_int8=treat_as_int8)
    found = fuse(operators(model, tensors), tensors)
    weights = {tensors.root(name) for operator in found for name in _weights(operator, tensors)}
    new_biases = sum(_new_bias_bytes(operator, tensors) for operator in found)
    return LoweredModel(
        layers=tuple(_layer(operator, tensors) for operator in found),
        weight_bytes=sum(map(tensors.size, weights)) + new_biases,
        peak_intermediate_bytes=_peak_intermediate_bytes(found, tensors),
    )


def _layer(operator: Operator, tensors: Tensors) -> Layer:
    weights = sum(map(tensors.size, _weights(operator, tensors)))
    weights += _new_bias_bytes(operator, tensors)
    task = _work(operator, tensors)
    return Layer(
        name=operator.name,
        op_type=operator.op_type,
        inputs=_input_shapes(operator, tensors),
        output=tensors.shape(operator.outputs[0]) or (),
        dtype=_dtype(operator, tensors),
        macs=task.macs,
        read_bytes=sum(map(tensors.size, _data(operator, tensors))) + weights,
        written_bytes=sum(map(tensors.size, operator.outputs)),
        weight_bytes=weights,
        channels_in=task.channels_in,
        channels_out=task.filters if task.is_depthwise else task.channels_out,
        kernel=task.kernel,
        is_depthwise=task.is_depthwise,
        uses_table=operator.uses_table,
    )


def _work(operator: Operator, tensors: Tensors) -> Work:
    inputs = [tensors.shape(name) for name in operator.inputs]
    return work(operator.node, inputs, tensors.shape(operator.node.output[0]))


def _data(operator: Operator, tensors: Tensors) -> list[str]:
    return [name for name in operator.inputs if not tensors.is_constant(name)]


def _weights(operator: Operator, tensors: Tensors) -> list[str]:
    return [name for name in operator.inputs if tensors.is_constant(name)]


def _dtype(operator: Operator, tensors: Tensors) -> DType:
    """INT8 where the data read first is quantised, else FLOAT16."""
    first = _data(operator, tensors)[:1]
    return DType.INT8 if [tensors.dtype(name) for name in first] == [DType.INT8] else DType.FLOAT16


def _new_bias(operator: Operator, tensors: Tensors) -> int:
    """The length of the bias that a folded normalisation adds; 0 where there was one before."""
    has_bias = operator.node.op_type != "MatMul" and any(operator.node.input[2:3])
    task = _work(operator, tensors)
    return task.filters if operator.is_scaled and not has_bias else 0


def _new_bias_bytes(operator: Operator, tensors: Tensors) -> int:
    is_int8 = _dtype(operator, tensors) is DType.INT8
    return (DType.INT32 if is_int8 else DType.FLOAT16).size_of(_new_bias(operator, tensors))


def _input_shapes(operator: Operator, tensors: Tensors) -> tuple[Shape, ...]:
    """The shapes of all tensors that the device reads: depthwise weights are (1, C, ...) there."""
    shapes = [tensors.shape(name) or () for name in operator.inputs]
    if _work(operator, tensors).is_depthwise:
        filters, _, *kernel = shapes[1]
        shapes[1] = (1, filters, *kernel)
    if bias := _new_bias(operator, tensors):
        shapes.insert(2, (bias,))
    return tuple(shapes)


def _peak_intermediate_bytes(found: list[Operator], tensors: Tensors) -> int:
    """The most that tensors between operators take, each alive from its maker to its last taker."""
    last_takers = {
        tensors.root(name): index for index, op in enumerate(found) for name in op.inputs
    }
    live: dict[str, int] = {}
    peak = 0
    for index, operator in enumerate(found):
        live |= {n: tensors.size(n) for n in operator.outputs if not tensors.is_output(n)}
        peak = max(peak, sum(live.values()))
        for name in [n for n in live if last_takers.get(n, index) <= index]:
            if not tensors.is_kept(name):
                del live[name]
    return peak
