"""Strategies for damaged ONNX files: what the engine reads of them, changed field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import numpy as np
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, load_from_string

from tests import models

_EDGES = (-(1 << 63), -1, 0, 1, 2, 3, 7, 8, 16, 255, 256, 65536, (1 << 31) - 1, 1 << 31, 1 << 40)
_KEYS = ("soc", "mean", "std", "shapes", "custom_string", "none")
_OPERATORS = (
    "Add", "Cast", "Concat", "Conv", "ConvTranspose", "DequantizeLinear", "Expand", "Flatten",
    "Gemm", "Identity", "If", "Loop", "MatMul", "MaxPool", "NonZero", "Pad", "QuantizeLinear",
    "Range", "Relu", "Reshape", "Resize", "Scan", "Shape", "Softmax", "Tile", "Transpose", "Warp",
)  # fmt: skip
_PLACES = ("w.bin", "../w.bin", "/etc/passwd", "/dev/zero", "", "\0")

Edit = Callable[[st.DrawFn, ModelProto], None]


@cache
def sound() -> tuple[tuple[str, bytes], ...]:
    """Small models of each kind."""
    return (
        ("add_one", models.add_one()),
        ("two_inputs", models.two_inputs()),
        ("quantized", models.quantized(metadata={"anynpu.soc": "rk3566"})),
        ("quantized_uint8", models.quantized(zero_point=3, dtype=np.uint8)),
        ("custom", models.custom(alpha=0.5)),
        ("passes", models.passes(TensorProto.INT64)),
        ("convolution", models.convolution(size=8)),
        ("dynamic", models.dynamic()),
        ("classifier", models.classifier()),
    )


def _json() -> st.SearchStrategy[str]:
    numbers = st.sampled_from([0, 1, -1, 1.5, 1e400, 255, "x", None, True, *_EDGES])
    lists = st.lists(numbers, max_size=5)
    named = st.dictionaries(st.sampled_from(["x", "a", "y", ""]), st.one_of(lists, numbers))
    values = st.one_of(named, st.lists(named, max_size=4), lists, numbers)
    return st.one_of(
        values.map(json.dumps),
        st.sampled_from(["", "{", "[" * 5000, '{"x": [NaN]}', "1" * 5000, "\ud800"]),
    )


def _metadata(draw: st.DrawFn, model: ModelProto) -> None:
    key = "anynpu." + draw(st.sampled_from(_KEYS))
    model.metadata_props.add(key=key).value = draw(_json()).encode("utf-8", "replace")


def _port(draw: st.DrawFn, model: ModelProto) -> None:
    infos = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    if not infos:
        return
    kind = draw(st.sampled_from(infos)).type.tensor_type
    way = draw(st.integers(0, 4))
    if way == 0:
        kind.elem_type = draw(st.integers(0, 40))
    elif way == 1:
        kind.ClearField("shape")
    elif way == 2 or not kind.shape.dim:
        kind.shape.dim.add().dim_value = draw(st.sampled_from(_EDGES))
    elif way == 3:
        draw(st.sampled_from(list(kind.shape.dim))).dim_param = draw(st.sampled_from(["", "h"]))
    else:
        draw(st.sampled_from(list(kind.shape.dim))).dim_value = draw(st.sampled_from(_EDGES))


def _constant(draw: st.DrawFn, model: ModelProto) -> None:
    if not model.graph.initializer:
        return
    tensor = draw(st.sampled_from(list(model.graph.initializer)))
    way = draw(st.integers(0, 5))
    if way == 0:
        tensor.data_type = draw(st.integers(0, 40))
    elif way == 1:
        tensor.dims[:] = draw(st.lists(st.sampled_from(_EDGES), max_size=5))
    elif way == 2:
        tensor.raw_data = tensor.raw_data[: draw(st.integers(0, len(tensor.raw_data)))]
    elif way == 3:
        tensor.name = draw(st.sampled_from(["", "x", "y", tensor.name + "_"]))
    elif way == 4:
        tensor.raw_data = draw(st.binary(max_size=64))
    else:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=draw(st.sampled_from(_PLACES)))


def _node(draw: st.DrawFn, model: ModelProto) -> None:
    node = draw(st.sampled_from(list(model.graph.node)))
    way = draw(st.integers(0, 5))
    names = ["", "x", "y", *(tensor.name for tensor in model.graph.initializer)]
    if way == 0:
        node.op_type = draw(st.sampled_from(_OPERATORS))
    elif way == 1:
        node.domain = draw(st.sampled_from(["", "ai.onnx", "com.microsoft", "tests", "other"]))
    elif way == 2:
        node.input[:] = draw(st.lists(st.sampled_from(names), max_size=4))
    elif way == 3:
        node.output[:] = draw(st.lists(st.sampled_from(names), max_size=3))
    elif way == 4:
        name = draw(st.sampled_from(["pads", "strides", "kernel_shape", "group", "axis", "to"]))
        values = draw(st.lists(st.sampled_from(_EDGES), max_size=5))
        entry = node.attribute.add(name=name, type=draw(st.sampled_from([2, 7])))
        entry.i, entry.ints[:] = (values or [0])[0], values
    else:
        model.graph.node.append(node)


def _whole(draw: st.DrawFn, model: ModelProto) -> None:
    way = draw(st.integers(0, 3))
    if way == 0:
        model.ir_version = draw(st.sampled_from([0, 3, 8, 11, 99, -1]))
    elif way == 1:
        model.opset_import[0].version = draw(st.sampled_from([0, 1, 7, 13, 17, 21, 99]))
    elif way == 2:
        del model.graph.output[:]
    else:
        del model.graph.input[:]


_EDITS: tuple[Edit, ...] = (_metadata, _metadata, _port, _constant, _node, _whole)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A model's name, and its bytes with one to four fields changed."""
    name, data = draw(st.sampled_from(sound()))
    model = load_from_string(data)
    for _ in range(draw(st.sampled_from([1, 1, 2, 4]))):
        draw(st.sampled_from(_EDITS))(draw, model)
    return name, model.SerializeToString()
