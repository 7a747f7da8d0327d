"""`anynpu.Model`."""

from __future__ import annotations

import gc
import os
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
        assert (info.name, info.shape, info.layout) == ("y", (1, 2, 4, 5, 16), Layout.NC1HWC2)
        assert (info.dtype, info.scale, info.zero_point) == (DType.INT8, 0.5, -3)
        assert model.output_shapes == (SHAPE,)
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
        assert raw.shape == (1, 2, 4, 5, 16)
        real = model.output_f32(0)
        flat = anynpu.nc1hwc2_to_nchw(raw, 3)
        np.testing.assert_array_equal(real, anynpu.dequantize_affine(flat, 0.5, -3))
        model.run(values * 0)
        assert model.output_raw(0) is raw
        assert (raw[..., :3][:, 0] == -3).all()
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
        with pytest.raises(anynpu.StateError, match="before a run"):
            model.output_f32(0)
        with pytest.raises(anynpu.StateError, match="before a run"):
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
        context = weakref.ref(model._device)
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


def test_raw_outputs_are_the_npu_s_own_memory() -> None:
    with Model(models.add_one()) as model:
        model.run(PIXELS)
        raw = model.output_raw(0)
        model.run(PIXELS * 0)
        assert model.output_raw(0) is raw
        assert (raw[0, 0, ..., :3] == 1).all()
    assert (raw[0, 0, ..., :3] == 1).all()  # the array outlives the model


def test_a_closed_model_has_freed_its_memory() -> None:
    gc.collect()  # what other tests left behind goes now, not meanwhile
    before = len(os.listdir("/proc/self/fd"))
    model = Model(models.add_one())
    model.run(PIXELS)
    raw = model.output_raw(0)
    model.close()
    assert len(os.listdir("/proc/self/fd")) == before + 1  # what `raw` shares
    del raw
    assert len(os.listdir("/proc/self/fd")) == before


def test_duplicates() -> None:
    with Model(models.add_one()) as model:
        copy = model.dup()
    copy.run(PIXELS)
    np.testing.assert_array_equal(copy.output_f32(0), EXPECTED)
    copy.close()


def test_other_shapes() -> None:
    with Model(models.dynamic(((8, 8), (12, 16)))) as model:
        assert model.dynamic_shapes() == (((1, 8, 8, 3), (1, 12, 16, 3)),)
        model.run(np.ones((12, 16, 3), np.uint8))
        large = model.output_f32(0)
        model.set_shapes((1, 8, 8, 3))
        assert model.input_attrs[0].shape == (1, 8, 8, 3)
        assert model.output_shapes == ((1, 8, 8, 8),)
        with pytest.raises(anynpu.StateError):
            model.output_f32(0)
        model.run(np.ones((8, 8, 3), np.uint8))
        assert model.output_f32(0).shape == (1, 8, 8, 8)
        with pytest.raises(anynpu.TensorError, match="list"):
            model.set_shapes((1, 9, 9, 3))
        model.set_shapes((1, 12, 16, 3))
        model.run(np.ones((12, 16, 3), np.uint8))
        np.testing.assert_array_equal(model.output_f32(0), large)


def test_the_times_of_layers() -> None:
    with Model(models.deep(), profile=True) as model:
        model.run(np.zeros((16, 16, 3), np.uint8))
        table = model.perf()
        assert [row.op_type for row in table][:: len(table) - 1] == [
            "InputOperator",
            "OutputOperator",
        ]
        assert "FullName" in str(table)
        assert model.run_microseconds() > 0
    with Model(models.deep()) as model:
        model.run(np.zeros((16, 16, 3), np.uint8))
        with pytest.raises(anynpu.ModelError, match="profile=True"):
            model.perf()


def test_memory_sizes() -> None:
    with Model(models.deep()) as model:
        size = model.memory()
        assert size.weights
        assert size.internal > 0
        assert size.sram == 956 * 1024


def test_a_run_that_takes_too_long() -> None:
    slow = models.repeated_convolution(size=256, filters=32, layers=12)
    with Model(slow) as model:
        picture = np.zeros((256, 256, 3), np.uint8)
        with pytest.raises(TimeoutError):
            model.run(picture, timeout_ms=1)
        with pytest.raises(anynpu.StateError):
            model.output_f32(0)
        model.run(picture)
        model.output_f32(0)


@pytest.mark.parametrize("soc", ["rk3588", "rk3566", "rk3562", "rk3576", "rv1106"])
@pytest.mark.parametrize("channels", [1, 3, 5, 20])
def test_every_chip_gives_the_same_numbers(soc: str, channels: int) -> None:
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 60, (1, 6, 7, channels)).astype(np.uint8)
    shape = (1, channels, 6, 7)
    metadata = {"anynpu.soc": soc}
    with Model(models.quantized(shape, metadata=metadata)) as model:
        model.run(picture)
        stored = np.clip(picture.astype(int) * 2 - 3, -128, 127).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(model.output_f32(0), (stored + 3) * 0.5)


def test_whole_numbers_have_to_fit() -> None:
    with Model(models.passes(TensorProto.INT32)) as model:
        model.run(np.array([[1, 2, 3], [4, 5, 6]], np.int64))
        assert model.output_raw(0).tolist() == [[1, 2, 3], [4, 5, 6]]
        for values in (np.full((2, 3), 2**31), np.full((2, 3), 1.5), np.full((2, 3), np.nan)):
            with pytest.raises(anynpu.TensorError, match="takes int32"):
                model.run(values)
    with Model(models.passes(TensorProto.BOOL)) as model:
        model.run(np.array([[0, 1, 0], [1, 1, 1]]))
        with pytest.raises(anynpu.TensorError, match="takes bool"):
            model.run(np.array([[0, 2, 0], [1, 1, 1]]))


def test_reading_the_vendor_s_table() -> None:
    """The columns that an older runtime leaves out are empty."""
    from anynpu.perf import parse_perf_detail

    text = (
        "----\n"
        "         Network Layer Information Table\n"
        "----\n"
        "ID   OpType           DataType  Target   Time(us)   FullName\n"
        "----\n"
        "1    InputOperator    UINT8     CPU      17         InputOperator:data\n"
        "2    ConvClip         UINT8     NPU      331        Conv:a:b\n"
        "----\n"
        "Total Operator Elapsed Per Frame Time(us): 348\n"
    )
    table = parse_perf_detail(text)
    assert (table.title, table.microseconds) == ("Network Layer Information Table", 348)
    assert [(r.number, r.op_type, r.target, r.name) for r in table] == [
        (1, "InputOperator", "CPU", "data"),
        (2, "ConvClip", "NPU", "a:b"),
    ]
    assert table.rows[0].read_write_kilobytes is None
    with pytest.raises(anynpu.ModelError, match="no table"):
        parse_perf_detail("nothing here")
