"""libawnn's functions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from anynpu.soft.viplite import function_table
from anynpu.tensor import Quantization
from anynpu.viplite import abi

from ... import models
from .client import network_file, relu


@pytest.fixture(params=["table", "shared library"])
def awnn(request: pytest.FixtureRequest, vip_folder: Path) -> Iterator[Any]:
    """The functions, from the table in the process and from the library; initialised."""
    functions = abi.AWNN_FUNCTIONS.items()
    if request.param == "table":
        table = function_table("libawnn_viplite")
        bound = {name: function.prototype(table[name]) for name, function in functions}
    else:
        shared = ctypes.CDLL(str(vip_folder / "libawnn_viplite.so"))
        bound = {name: function.prototype((name, shared)) for name, function in functions}
    library = SimpleNamespace(**bound)
    library.awnn_init()
    yield library
    library.awnn_uninit()


def saved(folder: Path, model: bytes) -> bytes:
    path = folder / "net.nb"
    path.write_bytes(model)
    return str(path).encode()


def run(awnn: Any, context: int, *values: np.ndarray) -> None:
    pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
    awnn.awnn_set_input_buffers(context, pointers)
    awnn.awnn_run(context)


def floats(awnn: Any, context: int, count: int, index: int = 0) -> np.ndarray:
    found = awnn.awnn_get_output_buffers(context)
    return np.ctypeslib.as_array(found[index], (count,))


def test_outputs_are_floats(awnn: Any, tmp_path: Path) -> None:
    context = awnn.awnn_create(saved(tmp_path, relu()))
    assert context
    values = np.arange(100, 160).astype(np.uint8)
    run(awnn, context, values)
    rectified = np.maximum(values, 125)
    np.testing.assert_array_equal(floats(awnn, context, 60), (rectified - 125.0) * 0.5)
    raw = awnn.awnn_get_output_buffer(context, 0)
    np.testing.assert_array_equal(np.frombuffer(ctypes.string_at(raw, 60), np.uint8), rectified)
    assert awnn.awnn_get_output_buffer(context, 1) is None
    assert awnn.awnn_get_output_buffer(context, -1) is None
    awnn.awnn_destroy(context)


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        (None, [1.5, -2, 0.25, 3]),
        (Quantization.fixed_point(9), [1.5, -2, 0.25, 3]),
        (Quantization(0.5, 3), [1.5, -2, 0, 3]),
    ],
)
def test_every_quantisation_is_converted(
    awnn: Any, tmp_path: Path, quantization: Quantization | None, expected: list[float]
) -> None:
    """Also affine int16, which the original takes for fixed point."""
    edges = {"y": quantization} if quantization else {}
    model = network_file(models.add_one((2, 2)), edges=edges)
    context = awnn.awnn_create(saved(tmp_path, model))
    run(awnn, context, np.array([0.5, -3, -0.75, 2], np.float16))
    np.testing.assert_array_equal(floats(awnn, context, 4), np.array(expected, np.float32))
    awnn.awnn_destroy(context)


def test_the_pointers_stay(awnn: Any, tmp_path: Path) -> None:
    context = awnn.awnn_create(saved(tmp_path, network_file(models.two_inputs())))
    six = np.arange(6).astype(np.float16)
    run(awnn, context, six, six)
    added, difference = (floats(awnn, context, 6, index) for index in range(2))
    np.testing.assert_array_equal(added, 2 * six)
    run(awnn, context, six, 2 * six)
    np.testing.assert_array_equal(added, 3 * six)
    np.testing.assert_array_equal(difference, -six)
    awnn.awnn_destroy(context)


def test_dumping(awnn: Any, tmp_path: Path) -> None:
    context = awnn.awnn_create(saved(tmp_path, relu(shape=(1, 3))))
    run(awnn, context, np.array([124, 126, 255], np.uint8))
    awnn.awnn_dump_io(context, str(tmp_path / "io").encode())
    assert (tmp_path / "io.input_0.txt").read_text() == "124\n126\n255\n"
    assert (tmp_path / "io.output_0.txt").read_text() == "0.000000\n0.500000\n65.000000\n"
    awnn.awnn_destroy(context)


def test_what_fails_is_logged(awnn: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert awnn.awnn_create(str(tmp_path / "none.nb").encode()) is None
    assert awnn.awnn_create(None) is None
    assert awnn.awnn_create(saved(tmp_path, b"nonsense")) is None
    assert "not a .nb file" in capfd.readouterr().err
    for context in (None, 0xDEAD):
        awnn.awnn_run(context)
        awnn.awnn_set_input_buffers(context, None)
        awnn.awnn_destroy(context)
        awnn.awnn_dump_io(context, b"x")
        assert not awnn.awnn_get_output_buffers(context)
        assert awnn.awnn_get_output_buffer(context, 0) is None
    assert "awnn_run, awnn context 0xdead is not alive" in capfd.readouterr().err


def test_inputs_that_are_missing(
    awnn: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    context = awnn.awnn_create(saved(tmp_path, relu()))
    awnn.awnn_set_input_buffers(context, None)
    awnn.awnn_set_input_buffers(context, (ctypes.c_void_p * 1)(None))
    assert capfd.readouterr().err.count("pointer is NULL") == 2
    awnn.awnn_dump_io(context, None)
    awnn.awnn_dump_io(context, str(tmp_path / "none" / "io").encode())
    assert "can't be written" in capfd.readouterr().err


def test_calls_before_initialising(awnn: Any, capfd: pytest.CaptureFixture[str]) -> None:
    awnn.awnn_uninit()
    assert awnn.awnn_create(b"net.nb") is None
    assert "vip_init has not been called" in capfd.readouterr().err
    awnn.awnn_init()
