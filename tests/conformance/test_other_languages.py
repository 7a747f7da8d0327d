"""Programs of ours in Rust and Go on the soft NPU's libraries, as `anynpu soft run` starts them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu.rknn import header
from anynpu.soft.cabi.build import library_folder

from .. import models

PROGRAMS = Path(__file__).with_name("programs")


def _tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} to compile the program with")
    return found


def _soft_run(soc: str, *command: object) -> None:
    program = [sys.executable, "-m", "anynpu.cli", "soft", "run", "--soc", soc, "--"]
    subprocess.run([*program, *map(str, command)], check=True, timeout=120)


def _files(folder: Path, model: bytes) -> tuple[Path, Path, Path]:
    files = folder / "model.rknn", folder / "in.bin", folder / "out.bin"
    files[0].write_bytes(model)
    return files


def test_rust(tmp_path: Path) -> None:
    """It opens /usr/lib/librknnmrt.so, and has four bytes for a handle."""
    program = tmp_path / "zero_copy"
    options = ["--edition", "2021", "-o", str(program)]
    subprocess.run([_tool("rustc"), *options, PROGRAMS / "zero_copy.rs"], check=True, cwd=tmp_path)
    metadata = {"anynpu.soc": "rv1106", "anynpu.mean": '{"x": [20, 30, 40]}'}
    network = models.quantized((1, 3, 4, 16), scale=0.7, metadata=metadata)
    model, source, output = _files(tmp_path, network)
    pixels = np.random.default_rng(0).integers(0, 255, (1, 4, 16, 3)).astype(np.uint8)
    pixels.tofile(source)
    _soft_run("rv1106", program, model, source, output)
    with anynpu.Model(model) as opened:
        opened.run(pixels)
        expected = np.array(opened.output_raw(0))
    np.testing.assert_array_equal(np.fromfile(output, np.uint8), expected.view(np.uint8).ravel())


def test_go(tmp_path: Path) -> None:
    folder = library_folder()
    (tmp_path / "rknn_api.h").write_text(header.text())
    program = tmp_path / "general"
    environment = {
        **os.environ,
        "CGO_ENABLED": "1",
        "CGO_CFLAGS": f"-I{tmp_path}",
        "CGO_LDFLAGS": f"-L{folder}",
        "GOCACHE": str(tmp_path / "cache"),
    }
    build = [_tool("go"), "build", "-o", str(program), str(PROGRAMS / "go" / "general.go")]
    subprocess.run(build, check=True, env=environment, cwd=tmp_path)
    values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
    model, source, output = _files(tmp_path, models.convolution())
    np.ascontiguousarray(values.transpose(0, 2, 3, 1)).tofile(source)
    _soft_run("rk3588", program, model, source, output)
    (expected,) = anynpu.InferenceSession(model).run(None, {"x": values})
    np.testing.assert_array_equal(np.fromfile(output, np.float32), expected.ravel())
