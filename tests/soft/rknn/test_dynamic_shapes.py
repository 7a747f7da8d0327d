"""Models of several input shapes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import Query
from anynpu.rknn.abi import TensorFormat as Fmt
from anynpu.rknn.library import RknnLibrary

from ... import models
from ...capi import SUCC, attribute, get_output, infer, init, opened, query, set_input
from .test_zero_copy import Bound

SIZES = ((8, 8), (12, 16), (16, 8))
LARGEST = (12, 16)


def shape_attr(dims: tuple[int, ...], fmt: int = Fmt.NHWC, **fields: object) -> abi.TensorAttr:
    attr = abi.TensorAttr(index=0, n_dims=len(dims), name=b"x", fmt=fmt)
    attr.dims[: len(dims)] = dims
    for name, value in fields.items():
        setattr(attr, name, value)
    return attr


def set_shape(npu: RknnLibrary, context: int, attr: abi.TensorAttr, count: int = 1) -> int:
    return npu.rknn_set_input_shapes(context, count, ctypes.byref(attr))


def test_the_range_lists_the_shapes(npu: RknnLibrary) -> None:
    with opened(npu, models.dynamic(SIZES)) as context:
        info = abi.InputRange(index=0)
        assert query(npu, context, Query.INPUT_DYNAMIC_RANGE, info) == SUCC
        assert (info.shape_number, info.fmt, info.n_dims) == (3, Fmt.NHWC, 4)
        assert info.name == b"x"
        shapes = [list(info.dyn_range[n][:4]) for n in range(3)]
        assert shapes == [[1, h, w, 3] for h, w in SIZES]
        info = abi.InputRange(index=1)
        assert query(npu, context, Query.INPUT_DYNAMIC_RANGE, info) == Code.PARAM_INVALID


def test_a_static_model_has_no_range(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        info = abi.InputRange()
        assert query(npu, context, Query.INPUT_DYNAMIC_RANGE, info) == Code.MODEL_INVALID
        assert set_shape(npu, context, shape_attr((1, 4, 5, 3))) == Code.MODEL_INVALID


def test_512_shapes(npu: RknnLibrary) -> None:
    sizes = [(8, width) for width in range(8, 8 + 512)]
    with opened(npu, models.dynamic(sizes)) as context:
        info = abi.InputRange()
        assert query(npu, context, Query.INPUT_DYNAMIC_RANGE, info) == SUCC
        assert info.shape_number == 512
        assert list(info.dyn_range[511][:4]) == [1, 8, 519, 3]
    assert init(npu, models.dynamic([*sizes, (9, 9)]))[0] == Code.MODEL_INVALID


@pytest.mark.parametrize(("h", "w"), SIZES)
@pytest.mark.parametrize("fmt", [Fmt.NHWC, Fmt.UNDEFINED])
def test_each_shape_computes(npu: RknnLibrary, h: int, w: int, fmt: Fmt) -> None:
    values = np.random.default_rng(0).normal(0, 1, (1, 3, h, w)).astype(np.float32)
    like = np.empty((1, 8, h, w), np.float32)
    with opened(npu, models.convolution(size=8)):
        pass
    with opened(npu, models.dynamic([(h, w)])) as context:
        expected = infer(npu, context, values, like)
    with opened(npu, models.dynamic(SIZES)) as context:
        assert set_shape(npu, context, shape_attr((1, h, w, 3), fmt)) == SUCC
        np.testing.assert_array_equal(infer(npu, context, values, like), expected)
        for command, shape in (
            (Query.CURRENT_INPUT_ATTR, [1, h, w, 3]),
            (Query.CURRENT_OUTPUT_ATTR, [1, 8, h, w]),
            (Query.CURRENT_NATIVE_INPUT_ATTR, [1, h, w, 3]),
            (Query.CURRENT_NATIVE_OUTPUT_ATTR, [1, 2, h, w, 8]),
            (Query.INPUT_ATTR, [1, h, w, 3]),
            (Query.OUTPUT_ATTR, [1, 8, h, w]),
            (Query.NATIVE_INPUT_ATTR, [1, *LARGEST, 3]),
            (Query.NATIVE_OUTPUT_ATTR, [1, 2, *LARGEST, 8]),
        ):
            attr = attribute(npu, context, command)
            assert list(attr.dims[: attr.n_dims]) == shape


def test_a_new_shape_begins_anew(npu: RknnLibrary) -> None:
    values = np.ones((1, 3, 8, 8), np.float32)
    with opened(npu, models.dynamic(SIZES)) as context:
        assert set_shape(npu, context, shape_attr((1, 8, 8, 3))) == SUCC
        infer(npu, context, values, np.empty((1, 8, 8, 8), np.float32))
        assert set_shape(npu, context, shape_attr((1, 8, 8, 3))) == SUCC
        assert npu.rknn_run(context, None) == SUCC  # the same shape changes nothing
        assert set_shape(npu, context, shape_attr((1, 12, 16, 3))) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        like = np.empty((1, 8, 12, 16), np.float32)
        assert (get_output(npu, context, like) == 0).all(), "what was set is gone"
        assert set_input(npu, context, values) == Code.PARAM_INVALID  # too small now


def test_a_context_begins_with_the_largest_shapes(npu: RknnLibrary) -> None:
    """Buffers made for the attributes of the beginning serve all shapes (user guide 5.4.4)."""
    h, w = LARGEST
    values = np.ones((1, 3, h, w), np.float32)
    with opened(npu, models.dynamic(SIZES)) as context:
        for command, shape in (
            (Query.INPUT_ATTR, [1, h, w, 3]),
            (Query.OUTPUT_ATTR, [1, 8, h, w]),
            (Query.NATIVE_INPUT_ATTR, [1, h, w, 3]),
            (Query.NATIVE_OUTPUT_ATTR, [1, 2, h, w, 8]),
        ):
            attr = attribute(npu, context, command)
            assert list(attr.dims[: attr.n_dims]) == shape
        assert set_shape(npu, context, shape_attr((1, h, w, 3))) == SUCC
        infer(npu, context, values, np.empty((1, 8, h, w), np.float32))


def test_shapes_are_to_be_set_first(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    """The vendor's runtime ends the program; it says so of queries alone."""
    with opened(npu, models.dynamic(SIZES)) as context:
        attr = attribute(npu, context, Query.INPUT_ATTR)
        mem = npu.rknn_create_mem(context, attr.size_with_stride)
        zeros = np.zeros((1, 3, *LARGEST), np.float32)
        calls: tuple[Callable[[], int], ...] = (
            lambda: set_input(npu, context, zeros),
            lambda: npu.rknn_set_io_mem(context, mem, ctypes.byref(attr)),
            lambda: npu.rknn_run(context, None),
        )
        for call in calls:
            assert call() == Code.CTX_INVALID
            assert "a board would answer this with abort" in capfd.readouterr().err
        for command in (14, 15, 16, 17):
            assert query(npu, context, command, abi.TensorAttr()) == Code.CTX_INVALID
            assert "please call rknn_set_input_shapes first" in capfd.readouterr().err
        code = query(npu, context, Query.NATIVE_NHWC_OUTPUT_ATTR, abi.TensorAttr())
        assert code == Code.PARAM_INVALID


