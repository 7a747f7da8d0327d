"""`anynpu.Model` with a `.nb`: the same calls as with a `.rknn`."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anynpu
from anynpu import DType, Layout, Model, Quantization
from anynpu.viplite.library import load
from anynpu.viplite.runtime import runtime_of

from . import models
from .soft.viplite.client import network_file, relu, slow

SHAPE = (1, 3, 4, 5)
PIXELS = (np.arange(60).reshape(1, 4, 5, 3) + 100).astype(np.uint8)
PLANES = PIXELS.transpose(0, 3, 1, 2)
RAW = np.maximum(PLANES, 125)
REAL = (RAW - np.float32(125)) / 2
"""Of relu(): scale 0.5, zero point 125."""


def test_attributes() -> None:
    with Model(relu()) as model:
        (info,) = model.input_attrs
        assert str(info) == "x: UINT8 1x3x4x5 NCHW scale 0.5 zero point 125"
        (info,) = model.output_attrs
        assert (info.name, info.shape, info.layout) == ("y", SHAPE, Layout.NCHW)
        assert model.output_shapes == (SHAPE,)
        assert model.library.is_soft
        assert model.dynamic_shapes() == ()
        model.set_shapes(SHAPE)
        with pytest.raises(anynpu.TensorError, match="fixed shapes"):
            model.set_shapes((1, 3, 8, 8))
        size = model.memory()
        assert (size.weights, size.sram) == (None, None)
        assert size.internal == 0  # one operator has no results in between


@pytest.mark.parametrize(
    "value",
    [
        PIXELS,
        PIXELS[0],
        PLANES,
        PLANES[0],
        np.ascontiguousarray(PLANES),
        PIXELS.tobytes(),
        bytearray(PIXELS.tobytes()),
        memoryview(PIXELS.tobytes()),
        (PIXELS.astype(np.float32) - 125) / 2,
        np.ascontiguousarray((PLANES.astype(np.float64) - 125) / 2),
        ((PIXELS.astype(np.float16) - 125) / 2)[0],
    ],
    ids=[
        "NHWC", "HWC", "NCHW", "CHW", "planes", "bytes", "bytearray", "memoryview", "float32",
        "float64", "float16",
    ],
)  # fmt: skip
def test_pictures_in_every_form(value: Any) -> None:
    """uint8 is what the NPU reads, floats are real values: no class gets scrambled."""
    with Model(relu()) as model:
        for _ in range(2):
            model.run(value)
            raw = model.output_raw(0)
            np.testing.assert_array_equal(raw, RAW)
            real = model.output_f32(0)
            assert real.dtype == np.float32
            np.testing.assert_array_equal(real, REAL)


def test_where_both_orders_fit_it_is_the_tensor_s() -> None:
    values = np.random.default_rng(2).integers(125, 255, (1, 3, 3, 3)).astype(np.uint8)
    with Model(relu(shape=(1, 3, 3, 3))) as model:
        model.run(values)
        np.testing.assert_array_equal(model.output_raw(0), values)
        model.run(values.tobytes())
        np.testing.assert_array_equal(model.output_raw(0), values.transpose(0, 3, 1, 2))


def test_raw_outputs_are_the_device_s_memory() -> None:
    model = Model(relu())
    model.run(PIXELS)
    raw, real = model.output_raw(0), model.output_f32(0)
    kept = raw.copy()
    model.run(PIXELS + np.uint8(9))
    assert not np.array_equal(raw, kept)
    np.testing.assert_array_equal(real, REAL)
    model.close()
    np.testing.assert_array_equal(raw, np.maximum(PLANES + 9, 125))


def test_dynamic_fixed_point_and_float16() -> None:
    edges = {"x": Quantization.fixed_point(8), "y": Quantization.fixed_point(6)}
    with Model(network_file(models.add_one((2, 6)), edges=edges)) as model:
        assert model.input_attrs[0].dtype is DType.INT16
        model.run(np.full((2, 6), 1.25))
        np.testing.assert_array_equal(model.output_f32(0), np.full((2, 6), 2.25, np.float32))
        np.testing.assert_array_equal(model.output_raw(0), np.full((2, 6), 144, np.int16))
        model.run(np.full((2, 6), 320, np.int16))
        np.testing.assert_array_equal(model.output_raw(0), np.full((2, 6), 144, np.int16))
    with Model(network_file(models.two_inputs())) as model:
        model.run(np.full((2, 3), 5), np.full((2, 3), 1, np.uint8))
        np.testing.assert_array_equal(model.output_f32(1), np.full((2, 3), 4, np.float32))
        assert model.output_raw(0).dtype == np.float16


def test_wrong_inputs_and_order() -> None:
    with Model(relu()) as model:
        with pytest.raises(anynpu.StateError, match="before a run"):
            model.output_f32(0)
        with pytest.raises(anynpu.TensorError, match=r"\(1, 4, 5, 3\) \(NHWC\) or \(1, 3, 4, 5\)"):
            model.run(np.zeros((1, 5, 4, 3)))
        with pytest.raises(anynpu.TensorError, match="takes 60 bytes"):
            model.run(bytes(59))
        with pytest.raises(anynpu.TensorError, match="1 inputs"):
            model.run(PIXELS, PIXELS)
        with pytest.raises(anynpu.StateError, match="VIPLite doesn't time layers"):
            model.perf()
    with pytest.raises(anynpu.ClosedError):
        model.run(PIXELS)
    with pytest.raises(anynpu.OptionError, match="VIPLite doesn't time layers"):
        Model(relu(), profile=True)
    with pytest.raises(anynpu.OptionError, match=r"twin is for \.nb"):
        Model(models.add_one(), twin="x.onnx")
    with pytest.raises(anynpu.InvalidModelError, match="INVALID_NETWORK"):
        Model(b"VPMN" + bytes(200))


def test_time_limits() -> None:
    with Model(slow()) as model:
        picture = np.zeros(model.input_attrs[0].shape, np.float32)
        with pytest.raises(anynpu.CallTimeoutError):
            model.run(picture, timeout_ms=1)
        with pytest.raises(anynpu.StateError, match="before a run"):
            model.output_raw(0)
        model.run(picture, timeout_ms=600_000)
        assert model.run_microseconds() > 0
        assert model.output_f32(0).shape == model.output_shapes[0]


def test_duplicates(tmp_path: Path) -> None:
    file = tmp_path / "model.nb"
    file.write_bytes(relu())
    twin = tmp_path / "other.onnx"
    twin.write_bytes(models.quantized(SHAPE, dtype=np.uint8, zero_point=125))
    with Model.load(file, library="soft", twin=twin) as model, model.dup() as other:
        model.run(PIXELS)
        model.close()
        other.run(PIXELS)
        np.testing.assert_array_equal(other.output_raw(0), RAW)


def test_strict_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_STRICT", "1")
    with Model(relu()) as model:
        for shift in range(3):
            model.run(PIXELS + np.uint8(shift))
            np.testing.assert_array_equal(
                model.output_raw(0), np.maximum(PLANES + np.uint8(shift), 125)
            )


def test_a_forgotten_model_is_freed_without_the_collector() -> None:
    gc.collect()
    before = runtime_of(load("soft")).users
    gc.disable()
    try:
        model = Model(relu())
        model.run(PIXELS)
        device = weakref.ref(model._device)
        del model
        assert device() is None
        assert runtime_of(load("soft")).users == before
    finally:
        gc.enable()
