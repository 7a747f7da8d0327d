"""Building models for the soft NPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

import anynpu
from anynpu.rknn.abi import InitFlag, TensorFormat
from anynpu.rknn.context import Context
from anynpu.soft.build import BuildOptions, build, build_file
from anynpu.soft.build.metadata import Metadata
from anynpu.soft.engines import Normalization
from anynpu.soft.formats import rknn as rknn_format

from .. import models


def metadata_of(data: bytes) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load_from_string(data).metadata_props}


def test_what_is_written_is_valid_onnx_with_the_metadata() -> None:
    options = BuildOptions(
        soc="RK3566",
        mean={"x": [1, 2, 3]},
        std={"x": [4, 5, 6]},
        custom_string="RGB",
    )
    data = build(models.add_one(metadata={"author": "tests", "anynpu.soc": "rk3576"}), options)
    onnx.checker.check_model(onnx.load_from_string(data))
    found = metadata_of(data)
    assert found.pop("author") == "tests"
    assert Metadata.parse(found) == Metadata(
        soc="rk3566",
        custom_string="RGB",
        normalization={"x": Normalization((1, 2, 3), (4, 5, 6))},
    )


def test_one_set_of_shapes_fixes_the_model() -> None:
    data = build(models.add_one(("n", 3)), BuildOptions(shapes=[{"x": (2, 3)}]))
    assert "anynpu.shapes" not in metadata_of(data)
    with anynpu.Model(data) as model:
        assert model.output_attrs[0].shape == (2, 3)


def test_several_sets_of_shapes_are_kept() -> None:
    shapes = [{"x": (2, 3)}, {"x": (5, 3)}]
    data = build(models.add_one(("n", 3)), BuildOptions(shapes=shapes))
    assert Metadata.parse(metadata_of(data)).shapes == tuple(shapes)


@pytest.mark.parametrize("suffix", [".onnx", ".rknn"])
def test_files(tmp_path: Path, suffix: str) -> None:
    source, target = tmp_path / "source.onnx", tmp_path / f"target{suffix}"
    source.write_bytes(models.add_one())
    program = build_file(source, target, BuildOptions())
    assert [port.name for port in program.variant(0).inputs] == ["x"]
    with anynpu.Model(target) as model:
        model.run(np.zeros((1, 3, 4, 5)))
        assert (model.output_f32(0) == 1).all()


def test_a_soft_rknn_file_has_the_real_frame(tmp_path: Path) -> None:
    target = tmp_path / "target.rknn"
    build_file(models.add_one(), target, BuildOptions(soc="rk3568"))
    data = target.read_bytes()
    container = rknn_format.read(data)
    assert (container.version, container.target) == (6, "rk3568")
    assert container.toolkit.startswith("anynpu")
    assert container.onnx is not None
    onnx.checker.check_model(onnx.load_from_string(container.onnx))
    assert data[:8] == b"RKNN\0\0\0\0"
    assert data[68:72] == rknn_format.SOFT_IDENTIFIER


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(4):
        pixels = rng.integers(0, 256, (16, 16, 3), np.uint8)  # no resizing, which would blur
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def test_quantising_with_pictures(pictures: Path) -> None:
    options = BuildOptions(
        mean={"x": [127.5] * 3}, std={"x": [127.5] * 3}, quantize=pictures, bgr=True
    )
    source = models.convolution()
    data = build(source, options)
    pixels = np.random.default_rng(1).integers(0, 256, (1, 16, 16, 3)).astype(np.uint8)
    with anynpu.Model(data) as model:
        (given,), (result,) = model.input_attrs, model.output_attrs
        assert (given.dtype, result.dtype) == (anynpu.DType.INT8, anynpu.DType.INT8)
        assert given.scale == pytest.approx(2 / 255, rel=0.02)
        model.run(pixels)
        quantized = model.output_f32(0)
    real = build(source, BuildOptions(mean=options.mean, std=options.std))
    with anynpu.Model(real) as model:
        model.run(pixels)
        exact = model.output_f32(0)
    similarity = (quantized * exact).sum() / np.linalg.norm(quantized) / np.linalg.norm(exact)
    assert similarity > 0.995
    assert np.abs(quantized - exact).max() < 12 * result.scale


def test_quantising_with_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", rng.normal(0, 1, (16, 16, 3)).astype(np.float32))
    data = build(models.convolution(), BuildOptions(quantize=tmp_path))
    with anynpu.Model(data) as model:
        assert model.input_attrs[0].dtype is anynpu.DType.INT8


def test_quantising_several_inputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(3):
        a, b = rng.normal(0, 1, (2, 2, 3)).astype(np.float32)
        np.savez(tmp_path / f"{number}.npz", a=a, b=b)
    data = build(models.two_inputs(), BuildOptions(quantize=tmp_path))
    a, b = rng.uniform(-0.5, 0.5, (2, 2, 3)).astype(np.float32)
    with anynpu.Model(data) as model:
        model.run(a, b)
        np.testing.assert_allclose(model.output_f32(0), a + b, atol=0.05)


def sliced_first() -> bytes:
    """As YOLOX begins: the even and the odd rows side by side, then a convolution."""
    rows = {"even": [0], "odd": [1], "end": [16], "axis": [2], "step": [2]}
    return models.save(
        [
            *(
                helper.make_node("Slice", ["x", start, "end", "axis", "step"], [f"{start}_rows"])
                for start in ("even", "odd")
            ),
            helper.make_node("Concat", ["even_rows", "odd_rows"], ["both"], axis=1),
            helper.make_node("Conv", ["both", "w"], ["y"]),
        ],
        [("x", models.FLOAT, (1, 3, 16, 16))],
        [("y", models.FLOAT, (1, 2, 8, 16))],
        {
            **{name: np.array(value, np.int64) for name, value in rows.items()},
            "w": np.random.default_rng(0).normal(0, 0.3, (2, 6, 1, 1)).astype(np.float32),
        },
    )


def read_twice() -> bytes:
    """A convolution whose input's sizes are asked for as well, as PyTorch exports do."""
    model = onnx.load_from_string(models.convolution())
    model.graph.node.append(helper.make_node("Shape", ["x"], ["sizes"]))
    model.graph.output.append(helper.make_tensor_value_info("sizes", onnx.TensorProto.INT64, (4,)))
    data: bytes = model.SerializeToString()
    return data