def two_layers() -> bytes:
    model = onnx.load_from_string(models.dynamic(SIZES))
    model.graph.node[0].output[0] = "between"
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.ones((8, 8, 1, 1), np.float32), "w2")
    )
    model.graph.node.append(onnx.helper.make_node("Conv", ["between", "w2"], ["y"]))
    data: bytes = model.SerializeToString()
    return data


def test_memory_from_outside_is_sized_for_the_largest_shapes(npu: RknnLibrary) -> None:
    """Asked for before a shape is set, as the vendor's example does, it serves each of them."""
    flags = abi.InitFlag.MEM_ALLOC_OUTSIDE
    with opened(npu, two_layers(), flags) as context:
        size = abi.MemSize()
        assert query(npu, context, Query.MEM_SIZE, size) == SUCC
        weights = npu.rknn_create_mem(context, size.total_weight_size)
        assert npu.rknn_set_weight_mem(context, weights) == SUCC
        for h, w in SIZES:
            assert set_shape(npu, context, shape_attr((1, h, w, 3))) == SUCC
            now = abi.MemSize()
            assert query(npu, context, Query.MEM_SIZE, now) == SUCC
            assert now.total_internal_size == size.total_internal_size >= 8 * 12 * 16 * 2
            internal = npu.rknn_create_mem(context, size.total_internal_size)
            assert npu.rknn_set_internal_mem(context, internal) == SUCC
            values = np.ones((1, 3, h, w), np.float32)
            infer(npu, context, values, np.empty((1, 8, h, w), np.float32))


