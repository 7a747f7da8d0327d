"""Inputs and outputs in memory that the device reads and writes by itself."""

from __future__ import annotations

import gc
import mmap
import os
import weakref
from typing import Any

import numpy as np
import onnxruntime
import pytest

import anynpu
from anynpu import InferenceSession, OrtValue

from .. import models

SHAPE = (1, 3, 4, 5)
NHWC = (1, 4, 5, 3)
VALUES = np.random.default_rng(5).integers(0, 100, SHAPE).astype(np.float32)


def nhwc(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values.transpose(0, 2, 3, 1))


def on_device(session: InferenceSession, kind: Any, name: str, **more: Any) -> OrtValue:
    return OrtValue.ortvalue_from_shape_and_type(
        None, more.pop("dtype", None), "rknpu2", name=name, session=session, io_kind=kind, **more
    )


def test_onnx_runtime_s_own_steps() -> None:
    """The same program, word for word, on both."""
    for session_type in (InferenceSession, onnxruntime.InferenceSession):
        session = session_type(models.convolution())
        values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
        binding = session.io_binding()
        binding.bind_cpu_input("x", values)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        (copied,) = binding.copy_outputs_to_cpu()
        (value,) = binding.get_outputs()
        assert value.shape() == [1, 8, 16, 16]
        assert value.data_type() == "tensor(float)"
        assert value.device_name() == "cpu"
        assert value.is_tensor()
        np.testing.assert_array_equal(value.numpy(), copied)
        np.testing.assert_array_equal(copied, session.run(None, {"x": values})[0])


def test_device_memory_is_written_and_read_in_place() -> None:
    with InferenceSession(models.quantized()) as session:
        source = on_device(session, "input", "x", dtype=np.float32)
        target = on_device(session, "output", "y")
        assert source.shape() == target.shape() == list(NHWC)
        assert (source.data_type(), target.data_type()) == ("tensor(float)", "tensor(int8)")
        with session.io_binding() as binding:
            binding.bind_ortvalue_input("x", source)
            binding.bind_ortvalue_output("y", target)
            view = source.numpy()
            for scale in (1, 2):
                view[:] = nhwc(VALUES) * scale
                binding.synchronize_inputs()
                session.run_with_iobinding(binding)
                binding.synchronize_outputs()
                real = anynpu.dequantize_affine(target.numpy(), 0.5, -3)
                (expected,) = session.run(None, VALUES * scale)
                np.testing.assert_array_equal(real.transpose(0, 3, 1, 2), expected)
        assert binding.get_outputs() == [target]


def test_a_picture_goes_in_as_bytes() -> None:
    metadata = {"anynpu.mean": '{"x": [1, 2, 3]}', "anynpu.std": '{"x": [2, 2, 2]}'}
    pixels = nhwc(VALUES).astype(np.uint8)
    with InferenceSession(models.add_one(metadata=metadata)) as session:
        binding = session.io_binding()
        value = OrtValue.ortvalue_from_numpy(
            pixels, "rknpu2", name="x", session=session, io_kind="input", layout="native"
        )
        binding.bind_ortvalue_input("x", value)
        session.run_with_iobinding(binding)
        (found,) = binding.copy_outputs_to_cpu()
        (expected,) = session.run(None, VALUES.astype(np.uint8))
        np.testing.assert_array_equal(found, expected)
        value.update_inplace(pixels + 1)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(
            binding.copy_outputs_to_cpu()[0], session.run(None, VALUES.astype(np.uint8) + 1)[0]
        )


def test_an_array_in_the_model_s_order_is_transposed() -> None:
    with InferenceSession(models.add_one()) as session:
        value = OrtValue.ortvalue_from_numpy(
            VALUES, "rknpu2", name="x", session=session, io_kind="input"
        )
        np.testing.assert_array_equal(value.numpy(), nhwc(VALUES))


def test_native_outputs() -> None:
    options = {"zero_copy_layout": "native"}
    with InferenceSession(models.quantized(), provider_options=options) as session:
        target = on_device(session, "output", "y")
        assert len(target.shape()) == 5
        binding = session.io_binding()
        binding.bind_cpu_input("x", VALUES)
        binding.bind_ortvalue_output("y", target)
        session.run_with_iobinding(binding)
        found = anynpu.dequantize_nc1hwc2(target.numpy(), 3, 0.5, -3)
        np.testing.assert_array_equal(found, session.run(None, VALUES)[0])


