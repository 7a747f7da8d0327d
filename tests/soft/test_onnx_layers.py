"""From ONNX models to layers: what is joined, and how much work each layer is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from anynpu.soft.build import BuildOptions, build
from anynpu.soft.engines.onnx.layers import lower
from anynpu.soft.engines.program import LoweredModel
from anynpu.tensor import DType

from .. import models

FLOAT = TensorProto.FLOAT
SHAPE = (1, 8, 6, 6)
WEIGHTS = np.zeros((8, 8, 3, 3), np.float32)
BIAS = np.zeros(8, np.float32)
ELEMENTS = 8 * 6 * 6

node = helper.make_node


def conv(x: str, y: str, *weights: str, **attributes: Any) -> NodeProto:
    return node(
        "Conv", [x, *(weights or ("w",))], [y], name=f"conv_{y}", pads=[1] * 4, **attributes
    )


def lowered(
    nodes: Sequence[NodeProto],
    constants: dict[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
    shape: Sequence[int | str] = SHAPE,
    *,
    treat_as_int8: bool = False,
) -> LoweredModel:
    """A model of nodes from `x` to `outputs`, with the weights `w` and `constants`."""
    data = models.save(
        nodes,
        [("x", FLOAT, shape)],
        [(name, FLOAT, [None] * 4) for name in outputs],  # type: ignore[list-item]
        {"w": WEIGHTS, **(constants or {})},
    )
    return lower(onnx.load_from_string(data), treat_as_int8=treat_as_int8)


def kinds(model: LoweredModel) -> list[str]:
    return [layer.op_type for layer in model.layers]


# ------------------------------------------------------------------------------------ a layer


def test_a_convolution_with_relu_is_one_layer() -> None:
    (layer,) = lower(onnx.load_from_string(models.convolution())).layers
    assert layer.op_type == "ConvRelu"
    assert layer.inputs == ((1, 3, 16, 16), (8, 3, 3, 3))
    assert layer.output == (1, 8, 16, 16)
    assert layer.dtype is DType.FLOAT16
    assert layer.macs == 8 * 16 * 16 * 3 * 9
    assert layer.weight_bytes == 8 * 3 * 9 * 2
    assert layer.read_bytes == 3 * 16 * 16 * 2 + layer.weight_bytes
    assert layer.written_bytes == 8 * 16 * 16 * 2
    assert (layer.channels_in, layer.channels_out, layer.kernel) == (3, 8, (3, 3))
    assert not layer.is_depthwise
    assert not layer.uses_table


def test_treated_as_int8_elements_are_bytes_and_biases_words() -> None:
    model = lowered([conv("x", "y", "w", "b")], {"b": BIAS}, treat_as_int8=True)
    (layer,) = model.layers
    assert layer.dtype is DType.INT8
    assert layer.weight_bytes == model.weight_bytes == 8 * 8 * 9 + 8 * 4
    assert layer.read_bytes == ELEMENTS + layer.weight_bytes
    assert layer.written_bytes == ELEMENTS


def test_a_layer_has_the_name_of_its_first_node_or_of_what_that_makes() -> None:
    nodes = [conv("x", "a"), node("Relu", ["a"], ["b"]), node("Softmax", ["b"], ["y"])]
    assert [layer.name for layer in lowered(nodes).layers] == ["conv_a", "y"]


def test_depthwise_and_grouped_convolutions() -> None:
    weights = {"d": np.zeros((8, 1, 3, 3), np.float32), "g": np.zeros((8, 2, 3, 3), np.float32)}
    nodes = [conv("x", "a", "d", group=8), conv("a", "y", "g", group=4)]
    depthwise, grouped = lowered(nodes, weights).layers
    assert depthwise.is_depthwise
    assert depthwise.macs == ELEMENTS * 9
    assert (depthwise.channels_in, depthwise.channels_out) == (1, 8)
    assert depthwise.inputs[1] == (1, 8, 3, 3)
    assert not grouped.is_depthwise
    assert grouped.macs == ELEMENTS * 2 * 9
    assert (grouped.channels_in, grouped.channels_out) == (2, 2)


def test_a_transposed_convolution() -> None:
    weights = {"t": np.zeros((8, 5, 2, 2), np.float32)}
    (layer,) = lowered([node("ConvTranspose", ["x", "t"], ["y"], strides=[2, 2])], weights).layers
    assert layer.output == (1, 5, 12, 12)
    assert layer.macs == ELEMENTS * 5 * 4
    assert (layer.channels_in, layer.channels_out) == (8, 5)


def test_matrix_products() -> None:
    constants = {
        "g": np.zeros((10, 288), np.float32),
        "m": np.zeros((10, 7), np.float32),
        "b": np.zeros(7, np.float32),
    }
    nodes = [
        node("Flatten", ["x"], ["flat"]),
        node("Gemm", ["flat", "g"], ["a"], transB=1),
        node("MatMul", ["a", "m"], ["c"]),
        node("Add", ["c", "b"], ["y"]),
    ]
    gemm, matmul = lowered(nodes, constants).layers
    assert (gemm.op_type, gemm.macs) == ("Gemm", 2880)
    assert gemm.inputs == ((1, 288), (10, 288))
    assert (matmul.op_type, matmul.macs) == ("MatMul", 70)
    assert matmul.inputs == ((1, 10), (10, 7), (7,)), "the summand has become the bias"
    assert matmul.weight_bytes == 77 * 2


# ------------------------------------------------------------------------------------- fusion


@pytest.mark.parametrize(
    ("activation", "kind", "uses_table"),
    [
        ("Relu", "ConvRelu", False),
        ("LeakyRelu", "ConvLeakyRelu", False),
        ("Sigmoid", "ConvSigmoid", True),
        ("HardSigmoid", "ConvHardSigmoid", True),
        ("HardSwish", "ConvHardSwish", True),
        ("Tanh", "ConvTanh", True),
    ],
)
def test_activations_are_joined(activation: str, kind: str, uses_table: bool) -> None:
    (layer,) = lowered([conv("x", "a"), node(activation, ["a"], ["y"])]).layers
    assert (layer.op_type, layer.uses_table) == (kind, uses_table)


def test_clip_and_prelu_are_joined() -> None:
    constants = {"low": np.float32(0), "high": np.float32(6), "slope": np.zeros((8, 1, 1))}
    constants["slope"] = constants["slope"].astype(np.float32)
    clip = [conv("x", "a"), node("Clip", ["a", "low", "high"], ["b"])]
    prelu = [conv("b", "c"), node("PRelu", ["c", "slope"], ["y"])]
    first, second = lowered([*clip, *prelu], constants).layers
    assert first.op_type == "ConvClip"
    assert first.inputs == (SHAPE, WEIGHTS.shape), "limits are no data"
    assert second.op_type == "ConvPRelu"
    assert second.inputs == (SHAPE, WEIGHTS.shape, (8, 1, 1))


@pytest.mark.parametrize("order", [["a", "s"], ["s", "a"]])
def test_silu_is_an_activation(order: list[str]) -> None:
    nodes = [conv("x", "a"), node("Sigmoid", ["a"], ["s"]), node("Mul", order, ["y"])]
    (layer,) = lowered(nodes).layers
    assert (layer.op_type, layer.uses_table) == ("ConvExSwish", True)
    assert layer.inputs == (SHAPE, WEIGHTS.shape)


def test_a_gate_of_another_tensor_is_no_activation() -> None:
    nodes = [conv("x", "a"), node("Sigmoid", ["x"], ["s"]), node("Mul", ["a", "s"], ["y"])]
    assert kinds(lowered(nodes)) == ["Conv", "Sigmoid", "Mul"]


def test_hard_swish_as_exporters_write_it() -> None:
    constants = {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)}
    nodes = [
        conv("x", "a"),
        node("Add", ["a", "three"], ["shifted"]),
        node("Clip", ["shifted", "zero", "six"], ["gate"]),
        node("Mul", ["a", "gate"], ["product"]),
        node("Div", ["product", "six"], ["y"]),
    ]
    (layer,) = lowered(nodes, constants).layers
    assert (layer.op_type, layer.uses_table) == ("ConvHardSwish", True)


def test_normalisations_are_folded_and_leave_a_bias() -> None:
    constants = dict.fromkeys(("scale", "shift", "mean", "variance"), BIAS)
    constants["factor"] = np.zeros((1, 8, 1, 1), np.float32)
    nodes = [
        conv("x", "a"),
        node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"]),
        node("Mul", ["b", "factor"], ["c"]),
        node("Relu", ["c"], ["y"]),
    ]
    model = lowered(nodes, constants, treat_as_int8=True)
    (layer,) = model.layers
    assert layer.op_type == "ConvRelu"
    assert layer.inputs == (SHAPE, WEIGHTS.shape, (8,))
    assert layer.weight_bytes == model.weight_bytes == 8 * 8 * 9 + 8 * 4


def test_a_normalisation_alone_is_a_layer_with_scale_and_shift() -> None:
    constants = dict.fromkeys(("scale", "shift", "mean", "variance"), BIAS)
    nodes = [
        node("BatchNormalization", ["x", "scale", "shift", "mean", "variance"], ["b"]),
        node("Relu", ["b"], ["y"]),
    ]
    (layer,) = lowered(nodes, constants).layers
    assert layer.op_type == "BatchNormalizationRelu"
    assert layer.weight_bytes == 2 * 8 * 2


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("", "", "ConvAdd"),
        ("", "Relu", "ConvAddRelu"),
        ("Relu", "", "ConvReluAdd"),
        ("Relu", "Relu", "ConvReluAddRelu"),
    ],
)
def test_residual_sums_are_joined(before: str, after: str, kind: str) -> None:
    nodes = [
        conv("x", "a"),
        node(before or "Identity", ["a"], ["b"]),
        node("Add", ["x", "b"], ["c"]),
        node(after or "Identity", ["c"], ["y"]),
    ]
    (layer,) = lowered(nodes).layers
    assert layer.op_type == kind
    assert layer.inputs == (SHAPE, WEIGHTS.shape, SHAPE)
    assert layer.read_bytes == 2 * (2 * ELEMENTS + WEIGHTS.size)


def test_a_sum_behind_a_look_up_table_is_a_layer_of_its_own() -> None:
    nodes = [conv("x", "a"), node("Sigmoid", ["a"], ["b"]), node("Add", ["x", "b"], ["y"])]
    assert kinds(lowered(nodes)) == ["ConvSigmoid", "Add"]


def test_a_factor_behind_a_look_up_table_is_a_layer_of_its_own() -> None:
    nodes = [conv("x", "a"), node("HardSwish", ["a"], ["b"]), node("Mul", ["b", "half"], ["y"])]
    assert kinds(lowered(nodes, {"half": np.float32(0.5)})) == ["ConvHardSwish", "Mul"]


def test_of_two_convolutions_the_later_one_adds() -> None:
    nodes = [conv("x", "a"), conv("x", "b"), node("Add", ["a", "b"], ["y"])]
    first, second = lowered(nodes).layers
    assert (first.name, first.op_type) == ("conv_a", "Conv")
    assert (second.name, second.op_type) == ("conv_b", "ConvAdd")


def test_a_joined_layer_runs_when_all_its_inputs_are_there() -> None:
    nodes = [
        conv("x", "a"),
        node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1]),
        node("Add", ["a", "p"], ["y"]),
    ]
    assert kinds(lowered(nodes)) == ["MaxPool", "ConvAdd"]


def test_what_something_else_takes_is_not_joined() -> None:
    used_twice = [conv("x", "a"), node("Relu", ["a"], ["r"]), node("Add", ["a", "r"], ["y"])]
    assert kinds(lowered(used_twice)) == ["Conv", "Relu", "Add"]
    is_output = [conv("x", "a"), node("Relu", ["a"], ["y"])]
    assert kinds(lowered(is_output, outputs=("a", "y"))) == ["Conv", "Relu"]
    doubled = [conv("x", "a"), node("Add", ["a", "a"], ["y"])]
    assert kinds(lowered(doubled)) == ["Conv", "Add"]


def test_a_broadcast_sum_is_not_joined() -> None:
    nodes = [
        conv("x", "a"),
        node("GlobalAveragePool", ["x"], ["p"]),
        node("Add", ["a", "p"], ["y"]),
    ]
    assert kinds(lowered(nodes)) == ["Conv", "GlobalAveragePool", "Add"]


def test_what_a_subgraph_reads_is_not_joined() -> None:
    branch = helper.make_graph(
        [node("Identity", ["a"], ["chosen"])],
        "branch",
        [],
        [helper.make_tensor_value_info("chosen", FLOAT, SHAPE)],
    )
    nodes = [
        conv("x", "a"),
        node("Relu", ["a"], ["r"]),
        node("ReduceMax", ["r"], ["m"], keepdims=0),
        node("Cast", ["m"], ["condition"], to=TensorProto.BOOL),
        node("If", ["condition"], ["i"], then_branch=branch, else_branch=branch),
        node("Add", ["i", "r"], ["y"]),
    ]
    assert kinds(lowered(nodes)) == ["Conv", "Relu", "ReduceMax", "If", "Add"]


# ---------------------------------------------------------------------- names without layers


def test_another_view_of_a_tensor_is_no_layer() -> None:
    constants = {"shape": np.array([1, 8, 36]), "back": np.array(SHAPE)}
    nodes = [
        node("Identity", ["x"], ["i"]),
        conv("i", "a"),
        node("Reshape", ["a", "shape"], ["b"]),
        node("Dropout", ["b"], ["c"]),
        node("Relu", ["c"], ["d"]),
        node("Reshape", ["d", "back"], ["e"]),
        conv("e", "y"),
    ]
    assert kinds(lowered(nodes, constants)) == ["ConvRelu", "Conv"]


def test_what_is_computed_of_constants_is_no_layer() -> None:
    nodes = [
        node("Transpose", ["w"], ["t"], perm=[1, 0, 2, 3]),
        node("Shape", ["x"], ["shape"]),
        conv("x", "a", "t"),
        node("Reshape", ["a", "shape"], ["y"]),
    ]
    model = lowered(nodes)
    assert kinds(model) == ["Conv"]
    assert model.weight_bytes == WEIGHTS.size * 2


def test_shapes_that_the_model_computes() -> None:
    """ONNX's own inference doesn't follow a division; the Conv after it still has its shape."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Div", ["shape", "divisors"], ["halved"]),
        node("Add", ["halved", "extra"], ["wanted"]),
        node("Reshape", ["x", "wanted"], ["a"]),
        conv("a", "y"),
    ]
    constants = {"divisors": np.array([1, 1, 2, 1]), "extra": np.array([0, 0, 0, 6])}
    (layer,) = lowered(nodes, constants).layers
    assert layer.output == (1, 8, 3, 12)
    assert layer.macs == ELEMENTS * 8 * 9


