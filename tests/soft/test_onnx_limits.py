"""ONNX models without end: loops, functions, tensors; they end, or are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

import anynpu
from anynpu.soft.engines import ModelSource, load
from anynpu.soft.engines.onnx.shapes import infer_types, shape_of

Shape = Sequence[int | str | None] | None

SHAPE = (1, 16)


def info(name: str, kind: int = TensorProto.FLOAT, shape: Shape = SHAPE) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes: list[onnx.NodeProto], output: Shape = SHAPE, **more: object) -> ModelProto:
    made = helper.make_model(
        helper.make_graph(nodes, "g", [info("x")], [info("y", shape=output)]),
        opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("own", 1)],
        functions=more.get("functions", []),
    )
    made.ir_version = 8
    for name, value in more.items():
        if isinstance(value, np.ndarray):
            made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


def loop(times: str) -> ModelProto:
    """Y = x, doubled again and again: as often as the input `times` says, or for ever."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["goes_on"]),
            helper.make_node("Add", ["v", "v"], ["doubled"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v")],
        [info("goes_on", TensorProto.BOOL, []), info("doubled")],
    )
    node = helper.make_node("Loop", [times, "always", "x"], ["y"], body=body)
    return model_of([node], always=np.array(True), five=np.array(5, np.int64))


def test_a_loop_that_ends_is_computed() -> None:
    program = load(ModelSource.of(loop("five").SerializeToString()))
    instance = program.instance(0)
    instance.inputs[0][...] = 1
    for _ in range(2):
        instance.run()
        assert instance.outputs[0].reshape(-1).tolist() == [32] * 16


def test_a_loop_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_MAX_WORK", "1e9")
    program = load(ModelSource.of(loop("").SerializeToString()))
    instance = program.instance(0)
    for _ in range(2):
        with pytest.raises(anynpu.ModelError, match=r"a Loop didn't end within 0\.05 s"):
            instance.run()
    with pytest.raises(anynpu.ModelError, match=r"a Loop didn't end within 0\.05 s"):
        program.profile(instance)


def test_shapes_that_a_loop_would_tell_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_MAX_WORK", "1e9")
    made = loop("")
    made.graph.node[0].output[0] = "z"
    made.graph.node.append(helper.make_node("NonZero", ["z"], ["n"]))
    made.graph.node.append(helper.make_node("Cast", ["n"], ["y"], to=TensorProto.FLOAT))
    del made.graph.output[0].type.tensor_type.shape.dim[:]
    made.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(anynpu.ModelError, match="a Loop didn't end"):
        load(ModelSource.of(made.SerializeToString()))


def functions(depth: int) -> ModelProto:
    """A function that calls another one twice, which does so as well."""
    made = [
        helper.make_function(
            "own", "f0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])],
            [helper.make_opsetid("", 13)],
        )
    ]  # fmt: skip
    for number in range(depth):
        calls = [
            helper.make_node(f"f{number}", ["a"], ["m"], domain="own"),
            helper.make_node(f"f{number}", ["m"], ["b"], domain="own"),
        ]
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
        made.append(helper.make_function("own", f"f{number + 1}", ["a"], ["b"], calls, opsets))
    call = helper.make_node(f"f{depth}", ["x"], ["y"], domain="own")
    return model_of([call], functions=made)


def test_functions_are_spelled_out_only_as_far_as_one_can_wait() -> None:
    load(ModelSource.of(functions(3).SerializeToString()))
    with pytest.raises(anynpu.ModelError, match="a model of 3298534883327 nodes"):
        load(ModelSource.of(functions(40).SerializeToString()))
    with pytest.raises(anynpu.ModelError, match="calls itself, or too many others"):
        load(ModelSource.of(functions(100).SerializeToString()))
    made = functions(1)
    made.functions[0].node[0].CopyFrom(helper.make_node("f1", ["a"], ["b"], domain="own"))
    with pytest.raises(anynpu.ModelError, match="'f1' calls itself"):
        load(ModelSource.of(made.SerializeToString()))


def test_tensors_that_no_machine_has_room_for_are_not_computed() -> None:
    nodes = [
        helper.make_node("Expand", ["x", "wide"], ["z"]),
        helper.make_node("ReduceSum", ["z", "axes"], ["y"], keepdims=0),
    ]
    wide, axes = np.array([1 << 45, 16], np.int64), np.array([0], np.int64)
    made = model_of(nodes, (16,), wide=wide, axes=axes)
    with pytest.raises(anynpu.ModelError, match=r"tensor 'z' of shape .* this machine's"):
        load(ModelSource.of(made.SerializeToString()))


def test_products_are_counted() -> None:
    shape = np.array([1, 1, 1 << 13, 1 << 13], np.int64)
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Expand", ["s", "shape"], ["e"]),
        helper.make_node("Conv", ["e", "w"], ["z"], name="endless", pads=[128] * 4),
        helper.make_node("ReduceMax", ["z"], ["y"], keepdims=0),
    ]
    made = model_of(nodes, (), shape=shape, w=np.zeros((1, 1, 256, 256), np.float32))
    with pytest.raises(anynpu.ModelError, match="node 'endless' takes the work"):
        load(ModelSource.of(made.SerializeToString()))


