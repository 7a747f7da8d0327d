"""`anynpu compare --per-layer` of `.nb` files: layers are known by weights, never by values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from anynpu.cli import main
from anynpu.cli.compare_nbg_layers import _Relation
from anynpu.cli.onnx_source import OnnxSource
from anynpu.soft.engines.nbg.vip import contract
from anynpu.soft.engines.program import Variant
from anynpu.soft.engines.vip.observed import ObservedLayer, Values, observe
from anynpu.soft.formats import nbg

from ..shared import NBG_SAMPLES

RESIDUAL = Path(__file__).parents[1] / "data" / "compiled" / "nbg" / "residual.t527.nb"
SHAPE = (1, 3, 30, 22)
Node = tuple[str, Sequence[str], str, Mapping[str, Any]]


def model_of(
    shape: Sequence[int],
    nodes: Sequence[Node],
    constants: Mapping[str, Any],
    outputs: Sequence[str],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(kind, names, [out], **more) for kind, names, out, more in nodes],
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [
            numpy_helper.from_array(np.asarray(each, np.float32), name)
            for name, each in constants.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def observed(file: Path) -> tuple[ObservedLayer, ...]:
    model = nbg.read(file.read_bytes())
    described = contract(model)
    rng = np.random.default_rng(0)
    inputs = [rng.random(port.shape, dtype=np.float32) for port in described.inputs]
    return observe(model, Variant(described.inputs, described.outputs), inputs)


def residual_source(scale: float = 1.0) -> onnx.ModelProto:
    """The network that the file was made from, with its own quantised weights."""
    first, depthwise, last, _ = (layer.weights for layer in observed(RESIDUAL))
    assert first is not None
    assert depthwise is not None
    assert last is not None
    constants: dict[str, Any] = {
        "w1": first * scale,
        "w2": depthwise,
        "w3": last,
        "zero": 0.0,
        "six": 6.0,
    }
    pads = {"pads": [1, 1, 1, 1]}
    nodes: list[Node] = [
        ("Conv", ["x", "w1"], "c1", {"strides": [2, 2], **pads}),
        ("Relu", ["c1"], "r1", {}),
        ("Conv", ["r1", "w2"], "c2", {"group": 12, **pads}),
        ("Clip", ["c2", "zero", "six"], "r2", {}),
        ("Conv", ["r2", "w3"], "c3", {}),
        ("Add", ["c3", "r1"], "sum", {}),
        ("MaxPool", ["sum"], "y", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ]
    return model_of(SHAPE, nodes, constants, ["y"])


def compared(
    capsys: pytest.CaptureFixture[str], file: Path, source: Path
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    assert main(["compare", str(file), str(source), "--per-layer", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return {each["name"]: each for each in found["layers"]}, found["not_compared"]


def test_layers_are_known_by_their_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "residual.onnx"
    onnx.save(residual_source(), source)
    layers, others = compared(capsys, RESIDUAL, source)
    assert list(layers) == ["r1", "r2", "sum", "y"]
    assert not others
    titles = [each["layer"] for each in layers.values()]
    assert titles[1:3] == ["1 ConvolutionReluPoolingLayer2", "2 ConvolutionReluPoolingAddLayer"]
    first = layers["r1"]
    assert (first["dtype"], first["zero_point"], first["shape"]) == ("uint8", 0, [1, 12, 15, 11])
    # The source has no bias, but its first layer hardly one either.
    assert first["cosine"] > 0.9


def test_weights_of_another_network_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = residual_source()
    rng = np.random.default_rng(5)
    for weights in model.graph.initializer:
        if weights.dims:
            array = rng.normal(size=tuple(weights.dims)).astype(np.float32)
            weights.CopyFrom(numpy_helper.from_array(array, weights.name))
    source = tmp_path / "other.onnx"
    onnx.save(model, source)
    # The output is one of each, whatever is in between.
    layers, others = compared(capsys, RESIDUAL, source)
    assert list(layers) == ["y"]
    assert [each["reason"].split(",")[0] for each in others] == [
        "no node of the source has its weights"
    ] * 3
    assert main(["compare", str(RESIDUAL), str(source), "--per-layer"]) == 0
    assert "Layers that aren't compared" in capsys.readouterr().out


def test_a_table_says_what_is_compared_and_what_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = residual_source()
    # The same depthwise weights twice: which of both the layer is isn't known by them.
    twice = onnx.NodeProto()
    twice.CopyFrom(model.graph.node[2])
    twice.output[0] = "again"
    model.graph.node.insert(3, twice)
    source = tmp_path / "twice.onnx"
    onnx.save(model, source)
    assert main(["compare", str(RESIDUAL), str(source), "--per-layer"]) == 0
    compared, _, others = capsys.readouterr().out.partition("Layers that aren't compared")
    rows = compared.partition("Layers, the worst first")[2]
    assert all(f"│ {tensor} " in rows for tensor in ("r1", "r2", "sum", "y"))
    assert not others


@pytest.mark.parametrize("chip", ["t527", "a733"])
@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("c3x3", ["t1"]), ("convadd", ["t1", "t3"]), ("dw3x3", ["t1"]), ("fc", ["t1"]),
        ("convmp3", ["t2"]), ("sigmoid", ["y"]),
    ],
)  # fmt: skip
def test_files_of_the_toolkit(
    name: str, tensors: list[str], chip: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, source = NBG_SAMPLES / f"{name}.{chip}.nb", NBG_SAMPLES / f"{name}.onnx"
    if not file.is_file() or not source.is_file():
        pytest.skip(f"{file} is not there")
    layers, others = compared(capsys, file, source)
    wanted = tensors if tensors != ["y"] else [onnx.load(source).graph.output[0].name]
    assert list(layers) == wanted
    assert not others
    assert min(each["cosine"] for each in layers.values()) > 0.99


# ---------------------------------------------------------------------------- which tensor it is

RNG = np.random.default_rng(1)
WEIGHTS = [RNG.integers(-100, 100, (4, 4, 3, 3)).astype(np.int16) for _ in range(3)]
PADS = {"pads": [1, 1, 1, 1]}


def layer(
    number: int,
    weights: NDArray[np.int16] | None,
    reads: Sequence[int],
    outputs: Sequence[int] = (),
    **more: Any,
) -> ObservedLayer:
    fields: dict[str, Any] = {
        "name": "",
        "unit": "NN",
        "multiplies": frozenset(reads),
        "is_depthwise": False,
        "has_function": None,
        "has_second": None,
        "only_moves": False,
        "values": Values(np.ones((4, 36), np.uint8), 0),
    }
    return ObservedLayer(
        number=number,
        reads=frozenset(reads),
        outputs=frozenset(outputs),
        weights=weights,
        **{**fields, **more},
    )


def related(
    nodes: Sequence[Node], layers: Sequence[ObservedLayer], **constants: Any
) -> list[tuple[str, str]]:
    weights = {f"w{number}": each * 0.01 for number, each in enumerate(WEIGHTS)}
    model = model_of((1, 4, 6, 6), nodes, {**weights, **constants}, [nodes[-1][2]])
    source = OnnxSource(model)
    wanted = {
        node[2]: np.ones((1, 8 if node[0] == "Concat" else 4, 6, 6), np.float32) for node in nodes
    }
    return _Relation(layers, source, wanted, source.outputs).found()


def conv(source: str, number: int, target: str) -> Node:
    return ("Conv", [source, f"w{number}"], target, PADS)


def test_what_a_layer_writes_is_what_the_next_one_reads() -> None:
    nodes = [conv("x", 0, "c"), ("Sigmoid", ["c"], "s", {}), ("Mul", ["c", "s"], "silu", {}),
             conv("silu", 1, "y")]  # fmt: skip
    layers = [layer(0, WEIGHTS[0], [-1]), layer(1, WEIGHTS[1], [0], [0])]
    assert [tensor for tensor, _ in related(nodes, layers)] == ["silu", "y"]


def test_a_layer_without_weights_is_known_by_what_is_around_it() -> None:
    nodes = [conv("x", 0, "c"), ("Relu", ["c"], "r", {}), conv("r", 1, "y")]
    layers = [
        layer(0, WEIGHTS[0], [-1], has_function=False),
        layer(1, None, [0]),
        layer(2, WEIGHTS[1], [1], [0]),
    ]
    assert [tensor for tensor, _ in related(nodes, layers)] == ["c", "r", "y"]


def test_factors_may_be_in_the_weights_behind() -> None:
    """A compiler folds them into the next convolution, whose weights don't show it."""
    nodes = [conv("x", 0, "c"), ("Relu", ["c"], "r", {}), ("Mul", ["r", "two"], "m", {}),
             conv("m", 1, "y")]  # fmt: skip
    layers = [layer(0, WEIGHTS[0], [-1]), layer(1, WEIGHTS[1], [0], [0])]
    (tensor, reason), last = related(nodes, layers, two=2.0)
    assert (tensor, reason) == ("", "it may be m or r")
    assert last == ("y", "")


