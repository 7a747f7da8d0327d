"""rknn_set_io_mem: inputs and outputs in the caller's buffers, in every layout and type."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest

import anynpu
from anynpu.layouts import blocks_of_surfaces
from anynpu.rknn import abi
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import Query
from anynpu.rknn.abi import TensorFormat as Fmt
from anynpu.rknn.abi import TensorType as Type
from anynpu.rknn.library import RknnLibrary

from ... import models
from ...capi import SUCC, attribute, get_output, infer, opened
from .test_memory import bytes_of

SHAPE = (1, 3, 4, 5)
MEAN_STD = {"anynpu.mean": '{"x": [10, 20, 30]}', "anynpu.std": '{"x": [2, 4, 0.5]}'}
NUMPY = {Type.FLOAT32: np.float32, Type.FLOAT16: np.float16, Type.INT8: np.int8}
NUMPY |= {Type.UINT8: np.uint8, Type.INT16: np.int16, Type.INT32: np.int32}


class Bound:
    """A context with memory for its only input and its only output."""

    def __init__(self, npu: RknnLibrary, context: int) -> None:
        self.npu, self.context = npu, context
        self.mems: list[object] = []

    def bind(self, attr: abi.TensorAttr, size: int, offset: int = 0) -> np.ndarray:
        """Memory for a tensor; returns it as bytes."""
        mem = self.npu.rknn_create_mem(self.context, size)
        self.mems.append(mem)
        code = self.npu.rknn_set_io_mem(self.context, mem, ctypes.byref(attr))
        assert code == SUCC
        return bytes_of(mem)

    def run(self) -> None:
        assert self.npu.rknn_run(self.context, None) == SUCC


def padded(pixels: np.ndarray, stride: int) -> np.ndarray:
    """NHWC rows as a native input has them."""
    n, h, w, c = pixels.shape
    rows = np.full((n, h, stride, c), 77, pixels.dtype)
    rows[:, :, :w] = pixels
    return rows


def nchw(pixels: np.ndarray) -> np.ndarray:
    view: np.ndarray = pixels.transpose(0, 3, 1, 2)
    return view


@pytest.mark.parametrize("soc", ["rk3588", "rk3566", "rk3562"])
def test_a_picture_in_and_channel_blocks_out(npu: RknnLibrary, soc: str) -> None:
    """What the vendor's zero-copy example does: uint8 in, normalised by the NPU, native out."""
    pixels = np.random.default_rng(0).integers(0, 255, (1, 4, 5, 3)).astype(np.uint8)
    with opened(npu, models.add_one(metadata=MEAN_STD | {"anynpu.soc": soc})) as context:
        reference = infer(npu, context, pixels, np.empty(SHAPE, np.float32), fmt=Fmt.NHWC)
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.INPUT_ATTR)
        attr.type, attr.fmt = Type.UINT8, Fmt.NHWC
        source = bound.bind(attr, attr.size_with_stride)
        out = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        raw = bound.bind(out, out.size_with_stride)
        rows = padded(pixels, attr.w_stride)
        source[: rows.size] = rows.ravel()
        bound.run()
        blocks = raw.view(np.float16).reshape(out.dims[:5])
        found = anynpu.nc1hwc2_to_nchw(blocks, 3)
        assert not blocks[:, -1, ..., 3:].any()  # the padding is zero
    np.testing.assert_array_equal(found.astype(np.float32), reference)


def bound_attribute(npu: RknnLibrary, context: int, **fields: int) -> abi.TensorAttr:
    """The only input's attributes, changed."""
    attr = attribute(npu, context, Query.INPUT_ATTR)
    for name, value in fields.items():
        setattr(attr, name, value)
    return attr


