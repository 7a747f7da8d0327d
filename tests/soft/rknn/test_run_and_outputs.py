"""rknn_run, rknn_set_core_mask, rknn_outputs_get, rknn_outputs_release."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from anynpu.rknn import abi
from anynpu.rknn.abi import CoreMask as Mask
from anynpu.rknn.abi import ErrorCode as Code
from anynpu.rknn.library import RknnLibrary
from anynpu.soft.device_memory import STRICT_VARIABLE

from ... import models
from ...capi import SUCC, attribute, get_output, infer, init, opened, set_input, set_inputs

SHAPE = (1, 3, 4, 5)


def test_a_convolution_is_what_onnx_runtime_computes(npu: RknnLibrary) -> None:
    model = models.convolution()
    values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
    halves = values.astype(np.float16).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(model).run(None, {"x": halves})
    with opened(npu, model) as context:
        result = infer(npu, context, values, expected)
    np.testing.assert_array_equal(result, expected.astype(np.float16).astype(np.float32))


def test_float_outputs_are_rounded_to_float16(npu: RknnLibrary) -> None:
    with opened(npu, models.add_one((1, 4))) as context:
        values = np.array([[2047.5, 2048.0, 1e-4, 65504]], np.float32)
        result = infer(npu, context, values, values)
        halves = get_output(npu, context, np.empty((1, 4), np.float16), want_float=0)
    exact = values.astype(np.float16).astype(np.float32) + 1
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(halves, exact.astype(np.float16))
    np.testing.assert_array_equal(result, halves.astype(np.float32))


def test_quantised_outputs_raw_and_as_float(npu: RknnLibrary) -> None:
    values = np.linspace(-10, 10, 60, dtype=np.float32).reshape(SHAPE)
    for dtype, zero_point in ((np.int8, -3), (np.uint8, 125)):
        with opened(npu, models.quantized(dtype=dtype, zero_point=zero_point)) as context:
            real = infer(npu, context, values, values)
            raw = get_output(npu, context, np.empty(SHAPE, np.int8), want_float=0)
        np.testing.assert_array_equal(real, (raw.astype(np.float32) + 3) * np.float32(0.5))
        assert raw.min() == -3


def test_a_tensor_that_is_both_dequantised_and_used_further(npu: RknnLibrary) -> None:
    model = onnx.load_from_string(models.quantized((1, 4)))
    model.graph.node.append(helper.make_node("Neg", ["y"], ["z"]))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (1, 4)))
    values = np.array([[-5, 1, 2, 100]], np.float32)
    with opened(npu, model.SerializeToString()) as context:
        y = infer(npu, context, values, values)
        z = get_output(npu, context, values, index=1)
    # 100 is 197 steps, which wrap around in other than four dimensions.
    np.testing.assert_array_equal(y, [[0, 1, 2, 0]])
    np.testing.assert_array_equal(z, -y)


def test_an_input_with_another_consumer_is_not_quantised(npu: RknnLibrary) -> None:
    model = onnx.load_from_string(models.quantized((1, 4)))
    model.graph.node.append(helper.make_node("Neg", ["x"], ["z"]))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (1, 4)))
    values = np.array([[-5, 1.1, 2, 100]], np.float32)
    with opened(npu, model.SerializeToString()) as context:
        attr = abi.TensorAttr()
        npu.rknn_query(context, abi.Query.INPUT_ATTR, ctypes.byref(attr), ctypes.sizeof(attr))
        assert attr.type == abi.TensorType.FLOAT16
        infer(npu, context, values, values)
        z = get_output(npu, context, values, index=1)
    np.testing.assert_array_equal(z, -values.astype(np.float16).astype(np.float32))


def test_the_runtime_allocates_and_frees_outputs(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(npu, models.add_one()) as context:
        assert set_input(npu, context, np.ones(SHAPE, np.float32)) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        output = abi.Output(want_float=1, buf=0x1234)
        assert npu.rknn_outputs_get(context, 1, ctypes.byref(output), None) == SUCC
        assert output.size == 240
        values = np.frombuffer(ctypes.string_at(output.buf, output.size), np.float32)
        assert (values == 2).all()
        assert npu.rknn_outputs_release(context, 1, ctypes.byref(output)) == SUCC
        assert output.buf, "the pointer stays, and leads nowhere"
        capfd.readouterr()
        code = npu.rknn_outputs_release(context, 1, ctypes.byref(output))
        assert code == Code.OUTPUT_INVALID
        assert "a board would answer this with abort" in capfd.readouterr().err


def test_outputs_live_until_they_are_released(
    npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their context may be gone by then."""
    outputs = []
    for number in range(3):
        code, context = init(npu, models.add_one())
        assert code == SUCC
        assert set_input(npu, context, np.full(SHAPE, number, np.float32)) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        outputs.append(abi.Output(want_float=1))
        assert npu.rknn_outputs_get(context, 1, ctypes.byref(outputs[-1]), None) == SUCC
        assert npu.rknn_destroy(context) == SUCC
    for number, output in enumerate(outputs):
        assert _values(output) == [number + 1] * 60
    release = npu.rknn_outputs_release
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    assert release(context, 1, ctypes.byref(outputs[0])) == Code.CTX_INVALID
    monkeypatch.delenv(STRICT_VARIABLE)
    assert release(context, 1, ctypes.byref(outputs[0])) == SUCC
    assert release(context, 1, ctypes.byref(outputs[0])) == Code.OUTPUT_INVALID
    with opened(npu, models.add_one()) as another:
        assert release(another, 1, ctypes.byref(outputs[1])) == SUCC
    assert release(12345, 1, ctypes.byref(outputs[2])) == SUCC
    assert release(0, 1, ctypes.byref(outputs[2])) == Code.CTX_INVALID