@pytest.mark.parametrize(
    ("has_function", "has_second", "tensor"),
    [
        (True, False, "r"),
        (False, False, "c"),
        (True, True, "sum"),
        (None, False, ""),
        (True, None, ""),
    ],
)
def test_a_command_says_what_is_between(
    has_function: bool | None, has_second: bool | None, tensor: str
) -> None:
    """What reads the results isn't known here."""
    nodes = [conv("x", 0, "c"), ("Relu", ["c"], "r", {}), ("Add", ["r", "x"], "sum", {}),
             ("Exp", ["sum"], "y", {})]  # fmt: skip
    first = layer(0, WEIGHTS[0], [-1], has_function=has_function, has_second=has_second)
    unreadable = layer(1, None, [0], values=None, problem="unreadable")
    wanted = np.ones((1, 4, 6, 6), np.float32)
    source = OnnxSource(model_of((1, 4, 6, 6), nodes, {"w0": WEIGHTS[0] * 0.01}, ["y"]))
    tensors = dict.fromkeys(("c", "r", "sum"), wanted)
    found, other = _Relation([first, unreadable], source, tensors, source.outputs).found()
    assert found[0] == tensor
    assert found[1].startswith("it may be") == (not tensor)
    assert other == ("", "unreadable")


def test_tensors_side_by_side_are_told_apart_by_where_they_come_from() -> None:
    """Both are read by the same layer; the second one's own node isn't known."""
    wide = RNG.integers(-100, 100, (4, 8, 3, 3)).astype(np.int16)
    nodes = [conv("x", 0, "a"), conv("x", 1, "b"), ("Concat", ["a", "b"], "ab", {"axis": 1}),
             ("Conv", ["ab", "wide"], "y", PADS)]  # fmt: skip
    first, last = layer(0, WEIGHTS[0], [-1]), layer(2, wide, [0, 1], [0])
    found = related(nodes, [first, layer(1, WEIGHTS[1], [-1]), last], wide=wide * 0.1)
    assert [tensor for tensor, _ in found] == ["a", "b", "y"]
    hidden = layer(1, None, [-1], values=None, problem="unreadable")
    below = layer(2, None, [1])
    layers = [first, hidden, below, layer(3, wide, [0, 2], [0])]
    assert [tensor for tensor, _ in related(nodes, layers, wide=wide * 0.1)] == ["a", "", "", "y"]


