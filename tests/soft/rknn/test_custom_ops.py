"""rknn_register_custom_ops and rknn_custom_op_get_op_attr, for operators of the CPU."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from anynpu.rknn import abi
from anynpu.rknn.library import RknnLibrary, load
from anynpu.soft.rknn import custom_ops_calls

from ... import models
from ...capi import SUCC, get_output, infer, init, opened, query, set_input, set_inputs
from ...matmul import Client
from .custom_operators import CustomOperator, attribute, by_name, register, scale

FAIL, INVALID = abi.ErrorCode.FAIL, abi.ErrorCode.PARAM_INVALID
FLOAT = TensorProto.FLOAT
X = np.random.default_rng(0).integers(-9, 9, (1, 3, 4, 5)).astype(np.float32)


def refused(name: str) -> str:
    return f"Unsupport CPU op: {name} in this librknnrt.so"


# ---------------------------------------------------------------------------------- callbacks


def test_callbacks_come_at_the_documented_moments(npu: RknnLibrary) -> None:
    operator = CustomOperator("cstScale", scale(3))
    with opened(npu, models.custom()) as context:
        assert operator.moments == []
        assert register(npu, context, operator) == SUCC
        assert operator.moments == ["init"]
        for _ in range(2):
            np.testing.assert_array_equal(infer(npu, context, X, X), np.maximum(X, 0) * 3)
    assert operator.moments == ["init", *["prepare", "compute"] * 2, "destroy"]
    assert len({node for _, node in operator.events}) == 1


def test_callbacks_that_are_left_out(npu: RknnLibrary) -> None:
    operator = CustomOperator("cstScale", scale(3))
    for name in ("init", "prepare", "destroy"):
        kind = abi.CustomOpDestroyCallback if name == "destroy" else abi.CustomOpCallback
        setattr(operator.structure, name, kind())
    with opened(npu, models.custom()) as context:
        assert register(npu, context, operator) == SUCC
        np.testing.assert_array_equal(infer(npu, context, X, X), np.maximum(X, 0) * 3)
    assert operator.moments == ["compute"]


def test_priv_data_is_the_operator_s_and_the_rest_is_not(npu: RknnLibrary) -> None:
    seen: list[int | None] = []

    def spoil(context: Any, tensors: Any = None, *_: Any) -> int:
        seen.append(context.contents.priv_data)
        context.contents.priv_data = (context.contents.priv_data or 100) + 1
        context.contents.internal_ctx = 12345
        context.contents.target = 7
        if tensors:
            ctypes.memset(tensors, 0xFF, ctypes.sizeof(abi.CustomOpTensor))
        return 0

    operator = CustomOperator("cstScale", scale(2), init=spoil, prepare=spoil, destroy=spoil)
    with opened(npu, models.custom()) as context:
        assert register(npu, context, operator) == SUCC
        for _ in range(2):
            np.testing.assert_array_equal(infer(npu, context, X, X), np.maximum(X, 0) * 2)
    assert seen == [None, 101, 102, 103]


@pytest.mark.parametrize(
    ("shape", "fmt"),
    [
        ((1, 3, 4, 5), abi.TensorFormat.NCHW),
        ((7,), abi.TensorFormat.UNDEFINED),
        ((2, 3, 2, 1, 2), abi.TensorFormat.UNDEFINED),
    ],
)
def test_what_a_callback_is_told_of_its_tensors(
    npu: RknnLibrary, shape: tuple[int, ...], fmt: int
) -> None:
    operator = CustomOperator("cstScale", scale(1))
    with opened(npu, models.custom(shape=shape)) as context:
        assert register(npu, context, operator) == SUCC
        values = np.ones(shape, np.float32)
        infer(npu, context, values, values)
        for index, name in enumerate((b"a", b"b")):
            tensor = operator.tensors[index]
            assert (tensor.attr.index, tensor.attr.name) == (0, name)
            assert tuple(tensor.attr.dims[: tensor.attr.n_dims]) == shape
            assert (tensor.attr.fmt, tensor.attr.type) == (fmt, abi.TensorType.FLOAT32)
            assert tensor.attr.qnt_type == abi.QuantizationType.NONE
            # The memory is the API's: another process could map it, and it can be synchronised.
            assert os.fstat(tensor.mem.fd).st_size >= tensor.mem.size
            assert npu.rknn_mem_sync(context, ctypes.byref(tensor.mem), 3) == SUCC


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        (TensorProto.FLOAT, abi.TensorType.FLOAT32),
        (TensorProto.FLOAT16, abi.TensorType.FLOAT32),
        (TensorProto.DOUBLE, abi.TensorType.FLOAT32),
        (TensorProto.INT64, abi.TensorType.INT64),
        (TensorProto.INT32, abi.TensorType.INT32),
        (TensorProto.INT8, abi.TensorType.INT8),
        (TensorProto.UINT8, abi.TensorType.UINT8),
        (TensorProto.BOOL, abi.TensorType.BOOL),
    ],
)
def test_real_numbers_are_float32_and_others_the_model_s_type(
    npu: RknnLibrary, kind: int, seen: abi.TensorType
) -> None:
    def invert(context: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        one = np.ones((), inputs[0].dtype)
        outputs[0][...] = ~inputs[0] if inputs[0].dtype == np.bool_ else inputs[0] + one

    operator = CustomOperator("cstNext", invert)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    values = np.arange(6).reshape(2, 3).astype(dtype)
    with opened(npu, models.custom("cstNext", (2, 3), kind=kind)) as context:
        assert register(npu, context, operator) == SUCC
        given = values.astype(np.float32) if dtype == np.float64 else values
        given = values.view(np.uint8) if dtype == np.bool_ else given
        found = infer(npu, context, given, np.empty((2, 3), np.float32))
    expected = ~values if dtype == np.bool_ else values + 1
    np.testing.assert_array_equal(found, expected.astype(np.float32))
    assert [tensor.attr.type for tensor in operator.tensors] == [seen, seen]


# --------------------------------------------------------------------------------- attributes

ATTRIBUTES: dict[str, tuple[Any, abi.TensorType, list[Any]]] = {
    "int": (-5, abi.TensorType.INT64, [-5]),
    "ints": ([1, -2, 3], abi.TensorType.INT64, [1, -2, 3]),
    "float": (0.5, abi.TensorType.FLOAT32, [0.5]),
    "floats": ([0.5, -1.5], abi.TensorType.FLOAT32, [0.5, -1.5]),
    "text": ("nearest", abi.TensorType.UINT8, list(b"nearest")),
    "flags": (np.array([True, False]), abi.TensorType.BOOL, [True, False]),
    "words": (np.array([[1, 2], [3, 4]], np.int32), abi.TensorType.INT32, [1, 2, 3, 4]),
    "long": (np.array([2**40]), abi.TensorType.INT64, [2**40]),
    "reals": (np.array([0.25], np.float32), abi.TensorType.FLOAT32, [0.25]),
    "doubles": (np.array([0.25]), abi.TensorType.FLOAT32, [0.25]),
}


def test_attributes_of_every_type(npu: RknnLibrary) -> None:
    found: dict[str, Any] = {}

    def read(context: Any, *_: Any) -> int:
        for name in [*ATTRIBUTES, "name", "missing", "texts"]:
            found[name] = attribute(npu, context, name)
        return 0

    given = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, (value, _, _) in ATTRIBUTES.items()
    }
    model = models.custom(name="encoder/scale", texts=["a", "b"], **given)
    with opened(npu, model) as context:
        assert register(npu, context, CustomOperator("cstScale", scale(1), init=read)) == SUCC
    for name, (_, kind, values) in ATTRIBUTES.items():
        assert found[name][0] == kind
        assert found[name][1].tolist() == values
    assert found["name"][0] == abi.TensorType.UINT8
    assert found["name"][1].tobytes() == b"encoder/scale"
    assert found["missing"] is None
    assert found["texts"] is None  # lists of texts have no type in the API


def test_a_text_ends_with_a_zero(npu: RknnLibrary) -> None:
    """Programs read it as a C string."""
    texts: list[bytes] = []

    def read(context: Any, *_: Any) -> int:
        for name in (b"mode", b"name"):
            found = abi.CustomOpAttr()
            npu.rknn_custom_op_get_op_attr(context, name, ctypes.byref(found))
            texts.append(ctypes.string_at(found.data))
        return 0

    with opened(npu, models.custom(mode="nearest", name="n")) as context:
        assert register(npu, context, CustomOperator("cstScale", scale(1), init=read)) == SUCC
    assert texts == [b"nearest", b"n"]


def test_attributes_outside_of_a_callback(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    found = abi.CustomOpAttr(n_elems=5, data=1)
    for context in (abi.CustomOpContext(internal_ctx=2**40), abi.CustomOpContext()):
        npu.rknn_custom_op_get_op_attr(ctypes.byref(context), b"axis", ctypes.byref(found))
        assert (found.name, found.n_elems, found.data) == (b"axis", 0, None)
    npu.rknn_custom_op_get_op_attr(None, b"axis", ctypes.byref(found))
    npu.rknn_custom_op_get_op_attr(ctypes.byref(abi.CustomOpContext()), None, ctypes.byref(found))
    npu.rknn_custom_op_get_op_attr(ctypes.byref(abi.CustomOpContext()), b"axis", None)
    assert capfd.readouterr().err.count("rknn_custom_op_get_op_attr, ") == 5


# ------------------------------------------------------------------------------- registration


def test_an_operator_that_nobody_registered(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, models.custom("cstSelu")) as context:
        assert set_input(npu, context, X) == SUCC
        assert npu.rknn_run(context, None) == FAIL
        assert refused("cstSelu") in capfd.readouterr().err
        assert register(npu, context, CustomOperator("cstOther", scale(3))) == SUCC
        assert npu.rknn_run(context, None) == FAIL
        assert register(npu, context, CustomOperator("cstSelu", scale(3))) == SUCC
        # What was set before stays set.
        assert npu.rknn_run(context, None) == SUCC
        np.testing.assert_array_equal(get_output(npu, context, X), np.maximum(X, 0) * 3)


def two_operators() -> bytes:
    return models.save(
        [
            helper.make_node("cstA", ["x"], ["a"], domain="tests"),
            helper.make_node("cstB", ["a"], ["y"], domain="tests"),
        ],
        [("x", FLOAT, (2, 3))],
        [("y", FLOAT, (2, 3))],
    )


@pytest.mark.parametrize("calls", [1, 2])
def test_operators_of_several_calls_add_up(npu: RknnLibrary, calls: int) -> None:
    operators = by_name({"cstA": lambda x: x + 1, "cstB": lambda x: x * 10})
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    with opened(npu, two_operators()) as context:
        if calls == 1:
            assert register(npu, context, *operators) == SUCC
        else:
            assert [register(npu, context, operator) for operator in operators] == [SUCC, SUCC]
        np.testing.assert_array_equal(infer(npu, context, values, values), (values + 1) * 10)
    assert all(op.moments == ["init", "prepare", "compute", "destroy"] for op in operators)


def test_every_missing_operator_is_named(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    values = np.zeros((2, 3), np.float32)
    with opened(npu, two_operators()) as context:
        assert set_input(npu, context, values) == SUCC
        assert npu.rknn_run(context, None) == FAIL
    log = capfd.readouterr().err
    assert refused("cstA") in log
    assert refused("cstB") in log


def test_an_operator_in_onnx_s_own_domain(npu: RknnLibrary) -> None:
    """Rockchip's guide only changes a node's op_type."""
    nodes = [helper.make_node("cstScale", ["x"], ["y"])]
    graph = [("x", FLOAT, (2, 3))], [("y", FLOAT, (2, 3))]
    # ONNX's checker refuses what the guide does.
    model = onnx.load_from_string(models.save([helper.make_node("Relu", ["x"], ["y"])], *graph))
    model.graph.node[0].CopyFrom(nodes[0])
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    with opened(npu, model.SerializeToString()) as context:
        assert register(npu, context, CustomOperator("cstScale", scale(4))) == SUCC
        np.testing.assert_array_equal(infer(npu, context, values, values), values * 4)


def argmax(domain: str) -> bytes:
    return models.save(
        [
            helper.make_node("Abs", ["x"], ["a"]),
            helper.make_node("ArgMax", ["a"], ["m"], domain=domain, axis=1, keepdims=1),
            helper.make_node("Cast", ["m"], ["y"], to=FLOAT),
        ],
        [("x", FLOAT, (1, 3, 4, 5))],
        [("y", FLOAT, (1, 1, 4, 5))],
    )


@pytest.mark.parametrize("domain", ["", "tests"])
def test_an_operator_that_the_runtime_has_too(npu: RknnLibrary, domain: str) -> None:
    """It is replaced, unless init says that it shall not be; its output needs no declaration."""
    like = np.empty((1, 1, 4, 5), np.float32)
    expected = np.abs(X).argmax(1, keepdims=True).astype(np.float32)
    (operator,) = by_name({"ArgMax": lambda x: x.argmax(1, keepdims=True) + 100})
    skipped = CustomOperator(
        "ArgMax", scale(0), init=lambda *_: int(abi.ErrorCode.SKIP_CUSTOM_OP_COMPUTE)
    )
    with opened(npu, argmax(domain)) as context:
        if not domain:
            np.testing.assert_array_equal(infer(npu, context, X, like), expected)
        assert register(npu, context, operator) == SUCC
        np.testing.assert_array_equal(infer(npu, context, X, like), expected + 100)
        assert operator.tensors[1].attr.type == abi.TensorType.INT64
    with opened(npu, argmax(domain)) as context:
        assert register(npu, context, skipped) == SUCC
        np.testing.assert_array_equal(infer(npu, context, X, like), expected)
    assert skipped.moments == ["init"]


def test_init_leaves_a_node_to_a_runtime_that_cannot(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    skipped = CustomOperator(
        "cstScale", scale(0), init=lambda *_: int(abi.ErrorCode.SKIP_CUSTOM_OP_COMPUTE)
    )
    with opened(npu, models.custom()) as context:
        assert register(npu, context, skipped) == FAIL
        assert "no operator of that name" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"op_type": b""}, "op_type is empty"),
        ({"target": 0}, "target 0 is unknown"),
        ({"target": 3}, "target 3 is unknown"),
        ({"compute": abi.CustomOpCallback()}, "compute is NULL"),
        ({"target": 2}, "a GPU op needs cl_kernel_name"),
        ({"target": 2, "cl_kernel_name": b"k"}, "a GPU op needs"),
        ({"target": 2, "cl_kernel_name": b"k", "cl_kernel_source": b"/no/such.cl"}, "be read"),
    ],
)
def test_what_is_no_operator(
    npu: RknnLibrary, fields: dict[str, Any], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    operator = CustomOperator("cstScale", scale(1))
    for name, value in fields.items():
        setattr(operator.structure, name, value)
    good = CustomOperator("cstGood", scale(1))
    with opened(npu, models.custom()) as context:
        assert register(npu, context, good, operator) == INVALID
        assert message in capfd.readouterr().err
        # Nothing of the call is registered.
        assert register(npu, context, good) == SUCC


def test_misuse_of_the_array(npu: RknnLibrary) -> None:
    structure = CustomOperator("cstScale", scale(1)).structure
    with opened(npu, models.custom()) as context:
        assert npu.rknn_register_custom_ops(context, None, 1) == INVALID
        assert npu.rknn_register_custom_ops(context, ctypes.byref(structure), 0) == INVALID
        assert npu.rknn_register_custom_ops(context, ctypes.byref(structure), 2**31) == INVALID
    code = npu.rknn_register_custom_ops(context, ctypes.byref(structure), 1)
    assert code == abi.ErrorCode.CTX_INVALID


def test_registering_an_operator_twice(npu: RknnLibrary) -> None:
    first, second = CustomOperator("cstScale", scale(2)), CustomOperator("cstScale", scale(3))
    with opened(npu, models.custom()) as context:
        assert register(npu, context, first, second) == INVALID
        assert register(npu, context, first) == SUCC
        assert register(npu, context, second) == INVALID
        np.testing.assert_array_equal(infer(npu, context, X, X), np.maximum(X, 0) * 2)
    assert second.moments == []


def test_chips_without_custom_operators(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, models.custom(metadata={"anynpu.soc": "rv1106"})) as context:
        code = register(npu, context, CustomOperator("cstScale", scale(1)))
        assert code == abi.ErrorCode.TARGET_PLATFORM_UNMATCH


def test_a_context_for_information_only_takes_none(npu: RknnLibrary) -> None:
    with opened(npu, models.custom(), abi.InitFlag.COLLECT_MODEL_INFO_ONLY) as context:
        assert register(npu, context, CustomOperator("cstScale", scale(1))) == FAIL


# ------------------------------------------------------------------------- callbacks that fail


def test_an_init_that_fails(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    a, b = by_name({"cstA": lambda x: x, "cstB": lambda x: x})
    bad = CustomOperator("cstB", scale(1), init=lambda *_: -7)
    values = np.ones((2, 3), np.float32)
    with opened(npu, two_operators()) as context:
        assert register(npu, context, a, bad) == FAIL
        assert "custom op cstB, node y: init returned -7" in capfd.readouterr().err
        assert a.moments == ["init", "destroy"]
        assert bad.moments == ["init"]
        assert register(npu, context, a, b) == SUCC
        np.testing.assert_array_equal(infer(npu, context, values, values), values)


@pytest.mark.parametrize("callback", ["prepare", "compute"])
def test_a_run_in_which_a_callback_fails(
    npu: RknnLibrary, callback: str, capfd: pytest.CaptureFixture[str]
) -> None:
    codes = iter([0, -3, 0])
    operator = CustomOperator("cstScale", scale(1), prepare=lambda *_: next(codes))
    if callback == "compute":
        operator = CustomOperator("cstScale", lambda *_: next(codes))
    with opened(npu, models.custom()) as context:
        assert register(npu, context, operator) == SUCC
        assert set_input(npu, context, X) == SUCC
        assert [npu.rknn_run(context, None) for _ in range(3)] == [SUCC, FAIL, SUCC]
        assert f"node the_node: {callback} returned -3" in capfd.readouterr().err


def test_a_destroy_that_fails_is_only_a_warning(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKNN_LOG_LEVEL", "1")
    with opened(npu, models.custom()) as context:
        operator = CustomOperator("cstScale", scale(1), destroy=lambda *_: -1)
        assert register(npu, context, operator) == SUCC
    assert "destroy returned -1" in capfd.readouterr().err


def test_a_callback_that_writes_too_far(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    excess = iter([0, 4, 0])

    def compute(context: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        size = outputs[0].nbytes + next(excess)
        ctypes.memset(outputs[0].ctypes.data, 0, size)

    with opened(npu, models.custom()) as context:
        assert register(npu, context, CustomOperator("cstScale", compute)) == SUCC
        assert set_input(npu, context, X) == SUCC
        assert [npu.rknn_run(context, None) for _ in range(3)] == [SUCC, FAIL, SUCC]
        assert "wrote past the end of tensor 'b'" in capfd.readouterr().err


def test_a_callback_that_destroys_its_tensor_s_memory(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    contexts: list[int] = []

    def prepare(context: Any, inputs: Any, *_: Any) -> int:
        return npu.rknn_destroy_mem(contexts[0], ctypes.byref(inputs[0].mem))

    with opened(npu, models.custom()) as context:
        contexts.append(context)
        operator = CustomOperator("cstScale", scale(1), prepare=prepare)
        assert register(npu, context, operator) == SUCC
        assert set_input(npu, context, X) == SUCC
        assert npu.rknn_run(context, None) == FAIL
        assert "destroyed the memory of tensor 'a'" in capfd.readouterr().err
        assert npu.rknn_run(context, None) == FAIL


CALLS: dict[str, Callable[[RknnLibrary, int], int]] = {
    "rknn_run": lambda npu, context: npu.rknn_run(context, None),
    "rknn_destroy": lambda npu, context: npu.rknn_destroy(context),
    "rknn_set_input_shapes": lambda npu, context: npu.rknn_set_input_shapes(context, 0, None),
    "rknn_register_custom_ops": lambda npu, context: npu.rknn_register_custom_ops(context, None, 0),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("non_block", [False, True])
def test_a_callback_that_calls_its_own_context(
    npu: RknnLibrary, call: str, non_block: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    contexts: list[int] = []

    def compute(*arguments: Any) -> None:
        codes.append(CALLS[call](npu, contexts[0]))
        codes.append(query(npu, contexts[0], abi.Query.IN_OUT_NUM, abi.InputOutputNum()))

    with opened(npu, models.custom()) as context:
        contexts.append(context)
        assert register(npu, context, CustomOperator("cstScale", compute)) == SUCC
        assert set_input(npu, context, X) == SUCC
        extend = abi.RunExtend(non_block=non_block)
        assert npu.rknn_run(context, ctypes.byref(extend)) == SUCC
        get_output(npu, context, X)
        assert codes == [FAIL, SUCC]
        assert "a custom op's callback can't make this call" in capfd.readouterr().err


def test_a_callback_that_runs_another_context(npu: RknnLibrary) -> None:
    """Also on a chip of one core, which the callback's own run occupies."""
    metadata = {"anynpu.soc": "rk3566"}
    with opened(npu, models.add_one(metadata=metadata)) as inner:

        def compute(context: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
            outputs[0][...] = infer(npu, inner, inputs[0], inputs[0])

        with opened(npu, models.custom(metadata=metadata)) as context:
            assert register(npu, context, CustomOperator("cstScale", compute)) == SUCC
            np.testing.assert_array_equal(infer(npu, context, X, X), np.maximum(X, 0) + 1)


def test_a_callback_that_multiplies_matrices(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Likewise on the core that the callback's own run occupies."""
    monkeypatch.setenv("ANYNPU_SOC", "rk3566")
    codes = []
    with Client(npu, "rk3566", abi.MatmulType.INT8_MM_INT8_TO_INT32, (4, 64, 64)) as client:
        client.put(np.ones((4, 64), np.int8), np.ones((64, 64), np.int8))

        def compute(context: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
            codes.append(client.run())
            outputs[0][...] = client.result()[0, 0]

        with opened(npu, models.custom()) as context:
            assert register(npu, context, CustomOperator("cstScale", compute)) == SUCC
            assert (infer(npu, context, X, X) == 64).all()
    assert codes == [SUCC]


def test_a_callback_that_takes_too_long(npu: RknnLibrary) -> None:
    pauses = iter([0.3, 0])

    def compute(context: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        time.sleep(next(pauses))
        outputs[0][...] = inputs[0]

    with opened(npu, models.custom()) as context:
        assert register(npu, context, CustomOperator("cstScale", compute)) == SUCC
        assert set_input(npu, context, X) == SUCC
        extend = abi.RunExtend(timeout_ms=30)
        assert npu.rknn_run(context, ctypes.byref(extend)) == abi.ErrorCode.TIMEOUT
        np.testing.assert_array_equal(infer(npu, context, X, X), np.maximum(X, 0))


# ----------------------------------------------------------------------------------- contexts


def test_a_duplicate_has_operators_of_its_own(npu: RknnLibrary) -> None:
    two, three = CustomOperator("cstScale", scale(2)), CustomOperator("cstScale", scale(3))
    code, first = init(npu, models.custom())
    assert code == SUCC
    assert register(npu, first, two) == SUCC
    second = abi.Handle()
    assert npu.rknn_dup_context(ctypes.byref(abi.Handle(first)), ctypes.byref(second)) == SUCC
    assert set_input(npu, second.value, X) == SUCC
    assert npu.rknn_run(second.value, None) == FAIL
    assert register(npu, second.value, three) == SUCC
    np.testing.assert_array_equal(infer(npu, first, X, X), np.maximum(X, 0) * 2)
    assert npu.rknn_destroy(first) == SUCC
    assert two.moments[-1] == "destroy"
    np.testing.assert_array_equal(infer(npu, second.value, X, X), np.maximum(X, 0) * 3)
    assert "destroy" not in three.moments
    assert npu.rknn_destroy(second.value) == SUCC


def test_many_threads_with_a_context_each(npu: RknnLibrary) -> None:
    """One operator serves them all; each context has its own node and tensors."""
    operator = CustomOperator("cstScale", scale(2))
    together = threading.Barrier(6)

    def work(seed: int) -> None:
        values = np.random.default_rng(seed).integers(-9, 9, X.shape).astype(np.float32)
        together.wait(30)
        for _ in range(3):
            with opened(npu, models.custom()) as context:
                assert register(npu, context, operator) == SUCC
                for _ in range(5):
                    found = infer(npu, context, values, values)
                    np.testing.assert_array_equal(found, np.maximum(values, 0) * 2)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert operator.moments.count("destroy") == operator.moments.count("init") == 18
    assert operator.moments.count("compute") == 90


def test_other_input_shapes_begin_the_operators_anew(npu: RknnLibrary) -> None:
    """The declared size "h" of an output is the input's."""
    metadata = {"anynpu.shapes": '[{"x": [1, 3, 4, 4]}, {"x": [1, 3, 8, 4]}]'}
    shape = (1, 3, "h", 4)
    model = models.save(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("cstScale", ["a"], ["b"], domain="tests"),
            helper.make_node("Relu", ["b"], ["y"]),
        ],
        [("x", FLOAT, shape)],
        [("y", FLOAT, shape)],
        metadata=metadata,
        between=[("b", FLOAT, shape)],
    )
    operator = CustomOperator("cstScale", scale(2))
    with opened(npu, model) as context:
        assert register(npu, context, operator) == SUCC
        for height in (8, 4, 8):  # a context begins with the largest
            attr = abi.TensorAttr(n_dims=4, name=b"x", fmt=abi.TensorFormat.NHWC)
            attr.dims[:4] = (1, height, 4, 3)
            assert npu.rknn_set_input_shapes(context, 1, ctypes.byref(attr)) == SUCC
            values = np.full((1, 3, height, 4), 5, np.float32)
            np.testing.assert_array_equal(infer(npu, context, values, values), values * 2)
            assert operator.tensors[0].attr.dims[2] == height
    once = ["init", "prepare", "compute", "destroy"]
    assert operator.moments == once * 3


@pytest.mark.parametrize("clock", ["host", "model"])
def test_perf_detail_lists_them_as_work_of_the_processor(
    npu: RknnLibrary, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", clock)
    flags = abi.InitFlag.COLLECT_PERF_MASK
    with opened(npu, models.custom(), flags) as context:
        assert register(npu, context, CustomOperator("cstScale", scale(2))) == SUCC
        infer(npu, context, X, X)
        detail = abi.PerfDetail()
        assert query(npu, context, abi.Query.PERF_DETAIL, detail) == SUCC
        text = ctypes.string_at(detail.perf_data, detail.data_len).decode()
    rows = [line.split() for line in text.splitlines()]
    (row,) = [row for row in rows if row[-1:] == ["cstScale:the_node"]]
    assert (row[1], *row[3:6]) == ("cstScale", "CPU", "(1,3,4,5)", "(1,3,4,5)")
    assert sum(row[1:2] == ["Relu"] for row in rows) == 2


def test_nothing_is_left_behind(npu: RknnLibrary) -> None:
    operator = CustomOperator("cstScale", scale(2))

    def use() -> None:
        with opened(npu, models.custom()) as context:
            assert register(npu, context, operator) == SUCC
            infer(npu, context, X, X)

    use()
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        use()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert not custom_ops_calls._nodes


# ------------------------------------------------------------------------------------- graphs


def test_two_outputs_and_an_attribute(npu: RknnLibrary) -> None:
    """As torch.onnx exports a function of its user's: the outputs' sizes are words of their own."""
    words = ("s0", "s1", "s2", "s3")
    model = models.save(
        [helper.make_node("cstPair", ["x", "z"], ["p", "q"], domain="tests", alpha=0.5)],
        [("x", FLOAT, (1, 3, 4, 5)), ("z", FLOAT, (1, 3, 4, 5))],
        [("p", FLOAT, words), ("q", FLOAT, words)],
    )

    def compute(context: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        found = attribute(npu, context, "alpha")
        assert found is not None
        x, z = inputs
        outputs[0][...] = x * found[1][0] - z
        outputs[1][...] = z * found[1][0] - x

    z = X[..., ::-1].copy()
    with opened(npu, model) as context:
        assert register(npu, context, CustomOperator("cstPair", compute)) == SUCC
        assert set_inputs(npu, context, X, z) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        np.testing.assert_array_equal(get_output(npu, context, X, index=0), X * 0.5 - z)
        np.testing.assert_array_equal(get_output(npu, context, X, index=1), z * 0.5 - X)


def test_between_quantised_tensors(npu: RknnLibrary) -> None:
    """It gets real numbers, and what it makes is quantised."""
    scales = {"s": np.float32(0.5), "z": np.int8(3)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xf"]),
        helper.make_node("cstScale", ["xf"], ["c"], domain="tests"),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["y"]),
    ]
    shape = (1, 3, 4, 5)
    model = models.save(nodes, [("x", FLOAT, shape)], [("y", FLOAT, shape)], scales)
    operator = CustomOperator("cstScale", scale(3))
    with opened(npu, model) as context:
        assert register(npu, context, operator) == SUCC
        np.testing.assert_array_equal(infer(npu, context, X, X), np.clip(X * 3, -65.5, 62))
    assert operator.tensors[0].attr.type == abi.TensorType.FLOAT32


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, -3), (np.uint8, 120)])
@pytest.mark.parametrize("is_at_edge", [False, True])
def test_on_quantised_tensors(npu: RknnLibrary, dtype: type, zero: int, is_at_edge: bool) -> None:
    """It gets the bytes, with their scale and zero point."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [] if is_at_edge else [helper.make_node("Neg", ["x"], ["n"])]
    nodes += [
        helper.make_node("QuantizeLinear", ["x" if is_at_edge else "n", "s", "z"], ["q"]),
        helper.make_node("cstSame", ["q"], ["c"], domain="tests"),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    model = models.save(
        nodes,
        [("x", FLOAT, X.shape)],
        [("y", FLOAT, X.shape)],
        {"s": np.float32(0.5), "z": np.array(zero, dtype)},
        between=[("c", kind, X.shape)],
    )
    operator = CustomOperator("cstSame", scale(1))
    with opened(npu, model) as context:
        assert register(npu, context, operator) == SUCC
        found = infer(npu, context, X, X)
    np.testing.assert_array_equal(found, np.maximum(X if is_at_edge else -X, 0))
    for tensor in operator.tensors:
        assert tensor.attr.type == abi.TensorType[np.dtype(dtype).name.upper()]
        assert tensor.attr.qnt_type == abi.QuantizationType.AFFINE_ASYMMETRIC
        assert (tensor.attr.scale, tensor.attr.zp) == (0.5, zero)


def test_weights_go_to_an_operator(npu: RknnLibrary) -> None:
    weights = np.arange(3, dtype=np.float32)
    model = models.save(
        [helper.make_node("cstDot", ["x", "w"], ["y"], domain="tests")],
        [("x", FLOAT, (2, 3))],
        [("y", FLOAT, (2,))],
        {"w": weights},
    )
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    (operator,) = by_name({"cstDot": lambda x, w: x @ w})
    with opened(npu, model) as context:
        assert register(npu, context, operator) == SUCC
        found = infer(npu, context, values, np.empty(2, np.float32))
        np.testing.assert_array_equal(found, values @ weights)


@pytest.mark.parametrize(
    ("between", "code"),
    [((), abi.ErrorCode.MODEL_INVALID), ([("c", FLOAT, (3,))], SUCC)],
)
def test_an_output_of_unknown_shape(npu: RknnLibrary, between: Any, code: int) -> None:
    """Without an input to take the shape from, the model has to say it."""
    model = models.save(
        [
            helper.make_node("cstSource", [], ["c"], domain="tests"),
            helper.make_node("Add", ["x", "c"], ["y"]),
        ],
        [("x", FLOAT, (3,))],
        [("y", FLOAT, (3,))],
        between=between,
    )
    found, context = init(npu, model)
    assert found == code
    if context:
        assert npu.rknn_destroy(context) == SUCC


def test_an_assumed_shape_is_said(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RKNN_LOG_LEVEL", "1")
    with opened(npu, two_operators()) as context:
        assert register(npu, context, CustomOperator("cstA", scale(1))) == SUCC
    assert "the model gives no shape for 'a', an output of cstA" in capfd.readouterr().err


OPERATORS: dict[str, Callable[..., np.ndarray]] = {
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
    "Add": np.add,
    "Sub": np.subtract,
    "Max": np.maximum,
}


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_choice_of_nodes_gives_the_same_result(data: st.DataObject) -> None:
    """Random graphs: with some nodes in operators of ours, as with all in ONNX Runtime's."""
    npu = load("soft")
    shape = (2, 3)
    names, nodes = ["x", "w"], []
    for number in range(data.draw(st.integers(1, 8))):
        op_type = data.draw(st.sampled_from(sorted(OPERATORS)))
        count = 1 if op_type in ("Neg", "Relu") else 2
        inputs = [data.draw(st.sampled_from(names)) for _ in range(count)]
        nodes.append(helper.make_node(op_type, inputs, [f"t{number}"]))
        names.append(f"t{number}")
    results = {f"t{len(nodes) - 1}", data.draw(st.sampled_from(names[2:]))}

    def save(chosen: list[bool]) -> bytes:
        for node, is_custom in zip(nodes, chosen, strict=True):
            node.domain = "tests" if is_custom else ""
        return models.save(
            nodes,
            [("x", FLOAT, shape)],
            [(name, FLOAT, shape) for name in sorted(results)],
            {"w": np.array([[1, -2, 3], [-4, 5, -6]], np.float32)},
        )

    def outputs(model: bytes, operators: list[CustomOperator]) -> list[np.ndarray]:
        values = np.array([[0, 1, -1], [2, -2, 7]], np.float32)
        with opened(npu, model) as context:
            if operators:
                assert register(npu, context, *operators) == SUCC
            assert set_input(npu, context, values) == SUCC
            assert npu.rknn_run(context, None) == SUCC
            return [get_output(npu, context, values, index=i) for i in range(len(results))]

    expected = outputs(save([False] * len(nodes)), [])
    chosen = data.draw(st.lists(st.booleans(), min_size=len(nodes), max_size=len(nodes)))
    used = {n.op_type: OPERATORS[n.op_type] for n, c in zip(nodes, chosen, strict=True) if c}
    found = outputs(save(chosen), list(by_name(used)))
    # And with every node of these types taken from ONNX's own domain.
    replaced = outputs(save([False] * len(nodes)), list(by_name(used)))
    for one, other, third in zip(expected, found, replaced, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)