@pytest.mark.parametrize("source", [sliced_first(), read_twice()], ids=["sliced", "read twice"])
def test_quantised_models_have_quantised_inputs(pictures: Path, source: bytes) -> None:
    """Whatever reads an input first, pictures may be given as uint8 without conversion."""
    data = build(source, BuildOptions(quantize=pictures))
    pixels = np.random.default_rng(1).integers(0, 256, (1, 16, 16, 3)).astype(np.uint8)
    with anynpu.Model(data) as model:
        (given,), result = model.input_attrs, model.output_attrs[0]
        assert (given.dtype, given.zero_point) == (anynpu.DType.INT8, -128)
        assert given.scale == pytest.approx(1, abs=0.01)
        model.run(pixels)
        quantized = model.output_f32(0)
    with anynpu.Model(build(source, BuildOptions())) as model:
        model.run(pixels)
        exact = model.output_f32(0)
    assert np.abs(quantized - exact).max() < 12 * result.scale


def test_quantising_a_dynamic_model(pictures: Path) -> None:
    """It is calibrated under the largest shapes; all shapes share the scales."""
    shapes = [{"x": (1, 3, 8, 8)}, {"x": (1, 3, 16, 16)}]
    source = onnx.load_from_string(models.dynamic())
    del source.metadata_props[:]
    data = build(source, BuildOptions(quantize=pictures, shapes=shapes))
    with anynpu.Model(data) as model:
        scales = []
        for size in (16, 8):
            model.set_shapes((1, size, size, 3))
            model.run(np.full((1, size, size, 3), 100, np.uint8))
            assert model.output_f32(0).shape == (1, 8, size, size)
            assert model.input_attrs[0].dtype is anynpu.DType.INT8
            scales.append((model.input_attrs[0].scale, model.output_attrs[0].scale))
    assert scales[0] == scales[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (BuildOptions(soc="rk1"), "unknown chip"),
        (BuildOptions(std={"x": [1, 0, 1]}), "aren't all positive"),
        (BuildOptions(mean={"x": [1, 2]}, std={"x": [1, 2, 3]}), "2 means, 3 standard"),
        (BuildOptions(quantize="/nowhere"), "not a folder"),
    ],
    ids=str,
)
def test_wrong_options(options: BuildOptions, message: str) -> None:
    with pytest.raises(anynpu.OptionError, match=message):
        build(models.add_one(), options)


@pytest.mark.parametrize(
    "options",
    [
        BuildOptions(mean={"z": [1, 2, 3]}),
        BuildOptions(mean={"x": [1, 2]}),
        BuildOptions(shapes=[{"z": (1, 2)}]),
        BuildOptions(shapes=[{"x": (1, 3, 4, 6)}]),
    ],
    ids=str,
)
def test_options_that_do_not_fit_the_model(options: BuildOptions) -> None:
    with pytest.raises(anynpu.ModelError):
        build(models.add_one(), options)