def test_memory_of_a_descriptor() -> None:
    """What another part of a program has in a DMA buffer is read where it is."""
    with InferenceSession(models.add_one()) as session:
        fd = os.memfd_create("frame")
        os.ftruncate(fd, 8192)
        frame = mmap.mmap(fd, 8192)
        value = OrtValue.ortvalue_from_dmabuf(
            fd, None, np.float32, size=4096, offset=4096, session=session, name="x", io_kind="input"
        )
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", value)
        n, h, w, c = value.shape()
        stride = value.memory_info()["w_stride"]  # rows are padded
        rows = np.frombuffer(frame, np.float32, n * h * stride * c, 4096)
        rows.reshape(n, h, stride, c)[:, :, :w] = nhwc(VALUES)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], VALUES + 1)
        info = value.memory_info()
        assert (info["device_type"], info["offset"], info["size"]) == ("rknpu2", 4096, 4096)
        assert info["fd"] >= 0
        os.close(fd)
        with pytest.raises(anynpu.CallError):
            OrtValue.ortvalue_from_dmabuf(
                9999, None, None, size=4096, session=session, name="x", io_kind="input"
            )


def test_the_same_memory_seen_by_others() -> None:
    with InferenceSession(models.add_one()) as session:
        value = on_device(session, "input", "x", dtype=np.float32)
        value.numpy()[:] = nhwc(VALUES)
        for view in (np.asarray(value), np.from_dlpack(value)):
            assert view.__array_interface__["data"][0] == value.data_ptr()
            np.testing.assert_array_equal(view, nhwc(VALUES))
        assert np.asarray(value, np.float64).dtype == np.float64
        assert value.__dlpack_device__() == (1, 0)
    # The memory outlives the session.
    np.testing.assert_array_equal(view, nhwc(VALUES))


def test_values_on_the_host() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = OrtValue.ortvalue_from_numpy(array)
    assert value.numpy() is array
    assert (value.shape(), value.element_type(), value.device_id()) == ([2, 3], 1, 0)
    assert value.memory_info()["size"] == 24
    zeros = OrtValue.ortvalue_from_shape_and_type([2], 10)
    assert (zeros.numpy().dtype.name, zeros.data_type()) == ("float16", "tensor(float16)")
    zeros.update_inplace(np.ones(2, np.float16))
    assert zeros.numpy().tolist() == [1, 1]
    with InferenceSession(models.two_inputs()) as session:
        binding = session.io_binding()
        binding.bind_ortvalue_input("a", value)
        binding.bind_input("b", "cpu", 0, np.float32, (2, 3), array.ctypes.data)
        session.run_with_iobinding(binding)
        found = [output.numpy() for output in binding.get_outputs()]
        np.testing.assert_array_equal(found, [array * 2, array * 0])


def test_what_does_not_fit() -> None:
    with InferenceSession(models.add_one()) as session, InferenceSession(models.deep()) as other:
        source, target = on_device(session, "input", "x"), on_device(session, "output", "y")
        binding = session.io_binding()
        with pytest.raises(anynpu.StateError, match="input 'x'"):
            session.run_with_iobinding(binding)
        with pytest.raises(anynpu.TensorError, match="no input 'z'"):
            binding.bind_cpu_input("z", VALUES)
        with pytest.raises(anynpu.TensorError, match="shape"):
            binding.bind_cpu_input("x", VALUES[:, :2])
        with pytest.raises(anynpu.TensorError, match="made for output 0"):
            binding.bind_ortvalue_input("x", target)
        with pytest.raises(anynpu.OptionError, match="an OrtValue"):
            binding.bind_output("y", "rknpu2", buffer_ptr=123)
        with pytest.raises(anynpu.OptionError, match="give its shape"):
            binding.bind_output("y", buffer_ptr=123)
        with pytest.raises(anynpu.OptionError, match="an OrtValue"):
            binding.bind_input("x", "rknpu2", 0, np.float32, SHAPE, 123)
        with pytest.raises(anynpu.TensorError, match="found float32"):
            source.update_inplace(VALUES)
        with pytest.raises(anynpu.OptionError, match="float16, uint8, float32 in memory"):
            on_device(session, "input", "x", dtype=np.int64)
        with pytest.raises(anynpu.OptionError, match="mem_flags"):
            on_device(session, "input", "x", mem_flags="quick")
        with pytest.raises(anynpu.OptionError, match="io_kind"):
            on_device(session, "weights", "x")
        with pytest.raises(anynpu.OptionError, match="say which"):
            OrtValue.ortvalue_from_numpy(VALUES, "rknpu2")
        with pytest.raises(anynpu.OptionError, match="not 'cuda'"):
            OrtValue.ortvalue_from_numpy(VALUES, "cuda", name="x", session=other, io_kind="input")
        with pytest.raises(anynpu.TensorError, match="asked for"):
            OrtValue.ortvalue_from_shape_and_type(
                SHAPE, None, "rknpu2", name="x", session=session, io_kind="input"
            )


