"""rknn_inputs_set: what becomes of the values."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto

from anynpu.feeds import FEEDABLE
from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import TensorFormat as Fmt
from anynpu.rknn.library import RknnLibrary, load
from anynpu.tensor import DType

from ... import models
from ...capi import SUCC, infer, one_input, opened, set_input

SHAPE = (1, 3, 4, 5)
MEAN_STD = {
    "anynpu.mean": '{"x": [10, 20, 30]}',
    "anynpu.std": '{"x": [2, 4, 0.5]}',
}
TYPES = list(FEEDABLE)


def picture(shape: tuple[int, ...] = SHAPE, dtype: str = "uint8") -> np.ndarray:
    return np.random.default_rng(3).integers(0, 120, shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("fmt", [Fmt.NCHW, Fmt.NHWC])
def test_every_type_in_both_orders_for_a_float_model(
    npu: RknnLibrary, dtype: DType, fmt: Fmt
) -> None:
    values = picture(dtype=dtype.numpy.name)
    data = np.ascontiguousarray(values.transpose(0, 2, 3, 1)) if fmt == Fmt.NHWC else values
    with opened(npu, models.add_one()) as context:
        result = infer(npu, context, data, np.empty(SHAPE, np.float32), fmt=fmt)
    np.testing.assert_array_equal(result, values.astype(np.float32) + 1)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_every_type_for_a_quantised_model(npu: RknnLibrary, dtype: DType) -> None:
    values = picture(dtype=dtype.numpy.name)
    with opened(npu, models.quantized()) as context:
        result = infer(npu, context, values, np.empty(SHAPE, np.float32))
    stored = np.clip(np.rint(values.astype(np.float32) / 0.5) - 3, -128, 127)
    np.testing.assert_array_equal(result, np.maximum((stored + 3) * 0.5, 0))


def test_values_are_rounded_to_float16(npu: RknnLibrary) -> None:
    values = np.array([[1 / 3, 2049, 65504, 1e6, -1e-9, np.nan, np.inf]], np.float32)
    with opened(npu, models.passes(TensorProto.FLOAT, values.shape)) as context:
        result = infer(npu, context, values, values)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result, values.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("unsigned", [False, True])
def test_saturation_and_rounding_of_quantised_values(npu: RknnLibrary, unsigned: bool) -> None:
    model = models.quantized(
        (1, 8), zero_point=125 if unsigned else -3, dtype=np.uint8 if unsigned else np.int8
    )
    values = np.array([[-1000, 0, 0.24, 0.25, 0.26, 0.75, 1000, np.inf]], np.float32)
    with opened(npu, model) as context:
        result = infer(npu, context, values, values)
    np.testing.assert_array_equal(result, [[0, 0, 0, 0, 0.5, 1.0, 65, 65]])


def test_pictures_are_normalised(npu: RknnLibrary) -> None:
    pixels = picture((1, 4, 5, 3))
    with opened(npu, models.add_one(metadata=MEAN_STD)) as context:
        result = infer(npu, context, pixels, np.empty(SHAPE, np.float32), fmt=Fmt.NHWC)
    real = (pixels.astype(np.float32) - [10, 20, 30]) / [2, 4, 0.5] + 1
    expected = real.transpose(0, 3, 1, 2).astype(np.float32)
    np.testing.assert_array_equal(result, expected)


def test_pictures_are_normalised_and_quantised(npu: RknnLibrary) -> None:
    """The check value of the vendor's threads: mean 0, std 255, scale 1/255 gives q = x - 128."""
    metadata = {"anynpu.mean": '{"x": [0, 0, 0]}', "anynpu.std": '{"x": [255, 255, 255]}'}
    model = models.quantized(scale=1 / 255, zero_point=-128, metadata=metadata)
    pixels = np.arange(60, dtype=np.uint8).reshape(1, 4, 5, 3)
    raw = np.empty(SHAPE, np.int8)
    with opened(npu, model) as context:
        assert set_input(npu, context, pixels, fmt=Fmt.NHWC) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        output = abi.Output(is_prealloc=1, buf=raw.ctypes.data, size=raw.nbytes)
        assert npu.rknn_outputs_get(context, 1, ctypes.byref(output), None) == SUCC
    np.testing.assert_array_equal(raw, (pixels.astype(int) - 128).transpose(0, 3, 1, 2))