@pytest.mark.parametrize("kind", [Type.FLOAT32, Type.FLOAT16, Type.UINT8])
@pytest.mark.parametrize("channels", [3, 16])
def test_input_types(npu: RknnLibrary, kind: Type, channels: int) -> None:
    """As NHWC; rows of pictures are padded, those of others aren't."""
    shape = (1, channels, 4, 5)
    pixels = np.random.default_rng(0).integers(0, 60, (1, 4, 5, channels)).astype(NUMPY[kind])
    with opened(npu, models.quantized(shape)) as context:
        reference = infer(npu, context, np.ascontiguousarray(nchw(pixels)), np.empty(shape, "f4"))
        bound = Bound(npu, context)
        attr = bound_attribute(npu, context, type=kind, fmt=Fmt.NHWC)
        assert attr.w_stride == (16 if channels == 3 else 5)
        values = padded(pixels, attr.w_stride)
        source = bound.bind(attr, values.nbytes)
        source[:] = values.view(np.uint8).ravel()
        bound.run()
        np.testing.assert_array_equal(get_output(npu, context, reference), reference)


@pytest.mark.parametrize(
    ("kind", "fmt", "text"),
    [
        (Type.FLOAT32, Fmt.NCHW, "Meet unsupported src layout for normalize: NCHW"),
        (Type.UINT8, Fmt.UNDEFINED, "Meet unsupported src layout for normalize: UNDEFINED"),
        (Type.INT32, Fmt.NHWC, "Normalize does not support for this data type"),
        (Type.BOOL, Fmt.NHWC, "Normalize does not support for this data type"),
    ],
)
def test_inputs_that_are_not_converted_keep_what_they_had(
    npu: RknnLibrary,
    kind: Type,
    fmt: Fmt,
    text: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The vendor's runtime takes the memory, and says at each run that it doesn't convert it."""
    old = np.full(SHAPE, 3, np.float32)
    with opened(npu, models.add_one()) as context:
        infer(npu, context, old, old)
        bound = Bound(npu, context)
        attr = bound_attribute(npu, context, type=kind, fmt=fmt)
        bound.bind(attr, 1024)[:] = 1
        capfd.readouterr()
        bound.run()
        assert text in capfd.readouterr().err
        assert (get_output(npu, context, old) == 4).all()
        monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
        code = npu.rknn_set_io_mem(context, bound.mems[0], ctypes.byref(attr))
        assert code == Code.PARAM_INVALID


def test_a_picture_of_bytes_is_for_good(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    """The NPU goes on to convert: floats aren't taken any more, int8 is taken for pixels."""
    shape = (1, 3, 4, 16)
    with opened(npu, models.quantized(shape)) as context:
        bound = Bound(npu, context)
        like = np.empty(shape, np.float32)
        bound.bind(bound_attribute(npu, context, type=Type.UINT8, fmt=Fmt.NHWC), 192)[:] = 9
        bound.run()
        assert (get_output(npu, context, like) == 9).all()
        attr = bound_attribute(npu, context, type=Type.FLOAT32, fmt=Fmt.NHWC)
        bound.bind(attr, 768).view(np.float32)[:] = 5
        bound.run()
        assert "Meet unsupported dst layout for normalize: 1" in capfd.readouterr().err
        assert (get_output(npu, context, like) == 9).all()
        bound.bind(bound_attribute(npu, context, fmt=Fmt.NHWC, pass_through=1), 192)[:] = 20
        bound.run()
        assert (get_output(npu, context, like) == 20).all()


def test_native_bytes_are_taken_whatever_they_are_called(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).integers(-128, 127, (1, 20, 2, 2)).astype(np.int8)
    with opened(npu, models.quantized((1, 20, 2, 2))) as context:
        native = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        packed = anynpu.nchw_to_nc1hwc2(values, native.dims[4], native.dims[1])
        bound = Bound(npu, context)
        for kind, fmt in ((Type.FLOAT32, Fmt.NHWC), (Type.INT64, Fmt.NCHW)):
            attr = bound_attribute(npu, context, type=kind, fmt=fmt, pass_through=1)
            bound.bind(attr, packed.nbytes)[:] = packed.view(np.uint8).ravel()
            bound.run()
            raw = get_output(npu, context, np.empty((1, 20, 2, 2), np.int8), want_float=0)
            np.testing.assert_array_equal(raw, np.maximum(values, -3))
        monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
        code = npu.rknn_set_io_mem(context, bound.mems[0], ctypes.byref(attr))
        assert code == Code.PARAM_INVALID


def test_int8_is_quantised_already(npu: RknnLibrary) -> None:
    raw = np.random.default_rng(0).integers(-128, 127, (1, 4, 5, 3)).astype(np.int8)
    with opened(npu, models.quantized()) as context:
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        source = bound.bind(attr, attr.size_with_stride)
        rows = padded(raw, attr.w_stride)
        source[:] = rows.view(np.uint8).ravel()
        bound.run()
        found = get_output(npu, context, np.empty(SHAPE, np.float32))
    np.testing.assert_array_equal(found, np.maximum((nchw(raw).astype("f4") + 3) * 0.5, 0))


def test_native_float16_is_not_normalised(npu: RknnLibrary) -> None:
    values = np.random.default_rng(0).normal(0, 1, (1, 4, 5, 3)).astype(np.float16)
    with opened(npu, models.add_one(metadata=MEAN_STD)) as context:
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        attr.pass_through = 1
        source = bound.bind(attr, attr.size_with_stride)
        source[:] = padded(values, attr.w_stride).view(np.uint8).ravel()
        bound.run()
        found = get_output(npu, context, np.empty(SHAPE, np.float32))
    expected = (nchw(values).astype(np.float32) + 1).astype(np.float16)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_features_in_channel_blocks(npu: RknnLibrary) -> None:
    values = np.random.default_rng(0).integers(-128, 127, (1, 20, 2, 3)).astype(np.int8)
    with opened(npu, models.quantized((1, 20, 2, 3))) as context:
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        assert attr.fmt == Fmt.NC1HWC2
        mem = npu.rknn_create_mem(context, attr.size)
        assert npu.rknn_set_io_mem(context, mem, ctypes.byref(attr)) == Code.FAIL
        attr.pass_through = 1
        source = bound.bind(attr, attr.size)
        packed = anynpu.nchw_to_nc1hwc2(values, attr.dims[4], attr.dims[1])
        source[:] = packed.view(np.uint8).ravel()
        out = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        raw = bound.bind(out, out.size)
        bound.run()
        # Six pixels take eight: a surface is a multiple of four.
        assert out.dims[:5] == [1, 2, 1, 8, 16]
        blocks = blocks_of_surfaces(raw.view(np.int8).reshape(out.dims[:5]), 2, 3)
        found = anynpu.nc1hwc2_to_nchw(blocks, 20)
    np.testing.assert_array_equal(found, np.maximum(values, -3))


def test_blocks_without_a_channel_stay_as_they_are(npu: RknnLibrary) -> None:
    """Files for RK3588 have room for two blocks at a time; the NPU writes those that it needs."""
    shape = (1, 4, 2, 8)
    values = np.random.default_rng(0).integers(-3, 127, shape).astype(np.int8)
    with opened(npu, models.quantized(shape)) as context:
        bound = Bound(npu, context)
        attr = bound_attribute(npu, context, type=Type.INT8, fmt=Fmt.NHWC)
        rows = padded(values.transpose(0, 2, 3, 1), attr.w_stride)
        bound.bind(attr, attr.size_with_stride)[: rows.size] = rows.ravel().view(np.uint8)
        out = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        assert out.dims[:5] == [1, 2, 2, 8, 16]
        raw = bound.bind(out, out.size)
        raw[:] = 0x55
        bound.run()
        blocks = raw.view(np.int8).reshape(out.dims[:5])
        np.testing.assert_array_equal(anynpu.nc1hwc2_to_nchw(blocks, 4), values)
        assert not blocks[:, 0, ..., 4:].any()
        assert (blocks[:, 1] == 0x55).all()


def test_numbers_that_are_no_image_do_not_pass_through_as_pixels(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, models.quantized((2, 6))) as context:
        attr = bound_attribute(npu, context, fmt=Fmt.NHWC, pass_through=1)
        mem = npu.rknn_create_mem(context, attr.size)
        assert npu.rknn_set_io_mem(context, mem, ctypes.byref(attr)) == Code.FAIL
        attr.fmt = Fmt.UNDEFINED
        assert npu.rknn_set_io_mem(context, mem, ctypes.byref(attr)) == SUCC
    text = "pass_through mode only support channel 1, 2, 3, 4, in NHWC layout"
    assert text in capfd.readouterr().err


NATIVE = {True: Type.INT8, False: Type.FLOAT16}
WRITTEN = {
    (True, Type.FLOAT32): {Fmt.NCHW: "f4 NCHW", Fmt.NHWC: "f4 NHWC", Fmt.NC1HWC2: "f4 NCHW"},
    (True, Type.FLOAT16): {Fmt.NCHW: "f2 NCHW", Fmt.NHWC: "f4 NHWC", Fmt.NC1HWC2: "f2 NCHW"},
    (True, Type.INT8): {Fmt.NCHW: "i1 NCHW", Fmt.NHWC: "i1 NHWC", Fmt.NC1HWC2: "i1 NC1HWC2"},
    (True, Type.UINT8): {Fmt.NCHW: "u1 NCHW", Fmt.NHWC: "u1 NHWC", Fmt.NC1HWC2: "u1 NCHW"},
    (True, Type.INT32): {Fmt.NCHW: "", Fmt.NHWC: "f4 NHWC", Fmt.NC1HWC2: ""},
    (False, Type.FLOAT32): {Fmt.NCHW: "f4 NCHW", Fmt.NHWC: "f4 NHWC", Fmt.NC1HWC2: "f4 NCHW"},
    (False, Type.FLOAT16): {Fmt.NCHW: "f2 NCHW", Fmt.NHWC: "f2 NHWC", Fmt.NC1HWC2: "f2 NC1HWC2"},
    (False, Type.INT8): {Fmt.NCHW: "f4 NCHW", Fmt.NHWC: "f4 NHWC", Fmt.NC1HWC2: "f4 NCHW"},
    (False, Type.UINT8): {Fmt.NCHW: "f4 NCHW", Fmt.NHWC: "f4 NHWC", Fmt.NC1HWC2: "f4 NCHW"},
    (False, Type.INT32): {Fmt.NCHW: "f4 NCHW", Fmt.NHWC: "f4 NHWC", Fmt.NC1HWC2: "f4 NCHW"},
}
"""What the vendor's runtime 1.5.2 writes, of an int8 or a float16 output, for a type and format."""


@pytest.mark.parametrize("kind", [Type.FLOAT32, Type.FLOAT16, Type.INT8, Type.UINT8, Type.INT32])
@pytest.mark.parametrize("fmt", [Fmt.NCHW, Fmt.NHWC, Fmt.NC1HWC2])
@pytest.mark.parametrize("is_quantised", [True, False])
def test_output_types_and_layouts(
    npu: RknnLibrary, kind: Type, fmt: Fmt, is_quantised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (1, 3, 4, 7)
    values = np.random.default_rng(0).integers(-20, 60, shape).astype(np.float32)
    with opened(npu, models.quantized(shape) if is_quantised else models.add_one(shape)) as context:
        real = infer(npu, context, values, values)
        like = np.empty(shape, "i1" if is_quantised else "f2")
        raw = get_output(npu, context, like, want_float=0)
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        blocks = tuple(attr.dims[:5])
        attr.type, attr.fmt = kind, fmt
        memory = bound.bind(attr, 2048)
        memory[:] = 0x55
        bound.run()
        dtype, _, order = WRITTEN[is_quantised, kind][fmt].partition(" ")
        memory = memory.copy()
        monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
        code = npu.rknn_set_io_mem(context, bound.mems[0], ctypes.byref(attr))
    is_as_asked = dtype and np.dtype(dtype) == NUMPY[kind]
    assert code == (SUCC if is_as_asked else Code.PARAM_INVALID)
    if not dtype:
        assert (memory == 0x55).all()
        return
    written = {"NCHW": shape, "NHWC": (1, 4, 7, 3), "NC1HWC2": blocks}[order]
    found = memory[: int(np.prod(written)) * int(dtype[1])].view(dtype).reshape(written)
    if order == "NC1HWC2":
        found = anynpu.nc1hwc2_to_nchw(found, 3)
    elif order == "NHWC":
        found = nchw(found)
    biased = (raw.astype(int) + 128).astype(np.uint8) if is_quantised else raw
    expected = {"i1": raw, "u1": biased, "f2": real.astype(np.float16), "f4": real}[dtype]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("is_quantised", "kind", "channels"),
    [
        (True, Type.INT8, 8),
        (True, Type.FLOAT32, 8),
        (True, Type.UINT8, 5),
        (True, Type.FLOAT16, 5),
        (False, Type.FLOAT16, 8),
        (False, Type.FLOAT32, 8),
        (False, Type.INT8, 5),
    ],
)
def test_pixels_of_whole_channel_blocks_on_rk3566(
    npu: RknnLibrary, is_quantised: bool, kind: Type, channels: int
) -> None:
    """Where the NPU writes NHWC itself; the processor writes the channels that there are."""
    shape = (1, 5, 3, 6)
    values = np.random.default_rng(0).integers(-20, 60, shape).astype(np.float32)
    soc = {"anynpu.soc": "rk3566"}
    make = models.quantized if is_quantised else models.add_one
    with opened(npu, make(shape, metadata=soc)) as context:
        real = infer(npu, context, values, values)
        like = np.empty(shape, np.int8 if is_quantised else np.float16)
        raw = get_output(npu, context, like, want_float=0)
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_NHWC_OUTPUT_ATTR)
        assert attr.dims[:4] == [1, 3, 6, 8]
        attr.type = kind
        memory = bound.bind(attr, 2048)
        memory[:] = 0x55
        bound.run()
        memory = memory.copy()
    is_float32 = channels == 5 and kind is not Type.UINT8
    dtype = np.dtype(np.float32 if is_float32 else NUMPY[kind])
    end = 3 * 6 * channels * dtype.itemsize
    found = memory[:end].view(dtype).reshape(1, 3, 6, channels)
    expected = {Type.INT8: raw, Type.UINT8: raw + np.int16(128)}.get(kind, real)
    np.testing.assert_array_equal(nchw(found[..., :5]), real if is_float32 else expected)
    assert not found[..., 5:].any()
    assert (memory[end:] == 0x55).all()


