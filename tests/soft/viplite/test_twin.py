"""Compiled files, computed by the ONNX file they were made from, where somebody names that."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anynpu.layouts import dequantize_affine, quantize_affine
from anynpu.soft.formats import nbg
from anynpu.soft.formats.nbg import writer
from anynpu.viplite.abi import SOFT_TWIN, SOFT_TWIN_FOLLOWS, CreateNetworkType, Status
from anynpu.viplite.library import VipliteLibrary

from ... import models
from ...shared import NBG_SAMPLES
from .client import OK, bind_all, bytes_of, create, infer, prepared

U8 = nbg.Tensor("in", (5, 4, 3, 1), 2, 2, scale=0.5, zero_point=100)
I16 = nbg.Tensor("out", (5, 4, 3, 1), 5, 1, fixed_point_pos=4)
VALUES = np.arange(60).astype(np.uint8)
EXPECTED = ((VALUES - 100.0) * 0.5 + 1) * 16


def compiled(**changes: Any) -> bytes:
    """A file whose commands nobody here executes."""
    contents: dict[str, Any] = {
        "name": "net", "target": 0x1000003B, "cores": 1,
        "inputs": (U8,), "outputs": (I16,), "layers": ("conv",),
    }  # fmt: skip
    file = bytearray(writer.write_soft(b"", **(contents | changes)))
    position = nbg.SECTIONS_OFFSET + 8 * nbg.SOFT_SECTION
    file[position + 4 : position + 8] = bytes(4)
    assert nbg.read(bytes(file)).onnx is None
    return bytes(file)


def open_file(vip: VipliteLibrary, path: Path) -> Any:
    network = ctypes.c_void_p()
    code = vip.vip_create_network(
        str(path).encode(), 0, CreateNetworkType.FILE, ctypes.byref(network)
    )
    assert code == OK
    return network.value


def open_for_a_twin(vip: VipliteLibrary, model: bytes) -> Any:
    """A network whose twin will be named."""
    network = ctypes.c_void_p()
    kind = CreateNetworkType.MEMORY | SOFT_TWIN_FOLLOWS
    assert vip.vip_create_network(model, len(model), kind, ctypes.byref(network)) == OK
    return network.value


@pytest.mark.parametrize(
    ("model", "twin"), [("net.nb", "net.onnx"), ("net.t527.nb", "net.onnx"), ("a.b.nb", "a.b.onnx")]
)
def test_a_twin_in_the_file_s_folder(
    vip: VipliteLibrary,
    tmp_path: Path,
    model: str,
    twin: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It is taken where the folder is named, and the log says that it computes."""
    (tmp_path / model).write_bytes(compiled())
    (tmp_path / twin).write_bytes(models.add_one())
    assert create(vip, compiled())[0] == Status.NOT_SUPPORTED
    monkeypatch.setenv("ANYNPU_TWIN", str(tmp_path))
    network = open_file(vip, tmp_path / model)
    assert vip.vip_prepare_network(network) == OK
    assert "computed by the ONNX file that it was made from" in capfd.readouterr().err
    np.testing.assert_array_equal(infer(vip, network, VALUES)[0], EXPECTED.astype(np.int16))