def test_zero_copy_with_a_new_shape(npu: RknnLibrary) -> None:
    with opened(npu, models.dynamic(SIZES)) as context:
        values = np.ones((1, 3, 12, 16), np.float32)
        assert set_shape(npu, context, shape_attr((1, 12, 16, 3))) == SUCC
        expected = infer(npu, context, values, np.empty((1, 8, 12, 16), np.float32))
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.CURRENT_INPUT_ATTR)
        attr.type = abi.TensorType.FLOAT32
        bound.bind(attr, values.nbytes).view(np.float32)[:] = 1
        bound.run()
        np.testing.assert_array_equal(get_output(npu, context, expected), expected)


def test_shapes_that_are_not_listed(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(npu, models.dynamic(SIZES)) as context:
        assert set_shape(npu, context, shape_attr((1, 9, 9, 3))) == Code.FAIL
        log = capfd.readouterr().err
        assert (
            "rknn_set_input_shapes error, input name = x supported input shapes are as follows:"
            in log
        )
        assert " shape = [1,12,16,3], layout = NHWC" in log
        assert "while get rknn_tensor_attr[0].name = x, dims = [1, 9, 9, 3], fmt = NHWC" in log


def test_misuse(npu: RknnLibrary) -> None:
    with opened(npu, models.dynamic(SIZES)) as context:
        good = shape_attr((1, 8, 8, 3))
        assert npu.rknn_set_input_shapes(context, 1, None) == Code.PARAM_INVALID
        for count in (0, 2, 2**32 - 1):
            assert set_shape(npu, context, good, count) == Code.PARAM_INVALID
        # The name says which input it is, the index nothing.
        assert set_shape(npu, context, shape_attr((1, 8, 8, 3), index=3)) == SUCC
        for name in (b"", b"y"):
            assert set_shape(npu, context, shape_attr((1, 8, 8, 3), name=name)) == Code.FAIL
        for n_dims in (0, 17, 2**32 - 1):
            attr = shape_attr((1, 8, 8, 3), n_dims=n_dims)
            assert set_shape(npu, context, attr) == Code.PARAM_INVALID
        for fmt in (Fmt.NCHW, Fmt.NC1HWC2, 99):
            assert set_shape(npu, context, shape_attr((1, 8, 8, 3), fmt)) == Code.PARAM_INVALID


def test_what_a_dynamic_model_is_refused(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    """Contexts aren't duplicated and weights not shared (user guide 5.4.4.1)."""
    with opened(npu, models.dynamic(SIZES)) as context:
        source, target = abi.Handle(context), abi.Handle(0)
        assert npu.rknn_dup_context(ctypes.byref(source), ctypes.byref(target)) == Code.FAIL
        model, options = models.dynamic(SIZES), abi.InitExtend(ctx=context)
        flag = abi.InitFlag.SHARE_WEIGHT_MEM
        arguments = (model, len(model), flag, ctypes.byref(options))
        assert npu.rknn_init(ctypes.byref(target), *arguments) == Code.PARAM_INVALID
    assert capfd.readouterr().err.count("the model has several input shapes") == 2


def test_the_old_call_is_refused(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(npu, models.dynamic(SIZES)) as context:
        attr = shape_attr((1, 8, 8, 3))
        assert npu.rknn_set_input_shape(context, ctypes.byref(attr)) == Code.FAIL
    assert "use rknn_set_input_shapes" in capfd.readouterr().err
