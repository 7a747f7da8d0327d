"""Compiled `.rknn` files through the C ABI: what a client that was written for a board sees."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from anynpu.perf import parse_perf_detail
from anynpu.rknn import abi
from anynpu.rknn.abi import CoreMask, InitFlag, Query
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.abi import TensorFormat as Fmt
from anynpu.rknn.abi import TensorType as Type
from anynpu.rknn.library import RknnLibrary

from ...capi import (
    SUCC,
    attribute,
    get_output,
    infer,
    init,
    interleaved,
    opened,
    query,
    set_input,
)
from .test_contexts import init_with
from .test_dynamic_shapes import set_shape, shape_attr
from .test_perf import perf_detail
from .test_zero_copy import Bound

Sample = Callable[[str], Path]


def values(file: Path) -> dict[str, np.ndarray]:
    with np.load(file.with_suffix(".npz")) as archive:
        return dict(archive)


def quantised(attr: abi.TensorAttr, real: np.ndarray) -> np.ndarray:
    whole: np.ndarray = np.clip(np.rint(real / attr.scale) + attr.zp, -128, 127)
    return whole.astype(np.int8)


def shape_of(attr: abi.TensorAttr) -> list[int]:
    return list(attr.dims[: attr.n_dims])


def test_the_attributes_are_those_of_the_file(npu: RknnLibrary, compiled_sample: Sample) -> None:
    file = compiled_sample("rk3588/conv3x3_i8")
    with opened(npu, file.read_bytes()) as context:
        number = abi.InputOutputNum()
        assert query(npu, context, Query.IN_OUT_NUM, number) == SUCC
        assert (number.n_input, number.n_output) == (1, 1)
        general = attribute(npu, context, Query.INPUT_ATTR)
        native = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        assert (general.name, general.fmt, shape_of(general)) == (b"x", Fmt.NHWC, [1, 16, 16, 16])
        assert (native.fmt, shape_of(native)) == (Fmt.NC1HWC2, [1, 1, 16, 16, 16])
        for attr in (general, native):
            assert (attr.type, attr.zp) == (Type.INT8, -6)
            assert attr.qnt_type == abi.QuantizationType.AFFINE_ASYMMETRIC
            assert attr.scale == pytest.approx(0.0330853)
        general = attribute(npu, context, Query.OUTPUT_ATTR)
        native = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        assert (general.name, general.fmt, shape_of(general)) == (b"y", Fmt.NCHW, [1, 32, 16, 16])
        assert (native.fmt, shape_of(native)) == (Fmt.NC1HWC2, [1, 2, 16, 16, 16])
        assert native.size == native.size_with_stride == 8192
        assert general.size_with_stride == 8192


def test_a_picture_is_normalised_as_the_file_says(
    npu: RknnLibrary, compiled_sample: Sample
) -> None:
    file = compiled_sample("rk3588/conv3x3_rgb_i8_ms")
    mean, std = np.array([123, 117, 104.0]), np.array([58, 57, 56.0])
    pixels = np.random.default_rng(0).integers(0, 120, (1, 32, 32, 3), np.uint8)
    like = np.empty((1, 16, 16, 16), np.float32)
    with opened(npu, file.read_bytes()) as context:
        attr = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        assert (attr.fmt, shape_of(attr), attr.w_stride) == (Fmt.NHWC, [1, 32, 32, 3], 32)
        found = infer(npu, context, pixels, like, fmt=Fmt.NHWC)
        # The runtime normalises NHWC only, and leaves the old picture for anything else.
        result = infer(npu, context, pixels * 2, like, fmt=Fmt.NCHW)
        np.testing.assert_array_equal(result, found)
    # What it writes to the first convolution: 15-bit factors, a shift by 13 and offsets.
    factors = np.rint(8192 / (std * attr.scale))
    assert list(factors) == [16470, 16758, 17058]
    steps = np.rint(pixels * factors / 8192) + np.rint(attr.zp - mean / (std * attr.scale))
    ready = np.clip(steps, -128, 127).astype(np.int8)
    with opened(npu, file.read_bytes()) as context:
        result = infer(npu, context, ready, like, fmt=Fmt.NHWC, pass_through=1)
        np.testing.assert_array_equal(result, found)
        floats = infer(npu, context, pixels.astype(np.float32), like, fmt=Fmt.NHWC)
        np.testing.assert_array_equal(floats, found)
    assert found.std() > 0


def test_float_and_quantised_outputs(npu: RknnLibrary, compiled_sample: Sample) -> None:
    file = compiled_sample("rk3588/conv1x1_i8")
    data = values(file)
    with opened(npu, file.read_bytes()) as context:
        attr = attribute(npu, context, Query.OUTPUT_ATTR)
        real = infer(npu, context, data["in0"], np.empty_like(data["sim0"]))
        raw = get_output(npu, context, np.empty(real.shape, np.int8), want_float=0)
    scale = np.float32(attr.scale)
    np.testing.assert_array_equal(raw * scale - np.float32(attr.zp) * scale, real)
    assert np.abs(real - data["sim0"]).max() < 1.5 * attr.scale


@pytest.mark.parametrize("name", ["conv3x3_i8", "conv3x3_fp16"])
def test_native_buffers_give_what_the_general_calls_give(
    npu: RknnLibrary, compiled_sample: Sample, name: str
) -> None:
    file = compiled_sample(f"rk3588/{name}")
    data = values(file)
    with opened(npu, file.read_bytes()) as context:
        expected = infer(npu, context, data["in0"], np.empty_like(data["sim0"]))
        bound = Bound(npu, context)
        source = attribute(npu, context, Query.NATIVE_INPUT_ATTR)
        target = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        source.pass_through = 1
        raw_in = bound.bind(source, source.size_with_stride)
        raw_out = bound.bind(target, target.size_with_stride)
        is_int8 = source.type == Type.INT8
        held = quantised(source, data["in0"]) if is_int8 else data["in0"].astype(np.float16)
        n, c1, h, w, c2 = shape_of(source)
        blocks = held.reshape(n, c1, c2, h, w).transpose(0, 1, 3, 4, 2)
        raw_in[:] = np.ascontiguousarray(blocks).view(np.uint8).ravel()
        bound.run()
        n, c1, h, w, c2 = shape_of(target)
        found = raw_out.view(held.dtype).reshape(n, c1, h, w, c2).transpose(0, 1, 4, 2, 3)
        real = found.reshape(n, c1 * c2, h, w)[:, : expected.shape[1]].astype(np.float32)
        if is_int8:
            scale = np.float32(target.scale)
            real = real * scale - np.float32(target.zp) * scale
    np.testing.assert_array_equal(real, expected)


def test_a_small_chip_takes_native_buffers_only(npu: RknnLibrary, compiled_sample: Sample) -> None:
    file = compiled_sample("rv1106/conv3x3_i8")
    data = values(file)
    with opened(npu, file.read_bytes()) as context:
        assert set_input(npu, context, data["in0"]) == Code.FAIL
        bound = Bound(npu, context)
        source = attribute(npu, context, Query.INPUT_ATTR)
        target = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        assert (source.fmt, shape_of(source)) == (Fmt.NC1HWC2, [1, 1, 16, 16, 16])
        raw_in = bound.bind(source, source.size_with_stride)
        raw_out = bound.bind(target, target.size_with_stride)
        raw_in[:] = quantised(source, data["in0"]).transpose(0, 2, 3, 1).view(np.uint8).ravel()
        bound.run()
        n, c1, h, w, c2 = shape_of(target)
        blocks = raw_out.view(np.int8).reshape(n, c1, h, w, c2).transpose(0, 1, 4, 2, 3)
        found = blocks.reshape(n, c1 * c2, h, w).astype(np.float32)
        real = (found - target.zp) * np.float32(target.scale)
    assert np.abs(real[:, : data["sim0"].shape[1]] - data["sim0"]).max() < 1.5 * target.scale


def test_an_nhwc_output_in_float(npu: RknnLibrary, compiled_sample: Sample) -> None:
    file = compiled_sample("rk3588/conv3x3_i8")
    data = values(file)
    with opened(npu, file.read_bytes()) as context:
        infer(npu, context, data["in0"], np.empty_like(data["sim0"]))
        quantized = get_output(npu, context, np.empty_like(data["sim0"], np.int8), want_float=0)
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.NATIVE_NHWC_OUTPUT_ATTR)
        assert (attr.fmt, shape_of(attr)) == (Fmt.NHWC, [1, 16, 16, 32])
        attr.type = Type.FLOAT32
        raw = bound.bind(attr, 4 * attr.n_elems)
        bound.run()
        found = raw.view(np.float32).reshape(1, 16, 16, 32).transpose(0, 3, 1, 2)
        # This way's own arithmetic, not that of rknn_outputs_get.
        expected = (quantized.astype(np.float32) - attr.zp) * np.float32(attr.scale)
        np.testing.assert_array_equal(found, expected)


def test_one_graph_for_each_set_of_shapes(npu: RknnLibrary, compiled_sample: Sample) -> None:
    file = compiled_sample("rk3588/conv3x3_i8_dyn")
    data = values(compiled_sample("rk3588/conv3x3_i8"))
    with opened(npu, file.read_bytes()) as context:
        info = abi.InputRange(index=0)
        assert query(npu, context, Query.INPUT_DYNAMIC_RANGE, info) == SUCC
        sizes = [list(info.dyn_range[number][:4]) for number in range(info.shape_number)]
        assert sizes == [[1, 32, 32, 16], [1, 24, 24, 16], [1, 16, 16, 16]]
        assert shape_of(attribute(npu, context, Query.INPUT_ATTR)) == sizes[0]
        with opened(npu, compiled_sample("rk3588/conv3x3_i8").read_bytes()) as other:
            expected = infer(npu, other, data["in0"], np.empty_like(data["sim0"]))
        assert set_shape(npu, context, shape_attr((1, 16, 16, 16))) == SUCC
        current = attribute(npu, context, Query.CURRENT_NATIVE_OUTPUT_ATTR)
        assert shape_of(current) == [1, 2, 16, 16, 16]
        found = infer(npu, context, data["in0"], np.empty_like(data["sim0"]))
        np.testing.assert_array_equal(found, expected)
        assert set_shape(npu, context, shape_attr((1, 24, 24, 16))) == SUCC
        large = np.zeros((1, 16, 24, 24), np.float32)
        large[:, :, :16, :16] = data["in0"]
        found = infer(npu, context, large, np.empty((1, 32, 24, 24), np.float32))
        np.testing.assert_array_equal(found[:, :, :15, :15], expected[:, :, :15, :15])
        assert set_shape(npu, context, shape_attr((1, 20, 20, 16))) == Code.FAIL


def test_a_batch_multiplies_the_first_axis(
    npu: RknnLibrary, compiled_sample: Sample, capfd: pytest.CaptureFixture[str]
) -> None:
    file = compiled_sample("rk3588/conv3x3_i8_b4")
    data = values(compiled_sample("rk3588/conv3x3_i8"))
    samples = np.concatenate([data["in0"] * factor for factor in (1, 0.5, -1, 0)])
    with opened(npu, compiled_sample("rk3588/conv3x3_i8").read_bytes()) as single:
        like = np.empty_like(data["sim0"])
        expected = [infer(npu, single, samples[n : n + 1].copy(), like) for n in range(4)]
    with opened(npu, file.read_bytes()) as context:
        assert shape_of(attribute(npu, context, Query.INPUT_ATTR)) == [4, 16, 16, 16]
        native = attribute(npu, context, Query.NATIVE_OUTPUT_ATTR)
        assert shape_of(native) == [4, 2, 16, 16, 16]
        assert npu.rknn_set_batch_core_num(context, 3) == SUCC
        assert set_input(npu, context, samples) == Code.FAIL
        assert "only support input channel in [1,3,4] when batch_size > 1" in capfd.readouterr().err
        bound = Bound(npu, context)
        attr = attribute(npu, context, Query.INPUT_ATTR)
        attr.type = Type.FLOAT32
        bound.bind(attr, samples.nbytes).view(np.float32)[:] = interleaved(samples).ravel()
        bound.run()
        found = get_output(npu, context, np.empty((4, 32, 16, 16), np.float32))
    np.testing.assert_array_equal(found, np.concatenate(expected))


def test_removed_weights_come_from_a_partner(
    npu: RknnLibrary, compiled_sample: Sample, capfd: pytest.CaptureFixture[str]
) -> None:
    stripped = compiled_sample("rk3588/conv3x3_i8_rw").read_bytes()
    whole = compiled_sample("rk3588/conv3x3_i8")
    data = values(whole)
    like = np.empty_like(data["sim0"])
    assert init(npu, stripped)[0] == Code.MODEL_INVALID
    assert "RKNN_FLAG_SHARE_WEIGHT_MEM" in capfd.readouterr().err
    with opened(npu, whole.read_bytes()) as donor:
        code, context = init_with(npu, stripped, InitFlag.SHARE_WEIGHT_MEM, ctx=donor)
        assert code == SUCC
        expected = infer(npu, donor, data["in0"], like)
    np.testing.assert_array_equal(infer(npu, context, data["in0"], like), expected)
    assert npu.rknn_destroy(context) == SUCC


def test_a_second_context_for_the_same_model(npu: RknnLibrary, compiled_sample: Sample) -> None:
    file = compiled_sample("rk3588/conv1x1_i8")
    data = values(file)
    like = np.empty_like(data["sim0"])
    with opened(npu, file.read_bytes()) as context:
        expected = infer(npu, context, data["in0"], like)
        handle, other = abi.Handle(context), abi.Handle()
        assert npu.rknn_dup_context(ctypes.byref(handle), ctypes.byref(other)) == SUCC
        infer(npu, other.value, np.zeros_like(data["in0"]), like)
        np.testing.assert_array_equal(get_output(npu, context, like), expected)
        np.testing.assert_array_equal(infer(npu, other.value, data["in0"], like), expected)
        assert npu.rknn_destroy(other.value) == SUCC


@pytest.mark.parametrize("mask", [CoreMask.CORE_1, CoreMask.CORE_0_1, CoreMask.CORE_0_1_2])
def test_cores_do_not_change_a_result(
    npu: RknnLibrary, compiled_sample: Sample, mask: CoreMask
) -> None:
    file = compiled_sample("rk3588/smallcnn_i8")
    data = values(file)
    like = np.empty_like(data["sim0"])
    with opened(npu, file.read_bytes()) as context:
        expected = infer(npu, context, data["in0"], like)
        assert npu.rknn_set_core_mask(context, mask) == SUCC
        np.testing.assert_array_equal(infer(npu, context, data["in0"], like), expected)


def test_contexts_of_one_model_run_at_the_same_time(
    npu: RknnLibrary, compiled_sample: Sample
) -> None:
    file = compiled_sample("rk3588/smallcnn_i8")
    data = values(file)
    inputs = [data["in0"] * np.float32(factor) for factor in (1, -1, 0.5, 0)]
    like = np.empty_like(data["sim0"])
    with opened(npu, file.read_bytes()) as context:
        expected = [infer(npu, context, given, like) for given in inputs]
        others = [abi.Handle() for _ in inputs]
        for other in others:
            assert (
                npu.rknn_dup_context(ctypes.byref(abi.Handle(context)), ctypes.byref(other)) == SUCC
            )

        def work(number: int) -> bool:
            handle = others[number].value
            return all(
                np.array_equal(infer(npu, handle, inputs[number], like), expected[number])
                for _ in range(10)
            )

        with ThreadPoolExecutor() as pool:
            assert all(pool.map(work, range(len(inputs))))
        for other in others:
            assert npu.rknn_destroy(other.value) == SUCC


def test_the_custom_string(npu: RknnLibrary, compiled_sample: Sample) -> None:
    for name, expected in (("conv3x3_i8_cs", b'hello-npu {"k":1}'), ("conv3x3_i8", b"")):
        with opened(npu, compiled_sample(f"rk3588/{name}").read_bytes()) as context:
            info = abi.CustomString()
            assert query(npu, context, Query.CUSTOM_STRING, info) == SUCC
            assert info.string == expected


def test_memory_that_the_client_allocates_has_the_sizes_of_the_file(
    npu: RknnLibrary, compiled_sample: Sample
) -> None:
    file = compiled_sample("rk3588/conv3x3_i8")
    data = values(file)
    with opened(npu, file.read_bytes(), InitFlag.MEM_ALLOC_OUTSIDE) as context:
        sizes = abi.MemSize()
        assert query(npu, context, Query.MEM_SIZE, sizes) == SUCC
        assert (sizes.total_weight_size, sizes.total_internal_size) == (6912, 12288)
        small = npu.rknn_create_mem(context, 6911)
        assert npu.rknn_set_weight_mem(context, small) == Code.PARAM_INVALID
        weights = npu.rknn_create_mem(context, sizes.total_weight_size)
        internal = npu.rknn_create_mem(context, sizes.total_internal_size)
        assert npu.rknn_set_weight_mem(context, weights) == SUCC
        assert npu.rknn_set_internal_mem(context, internal) == SUCC
        infer(npu, context, data["in0"], np.empty_like(data["sim0"]))


@pytest.mark.parametrize("clock", ["host", "model"])
def test_each_node_has_a_row_of_times(
    npu: RknnLibrary,
    compiled_sample: Sample,
    clock: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", clock)
    file = compiled_sample("rk3588/op_gemm_i8")
    data = values(file)
    with opened(npu, file.read_bytes(), InitFlag.COLLECT_PERF_MASK) as context:
        infer(npu, context, data["in0"], np.empty_like(data["sim0"]))
        table = parse_perf_detail(perf_detail(npu, context))
    kinds = [(row.op_type, row.target) for row in table]
    assert kinds[0] == ("InputOperator", "CPU")
    assert kinds[-2:] == [("Reshape", "CPU"), ("OutputOperator", "CPU")]
    assert any(op_type.startswith("Conv") and target == "NPU" for op_type, target in kinds)


def test_a_file_for_another_chip_is_refused(
    npu: RknnLibrary, compiled_sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = compiled_sample("rk3588/conv1x1_i8").read_bytes()
    monkeypatch.setenv("ANYNPU_SOC", "rk3576")
    assert init(npu, model)[0] == Code.TARGET_PLATFORM_UNMATCH
    monkeypatch.setenv("ANYNPU_SOC", "rk3588s")
    with opened(npu, model):
        pass


def test_rk3566_and_rk3568_run_the_same_files(
    npu: RknnLibrary, compiled_sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = compiled_sample("rk3566/transpose_i8").read_bytes()
    monkeypatch.setenv("ANYNPU_SOC", "rk3568")
    with opened(npu, model):
        pass
    monkeypatch.setenv("ANYNPU_SOC", "rk3562")
    assert init(npu, model)[0] == Code.TARGET_PLATFORM_UNMATCH


def test_damaged_files_are_refused(npu: RknnLibrary, compiled_sample: Sample) -> None:
    model = compiled_sample("rk3588/conv1x1_i8").read_bytes()
    for length in (0, 8, 72, 500, len(model) // 2, len(model) - 1):
        assert init(npu, model[:length] or b"\0")[0] == Code.MODEL_INVALID
    assert init(npu, b"CYPTRKNN" + model[8:])[0] == Code.MODEL_INVALID