def test_unknown_shapes_count_as_nothing() -> None:
    model = lowered([conv("x", "a"), node("Relu", ["a"], ["y"])], shape=("n", 8, "h", "w"))
    (layer,) = model.layers
    assert layer.op_type == "ConvRelu"
    assert layer.inputs == ((), WEIGHTS.shape)
    assert layer.output == ()
    assert layer.macs == layer.written_bytes == model.peak_intermediate_bytes == 0
    assert layer.read_bytes == layer.weight_bytes == WEIGHTS.size * 2


def test_a_model_that_contradicts_itself_still_has_layers() -> None:
    """Weights of another rank, and an operator that no schema knows."""
    model = helper.make_model(
        helper.make_graph(
            [node("Conv", ["x", "v"], ["a"]), node("Nonsense", ["a"], ["y"], domain="mine")],
            "broken",
            [helper.make_tensor_value_info("x", FLOAT, SHAPE)],
            [helper.make_tensor_value_info("y", FLOAT, None)],
            [helper.make_tensor("v", FLOAT, [4], [0.0] * 4)],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)],
    )
    assert kinds(lower(model)) == ["Conv", "Nonsense"]
    assert lower(model).layers[0].macs == 0


@pytest.mark.parametrize("kind", ["Relu", "Add", "Mul", "Conv", "BatchNormalization", "LSTM"])
@pytest.mark.parametrize("inputs", [[], [""], ["a"], ["nobody", "a"]])
def test_operators_with_wrong_inputs_are_layers_without_work(kind: str, inputs: list[str]) -> None:
    model = onnx.load_from_string(models.convolution())
    model.graph.node.append(node(kind, inputs, ["z"]))
    layers = lower(model).layers
    assert layers[0].op_type.startswith("Conv")
    assert layers[-1].macs in (0, layers[0].macs)


