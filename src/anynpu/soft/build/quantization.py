"""Quantise a model to int8. The quantising is ONNX Runtime's own work, but for the inputs.

A vendor's compiler gives an int8 model int8 inputs. ONNX Runtime leaves an input in float where
its first consumer is none that it quantises (the slices at the beginning of YOLOX, Shape).
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from ...errors import ModelError
from ..engines.onnx.boundary import fed_inputs, fix_shapes
from ..engines.onnx.custom import node_keys
from ..engines.onnx.nodes import check_bodies
from .calibration import CalibrationFolder
from .metadata import Metadata, Shapes

_OLDEST_QUANTIZABLE_OPSET = 13
_LARGEST_BYTE = 255


def quantize(model: ModelProto, folder: Path, metadata: Metadata, *, bgr: bool) -> ModelProto:
    """The model with int8 QuantizeLinear/DequantizeLinear pairs, weights quantised by channel.

    It is calibrated with a folder's images or arrays, a dynamic model under its largest shapes.
    Raises `OptionError` for data that doesn't fit the model, `ModelError` for custom operators,
    and as `check_bodies` does.
    """
    check_bodies(model)
    custom = sorted({key.op_type for key in node_keys(model) if key.is_foreign})
    if custom:
        raise ModelError(
            f"a model with the custom operators {custom} can't be quantised: calibrating runs it, "
            f"and nothing computes them there; quantise the model before they are added"
        )
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if opset < _OLDEST_QUANTIZABLE_OPSET:
        model = onnx.version_converter.convert_version(model, _OLDEST_QUANTIZABLE_OPSET)
    calibrated = ModelProto()
    calibrated.CopyFrom(model)
    if metadata.shapes:
        fix_shapes(calibrated, max(metadata.shapes, key=_elements))
    data = CalibrationFolder(folder, calibrated, metadata.normalization, bgr=bgr)
    with tempfile.TemporaryDirectory() as work:
        plain, prepared, quantized = (Path(work, f"{stage}.onnx") for stage in "012")
        onnx.save(model, plain)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            quantized,
            data,
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,  # the pair that ONNX Runtime is fastest at
            weight_type=QuantType.QInt8,
        )
        result: ModelProto = onnx.load(quantized)
    _quantize_inputs(result.graph, data)
    return result


def _elements(shapes: Shapes) -> int:
    return sum(map(math.prod, shapes.values()))


def _quantize_inputs(graph: GraphProto, data: CalibrationFolder) -> None:
    """Let every consumer of a float input see it through one pair of quantiser and dequantiser."""
    names = [
        info.name
        for info in fed_inputs(graph)
        if info.type.tensor_type.elem_type == TensorProto.FLOAT
    ]
    if all(_is_quantized(graph, name) for name in names):
        return
    ranges = _ranges(data)
    for name in names:
        if not _is_quantized(graph, name):
            _insert_pair(graph, name, *ranges[name])


def _is_quantized(graph: GraphProto, name: str) -> bool:
    return all(node.op_type == "QuantizeLinear" for node in graph.node if name in node.input)


def _ranges(data: CalibrationFolder) -> dict[str, tuple[float, float]]:
    """The least and the greatest value of each input, 0 included."""
    ranges: dict[str, tuple[float, float]] = {}
    data.rewind()
    while (feeds := data.get_next()) is not None:
        for name, values in feeds.items():
            low, high = ranges.get(name, (0.0, 0.0))
            ranges[name] = min(low, float(values.min())), max(high, float(values.max()))
    return ranges


def _insert_pair(graph: GraphProto, name: str, low: float, high: float) -> None:
    scale = (high - low) / _LARGEST_BYTE or 1.0
    for node in graph.node:
        for index, consumed in enumerate(node.input):
            if consumed == name:
                node.input[index] = f"{name}_dequantized"
    constants = [f"{name}_input_scale", f"{name}_input_zero_point"]
    values = [np.float32(scale), np.uint8(np.clip(round(-low / scale), 0, _LARGEST_BYTE))]
    for constant, value in zip(constants, values, strict=True):
        graph.initializer.append(numpy_helper.from_array(np.asarray(value), constant))
    for node in (
        _pair_node("DequantizeLinear", f"{name}_quantized", constants, f"{name}_dequantized"),
        _pair_node("QuantizeLinear", name, constants, f"{name}_quantized"),
    ):
        graph.node.insert(0, node)


def _pair_node(op_type: str, source: str, constants: list[str], target: str) -> NodeProto:
    return helper.make_node(op_type, [source, *constants], [target])