def test_calibration_data_that_does_not_fit(tmp_path: Path) -> None:
    options = BuildOptions(quantize=tmp_path)
    with pytest.raises(anynpu.OptionError, match="has no files"):
        build(models.convolution(), options)
    np.save(tmp_path / "a.npy", np.zeros((3, 3)))
    with pytest.raises(anynpu.OptionError, match=r"a\.npy: the array for input 'x' has the shape"):
        build(models.convolution(), options)
    (tmp_path / "a.npy").unlink()
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    with pytest.raises(anynpu.OptionError, match="doesn't take images"):
        build(models.add_one((2, 3)), options)
    with pytest.raises(anynpu.OptionError, match=r"give \.npz files"):
        build(models.two_inputs(), options)


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(anynpu.ModelError, match="not an ONNX file"):
        build(b"nonsense", BuildOptions())
    with pytest.raises(FileNotFoundError):
        build(tmp_path / "none.onnx", BuildOptions())
    with pytest.raises(anynpu.OptionError, match=r"\.onnx, a \.rknn or a \.nb"):
        build_file(models.add_one(), tmp_path / "x.bin", BuildOptions())


def test_a_trained_classifier_keeps_its_answers_in_int8(
    shared_model: Callable[[str], Path], tmp_path: Path
) -> None:
    data = pytest.importorskip("skimage.data")
    names = shared_model("imagenet_synset.txt").read_text().splitlines()
    for name in ("astronaut", "rocket", "chelsea", "coffee"):
        Image.fromarray(getattr(data, name)()).save(tmp_path / f"{name}.png")
    built = build(
        shared_model("efficientnet_lite0_224.onnx"),
        BuildOptions(mean={"images": [127] * 3}, std={"images": [128] * 3}, quantize=tmp_path),
    )
    answers = {"coffee": "espresso", "camera": "tripod", "chelsea": "cat"}
    with anynpu.Model(built) as model:
        assert model.input_attrs[0].dtype is anynpu.DType.INT8
        for name, answer in answers.items():
            picture = Image.fromarray(getattr(data, name)()).convert("RGB").resize((224, 224))
            model.run(np.asarray(picture))
            assert answer in names[int(model.output_f32(0).argmax())]


@pytest.mark.parametrize("quantized", [False, True])
def test_one_file_keeps_the_weights_for_other_resolutions(tmp_path: Path, quantized: bool) -> None:
    """As a user would: the second file is small, and runs on the first one's weights."""
    files = {size: tmp_path / f"{size}.rknn" for size in (16, 8)}
    for size, file in files.items():
        folder = None
        if quantized:
            folder = tmp_path / f"calibration{size}"
            folder.mkdir()
            values = np.random.default_rng(size).normal(0, 1, (3, 1, 4, size, size))
            for i, value in enumerate(values.astype(np.float32)):
                np.save(folder / f"{i}.npy", value)
        model = models.convolution(channels=4, size=size, filters=64)
        build_file(model, file, BuildOptions(quantize=folder, remove_weights=size == 8))
        whole = tmp_path / f"whole{size}.rknn"
        build_file(model, whole, BuildOptions(quantize=folder))
    assert files[8].stat().st_size < files[16].stat().st_size
    value = np.random.default_rng(0).normal(0, 1, (1, 8, 8, 4)).astype(np.float32)
    with Context(files[16]) as donor:
        flags = InitFlag.SHARE_WEIGHT_MEM
        with Context(files[8], flags=flags, share_with=donor) as context:
            found = run_once(context, value)
    with Context(tmp_path / "whole8.rknn") as context:
        np.testing.assert_array_equal(found, run_once(context, value))


def run_once(context: Context, value: np.ndarray) -> np.ndarray:
    context.set_inputs([value], [TensorFormat.NHWC])
    context.run()
    result = np.empty(context.outputs[0].shape, np.float32)
    context.get_outputs([result], as_float=True)
    return result


def test_custom_operators_are_kept_and_not_quantised(tmp_path: Path) -> None:
    data = build(models.custom(factor=2.0), BuildOptions())
    (node,) = (n for n in onnx.load_from_string(data).graph.node if n.domain)
    assert (node.op_type, node.attribute[0].f) == ("cstScale", 2.0)
    np.save(tmp_path / "a.npy", np.ones((1, 3, 4, 5), np.float32))
    with pytest.raises(anynpu.ModelError, match=r"'cstScale'.* can't be quantised"):
        build(models.custom(), BuildOptions(quantize=tmp_path))