def test_a_twin_in_the_environment(
    vip: VipliteLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = tmp_path / "other.onnx"
    twin.write_bytes(models.add_one())
    monkeypatch.setenv("ANYNPU_TWIN", str(twin))
    with prepared(vip, compiled()) as network:
        np.testing.assert_array_equal(infer(vip, network, VALUES)[0], EXPECTED.astype(np.int16))


def test_a_folder_of_twins_in_the_environment(
    vip: VipliteLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "twins"
    folder.mkdir()
    (folder / "net.onnx").write_bytes(models.add_one())
    (tmp_path / "net.a733.nb").write_bytes(compiled())
    monkeypatch.setenv("ANYNPU_TWIN", str(folder))
    assert vip.vip_prepare_network(open_file(vip, tmp_path / "net.a733.nb")) == OK


def test_of_several_twins_the_one_that_fits(
    vip: VipliteLibrary,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A program that loads networks from memory leaves no name to find twins by."""
    (tmp_path / "a.onnx").write_bytes(models.two_inputs())
    (tmp_path / "b.onnx").write_bytes(models.add_one())
    for setting in (str(tmp_path), f"{tmp_path / 'a.onnx'}:{tmp_path / 'b.onnx'}"):
        monkeypatch.setenv("ANYNPU_TWIN", setting)
        with prepared(vip, compiled()) as network:
            np.testing.assert_array_equal(infer(vip, network, VALUES)[0], EXPECTED.astype(np.int16))
    (tmp_path / "b.onnx").write_bytes(models.add_one((1,)))
    monkeypatch.setenv("ANYNPU_TWIN", str(tmp_path))
    assert create(vip, compiled()) == (Status.FAILURE, None)
    log = capfd.readouterr().err
    assert "a.onnx: the twin doesn't fit 'net': it has 2 inputs" in log
    assert "b.onnx: the twin doesn't fit 'net': input 0: 'x' of shape (1,)" in log


def test_a_twin_for_one_network(vip: VipliteLibrary, tmp_path: Path) -> None:
    twin = tmp_path / "other.onnx"
    twin.write_bytes(models.add_one())
    network = open_for_a_twin(vip, compiled())
    assert vip.vip_set_network(network, SOFT_TWIN, str(twin).encode()) == OK
    assert vip.vip_prepare_network(network) == OK
    np.testing.assert_array_equal(infer(vip, network, VALUES)[0], EXPECTED.astype(np.int16))
    weak = ctypes.c_void_p()
    assert vip.vip_weak_dup_network(network, ctypes.byref(weak)) == OK
    assert vip.vip_prepare_network(weak) == OK


def test_no_twin(vip: VipliteLibrary, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What can't be executed is refused at once, by the operation's layer and with what to do."""
    (tmp_path / "net.onnx").write_bytes(models.add_one())
    assert create(vip, compiled()) == (Status.NOT_SUPPORTED, None)
    log = capfd.readouterr().err
    assert "doesn't execute network 'net': operation 1 of layer 'conv' (soft)" in log
    assert "$ANYNPU_TWIN names the ONNX file" in log
    network = open_for_a_twin(vip, compiled())
    assert vip.vip_prepare_network(network) == Status.NOT_SUPPORTED
    assert vip.vip_set_input(network, 0, 1) == Status.NETWORK_NOT_PREPARED


def test_a_twin_that_is_not_there(
    vip: VipliteLibrary, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    network = open_for_a_twin(vip, compiled())
    assert vip.vip_set_network(network, SOFT_TWIN, b"/none.onnx") == OK
    assert vip.vip_prepare_network(network) == Status.FAILURE
    assert "the twin /none.onnx can't be read" in capfd.readouterr().err
    monkeypatch.setenv("ANYNPU_TWIN", "/none.onnx")
    assert create(vip, compiled()) == (Status.FAILURE, None)
    assert "$ANYNPU_TWIN names /none.onnx, which isn't there" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("twin", "difference"),
    [
        (models.add_one((1, 3, 5, 5)), "input 0: 'x' of shape (1, 3, 5, 5), in the model 'in'"),
        (models.two_inputs(), "it has 2 inputs, the model 1; it has 2 outputs, the model 1"),
        (models.passes(7, (1, 3, 4, 5)), "input 0: 'x' is INT64, in the model 'in' holds reals"),
        (b"nonsense", "neither an ONNX file"),
    ],
)
def test_a_twin_that_does_not_fit(
    vip: VipliteLibrary,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    twin: bytes,
    difference: str,
) -> None:
    (tmp_path / "net.onnx").write_bytes(twin)
    monkeypatch.setenv("ANYNPU_TWIN", str(tmp_path))
    assert create(vip, compiled()) == (Status.FAILURE, None)
    assert difference in capfd.readouterr().err


def test_sizes_of_one_and_open_sizes(
    vip: VipliteLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compilers drop dimensions of one; the model may leave its sizes open."""
    monkeypatch.setenv("ANYNPU_TWIN", str(tmp_path))
    tensors = {"inputs": (nbg.Tensor("in", (5, 4, 3), 0, 0),)}
    tensors["outputs"] = (nbg.Tensor("out", (5, 4, 3, 1, 1), 0, 0),)
    (tmp_path / "net.nb").write_bytes(compiled(**tensors))
    (tmp_path / "net.onnx").write_bytes(models.add_one((1, 3, 4, 5)))
    values = np.arange(60).astype(np.float32)
    network = open_file(vip, tmp_path / "net.nb")
    assert vip.vip_prepare_network(network) == OK
    np.testing.assert_array_equal(infer(vip, network, values)[0], values + 1)
    (tmp_path / "net.onnx").write_bytes(models.add_one(("n", "h", "w")))
    network = open_file(vip, tmp_path / "net.nb")
    assert vip.vip_prepare_network(network) == OK
    np.testing.assert_array_equal(infer(vip, network, values)[0], values + 1)


@pytest.mark.parametrize(
    ("fmt", "quantization", "raw", "expected"),
    [
        # bfloat16 1.5, -2 and 0.25
        (7, {}, np.array([0x3FC0, 0xC000, 0x3E80], np.uint16), [0x4020, 0xBF80, 0x3FA0]),
        # 4 bits: 2, -8 and 7, a row of which takes two bytes
        (13, {}, np.array([0x82, 0x07], np.uint8), [0x93, 0x07]),
        (14, {"quantization": 2, "scale": 0.5, "zero_point": 8},
         np.array([0xA8, 0x0F], np.uint8), [0xCA, 0x0F]),
        (8, {"quantization": 2, "scale": 0.5, "zero_point": 1},
         np.array([1, -9, 100001], np.int32), [3, -7, 100003]),
        (12, {}, np.array([1.5, -2, 1e300]), [2.5, -1, np.inf]),
    ],
)  # fmt: skip
def test_rare_formats(
    vip: VipliteLibrary,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fmt: int,
    quantization: dict[str, Any],
    raw: np.ndarray,
    expected: list[float],
) -> None:
    monkeypatch.setenv("ANYNPU_TWIN", str(tmp_path))
    tensor = nbg.Tensor("t", (3,), fmt, **({"quantization": 0} | quantization))
    (tmp_path / "net.nb").write_bytes(compiled(inputs=(tensor,), outputs=(tensor,)))
    (tmp_path / "net.onnx").write_bytes(models.add_one((3,)))
    network = open_file(vip, tmp_path / "net.nb")
    assert vip.vip_prepare_network(network) == OK
    (source,), (target,) = bind_all(vip, network)
    assert vip.vip_get_buffer_size(source) == raw.nbytes
    bytes_of(vip, source)[:] = raw.view(np.uint8)
    assert vip.vip_run_network(network) == OK
    assert bytes_of(vip, target).view(raw.dtype).tolist() == expected


# ------------------------------------------------------------------------------------ real files


def sample_files() -> list[Path]:
    found = sorted(NBG_SAMPLES.rglob("*.nb"))
    return [path for path in found if path.with_name(twin_name(path)).is_file()]


def twin_name(path: Path) -> str:
    return path.name.rsplit(".", 2)[0] + ".onnx"


# The toolkit's own quantised results leave the float model by more than a few steps in two samples.
STEPS = {"convtanh": 7.5, "c3x3_relu6": 5.5}


def test_real_files_give_the_toolkit_s_results() -> None:
    """By the program: results are within three steps of the toolkit's quantised ones."""
    from anynpu.soft.engines.nbg import vip as engine

    files = sample_files()
    if not files:
        pytest.skip(f"{NBG_SAMPLES} has no files")
    assert len(files) == 100
    for path in files:
        twin = path.with_name(twin_name(path))
        program = engine.load(nbg.read(path.read_bytes()), path, twin)
        instance, ports = program.instance(0), program.variant(0)
        with np.load(path.with_name(twin_name(path)).with_suffix(".npz")) as arrays:
            names = [name for name in arrays.files if name.startswith("in_")]
            for port, array, name in zip(ports.inputs, instance.inputs, names, strict=True):
                if port.quantization is None:
                    array[...] = arrays[name]
                else:
                    scale, zero_point = port.quantization.scale, port.quantization.zero_point
                    quantize_affine(arrays[name], scale, zero_point, out=array)
            instance.run()
            (port,), (found,) = ports.outputs, instance.outputs
            expected = arrays["q_out"]
        step = 1 / 256
        if port.quantization is not None:
            step = port.quantization.scale
            found = dequantize_affine(found, step, port.quantization.zero_point)
        most = STEPS.get(twin_name(path).removesuffix(".onnx"), 3)
        assert np.abs(found - expected).max() <= most * step, path
        instance.close()


def test_a_real_file_through_the_api(
    vip: VipliteLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lenet.a733.nb", "lenet.onnx", "lenet.npz"):
        if not (NBG_SAMPLES / name).is_file():
            pytest.skip(f"{NBG_SAMPLES / name} is not there")
        shutil.copy(NBG_SAMPLES / name, tmp_path)
    monkeypatch.setenv("ANYNPU_TWIN", str(tmp_path))
    network = open_file(vip, tmp_path / "lenet.a733.nb")
    assert vip.vip_prepare_network(network) == OK
    with np.load(tmp_path / "lenet.npz") as arrays:
        pixels = quantize_affine(arrays["in_x"], 0.007833522744476795, 127, np.uint8)
        expected = arrays["q_out"].ravel()
    (found,) = infer(vip, network, pixels)
    np.testing.assert_allclose(found, expected, atol=0.01)
    assert np.argsort(found)[-5:].tolist() == np.argsort(expected)[-5:].tolist()
