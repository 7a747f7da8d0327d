"""`anynpu.Model`."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

import anynpu
from anynpu import DType, Layout, Model

from . import models

SHAPE = (1, 3, 4, 5)
PIXELS = np.random.default_rng(5).integers(0, 255, (1, 4, 5, 3)).astype(np.uint8)
EXPECTED = PIXELS.transpose(0, 3, 1, 2).astype(np.float32) + 1


def test_attributes() -> None:
    with Model(models.quantized()) as model:
        (info,) = model.input_attrs
        assert str(info) == "x: INT8 1x4x5x3 NHWC scale 0.5 zero point -3"
        assert (info.name, info.shape, info.dtype) == ("x", (1, 4, 5, 3), DType.INT8)
        assert (info.scale, info.zero_point) == (0.5, -3)
        assert (info.size, info.size_with_stride, info.width_stride) == (60, 192, 16)
        (info,) = model.output_attrs
        assert (info.name, info.shape, info.layout) == ("y", SHAPE, Layout.NCHW)
    with Model(models.add_one()) as model:
        (info,) = model.input_attrs
        assert (info.dtype, info.quantization) == (DType.FLOAT16, None)
        assert (info.scale, info.zero_point) == (1.0, 0)


def test_load_is_the_constructor(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(models.add_one())
    with Model.load(file, library="soft") as model:
        assert model.library.is_soft


@pytest.mark.parametrize(
    "value",
    [
        PIXELS,
        PIXELS[0],
        PIXELS.transpose(0, 3, 1, 2),
        PIXELS.tobytes(),
        bytearray(PIXELS.tobytes()),
        memoryview(PIXELS.tobytes()),
        PIXELS.tolist(),
        PIXELS.astype(np.float64),
        PIXELS[:, ::-1, :, ::-1][:, ::-1, :, ::-1],
        PIXELS.astype(">f4"),
    ],
    ids=["nhwc", "hwc", "nchw", "bytes", "bytearray", "view", "list", "double", "strides", "big"],
)
def test_forms_of_a_picture(value: object) -> None:
    with Model(models.add_one()) as model:
        model.run(value)  # type: ignore[arg-type]
        np.testing.assert_array_equal(model.output_f32(0), EXPECTED)


def test_nhwc_wins_where_both_orders_fit() -> None:
    values = np.arange(27, dtype=np.float32).reshape(1, 3, 3, 3)
    with Model(models.add_one((1, 3, 3, 3))) as model:
        model.run(values)
        np.testing.assert_array_equal(model.output_f32(0), values.transpose(0, 3, 1, 2) + 1)


def test_raw_and_real_outputs() -> None:
    values = np.linspace(-5, 80, 60, dtype=np.float32).reshape(SHAPE)
    with Model(models.quantized()) as model:
        model.run(values)
        raw = model.output_raw(0)
        assert raw.dtype == np.int8
        assert raw.shape == SHAPE
        real = model.output_f32(0)
        np.testing.assert_array_equal(real, anynpu.dequantize_affine(raw, 0.5, -3))
        model.run(values * 0)
        assert model.output_raw(0) is raw
        assert (raw == -3).all()
        assert real.max() > 0


def test_float_outputs_raw() -> None:
    with Model(models.add_one((1, 2))) as model:
        model.run(np.array([[1.0, 2.0]]))
        raw = model.output_raw(0)
        assert raw.dtype == np.float16
        assert raw.tolist() == [[2.0, 3.0]]


def test_two_inputs() -> None:
    a, b = np.full((2, 3), 5.0), np.full((2, 3), 2.0)
    with Model(models.two_inputs()) as model:
        model.run(a, b)
        assert (model.output_f32(0) == 7).all()
        assert (model.output_f32(1) == 3).all()
        with pytest.raises(anynpu.TensorError, match=r"2 inputs \['a', 'b'\]; 1 were given"):
            model.run(a)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((1, 4, 5, 2)), r"\(1, 4, 5, 3\) \(NHWC\) or \(1, 3, 4, 5\) \(NCHW\); found"),
        (np.zeros((2, 3, 4, 5)), "found"),
        (np.zeros(60), "found"),
        (b"short", "takes 60 bytes"),
        (np.zeros(SHAPE, complex), "complex128"),
        (np.full(SHAPE, "text"), "<U4"),
        ([[1, 2], [3]], "can't be made an array"),
        (None, "object"),
    ],
    ids=str,
)
def test_what_does_not_fit(value: object, message: str) -> None:
    with Model(models.add_one()) as model, pytest.raises(anynpu.TensorError, match=message):
        model.run(value)  # type: ignore[arg-type]


def test_an_index_out_of_range() -> None:
    with Model(models.add_one((1, 2))) as model:
        model.run(np.zeros((1, 2)))
        with pytest.raises(IndexError):
            model.output_f32(1)


def test_outputs_before_a_run() -> None:
    with Model(models.add_one()) as model:
        with pytest.raises(anynpu.InvalidArgumentError, match="RKNN_ERR_OUTPUT_INVALID"):
            model.output_f32(0)
        with pytest.raises(anynpu.InvalidArgumentError, match="RKNN_ERR_OUTPUT_INVALID"):
            model.output_raw(0)


def test_closing() -> None:
    model = Model(models.add_one((1, 2)))
    model.run(np.zeros((1, 2)))
    raw = model.output_raw(0)
    model.close()
    model.close()
    assert raw.tolist() == [[1.0, 1.0]]
    for call in (lambda: model.run(np.zeros((1, 2))), lambda: Model.output_f32(model, 0)):
        with pytest.raises(anynpu.ClosedError):
            call()


def test_a_forgotten_model_is_freed_without_the_collector() -> None:
    gc.disable()
    try:
        model = Model(models.add_one())
        model.run(PIXELS)
        context = weakref.ref(model._context)
        del model
        assert context() is None
    finally:
        gc.enable()


def test_bad_models(tmp_path: Path) -> None:
    with pytest.raises(anynpu.ModelError, match="0 bytes"):
        Model(b"")
    with pytest.raises(anynpu.InvalidModelError, match="RKNN_ERR_MODEL_INVALID"):
        Model(b"nonsense")
    with pytest.raises(FileNotFoundError, match=r"none\.rknn"):
        Model(tmp_path / "none.rknn")


def test_whole_numbers() -> None:
    with Model(models.passes(TensorProto.INT64)) as model:
        values = np.array([[1, -2, 3], [2**40, 5, 6]])
        model.run(values)
        np.testing.assert_array_equal(model.output_raw(0), values)


def test_leaving_python_with_a_model_open(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(models.add_one((1, 2)))
    program = (
        "import anynpu, numpy\n"
        f"model = anynpu.Model({str(file)!r}, library='soft')\n"
        "model.run(numpy.zeros((1, 2)))\n"
        "print(model.output_f32(0))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "[[1. 1.]]\n", "")