def test_shapes_are_not_computed_with_what_may_not_end() -> None:
    """A Loop of constants alone, and a Range of a size that inference doesn't find."""
    made = loop("")
    made.graph.node[0].input[2] = "constant"
    made.graph.initializer.append(numpy_helper.from_array(np.zeros(SHAPE, np.float32), "constant"))
    assert shape_of(infer_types(made)["y"]) == SHAPE
    nodes = [helper.make_node("Range", ["zero", "end", "one"], ["y"])]
    numbers = {"zero": 0.0, "end": 1e12, "one": 1.0}
    made = model_of(nodes, None, **{k: np.array(v, np.float32) for k, v in numbers.items()})
    assert shape_of(infer_types(made)["y"]) == (999999995904,)


@pytest.mark.parametrize("kind", ["If", "Loop", "Scan", "SequenceMap"])
@pytest.mark.parametrize("is_inside", [False, True])
def test_operators_without_the_graphs_they_run_are_refused(kind: str, is_inside: bool) -> None:
    """Before anything reads the graphs that aren't there."""
    inputs = ["", "", "x"] if kind == "Loop" else ["x"]
    made = model_of([helper.make_node(kind, inputs, ["y"])])
    if is_inside:
        inner = helper.make_graph(list(made.graph.node), "inner", [], [info("y")])
        branches = {"then_branch": inner, "else_branch": inner}
        made = model_of([helper.make_node("If", ["x"], ["y"], **branches)])
    with pytest.raises(anynpu.ModelError, match=f"the {kind} 'y' has no graph '.*' to run"):
        load(ModelSource.of(made.SerializeToString()))


@pytest.mark.parametrize("shape", [(2,), (2, 3, 3), (2, 1, 3, 3, 3)])
@pytest.mark.parametrize("is_computed", [False, True])
def test_weights_of_other_axes_than_the_input_s_are_refused(
    shape: tuple[int, ...], is_computed: bool
) -> None:
    weights = np.zeros(shape, np.float32)
    nodes = [helper.make_node("Conv", ["x", "v" if is_computed else "w"], ["y"])]
    if is_computed:
        nodes.insert(0, helper.make_node("Neg", ["w"], ["v"]))
    with pytest.raises(
        anynpu.ModelError, match=r"the Conv 'y' has weights of \d axes for an input of 2"
    ):
        load(ModelSource.of(model_of(nodes, w=weights).SerializeToString()))


def test_weights_that_are_an_input_of_no_shape_are_refused() -> None:
    made = model_of([helper.make_node("Conv", ["x", "w"], ["y"])])
    made.graph.input.append(info("w", shape=None))
    with pytest.raises(anynpu.ModelError, match="'y' has weights of 0 axes for an input of 2"):
        load(ModelSource.of(made.SerializeToString()))
