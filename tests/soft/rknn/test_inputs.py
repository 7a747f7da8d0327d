"""rknn_inputs_set: what becomes of the values."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from onnx import TensorProto

from anynpu.feeds import FEEDABLE
from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import TensorFormat as Fmt
from anynpu.rknn.library import RknnLibrary
from anynpu.soft.device_memory import STRICT_VARIABLE
from anynpu.tensor import DType

from ... import models
from ...capi import SUCC, get_output, infer, one_input, opened, set_input

SHAPE = (1, 3, 4, 5)
MEAN_STD = {
    "anynpu.mean": '{"x": [10, 20, 30]}',
    "anynpu.std": '{"x": [2, 4, 0.5]}',
}
TYPES = list(FEEDABLE)


def picture(shape: tuple[int, ...] = SHAPE, dtype: str = "uint8") -> np.ndarray:
    return np.random.default_rng(3).integers(0, 120, shape).astype(dtype)


KEPT = np.full(SHAPE, 7, np.float32)
"""What an input holds before a call that leaves it alone."""

REAL = (DType.FLOAT32, DType.FLOAT16, DType.UINT8)


def after(npu: RknnLibrary, model: bytes, *calls: tuple[np.ndarray, dict[str, int]]) -> np.ndarray:
    """The output after calls of rknn_inputs_set that all succeed."""
    with opened(npu, model) as context:
        for array, fields in calls:
            assert set_input(npu, context, array, **fields) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        return get_output(npu, context, np.empty(SHAPE, np.float32))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_every_type_for_a_float_model(
    npu: RknnLibrary, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real numbers are converted; other types leave what was there, and some are unknown."""
    values = picture(dtype=dtype.numpy.name)
    known = dtype not in (DType.INT16, DType.UINT16, DType.UINT32)
    with opened(npu, models.add_one()) as context:
        assert set_input(npu, context, KEPT) == SUCC
        assert set_input(npu, context, values) == (SUCC if known else Code.PARAM_INVALID)
        assert npu.rknn_run(context, None) == SUCC
        result = get_output(npu, context, np.empty(SHAPE, np.float32))
        monkeypatch.setenv(STRICT_VARIABLE, "1")
        strictly = Code.INPUT_INVALID if known else Code.PARAM_INVALID
        assert set_input(npu, context, values) == (SUCC if dtype in REAL else strictly)
    kept = values.astype(np.float32) if dtype in REAL else KEPT
    np.testing.assert_array_equal(result, kept + 1)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_every_type_for_a_quantised_model(npu: RknnLibrary, dtype: DType) -> None:
    """int8 is taken as quantised already."""
    values = picture(dtype=dtype.numpy.name)
    known = dtype not in (DType.INT16, DType.UINT16, DType.UINT32)
    with opened(npu, models.quantized()) as context:
        assert set_input(npu, context, KEPT) == SUCC
        assert set_input(npu, context, values) == (SUCC if known else Code.PARAM_INVALID)
        assert npu.rknn_run(context, None) == SUCC
        result = get_output(npu, context, np.empty(SHAPE, np.float32))
    real = values.astype(np.float32) if dtype in REAL else KEPT
    stored = np.clip(np.rint(real / 0.5) - 3, -128, 127)
    if dtype is DType.INT8:
        stored = values.astype(np.float32)
    np.testing.assert_array_equal(result, np.maximum((stored + 3) * 0.5, 0))