def test_the_two_ways_agree_on_rows_with_padding(npu: RknnLibrary) -> None:
    """A width that is no multiple of the alignment, in both interfaces."""
    shape = (1, 3, 6, 37)
    pixels = np.random.default_rng(0).integers(0, 255, (1, 6, 37, 3)).astype(np.uint8)
    with opened(npu, models.add_one(shape)) as context:
        general = infer(npu, context, pixels, np.empty(shape, np.float32), fmt=Fmt.NHWC)
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        assert attr.w_stride == 40
        attr.type = Type.UINT8
        source = bound.bind(attr, attr.size_with_stride)
        rows = padded(pixels, attr.w_stride)
        source[: rows.size] = rows.ravel()
        bound.run()
        np.testing.assert_array_equal(get_output(npu, context, general), general)


def test_rows_between_the_pictures_of_a_batch(npu: RknnLibrary) -> None:
    """h_stride: each picture begins a given number of rows after the one before."""
    shape = (2, 3, 4, 16)
    pixels = np.random.default_rng(0).integers(0, 255, (2, 4, 16, 3)).astype(np.uint8)
    with opened(npu, models.quantized(shape)) as context:
        general = infer(npu, context, pixels, np.empty(shape, np.float32), fmt=Fmt.NHWC)
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        attr.type, attr.h_stride = Type.UINT8, 7
        spaced = np.zeros((2, 7, 16, 3), np.uint8)
        spaced[:, :4] = pixels
        source = bound.bind(attr, spaced.nbytes)
        source[:] = spaced.ravel()
        bound.run()
        np.testing.assert_array_equal(get_output(npu, context, general), general)