def test_equal_weights_are_no_evidence() -> None:
    nodes = [conv("x", 0, "a"), conv("x", 0, "b"), ("Sub", ["a", "b"], "y", {})]
    layers = [layer(0, WEIGHTS[0], [-1]), layer(1, WEIGHTS[0], [-1])]
    for tensor, reason in related(nodes, layers):
        assert tensor == ""
        assert reason.startswith("2 nodes of the source have its weights")


def test_kernels_of_few_weights_are_no_evidence() -> None:
    few = np.ones((4, 1, 1, 1), np.int16)
    nodes: list[Node] = [("Conv", ["x", "few"], "y", {"group": 4})]
    ((tensor, reason),) = related(nodes, [layer(0, few, [-1])], few=few * 0.5)
    assert (tensor, reason.split(",")[0]) == ("", "its kernels have too few weights to be known by")


def test_a_second_operand_isn_t_what_weights_multiply() -> None:
    """A sum of a convolution's results and those of a convolution of their function."""
    nodes = [conv("x", 0, "c"), ("Relu", ["c"], "r", {}), conv("r", 1, "d"),
             ("Add", ["d", "c"], "y", {})]  # fmt: skip
    layers = [
        layer(0, WEIGHTS[0], [-1], has_function=False, has_second=False),
        layer(1, None, [0]),
        layer(2, WEIGHTS[1], [0, 1], [0], multiplies=frozenset({1})),
    ]
    assert [tensor for tensor, _ in related(nodes, layers)] == ["c", "r", "y"]


def test_two_layers_are_not_one_tensor() -> None:
    nodes = [conv("x", 0, "c"), ("Relu", ["c"], "r", {}), conv("r", 1, "y")]
    layers = [
        layer(0, WEIGHTS[0], [-1]),
        layer(1, WEIGHTS[0], [-1]),
        layer(2, WEIGHTS[1], [0, 1], [0]),
    ]
    first, second, last = related(nodes, layers)
    assert first == second == ("", "several layers may be r")
    assert last == ("y", "")


def test_grouped_kernels_that_are_compiled_as_dense_ones() -> None:
    grouped = RNG.integers(-100, 100, (4, 2, 3, 3)).astype(np.int16)
    dense = np.zeros((4, 4, 3, 3), np.int16)
    dense[:2, :2], dense[2:, 2:] = grouped[:2], grouped[2:]
    nodes: list[Node] = [("Conv", ["x", "g"], "y", {"group": 2, **PADS})]
    assert related(nodes, [layer(0, dense, [-1], [0])], g=grouped * 0.1) == [("y", "")]