def test_an_array_of_outputs_that_was_only_cleared(npu: RknnLibrary) -> None:
    """Its entries are for the outputs in their order, and get their indices."""
    with opened(npu, models.two_outputs()) as context:
        assert set_input(npu, context, np.array([[1, 2]], np.float32)) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        outputs = (abi.Output * 2)()
        for output in outputs:
            output.want_float = 1
        assert npu.rknn_outputs_get(context, 2, outputs, None) == SUCC
        assert [output.index for output in outputs] == [0, 1]
        assert _values(outputs[0]) == [-1, -2]
        assert _values(outputs[1]) == [1, 2]
        assert npu.rknn_outputs_release(context, 2, outputs) == SUCC


def test_the_place_in_the_array_counts(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices aren't looked at; they are written."""
    with opened(npu, models.two_outputs()) as context:
        assert set_input(npu, context, np.array([[1, 2]], np.float32)) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        for indices in ((1, 0), (1, 1), (99, 2**32 - 1)):
            outputs = (abi.Output * 2)(*(abi.Output(want_float=1, index=i) for i in indices))
            assert npu.rknn_outputs_get(context, 2, outputs, None) == SUCC
            assert [output.index for output in outputs] == [0, 1]
            assert [_values(output)[0] for output in outputs] == [-1, 1]
            assert npu.rknn_outputs_release(context, 2, outputs) == SUCC
        one = abi.Output(want_float=1, index=1)
        assert npu.rknn_outputs_get(context, 1, ctypes.byref(one), None) == SUCC
        assert (one.index, _values(one)) == (0, [-1, -2])
        assert npu.rknn_outputs_release(context, 1, ctypes.byref(one)) == SUCC
        monkeypatch.setenv(STRICT_VARIABLE, "1")
        outputs = (abi.Output * 2)(abi.Output(index=1), abi.Output(index=0))
        assert npu.rknn_outputs_get(context, 2, outputs, None) == Code.OUTPUT_INVALID
        assert npu.rknn_outputs_get(context, 1, outputs, None) == Code.OUTPUT_INVALID


def _values(output: abi.Output) -> list[float]:
    return list(np.frombuffer(ctypes.string_at(output.buf, output.size), np.float32))


def test_releasing_what_the_runtime_did_not_allocate(npu: RknnLibrary) -> None:
    mine = np.zeros(60, np.float32)
    with opened(npu, models.add_one()) as context:
        output = abi.Output(is_prealloc=1, buf=mine.ctypes.data, size=mine.nbytes)
        assert npu.rknn_outputs_release(context, 1, ctypes.byref(output)) == SUCC
        assert output.buf == mine.ctypes.data
        output.is_prealloc = 0
        assert npu.rknn_outputs_release(context, 1, ctypes.byref(output)) == Code.OUTPUT_INVALID


def test_the_order_of_calls(npu: RknnLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board lets outputs be had before a run, and run before inputs: they are zeros."""
    zeros = np.zeros((2, 3), np.float32)
    with opened(npu, models.two_inputs()) as context:
        assert (get_output(npu, context, zeros) == 0).all()
        assert npu.rknn_run(context, None) == SUCC
        assert set_inputs(npu, context, zeros + 1) == SUCC
        assert npu.rknn_run(context, None) == SUCC
        assert (get_output(npu, context, zeros) == 1).all()
    monkeypatch.setenv(STRICT_VARIABLE, "1")
    with opened(npu, models.two_inputs()) as context:
        outputs = (abi.Output * 2)()
        assert npu.rknn_outputs_get(context, 2, outputs, None) == Code.OUTPUT_INVALID
        assert npu.rknn_run(context, None) == Code.INPUT_INVALID
        assert set_inputs(npu, context, zeros) == Code.INPUT_INVALID
        assert set_inputs(npu, context, zeros, zeros) == SUCC
        assert npu.rknn_run(context, None) == SUCC


def test_a_buffer_that_is_too_small_stays_as_it_is(
    npu: RknnLibrary, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.full(SHAPE, 5, np.float32)
    with opened(npu, models.add_one()) as context:
        infer(npu, context, values, values)
        for buf, size in ((values.ctypes.data, 239), (values.ctypes.data, 0), (None, 240)):
            output = abi.Output(is_prealloc=1, want_float=1, buf=buf, size=size)
            assert npu.rknn_outputs_get(context, 1, output, None) == SUCC
            assert output.size == size
            assert "output[0] buf size error" in capfd.readouterr().err
            with monkeypatch.context() as patch:
                patch.setenv(STRICT_VARIABLE, "1")
                assert npu.rknn_outputs_get(context, 1, output, None) == Code.OUTPUT_INVALID
        assert (values == 5).all()
        larger = np.zeros(100, np.float32)
        output = abi.Output(is_prealloc=1, want_float=1, buf=larger.ctypes.data, size=400)
        assert npu.rknn_outputs_get(context, 1, output, None) == SUCC
        assert output.size == 400, "the caller's size stays"
        assert (larger[:60] == 6).all()
        assert (larger[60:] == 0).all()


def test_misuse_of_outputs(npu: RknnLibrary) -> None:
    values = np.zeros(SHAPE, np.float32)
    with opened(npu, models.add_one()) as context:
        infer(npu, context, values, values)
        assert npu.rknn_outputs_get(context, 1, None, None) == Code.PARAM_INVALID
        assert npu.rknn_outputs_release(context, 1, None) == Code.PARAM_INVALID
        for count in (2, 2**32 - 1):
            output = abi.Output()
            assert npu.rknn_outputs_get(context, count, output, None) == Code.PARAM_INVALID
            assert npu.rknn_outputs_release(context, count, output) == Code.PARAM_INVALID
        assert npu.rknn_outputs_get(context, 0, abi.Output(), None) == SUCC
        assert npu.rknn_outputs_release(context, 0, abi.Output()) == SUCC
        output = abi.Output(is_prealloc=1, want_float=0, buf=values.ctypes.data, size=120)
        assert npu.rknn_outputs_get(context, 1, output, None) == SUCC


def test_a_run_that_fails_leaves_the_context_usable(npu: RknnLibrary) -> None:
    """Gather with an index out of range fails inside ONNX Runtime."""
    model = models.save(
        [helper.make_node("Gather", ["table", "i"], ["y"])],
        [("i", TensorProto.INT64, (1,))],
        [("y", TensorProto.FLOAT, (1,))],
        {"table": np.array([10, 20, 30], np.float32)},
    )
    like = np.empty(1, np.float32)
    with opened(npu, model) as context:
        assert set_input(npu, context, np.array([7], np.int64), fmt=3) == SUCC
        assert npu.rknn_run(context, None) == Code.FAIL
        assert infer(npu, context, np.array([2], np.int64), like, fmt=3) == [30]


@pytest.mark.parametrize(
    ("soc", "accepted"),
    [
        ("rk3588", [Mask.AUTO, 1, 2, 4, Mask.CORE_0_1, Mask.CORE_0_1_2, Mask.ALL]),
        ("rk3576", [Mask.AUTO, 1, 2, Mask.CORE_0_1, Mask.ALL]),
    ],
)
def test_masks_of_chips_with_several_cores(npu: RknnLibrary, soc: str, accepted: list[int]) -> None:
    values = np.ones(SHAPE, np.float32)
    with opened(npu, models.add_one(metadata={"anynpu.soc": soc})) as context:
        for mask in [*range(9), 0xFFFF, 0x10000, -1]:
            expected = SUCC if mask in accepted else Code.FAIL
            assert npu.rknn_set_core_mask(context, mask) == expected, mask
            assert (infer(npu, context, values, values) == 2).all()


@pytest.mark.parametrize("soc", ["rk3562", "rk3566", "rk3568"])
def test_chips_with_one_core_have_no_masks(npu: RknnLibrary, soc: str) -> None:
    with opened(npu, models.add_one(metadata={"anynpu.soc": soc})) as context:
        for mask in (0, 1, 7):
            assert npu.rknn_set_core_mask(context, mask) == Code.TARGET_PLATFORM_UNMATCH


def test_two_threads_on_one_context_take_turns(npu: RknnLibrary) -> None:
    codes: list[int] = []

    def work(number: int) -> None:
        values = np.full(SHAPE, number, np.float32)
        for _ in range(50):
            codes.append(set_input(npu, context, values))
            codes.append(npu.rknn_run(context, None))
            result = get_output(npu, context, values)
            assert len(np.unique(result)) == 1

    with opened(npu, models.add_one()) as context:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert codes == [SUCC] * 200


def test_results_of_threads_with_their_own_contexts_do_not_mix(npu: RknnLibrary) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        values = np.full(SHAPE, number, np.float32)
        with opened(npu, models.add_one()) as context:
            for _ in range(30):
                if not (infer(npu, context, values, values) == number + 1).all():
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_destroying_a_context_that_another_thread_uses(npu: RknnLibrary) -> None:
    for _ in range(10):
        with opened(npu, models.add_one()):  # keeps the model's kind warm
            pass
        context = abi.Handle()
        model = models.convolution(size=64, filters=32)
        assert npu.rknn_init(ctypes.byref(context), model, len(model), 0, None) == SUCC
        values = np.zeros((1, 3, 64, 64), np.float32)
        assert set_input(npu, context.value, values) == SUCC
        codes: list[int] = []

        def work(handle: int = context.value, codes: list[int] = codes) -> None:
            while not codes or codes[-1] == SUCC:
                codes.append(npu.rknn_run(handle, None))

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.005)
        assert npu.rknn_destroy(context.value) == SUCC
        thread.join(10)
        assert codes[-1] == Code.CTX_INVALID


def real_values(
    npu: RknnLibrary, chip: str, shape: tuple[int, int, int, int], scale: float
) -> tuple[np.ndarray, np.ndarray, np.float32, np.float32]:
    """An output as real values, its numbers as (N, C, pixels), scale and zero point."""
    values = np.random.default_rng(0).integers(-3, 127, shape).astype(np.int8)
    model = models.quantized(shape, scale=scale, metadata={"anynpu.soc": chip})
    with opened(npu, model) as context:
        attr = attribute(npu, context, abi.Query.OUTPUT_ATTR)
        pixels = np.ascontiguousarray(values.transpose(0, 2, 3, 1))
        out = infer(npu, context, pixels, np.empty(shape, np.float32), fmt=abi.TensorFormat.NHWC)
    numbers = values.astype(np.float32).reshape(*shape[:2], -1)
    return out.reshape(numbers.shape), numbers, np.float32(attr.scale), np.float32(attr.zp)


@pytest.mark.parametrize(
    ("chip", "shape", "channels", "pixels"),
    [
        ("rk3588", (1, 20, 4, 8), 16, 32),
        ("rk3588", (1, 32, 13, 13), 32, 168),
        ("rk3588", (1, 32, 1, 1), 32, 0),
        ("rk3566", (1, 20, 10, 14), 16, 136),
        ("rk3566", (1, 16, 1, 1), 16, 0),
    ],
)
def test_real_values_of_whole_blocks_are_rounded_otherwise(
    npu: RknnLibrary, chip: str, shape: tuple[int, int, int, int], channels: int, pixels: int
) -> None:
    """As the vendor's runtime does it: of whole channel blocks and whole groups of 64 bytes."""
    out, numbers, scale, zero_point = real_values(npu, chip, shape, 0.0353)
    expected = (numbers - zero_point) * scale
    expected[:, :channels, :pixels] = (numbers * scale - zero_point * scale)[:, :channels, :pixels]
    np.testing.assert_array_equal(out, expected)
    if pixels:
        assert (expected != (numbers - zero_point) * scale).any()


def test_rk3566_multiplies_by_a_scale_in_float16(npu: RknnLibrary) -> None:
    """Its NPU writes the real values of feature maps of whole groups."""
    out, numbers, scale, zero_point = real_values(npu, "rk3566", (1, 20, 8, 8), 0.0353)
    held = np.float32(np.float16(scale))
    assert held != scale
    np.testing.assert_array_equal(out, (numbers - zero_point) * held)