def test_memory_that_is_too_small(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    """A board refuses too little for an input's numbers; what it doesn't see would be written."""

    def code(attr: abi.TensorAttr, size: int) -> int:
        mem = npu.rknn_create_mem(context, size)
        return npu.rknn_set_io_mem(context, mem, ctypes.byref(attr))

    with opened(npu, models.quantized((1, 80, 4, 5))) as context:
        attr = attribute(npu, context, Query.OUTPUT_ATTR)
        attr.fmt = Fmt.NC1HWC2  # takes more than the general attribute's size
        assert code(attr, attr.size) == Code.PARAM_INVALID
        log = capfd.readouterr().err
        assert "1600 bytes; 1920 are written" in log
        assert "a board would answer this with 0; the run writes past its end" in log
        attr.type, attr.fmt = Type.FLOAT16, Fmt.NHWC
        assert code(attr, 3200) == Code.PARAM_INVALID
        assert "the run writes float32, past the memory's end" in capfd.readouterr().err
        attr = attribute(npu, context, Query.INPUT_ATTR)
        assert code(attr, 1599) == Code.FAIL
        assert "input memory size(1599) < model input size(1600)" in capfd.readouterr().err
        attr.pass_through = 1
        assert code(attr, 1919) == Code.PARAM_INVALID
        assert code(attr, 1920) == SUCC


def test_a_buffer_in_the_middle_of_a_descriptor(npu: RknnLibrary) -> None:
    values = np.arange(60, dtype=np.float32).reshape(SHAPE)
    fd = os.memfd_create("test")
    os.ftruncate(fd, 8192)
    with opened(npu, models.add_one()) as context:
        attr = attribute(npu, context, Query.INPUT_ATTR)
        attr.type = Type.FLOAT32
        pixels = padded(values.transpose(0, 2, 3, 1), attr.w_stride)
        mem = npu.rknn_create_mem_from_fd(context, fd, None, pixels.nbytes, 1000)
        assert npu.rknn_set_io_mem(context, mem, ctypes.byref(attr)) == SUCC
        os.pwrite(fd, pixels.tobytes(), 1000)
        assert npu.rknn_run(context, None) == SUCC
        found = get_output(npu, context, values)
        assert npu.rknn_destroy_mem(context, mem) == SUCC
    os.close(fd)
    np.testing.assert_array_equal(found, values + 1)


def test_a_run_with_destroyed_memory(npu: RknnLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(npu, models.add_one()) as context:
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.INPUT_ATTR)
        bound.bind(attr, attr.size_with_stride)
        out = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        bound.bind(out, out.size)
        bound.run()
        for mem in bound.mems[:2]:
            assert npu.rknn_destroy_mem(context, mem) == SUCC
            assert npu.rknn_run(context, None) == Code.PARAM_INVALID
            assert "somebody else's" in capfd.readouterr().err
        bound.bind(attr, attr.size_with_stride)
        bound.bind(out, out.size)
        bound.run()


def test_the_latest_call_decides_where_an_input_is(npu: RknnLibrary) -> None:
    ones = np.ones(SHAPE, np.float32)
    with opened(npu, models.add_one()) as context:
        bound = Bound(npu, context)
        attr = bound_attribute(npu, context, type=Type.FLOAT32)
        bound.bind(attr, 1000)
        assert (infer(npu, context, ones, ones) == 2).all()
        bound.bind(attr, 1000)
        bound.run()
        assert (get_output(npu, context, ones) == 1).all()


def test_misuse(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        attr = attribute(npu, context, Query.INPUT_ATTR)
        mem = npu.rknn_create_mem(context, 4096)

        def bind(**fields: object) -> int:
            changed = abi.TensorAttr.from_buffer_copy(attr)
            for name, value in fields.items():
                setattr(changed, name, value)
            return npu.rknn_set_io_mem(context, mem, ctypes.byref(changed))

        assert bind() == SUCC
        assert bind(name=b"nothing") == Code.FAIL
        assert bind(name=b"") == Code.FAIL
        for kind in (-1, 4, 10, 11, 12):
            assert bind(type=kind) == Code.FAIL
        assert bind(fmt=9) == Code.PARAM_INVALID
        assert npu.rknn_set_io_mem(context, None, ctypes.byref(attr)) == Code.PARAM_INVALID
        assert npu.rknn_set_io_mem(context, mem, None) == Code.PARAM_INVALID
        assert npu.rknn_set_io_mem(99999, mem, ctypes.byref(attr)) == Code.CTX_INVALID
        assert npu.rknn_destroy_mem(context, mem) == SUCC
        assert bind() == Code.PARAM_INVALID


class TestStrictMode:
    """With ANYNPU_SOFT_STRICT a missing rknn_mem_sync shows."""

    @pytest.fixture(autouse=True)
    def _strict(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")

    FLAGS = abi.InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE | abi.InitFlag.DISABLE_FLUSH_OUTPUT_MEM_CACHE

    def bind(self, npu: RknnLibrary, context: int, flags: abi.MemoryFlag) -> tuple[object, object]:
        mems = []
        for command in (Query.INPUT_ATTR, Query.OUTPUT_ATTR):
            attr = attribute(npu, context, command)
            attr.type = Type.FLOAT32
            mem = npu.rknn_create_mem2(context, max(240, attr.size_with_stride * 2), flags)
            assert npu.rknn_set_io_mem(context, mem, ctypes.byref(attr)) == SUCC
            mems.append(mem)
        return mems[0], mems[1]

    def test_without_flags_the_runtime_does_it(self, npu: RknnLibrary) -> None:
        with opened(npu, models.add_one()) as context:
            source, target = self.bind(npu, context, abi.MemoryFlag.CACHEABLE)
            bytes_of(source).view(np.float32)[:] = 5
            assert npu.rknn_run(context, None) == SUCC
            assert (bytes_of(target).view(np.float32)[:60] == 6).all()

    def test_with_flags_the_program_has_to(self, npu: RknnLibrary) -> None:
        with opened(npu, models.add_one(), self.FLAGS) as context:
            source, target = self.bind(npu, context, abi.MemoryFlag.CACHEABLE)
            bytes_of(source).view(np.float32)[:] = 5
            assert npu.rknn_run(context, None) == SUCC
            assert (bytes_of(target) == 0xA5).all()  # poison: not invalidated
            assert npu.rknn_mem_sync(context, target, abi.SyncMode.FROM_DEVICE) == SUCC
            assert (bytes_of(target).view(np.float32)[:60] == 1).all()  # the 5s were not flushed
            assert npu.rknn_mem_sync(context, source, abi.SyncMode.TO_DEVICE) == SUCC
            assert npu.rknn_run(context, None) == SUCC
            assert npu.rknn_mem_sync(context, target, abi.SyncMode.BIDIRECTIONAL) == SUCC
        # A cache that is written back first carries the poison with it.

    def test_memory_without_a_cache_needs_nothing(self, npu: RknnLibrary) -> None:
        with opened(npu, models.add_one(), self.FLAGS) as context:
            source, target = self.bind(npu, context, abi.MemoryFlag.NON_CACHEABLE)
            bytes_of(source).view(np.float32)[:] = 5
            assert npu.rknn_run(context, None) == SUCC
            assert (bytes_of(target).view(np.float32)[:60] == 6).all()

    def test_internal_memory_is_scratch(self, npu: RknnLibrary) -> None:
        flags = abi.InitFlag.INTERNAL_ALLOC_OUTSIDE
        values = np.ones((1, 3, 16, 16), np.float32)
        with opened(npu, models.deep(), flags) as context:
            size = abi.MemSize()
            assert npu.rknn_query(context, Query.MEM_SIZE, ctypes.byref(size), 64) == SUCC
            mem = npu.rknn_create_mem(context, size.total_internal_size)
            assert npu.rknn_set_internal_mem(context, mem) == SUCC
            infer(npu, context, values, np.empty((1, 4, 16, 16), np.float32))
            assert bytes_of(mem).all()