@pytest.mark.parametrize("flags", ["default", "cacheable", "non_cacheable", "try_sram", 1])
def test_kinds_of_memory(flags: str | int) -> None:
    with InferenceSession(models.add_one()) as session:
        value = on_device(session, "input", "x", dtype=np.float32, mem_flags=flags)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", value)
        value.numpy()[:] = nhwc(VALUES)
        value.sync_to_device()
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], VALUES + 1)


def test_bindings_go_without_the_collector() -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        with InferenceSession(models.add_one()) as session:
            binding = session.io_binding()
            binding.bind_cpu_input("x", VALUES)
            session.run_with_iobinding(binding)
            reference = weakref.ref(binding)
            del binding
            assert reference() is None
        del session
        assert len(os.listdir("/proc/self/fd")) == descriptors
    finally:
        gc.enable()


def test_runs_go_on_beside_a_binding() -> None:
    with InferenceSession(models.add_one()) as session:
        binding = session.io_binding()
        futures = [session.submit(None, VALUES + n) for n in range(5)]
        for number in range(5):
            binding.bind_cpu_input("x", VALUES * number)
            session.run_with_iobinding(binding)
            np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], VALUES * number + 1)
        for number, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(20)[0], VALUES + number + 1)


def test_memory_of_the_host_is_read_and_written_at_each_run() -> None:
    """Bound once, by value and by address, as programs for ONNX Runtime do it."""
    for session_type in (InferenceSession, onnxruntime.InferenceSession):
        session: Any = session_type(models.add_one())
        is_ours = session_type is InferenceSession
        kind: Any = OrtValue if is_ours else onnxruntime.OrtValue
        source, target = VALUES.copy(), np.zeros(SHAPE, np.float32)
        given, wanted = kind.ortvalue_from_numpy(source), kind.ortvalue_from_numpy(target)
        by_value, by_address = session.io_binding(), session.io_binding()
        by_value.bind_ortvalue_input("x", given)
        by_value.bind_ortvalue_output("y", wanted)
        place = ("cpu", 0, np.float32, SHAPE)
        by_address.bind_input("x", *place, source.ctypes.data)
        by_address.bind_output("y", *place, target.ctypes.data)
        for factor in (1, 2):
            source[:] = VALUES * factor
            given.update_inplace(source)
            session.run_with_iobinding(by_value)
            np.testing.assert_array_equal(wanted.numpy(), source + 1)
            target[:] = 0
            session.run_with_iobinding(by_address)
            np.testing.assert_array_equal(target, source + 1)
            np.testing.assert_array_equal(by_address.get_outputs()[0].numpy(), source + 1)


def test_memory_of_the_host_that_does_not_fit_is_refused() -> None:
    with InferenceSession(models.add_one()) as session:
        binding = session.io_binding()
        for wrong in (np.zeros(NHWC, np.float32), np.zeros(SHAPE, np.int32)):
            with pytest.raises(anynpu.TensorError, match="bind one that fits"):
                binding.bind_ortvalue_output("y", OrtValue(wrong))
        half = OrtValue(np.zeros(SHAPE, np.float16))
        binding.bind_cpu_input("x", VALUES)
        binding.bind_ortvalue_output("y", half)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(half.numpy(), VALUES.astype(np.float16) + 1)
