"""Soft `.nb` files: what `anynpu build` makes for Allwinner's chips."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import anynpu
from anynpu.cli import main
from anynpu.rknn.library import load as load_rknn
from anynpu.soft.build import BuildOptions, build, build_file
from anynpu.soft.formats import nbg
from anynpu.viplite.library import VipliteLibrary, load

from .. import capi, models
from .viplite import client


def classifier() -> bytes:
    """A picture of 16 x 16 to ten probabilities."""
    rng = np.random.default_rng(5)
    return models.save(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("GlobalAveragePool", ["r"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("Gemm", ["f", "m"], ["l"]),
            helper.make_node("Softmax", ["l"], ["y"]),
        ],
        [("x", models.FLOAT, (1, 3, 16, 16))],
        [("y", models.FLOAT, (1, 10))],
        {
            "w": rng.normal(0, 0.4, (16, 3, 3, 3)).astype(np.float32),
            "m": rng.normal(0, 1.5, (16, 10)).astype(np.float32),
        },
    )


@pytest.fixture
def calibration(tmp_path: Path) -> Path:
    folder = tmp_path / "calibration"
    folder.mkdir()
    rng = np.random.default_rng(6)
    for number in range(8):
        np.save(folder / f"{number}.npy", rng.normal(0, 1, (1, 3, 16, 16)).astype(np.float32))
    return folder


@pytest.fixture
def vip() -> VipliteLibrary:
    return load("soft")


def build_and_read(path: Path, options: BuildOptions, model: bytes | None = None) -> nbg.Nbg:
    build_file(classifier() if model is None else model, path, options)
    return nbg.read(path.read_bytes())


def test_without_calibration_tensors_are_float16(tmp_path: Path) -> None:
    read = build_and_read(tmp_path / "net.nb", BuildOptions())
    assert (read.name, read.target) == ("test", 0x1000003B)
    assert [(t.name, t.dims, t.format) for t in read.inputs] == [("x", (16, 16, 3, 1), 1)]
    assert [(t.name, t.dims, t.format) for t in read.outputs] == [("y", (10, 1), 1)]
    assert read.layers
    assert read.memory_pool_size > 0


@pytest.mark.parametrize(("chip", "target"), [("t527", 0x10000016), ("v853", 0xEE)])
def test_calibrated_tensors_are_uint8(
    tmp_path: Path, calibration: Path, chip: str, target: int
) -> None:
    options = BuildOptions(soc=chip, quantize=calibration)
    read = build_and_read(tmp_path / "net.nb", options)
    assert read.target == target
    for tensor in (*read.inputs, *read.outputs):
        assert (tensor.format, tensor.quantization) == (2, 2)
        assert 0 <= tensor.zero_point <= 255
    assert read.outputs[0].scale == pytest.approx(1 / 255, rel=0.5)


def test_fixed_points(tmp_path: Path, calibration: Path, vip: VipliteLibrary) -> None:
    options = BuildOptions(quantize=calibration, quantize_type="int16")
    read = build_and_read(tmp_path / "net.nb", options)
    (source,), (target,) = read.inputs, read.outputs
    assert (source.format, source.quantization, source.fixed_point_pos) == (5, 1, 13)
    assert (target.format, target.quantization) == (5, 1)
    assert target.fixed_point_pos in (15, 16, 17)
    values = np.load(calibration / "0.npy")
    (expected,) = onnxruntime.InferenceSession(classifier()).run(None, {"x": values})
    assert vip.vip_init() == client.OK
    with client.prepared(vip, (tmp_path / "net.nb").read_bytes()) as network:
        (found,) = client.infer(vip, network, np.rint(values * 2**13).astype(np.int16))
    assert vip.vip_destroy() == client.OK
    real = found / 2.0**target.fixed_point_pos
    np.testing.assert_allclose(real, expected.ravel(), atol=1e-3)


def test_a_quantised_classifier_answers_alike_through_both_apis(
    tmp_path: Path, calibration: Path, vip: VipliteLibrary
) -> None:
    npu = load_rknn("soft")
    nb, rknn = tmp_path / "net.nb", tmp_path / "net.rknn"
    (source,) = build_and_read(nb, BuildOptions(quantize=calibration)).inputs
    build_file(classifier(), rknn, BuildOptions(quantize=calibration))
    assert vip.vip_init() == client.OK
    with (
        client.prepared(vip, nb.read_bytes()) as network,
        capi.opened(npu, rknn.read_bytes()) as context,
    ):
        for seed in range(20):
            values = np.random.default_rng(seed).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
            like = np.zeros((1, 10), np.int8)
            assert capi.set_input(npu, context, values) == capi.SUCC
            assert npu.rknn_run(context, None) == capi.SUCC
            signed = capi.get_output(npu, context, like, want_float=0)
            steps = np.rint(values / np.float32(source.scale)) + source.zero_point
            (unsigned,) = client.infer(vip, network, np.clip(steps, 0, 255).astype(np.uint8))
            np.testing.assert_array_equal(unsigned.astype(np.int32) - 128, signed.ravel())
            top = np.argsort(unsigned, kind="stable")[-5:]
            assert top.tolist() == np.argsort(signed.ravel(), kind="stable")[-5:].tolist()
    assert vip.vip_destroy() == client.OK


def test_pixels_that_are_normalised_inside(tmp_path: Path) -> None:
    options = BuildOptions(mean={"x": [1, 2, 3]}, std={"x": [2, 2, 2]})
    (source,) = build_and_read(tmp_path / "net.nb", options).inputs
    assert (source.format, source.scale, source.zero_point) == (2, 1.0, 0)


def test_options_that_a_nb_file_cannot_have(tmp_path: Path, calibration: Path) -> None:
    path, model = tmp_path / "net.nb", models.add_one(("n", 3))
    two = [{"x": (1, 3)}, {"x": (2, 3)}]
    for options, message in (
        (BuildOptions(shapes=two), "one set of input shapes"),
        (BuildOptions(remove_weights=True), "has its weights"),
        (BuildOptions(quantize_type="int16", shapes=two[:1]), "calibrate"),
        (BuildOptions(quantize_type="int4", shapes=two[:1]), "'int4' is unknown"),
        (BuildOptions(soc="rk3588", shapes=two[:1]), "rk3588 is a Rockchip"),
    ):
        with pytest.raises(anynpu.OptionError, match=message):
            build_file(model, path, options)
    assert not path.exists()
    with pytest.raises(anynpu.OptionError, match=r"int16 is for \.nb files"):
        build(classifier(), BuildOptions(quantize=calibration, quantize_type="int16"))
    with pytest.raises(anynpu.OptionError, match="t527 is a chip of Allwinner's"):
        build_file(model, tmp_path / "net.rknn", BuildOptions(soc="t527", shapes=two[:1]))


def test_the_command(tmp_path: Path, calibration: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.onnx").write_bytes(classifier())
    output = tmp_path / "net.nb"
    command = ["build", str(tmp_path / "net.onnx"), "-o", str(output), "--soc", "T527"]
    assert main([*command, "--quantize", str(calibration)]) == 0
    assert "UINT8 1x3x16x16" in capsys.readouterr().out
    assert main([*command, "--quantize", str(calibration), "--quantize-type", "int16"]) == 0
    assert "INT16 1x3x16x16" in capsys.readouterr().out
    assert nbg.read(output.read_bytes()).target == 0x10000016


def test_a_file_that_runs_with_no_twin(tmp_path: Path, vip: VipliteLibrary) -> None:
    path = tmp_path / "net.nb"
    build_file(models.add_one(), path, BuildOptions(soc="t527"))
    assert vip.vip_init() == client.OK
    network = ctypes.c_void_p()
    assert vip.vip_create_network(str(path).encode(), 0, 1, ctypes.byref(network)) == client.OK
    path.unlink()
    assert vip.vip_prepare_network(network) == client.OK
    (found,) = client.infer(vip, network.value or 0, np.ones(60, np.float16))
    np.testing.assert_array_equal(found, 2)
    assert vip.vip_destroy() == client.OK
