"""rknn_query."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from onnx import TensorProto

from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import Query
from anynpu.rknn.library import RknnLibrary
from anynpu.soft.device_memory import STRICT_VARIABLE

from ... import models
from ...capi import SUCC, attribute, infer, opened, query


def test_number_of_tensors(npu: RknnLibrary) -> None:
    with opened(npu, models.two_inputs()) as context:
        info = abi.InputOutputNum()
        assert query(npu, context, Query.IN_OUT_NUM, info) == SUCC
        assert (info.n_input, info.n_output) == (2, 2)


def test_a_float_image_input_is_nhwc_float16(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one((1, 3, 5, 7))) as context:
        attr = attribute(npu, context, Query.INPUT_ATTR)
    assert attr.name == b"x"
    assert (attr.n_dims, list(attr.dims)) == (4, [1, 5, 7, 3] + 12 * [0])
    assert (attr.fmt, attr.type) == (abi.TensorFormat.NHWC, abi.TensorType.FLOAT16)
    assert (attr.n_elems, attr.size) == (105, 210)
    assert (attr.w_stride, attr.size_with_stride) == (8, 240)
    assert attr.qnt_type == abi.QuantizationType.AFFINE_ASYMMETRIC
    assert (attr.zp, attr.scale, attr.pass_through, attr.h_stride) == (0, 1.0, 0, 0)


def test_an_image_output_is_nchw(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one((1, 3, 5, 7))) as context:
        attr = attribute(npu, context, Query.OUTPUT_ATTR)
    assert (attr.name, attr.fmt) == (b"y", abi.TensorFormat.NCHW)
    assert list(attr.dims[:4]) == [1, 3, 5, 7]
    assert attr.w_stride == 0
    assert attr.size == 210
    assert attr.size_with_stride == 5 * 8 * 8 * 2  # rows of eight pixels, a block of channels


@pytest.mark.parametrize(
    ("shape", "size"), [((1, 1000, 1, 1), 16000), ((1, 1, 2048, 288), 9437184)]
)
def test_an_output_buffer_of_size_with_stride_holds_any_layout(
    npu: RknnLibrary, shape: tuple[int, ...], size: int
) -> None:
    with opened(npu, models.add_one(shape)) as context:
        assert attribute(npu, context, Query.OUTPUT_ATTR).size_with_stride == size


@pytest.mark.parametrize(("soc", "stride"), [("rk3588", 16), ("rk3562", 16), ("rk3566", 8)])
def test_quantised_tensors(npu: RknnLibrary, soc: str, stride: int) -> None:
    model = models.quantized((1, 3, 4, 5), metadata={"anynpu.soc": soc})
    with opened(npu, model) as context:
        attr = attribute(npu, context, Query.INPUT_ATTR)
        assert (attr.type, attr.zp, attr.scale) == (abi.TensorType.INT8, -3, 0.5)
        assert (attr.w_stride, attr.size_with_stride) == (stride, 4 * stride * 3)
        attr = attribute(npu, context, Query.OUTPUT_ATTR)
        assert (attr.type, attr.zp, attr.scale) == (abi.TensorType.INT8, -3, 0.5)


def test_unsigned_quantisation_is_shown_signed(npu: RknnLibrary) -> None:
    model = models.quantized(zero_point=125, dtype=np.uint8)
    with opened(npu, model) as context:
        for command in (Query.INPUT_ATTR, Query.OUTPUT_ATTR):
            attr = attribute(npu, context, command)
            assert (attr.type, attr.zp) == (abi.TensorType.INT8, -3)


@pytest.mark.parametrize(
    "kind", ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "BOOL"]
)
def test_whole_numbers_keep_their_type(npu: RknnLibrary, kind: str) -> None:
    with opened(npu, models.passes(TensorProto.DataType.Value(kind))) as context:
        for command in (Query.INPUT_ATTR, Query.OUTPUT_ATTR):
            attr = attribute(npu, context, command)
            assert attr.type == abi.TensorType[kind]
            assert attr.fmt == abi.TensorFormat.UNDEFINED
            is_never_quantized = kind in ("INT32", "UINT32", "INT64", "BOOL")
            method = "AFFINE_ASYMMETRIC" if is_never_quantized else "NONE"
            assert attr.qnt_type == abi.QuantizationType[method]
            assert (attr.zp, attr.scale) == (0, 1)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "FLOAT16"])
def test_all_floats_are_float16(npu: RknnLibrary, kind: str) -> None:
    with opened(npu, models.passes(TensorProto.DataType.Value(kind))) as context:
        for command in (Query.INPUT_ATTR, Query.OUTPUT_ATTR):
            assert attribute(npu, context, command).type == abi.TensorType.FLOAT16


def test_versions(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        info = abi.SdkVersion()
        assert query(npu, context, Query.SDK_VERSION, info) == SUCC
        assert info.api_version.startswith(b"2.3.2 (")
        assert b"soft NPU" in info.api_version
        assert info.drv_version == b"0.9.8"


@pytest.mark.parametrize("text", ["", "RGB", "naïve", "x" * 5000])
def test_the_custom_string(npu: RknnLibrary, text: str) -> None:
    model = models.add_one(metadata={"anynpu.custom_string": text})
    with opened(npu, model) as context:
        info = abi.CustomString()
        assert query(npu, context, Query.CUSTOM_STRING, info) == SUCC
        assert info.string == text.encode()[:1023]


def test_the_time_of_a_run(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(npu, models.add_one((1, 4))) as context:
        info = abi.PerfRun(-1)
        assert query(npu, context, Query.PERF_RUN, info) == SUCC
        with monkeypatch.context() as patch:
            patch.setenv(STRICT_VARIABLE, "1")
            assert query(npu, context, Query.PERF_RUN, info) == Code.FAIL
        infer(npu, context, np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32))
        assert query(npu, context, Query.PERF_RUN, info) == SUCC
        assert 0 <= info.run_duration < 10_000_000


def test_a_structure_from_an_older_header_is_too_short(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, models.add_one()) as context:
        attr = abi.TensorAttr()
        code = npu.rknn_query(context, Query.INPUT_ATTR, ctypes.byref(attr), 372)
    assert code == Code.PARAM_INVALID
    log = capfd.readouterr().err
    assert "rknn_query, info_len(372) < sizeof(rknn_tensor_attr)(376)!" in log


def test_a_longer_structure_is_accepted(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        attrs = (abi.TensorAttr * 2)()
        attrs[1].n_dims = 77
        assert npu.rknn_query(context, Query.INPUT_ATTR, attrs, ctypes.sizeof(attrs)) == SUCC
        assert attrs[1].n_dims == 77


def test_misuse(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        assert npu.rknn_query(context, Query.IN_OUT_NUM, None, 8) == Code.PARAM_INVALID
        for command in (-1, 18, 12345, -(2**31)):
            info = abi.InputOutputNum()
            expected = Code.FAIL if command < 0 else Code.PARAM_INVALID
            assert query(npu, context, command, info) == expected
        for command in (Query.INPUT_ATTR, Query.OUTPUT_ATTR):
            attr = abi.TensorAttr(index=1)
            assert query(npu, context, command, attr) == Code.PARAM_INVALID
            attr = abi.TensorAttr(index=2**32 - 1)
            assert query(npu, context, command, attr) == Code.PARAM_INVALID