@pytest.mark.parametrize("fmt", [Fmt.NCHW, Fmt.UNDEFINED, Fmt.NC1HWC2])
@pytest.mark.parametrize("channels", [3, 16])
def test_images_are_taken_as_nhwc_alone(
    npu: RknnLibrary,
    fmt: Fmt,
    channels: int,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The vendor's runtime says so in its log, returns 0, and leaves the old image in place."""
    shape = (1, channels, 4, 5)
    values = np.ones(shape, np.float32)
    with opened(npu, models.add_one(shape)) as context:
        assert set_input(npu, context, values) == SUCC
        assert set_input(npu, context, values * 2, fmt=fmt) == SUCC
        log = capfd.readouterr().err
        assert npu.rknn_run(context, None) == SUCC
        assert (get_output(npu, context, values) == 2).all()
        monkeypatch.setenv(STRICT_VARIABLE, "1")
        assert set_input(npu, context, values * 2, fmt=fmt) == Code.INPUT_INVALID
    assert "a board answers 0; the input keeps its old content" in capfd.readouterr().err
    if channels == 3 and fmt is Fmt.NC1HWC2:
        assert "when input channel is 1, not support NC1HWC2 layout!" in log
        return
    name = "(null)" if fmt is Fmt.UNDEFINED else fmt.name
    text = f"Meet unsupported src layout for normalize: {name}, only support NHWC src layout!"
    assert text in log
    assert "rknn_inputs_set, normalize error(-1) index=0" in log


def test_before_anything_an_input_holds_zeros(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        assert npu.rknn_run(context, None) == SUCC
        assert (get_output(npu, context, np.empty(SHAPE, np.float32)) == 1).all()


class TestAPictureOfBytes:
    """What the NPU normalises and quantises itself: from the first on, nothing else is taken."""

    MODEL = models.quantized((1, 3, 4, 16), scale=0.5, zero_point=-100)
    SHAPE = (1, 3, 4, 16)

    def stored(self, npu: RknnLibrary, context: int) -> np.ndarray:
        assert npu.rknn_run(context, None) == SUCC
        raw = get_output(npu, context, np.empty(self.SHAPE, np.int8), want_float=0)
        return raw.astype(int) + 100

    def test_floats_after_it_leave_it_in_place(
        self, npu: RknnLibrary, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pixels = picture(self.SHAPE) % 100
        with opened(npu, self.MODEL) as context:
            assert set_input(npu, context, pixels) == SUCC
            floats = np.zeros(self.SHAPE, np.float32)
            assert set_input(npu, context, floats) == SUCC
            assert "current input size(768) > need input size(192)" in capfd.readouterr().err
            np.testing.assert_array_equal(self.stored(npu, context), pixels.astype(int) * 2)
            monkeypatch.setenv(STRICT_VARIABLE, "1")
            assert set_input(npu, context, floats) == Code.INPUT_INVALID

    @pytest.mark.parametrize("pass_through", [0, 1])
    def test_quantised_values_after_it_are_pixels(
        self, npu: RknnLibrary, pass_through: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pixels, quantized = picture(self.SHAPE), np.full(self.SHAPE, -1, np.int8)
        with opened(npu, self.MODEL) as context:
            assert set_input(npu, context, quantized, pass_through=pass_through) == SUCC
            assert (self.stored(npu, context) == 99).all()
            assert set_input(npu, context, pixels) == SUCC
            assert set_input(npu, context, quantized, pass_through=pass_through) == SUCC
            # 255 pixels are 410 steps, more than there are.
            assert (self.stored(npu, context) == 227).all()
            monkeypatch.setenv(STRICT_VARIABLE, "1")
            code = set_input(npu, context, quantized, pass_through=pass_through)
            assert code == Code.INPUT_INVALID

    def test_more_bytes_than_it_has_are_refused(self, npu: RknnLibrary) -> None:
        pixels = picture(self.SHAPE) % 100
        with opened(npu, self.MODEL) as context:
            assert set_input(npu, context, pixels) == SUCC
            more = np.zeros(400, np.uint8)
            assert set_input(npu, context, more, fmt=Fmt.NHWC) == SUCC
            np.testing.assert_array_equal(self.stored(npu, context), pixels.astype(int) * 2)

    def test_floats_become_pixels_where_rows_are_padded(self, npu: RknnLibrary) -> None:
        """Rows are copied one by one then, without a look at their number."""
        shape = (1, 3, 4, 5)
        with opened(npu, models.quantized(shape, scale=0.5, zero_point=-100)) as context:
            assert set_input(npu, context, picture(shape)) == SUCC
            floats = np.full((1, 4, 5, 3), 121, np.float32)
            assert set_input(npu, context, floats, fmt=Fmt.NHWC) == SUCC
            assert npu.rknn_run(context, None) == SUCC
            raw = get_output(npu, context, np.empty(shape, np.int8), want_float=0)
        bytes_ = floats.view(np.uint8).ravel()[:60].reshape(1, 4, 5, 3).transpose(0, 3, 1, 2)
        expected = np.clip(bytes_.astype(int) * 2 - 100, -100, 127)
        np.testing.assert_array_equal(raw, expected)

    def test_floats_before_it_are_taken(self, npu: RknnLibrary) -> None:
        pixels = picture(self.SHAPE) % 100
        with opened(npu, self.MODEL) as context:
            assert set_input(npu, context, np.ones(self.SHAPE, np.float32)) == SUCC
            assert (self.stored(npu, context) == 2).all()
            assert set_input(npu, context, pixels) == SUCC
            np.testing.assert_array_equal(self.stored(npu, context), pixels.astype(int) * 2)


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
    # Two dimensions: numbers beyond int8 wrap around, infinity is the largest int32.
    wrapped = np.array([-2003, -3, -3, -2, -2, -2, 1997, -1]).astype(np.int8)
    expected = [np.maximum((wrapped.astype(int) + 3) * 0.5, 0)]
    if not unsigned:
        np.testing.assert_array_equal(result, expected)


def test_images_saturate(npu: RknnLibrary) -> None:
    """Of four dimensions, and what is no number is the highest."""
    values = np.array([-1000, 0, 0.24, 0.25, 0.26, 0.75, 1000, np.inf, np.nan, -np.inf], np.float32)
    with opened(npu, models.quantized((1, 1, 1, 10))) as context:
        result = infer(
            npu, context, values.reshape(1, 1, 1, 10), np.empty((1, 1, 1, 10), np.float32)
        )
    np.testing.assert_array_equal(result.ravel(), [0, 0, 0, 0.5, 0.5, 0.5, 65, 65, 65, 0])


def test_wrapping_around_is_an_error_in_strict_mode(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    with opened(npu, models.quantized((1, 4))) as context:
        assert set_input(npu, context, np.full((1, 4), 60, np.float32)) == SUCC
        assert set_input(npu, context, np.full((1, 4), 66, np.float32)) == Code.INPUT_INVALID


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


def test_no_mean_and_unit_deviation_is_no_normalisation(npu: RknnLibrary) -> None:
    metadata = {"anynpu.mean": '{"x": [0, 0, 0]}', "anynpu.std": '{"x": [1, 1, 1]}'}
    values = picture()
    result = after(npu, models.add_one(metadata=metadata), (values, {}))
    np.testing.assert_array_equal(result, values.astype(np.float32) + 1)


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


def test_the_place_in_the_array_counts(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is not looked at; inputs that aren't given keep their values."""
    with opened(npu, models.two_inputs()) as context:
        a, b = np.full((2, 3), 5, np.float32), np.full((2, 3), 2, np.float32)
        both = (abi.Input * 2)(one_input(a, index=1), one_input(b, index=99))
        assert npu.rknn_inputs_set(context, 2, both) == SUCC
        assert "inputs[0].index is 1; the place counts" in capfd.readouterr().err
        assert npu.rknn_run(context, None) == SUCC
        assert (get_output(npu, context, a) == 7).all()
        monkeypatch.setenv("RKNN_LOG_LEVEL", "1")
        with opened(npu, models.add_one()):  # the level is read at rknn_init
            pass
        a[...] = 7
        assert npu.rknn_inputs_set(context, 1, both) == SUCC
        assert "param input num(1) != model input num(2)" in capfd.readouterr().err
        assert npu.rknn_run(context, None) == SUCC
        assert (get_output(npu, context, a) == 9).all()
        assert npu.rknn_inputs_set(context, 0, both) == SUCC
        monkeypatch.setenv(STRICT_VARIABLE, "1")
        assert npu.rknn_inputs_set(context, 2, both) == Code.INPUT_INVALID
        for place, struct in enumerate(both):
            struct.index = place
        assert npu.rknn_inputs_set(context, 2, both) == SUCC
        assert npu.rknn_inputs_set(context, 1, both) == Code.INPUT_INVALID


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("fmt", [Fmt.NHWC, Fmt.NCHW, 99])
def test_native_bytes_of_pictures_are_padded_rows(
    npu: RknnLibrary, channels: int, fmt: int
) -> None:
    """The device's own bytes, in its own order whatever the format; rows are 16 pixels apart."""
    native = np.random.default_rng(1).integers(-128, 127, (1, 4, 16, channels)).astype(np.int8)
    shape = (1, channels, 4, 5)
    with opened(npu, models.quantized(shape)) as context:
        like = np.empty(shape, np.float32)
        result = infer(npu, context, native, like, fmt=fmt, pass_through=1)
    image = native[:, :, :5].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(result, np.maximum((image.astype(np.float32) + 3) * 0.5, 0))


def test_native_bytes_of_features_are_channel_blocks(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (1, 20, 2, 3)
    values = np.random.default_rng(2).normal(0, 4, shape).astype(np.float16)
    native = np.zeros((1, 4, 2, 3, 8), np.float16)  # RK3588 has an even number of blocks
    for channel in range(20):
        native[:, channel // 8, :, :, channel % 8] = values[:, channel]
    like = np.empty(shape, np.float32)
    with opened(npu, models.passes(TensorProto.FLOAT, shape)) as context:
        result = infer(npu, context, native, like, fmt=Fmt.NC1HWC2, pass_through=1)
        np.testing.assert_array_equal(result, values.astype(np.float32))
        # Fewer bytes are the first ones of the device's; those after them stay.
        first = np.full(120, 9, np.float16)
        result = infer(npu, context, first, like, fmt=Fmt.NHWC, pass_through=1)
        expected = values.astype(np.float32)
        expected[:, :16] = 9
        expected[:, 16:, 0] = 9
        np.testing.assert_array_equal(result[:, :16], expected[:, :16])
        held = native.copy()
        held.ravel()[:120] = 9
        np.testing.assert_array_equal(result[0, 19], held[0, 2, :, :, 3])
        monkeypatch.setenv(STRICT_VARIABLE, "1")
        code = set_input(npu, context, first, fmt=Fmt.NHWC, pass_through=1)
        assert code == Code.INPUT_INVALID


def test_native_bytes_as_nhwc_of_other_than_images(npu: RknnLibrary) -> None:
    """More than four channels are refused with 0; other formats aren't looked at."""
    values = np.arange(12, dtype=np.float16).reshape(2, 6)
    with opened(npu, models.passes(TensorProto.FLOAT, (2, 6))) as context:
        like = np.empty((2, 6), np.float32)
        assert (infer(npu, context, values, like, fmt=Fmt.NHWC, pass_through=1) == 0).all()
        result = infer(npu, context, values, like, fmt=Fmt.UNDEFINED, pass_through=1)
    np.testing.assert_array_equal(result, values)


@pytest.mark.parametrize("kind", ["INT32", "INT64"])
@pytest.mark.parametrize(
    "source", [DType.FLOAT32, DType.FLOAT16, DType.UINT8, DType.INT32, DType.INT64, DType.INT8]
)
def test_whole_number_inputs(npu: RknnLibrary, kind: str, source: DType) -> None:
    """Fractions are cut off; int8 isn't converted."""
    dtype = source.numpy
    given = [[-2.7, -0.5, 3], [0.5, 2.5, 1]] if dtype.kind == "f" else [[0, 1, 2], [100, 5, 9]]
    values = np.array(given, dtype)
    with opened(npu, models.passes(TensorProto.DataType.Value(kind))) as context:
        assert set_input(npu, context, values, fmt=Fmt.UNDEFINED) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        raw = get_output(npu, context, np.empty((2, 3), DType[kind].numpy), want_float=0)
    kept = np.zeros((2, 3)) if source is DType.INT8 else np.trunc(values)
    np.testing.assert_array_equal(raw, kept)


def test_misuse(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    values = np.zeros(SHAPE, np.float32)
    with opened(npu, models.add_one()) as context:
        good = one_input(values)
        assert npu.rknn_inputs_set(context, 1, None) == Code.PARAM_INVALID
        assert "a board would answer this with SIGSEGV" in capfd.readouterr().err
        for count in (2, 2**32 - 1):
            assert npu.rknn_inputs_set(context, count, ctypes.byref(good)) == Code.PARAM_INVALID
        for kind in (-1, 10, 11, 12, 2**31 - 1):
            assert set_input(npu, context, values, kind=kind) == Code.PARAM_INVALID
            assert "Unknow dtype to get bytes: 0" in capfd.readouterr().err
        for fmt in (-1, 4, 2**31 - 1):
            assert set_input(npu, context, values, fmt=fmt) == Code.INPUT_INVALID
            assert "a board would answer this with SIGSEGV" in capfd.readouterr().err
        nothing = one_input(values)
        nothing.buf = None
        assert npu.rknn_inputs_set(context, 1, ctypes.byref(nothing)) == Code.INPUT_INVALID
        assert npu.rknn_inputs_set(context, 1, ctypes.byref(good)) == SUCC
        assert npu.rknn_run(context, None) == SUCC