# ------------------------------------------------------------------------------- quantisation


def residual_block() -> bytes:
    rng = np.random.default_rng(3)
    nodes = [
        conv("x", "a", "w", "b"),
        node("Sigmoid", ["a"], ["s"]),
        node("Mul", ["a", "s"], ["c"]),
        conv("c", "d", "v"),
        node("Add", ["d", "c"], ["e"]),
        node("MaxPool", ["e"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    constants = {name: rng.normal(0, 1, WEIGHTS.shape).astype(np.float32) for name in ("w", "v")}
    constants["b"] = rng.normal(0, 1, 8).astype(np.float32)
    shapes = [("x", FLOAT, SHAPE)], [("y", FLOAT, (1, 8, 3, 3))]
    return models.save(nodes, *shapes, constants)


def test_a_quantised_model_has_the_layers_of_the_float_one_treated_as_int8(
    tmp_path: Path,
) -> None:
    values = np.random.default_rng(4).normal(0, 1, SHAPE).astype(np.float32)
    np.save(tmp_path / "values.npy", values)
    quantized = onnx.load_from_string(build(residual_block(), BuildOptions(quantize=tmp_path)))
    assert any(n.op_type == "QuantizeLinear" for n in quantized.graph.node)

    found = lower(quantized)
    expected = lower(onnx.load_from_string(residual_block()), treat_as_int8=True)
    assert kinds(found) == kinds(expected) == ["ConvExSwish", "ConvAdd", "MaxPool"]
    assert all(layer.dtype is DType.INT8 for layer in found.layers)
    for mine, other in zip(found.layers, expected.layers, strict=True):
        assert mine.macs == other.macs
        assert mine.inputs == other.inputs
        assert mine.read_bytes == other.read_bytes
        assert mine.written_bytes == other.written_bytes
    assert found.weight_bytes == expected.weight_bytes == 2 * WEIGHTS.size + 8 * 4
    assert found.peak_intermediate_bytes == expected.peak_intermediate_bytes


def test_a_layer_between_types_reads_one_and_writes_the_other() -> None:
    constants = {"scale": np.float32(1), "zero": np.int8(0)}
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["f"]),
        conv("f", "y"),
    ]
    (layer,) = lowered(nodes, constants).layers
    assert layer.dtype is DType.INT8
    assert layer.read_bytes - layer.weight_bytes == ELEMENTS
    assert layer.written_bytes == 2 * ELEMENTS


# -------------------------------------------------------------------------------- whole models


def test_shared_weights_are_stored_once() -> None:
    model = lowered([conv("x", "a"), conv("a", "y")])
    assert [layer.weight_bytes for layer in model.layers] == [2 * WEIGHTS.size] * 2
    assert model.weight_bytes == 2 * WEIGHTS.size


def test_the_peak_of_live_tensors() -> None:
    """`a` lives until the sum; `b` and `c` one after the other beside it, then the sum's `d`."""
    nodes = [
        conv("x", "a"),
        node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Resize", ["b", "", "scales"], ["c"]),
        node("Mul", ["a", "c"], ["d"]),
        conv("d", "y"),
    ]
    constants = {"scales": np.array([1, 1, 2, 2], np.float32)}
    model = lowered(nodes, constants, treat_as_int8=True)
    assert kinds(model) == ["Conv", "MaxPool", "Resize", "Mul", "Conv"]
    assert model.peak_intermediate_bytes == 3 * ELEMENTS, "a, c and d when the product is made"


def test_inputs_and_outputs_are_no_intermediates() -> None:
    assert lowered([conv("x", "y")]).peak_intermediate_bytes == 0
