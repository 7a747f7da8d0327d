"""rknn_set_io_mem: inputs and outputs in the caller's buffers, in every layout and type."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest

import anynpu
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


@pytest.mark.parametrize("kind", [Type.FLOAT32, Type.FLOAT16, Type.UINT8, Type.INT16, Type.INT32])
@pytest.mark.parametrize("fmt", [Fmt.NHWC, Fmt.NCHW])
def test_input_types_and_layouts(npu: RknnLibrary, kind: Type, fmt: Fmt) -> None:
    pixels = np.random.default_rng(0).integers(0, 100, (1, 4, 5, 3)).astype(NUMPY[kind])
    with opened(npu, models.quantized()) as context:
        reference = infer(npu, context, np.ascontiguousarray(nchw(pixels)), np.empty(SHAPE, "f4"))
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.INPUT_ATTR)
        attr.type, attr.fmt = kind, fmt
        values = padded(pixels, attr.w_stride) if fmt == Fmt.NHWC else nchw(pixels)
        source = bound.bind(attr, values.nbytes)
        source[:] = np.ascontiguousarray(values).view(np.uint8).ravel()
        bound.run()
        np.testing.assert_array_equal(get_output(npu, context, reference), reference)


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
        source = bound.bind(attr, attr.size)
        packed = anynpu.nchw_to_nc1hwc2(values, attr.dims[4], attr.dims[1])
        source[:] = packed.view(np.uint8).ravel()
        out = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        raw = bound.bind(out, out.size)
        bound.run()
        found = anynpu.nc1hwc2_to_nchw(raw.view(np.int8).reshape(out.dims[:5]), 20)
    np.testing.assert_array_equal(found, np.maximum(values, -3))


@pytest.mark.parametrize("kind", [Type.FLOAT32, Type.FLOAT16, Type.INT8, Type.UINT8, Type.INT32])
@pytest.mark.parametrize("fmt", [Fmt.NCHW, Fmt.NHWC, Fmt.NC1HWC2])
@pytest.mark.parametrize("is_quantised", [True, False])
def test_output_types_and_layouts(
    npu: RknnLibrary, kind: Type, fmt: Fmt, is_quantised: bool
) -> None:
    values = np.random.default_rng(0).integers(-20, 60, SHAPE).astype(np.float32)
    with opened(npu, models.quantized() if is_quantised else models.add_one()) as context:
        real = infer(npu, context, values, values)
        raw = get_output(
            npu, context, np.empty(SHAPE, "i1" if is_quantised else "f2"), want_float=0
        )
        native = Type.INT8 if is_quantised else Type.FLOAT16
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        shape = {
            Fmt.NCHW: SHAPE, Fmt.NHWC: (1, 4, 5, 3), Fmt.NC1HWC2: tuple(attr.dims[:5]),
        }[fmt]  # fmt: skip
        attr.type, attr.fmt = kind, fmt
        dtype = np.dtype(NUMPY[kind])
        memory = bound.bind(attr, int(np.prod(shape)) * dtype.itemsize)
        bound.run()
        found = memory.view(dtype).reshape(shape).copy()
    if fmt == Fmt.NC1HWC2:
        found = anynpu.nc1hwc2_to_nchw(found, 3)
    elif fmt == Fmt.NHWC:
        found = nchw(found)
    expected = raw if kind == native else np.clip(real, *limits(dtype)).astype(dtype)
    np.testing.assert_array_equal(found, expected)


def limits(dtype: np.dtype) -> tuple[float, float]:
    return (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


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
    """h_stride: each picture begins so many rows after the one before."""
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
    with opened(npu, models.quantized((1, 80, 4, 5))) as context:
        attr = attribute(npu, context, Query.OUTPUT_ATTR)
        mem = npu.rknn_create_mem(context, attr.size)
        attr.fmt = Fmt.NC1HWC2  # takes more than the general attribute's size
        code = npu.rknn_set_io_mem(context, mem, ctypes.byref(attr))
    assert code == Code.PARAM_INVALID
    log = capfd.readouterr().err
    assert "1600 bytes" in log
    assert "1920 are needed" in log


def test_a_buffer_in_the_middle_of_a_descriptor(npu: RknnLibrary) -> None:
    values = np.arange(60, dtype=np.float32).reshape(SHAPE)
    fd = os.memfd_create("test")
    os.ftruncate(fd, 8192)
    with opened(npu, models.add_one()) as context:
        attr = attribute(npu, context, Query.INPUT_ATTR)
        attr.type, attr.fmt = Type.FLOAT32, Fmt.NCHW
        mem = npu.rknn_create_mem_from_fd(context, fd, None, 240, 1000)
        assert npu.rknn_set_io_mem(context, mem, ctypes.byref(attr)) == SUCC
        os.pwrite(fd, values.tobytes(), 1000)
        assert npu.rknn_run(context, None) == SUCC
        found = get_output(npu, context, values)
        assert npu.rknn_destroy_mem(context, mem) == SUCC
    os.close(fd)
    np.testing.assert_array_equal(found, values + 1)


def test_destroyed_memory_is_no_longer_used(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one()) as context:
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        bound.bind(attr, attr.size_with_stride)
        out = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        bound.bind(out, out.size)
        bound.run()
        assert npu.rknn_destroy_mem(context, bound.mems[1]) == SUCC
        bound.run()
        assert npu.rknn_destroy_mem(context, bound.mems[0]) == SUCC
        assert npu.rknn_run(context, None) == Code.INPUT_INVALID


def test_the_latest_call_decides_where_an_input_is(npu: RknnLibrary) -> None:
    ones = np.ones(SHAPE, np.float32)
    with opened(npu, models.add_one()) as context:
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.INPUT_ATTR)
        attr.type, attr.fmt = Type.FLOAT32, Fmt.NCHW
        bound.bind(attr, 240)
        assert (infer(npu, context, ones, ones) == 2).all()
        bound.bind(attr, 240)
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
        assert bind(name=b"nothing") == Code.PARAM_INVALID
        assert bind(name=b"") == Code.PARAM_INVALID
        for kind in (-1, 10, 11, 12):
            assert bind(type=kind) == Code.PARAM_INVALID
        assert bind(fmt=9) == Code.PARAM_INVALID
        assert bind(type=Type.UINT8, pass_through=1) == Code.PARAM_INVALID
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
            attr.type, attr.fmt = Type.FLOAT32, Fmt.NCHW
            mem = npu.rknn_create_mem2(context, 240, flags)
            assert npu.rknn_set_io_mem(context, mem, ctypes.byref(attr)) == SUCC
            mems.append(mem)
        return mems[0], mems[1]

    def test_without_flags_the_runtime_does_it(self, npu: RknnLibrary) -> None:
        with opened(npu, models.add_one()) as context:
            source, target = self.bind(npu, context, abi.MemoryFlag.CACHEABLE)
            bytes_of(source).view(np.float32)[:] = 5
            assert npu.rknn_run(context, None) == SUCC
            assert (bytes_of(target).view(np.float32) == 6).all()

    def test_with_flags_the_program_has_to(self, npu: RknnLibrary) -> None:
        with opened(npu, models.add_one(), self.FLAGS) as context:
            source, target = self.bind(npu, context, abi.MemoryFlag.CACHEABLE)
            bytes_of(source).view(np.float32)[:] = 5
            assert npu.rknn_run(context, None) == SUCC
            assert (bytes_of(target) == 0xA5).all()  # poison: not invalidated
            assert npu.rknn_mem_sync(context, target, abi.SyncMode.FROM_DEVICE) == SUCC
            assert (bytes_of(target).view(np.float32) == 1).all()  # the 5s were not flushed
            assert npu.rknn_mem_sync(context, source, abi.SyncMode.TO_DEVICE) == SUCC
            assert npu.rknn_run(context, None) == SUCC
            assert npu.rknn_mem_sync(context, target, abi.SyncMode.BIDIRECTIONAL) == SUCC
        # A cache that is written back first carries the poison with it.

    def test_memory_without_a_cache_needs_nothing(self, npu: RknnLibrary) -> None:
        with opened(npu, models.add_one(), self.FLAGS) as context:
            source, target = self.bind(npu, context, abi.MemoryFlag.NON_CACHEABLE)
            bytes_of(source).view(np.float32)[:] = 5
            assert npu.rknn_run(context, None) == SUCC
            assert (bytes_of(target).view(np.float32) == 6).all()

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