def test_nchw_pictures_are_not_normalised(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, models.add_one(metadata=MEAN_STD)) as context:
        assert set_input(npu, context, picture(), fmt=Fmt.NCHW) == Code.FAIL
    log = capfd.readouterr().err
    assert "Meet unsupported src layout for normalize: NCHW, only support NHWC src layout!" in log
    assert "rknn_inputs_set, normalize error(-1) index=0" in log


def test_no_mean_and_unit_deviation_is_no_normalisation(npu: RknnLibrary) -> None:
    metadata = {"anynpu.mean": '{"x": [0, 0, 0]}', "anynpu.std": '{"x": [1, 1, 1]}'}
    with opened(npu, models.add_one(metadata=metadata)) as context:
        assert set_input(npu, context, picture(), fmt=Fmt.NCHW) == SUCC


def test_a_buffer_that_is_too_small(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    """The classic trap: a zeroed type field means float32, four times the bytes of a picture."""
    pixels = picture()
    with opened(npu, models.add_one()) as context:
        assert set_input(npu, context, pixels, kind=0) == Code.PARAM_INVALID
        log = capfd.readouterr().err
        assert "rknn_inputs_set, param input size(60) < model input size(240)" in log
        assert "type field" in log
        assert "RKNN_TENSOR_FLOAT32" in log
        assert set_input(npu, context, pixels, kind=0, pass_through=1) == Code.PARAM_INVALID


def test_a_buffer_that_is_too_large(npu: RknnLibrary) -> None:
    values = np.zeros(100, np.float32)
    with opened(npu, models.add_one()) as context:
        assert set_input(npu, context, values) == SUCC


def test_the_buffer_is_copied(npu: RknnLibrary) -> None:
    values = np.ones(SHAPE, np.float32)
    with opened(npu, models.add_one()) as context:
        assert set_input(npu, context, values) == SUCC
        values[...] = 99
        assert npu.rknn_run(context, None) == SUCC
        again = infer(npu, context, np.ones(SHAPE, np.float32), values)
        assert (again == 2).all()


def test_inputs_keep_their_values_between_runs(npu: RknnLibrary) -> None:
    with opened(npu, models.two_inputs()) as context:
        a, b = np.full((2, 3), 5, np.float32), np.full((2, 3), 2, np.float32)
        both = (abi.Input * 2)(one_input(b, index=1), one_input(a, index=0))
        assert npu.rknn_inputs_set(context, 2, both) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        a[...] = 7
        assert set_input(npu, context, a, index=0) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        results = [np.empty((2, 3), np.float32) for _ in range(2)]
        outputs = (abi.Output * 2)(
            *(
                abi.Output(want_float=1, is_prealloc=1, index=i, buf=r.ctypes.data, size=r.nbytes)
                for i, r in enumerate(results)
            )
        )
        assert npu.rknn_outputs_get(context, 2, outputs, None) == SUCC
    assert (results[0] == 9).all()
    assert (results[1] == 5).all()


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_native_bytes_of_pictures_are_nhwc(npu: RknnLibrary, channels: int) -> None:
    native = np.random.default_rng(1).integers(-128, 127, (1, 4, 5, channels)).astype(np.int8)
    shape = (1, channels, 4, 5)
    with opened(npu, models.quantized(shape)) as context:
        result = infer(
            npu, context, native, np.empty(shape, np.float32), fmt=Fmt.NHWC, pass_through=1
        )
    expected = np.maximum((native.astype(np.float32) + 3) * 0.5, 0).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(result, expected)


def test_native_bytes_of_features_are_channel_blocks(npu: RknnLibrary) -> None:
    shape = (1, 20, 2, 3)
    values = np.random.default_rng(2).normal(0, 4, shape).astype(np.float16)
    native = np.zeros((1, 4, 2, 3, 8), np.float16)  # RK3588 has an even number of blocks
    for channel in range(20):
        native[:, channel // 8, :, :, channel % 8] = values[:, channel]
    with opened(npu, models.passes(TensorProto.FLOAT, shape)) as context:
        like = np.empty(shape, np.float32)
        result = infer(npu, context, native, like, fmt=Fmt.NC1HWC2, pass_through=1)
        np.testing.assert_array_equal(result, values.astype(np.float32))
        assert set_input(npu, context, native, fmt=Fmt.NC1HWC2) == Code.INPUT_INVALID
        short = values  # enough for the elements, too little for whole blocks
        assert set_input(npu, context, short, pass_through=1) == Code.PARAM_INVALID


@pytest.mark.parametrize(
    "kind", ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "BOOL"]
)
@pytest.mark.parametrize("source", TYPES, ids=lambda d: d.name)
def test_whole_number_inputs_saturate(npu: RknnLibrary, kind: str, source: DType) -> None:
    dtype = source.numpy
    if dtype.kind == "f":
        values = np.array([[-6e4, -1.5, -0.4], [0.5, 2.5, 6e4]], dtype)
    else:
        limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        values = np.array([[limits[0], 0, 1], [limits[1], limits[1] // 2, 0]]).astype(dtype)
    with opened(npu, models.passes(TensorProto.DataType.Value(kind))) as context:
        assert set_input(npu, context, values, fmt=Fmt.UNDEFINED) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        target = DType[kind].numpy
        raw = np.empty((2, 3), target)
        output = abi.Output(is_prealloc=1, buf=raw.ctypes.data, size=raw.nbytes)
        assert npu.rknn_outputs_get(context, 1, ctypes.byref(output), None) == SUCC
    if kind == "BOOL":
        np.testing.assert_array_equal(raw, values != 0)
        return
    low, high = int(np.iinfo(target).min), int(np.iinfo(target).max)
    expected = [
        min(max(int(np.rint(v)) if dtype.kind == "f" else int(v), low), high)
        for v in values.ravel()
    ]
    assert raw.ravel().tolist() == expected


@settings(max_examples=60, deadline=None)
@given(
    values=hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=1, max_dims=5, max_side=5),
        elements=st.floats(width=32),
    ),
    scale=st.floats(2**-20, 2**10, width=32),
    zero_point=st.integers(-128, 127),
)
def test_quantised_inputs_are_what_onnx_quantises(
    values: np.ndarray, scale: float, zero_point: int
) -> None:
    values = np.nan_to_num(values, nan=0.0)
    model = models.quantized(values.shape, scale=scale, zero_point=zero_point)
    with opened(load("soft"), model) as context:
        result = infer(load("soft"), context, values, values)
    with np.errstate(over="ignore"):
        steps = np.rint(values / np.float32(scale)) + np.float32(zero_point)
    stored = np.maximum(np.clip(steps, -128, 127), zero_point)
    np.testing.assert_allclose(result, (stored - zero_point) * np.float32(scale), rtol=1e-6, atol=0)


def test_misuse(npu: RknnLibrary) -> None:
    values = np.zeros(SHAPE, np.float32)
    with opened(npu, models.add_one()) as context:
        good = one_input(values)
        assert npu.rknn_inputs_set(context, 1, None) == Code.PARAM_INVALID
        for count in (0, 2, 2**32 - 1):
            assert npu.rknn_inputs_set(context, count, ctypes.byref(good)) == Code.PARAM_INVALID
        assert set_input(npu, context, values, index=1) == Code.INPUT_INVALID
        for kind in (-1, 10, 11, 12, 2**31 - 1):
            assert set_input(npu, context, values, kind=kind) == Code.INPUT_INVALID
        for fmt in (-1, 4, 2**31 - 1):
            assert set_input(npu, context, values, fmt=fmt) == Code.INPUT_INVALID
        nothing = one_input(values)
        nothing.buf = None
        assert npu.rknn_inputs_set(context, 1, ctypes.byref(nothing)) == Code.INPUT_INVALID
        assert npu.rknn_run(context, None) == Code.INPUT_INVALID
        assert npu.rknn_inputs_set(context, 1, ctypes.byref(good)) == SUCC
        assert npu.rknn_run(context, None) == SUCC
