"""Damaged ONNX files: what the engine reads of them, changed field by field."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
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

Edit = Callable[[random.Random, ModelProto], None]


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


def _json(source: random.Random) -> str:
    numbers = (0, 1, -1, 1.5, 1e400, 255, "x", None, True, *_EDGES)

    def plain() -> Any:
        return source.choices(numbers, k=source.randrange(6))

    def named() -> Any:
        names = source.sample(("x", "a", "y", ""), source.randrange(5))
        return {name: source.choice((plain(), source.choice(numbers))) for name in names}

    match source.randrange(6):
        case 0 | 1:
            return json.dumps(named())
        case 2:
            return json.dumps([named() for _ in range(source.randrange(5))])
        case 3:
            return json.dumps(plain())
        case 4:
            return json.dumps(source.choice(numbers))
    return source.choice(("", "{", "[" * 5000, '{"x": [NaN]}', "1" * 5000, "\ud800"))


def _metadata(source: random.Random, model: ModelProto) -> None:
    key = "anynpu." + source.choice(_KEYS)
    model.metadata_props.add(key=key).value = _json(source).encode("utf-8", "replace")


def _port(source: random.Random, model: ModelProto) -> None:
    infos = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    if not infos:
        return
    kind = source.choice(infos).type.tensor_type
    way = source.randrange(5)
    if way == 0:
        kind.elem_type = source.randrange(41)
    elif way == 1:
        kind.ClearField("shape")
    elif way == 2 or not kind.shape.dim:
        kind.shape.dim.add().dim_value = source.choice(_EDGES)
    elif way == 3:
        source.choice(list(kind.shape.dim)).dim_param = source.choice(["", "h"])
    else:
        source.choice(list(kind.shape.dim)).dim_value = source.choice(_EDGES)


def _constant(source: random.Random, model: ModelProto) -> None:
    if not model.graph.initializer:
        return
    tensor = source.choice(list(model.graph.initializer))
    way = source.randrange(6)
    if way == 0:
        tensor.data_type = source.randrange(41)
    elif way == 1:
        tensor.dims[:] = source.choices(_EDGES, k=source.randrange(6))
    elif way == 2:
        tensor.raw_data = tensor.raw_data[: source.randrange(len(tensor.raw_data) + 1)]
    elif way == 3:
        tensor.name = source.choice(["", "x", "y", tensor.name + "_"])
    elif way == 4:
        tensor.raw_data = source.randbytes(source.randrange(65))
    else:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=source.choice(_PLACES))


def _node(source: random.Random, model: ModelProto) -> None:
    node = source.choice(list(model.graph.node))
    way = source.randrange(6)
    names = ["", "x", "y", *(tensor.name for tensor in model.graph.initializer)]
    if way == 0:
        node.op_type = source.choice(_OPERATORS)
    elif way == 1:
        node.domain = source.choice(["", "ai.onnx", "com.microsoft", "tests", "other"])
    elif way == 2:
        node.input[:] = source.choices(names, k=source.randrange(5))
    elif way == 3:
        node.output[:] = source.choices(names, k=source.randrange(4))
    elif way == 4:
        name = source.choice(["pads", "strides", "kernel_shape", "group", "axis", "to"])
        values = source.choices(_EDGES, k=source.randrange(6))
        entry = node.attribute.add(name=name, type=source.choice([2, 7]))
        entry.i, entry.ints[:] = (values or [0])[0], values
    else:
        model.graph.node.append(node)


def _whole(source: random.Random, model: ModelProto) -> None:
    way = source.randrange(4)
    if way == 0:
        model.ir_version = source.choice([0, 3, 8, 11, 99, -1])
    elif way == 1:
        model.opset_import[0].version = source.choice([0, 1, 7, 13, 17, 21, 99])
    elif way == 2:
        del model.graph.output[:]
    else:
        del model.graph.input[:]


_EDITS: tuple[Edit, ...] = (_metadata, _metadata, _port, _constant, _node, _whole)


def damaged(source: random.Random) -> tuple[str, bytes]:
    """A model's name, and its bytes with one to four fields changed."""
    name, data = source.choice(sound())
    model = load_from_string(data)
    for _ in range(source.choice([1, 1, 2, 4])):
        source.choice(_EDITS)(source, model)
    return name, model.SerializeToString()
