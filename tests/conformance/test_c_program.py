"""A C program of ours, compiled against the generated header, on the soft NPU's library."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu.rknn import header

from .. import models

CLIENT = Path(__file__).with_name("client.c")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, c_compiler: str, soft_folder: Path) -> Path:
    """The compiled program, linked as a user links: against librknnrt.so by its name."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "rknn_api.h").write_text(header.text())
    program = folder / "client"
    subprocess.run(
        [
            c_compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", folder, "-o", program,
            CLIENT, "-L", soft_folder, "-lrknnrt", "-lpthread",
        ],
        check=True,
    )  # fmt: skip
    return program


def run(client: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"LD_LIBRARY_PATH": str(folder), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [client, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("threads", [0, 8])
def test_numbers_are_those_of_python(
    client: Path, soft_folder: Path, tmp_path: Path, threads: int
) -> None:
    values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
    (tmp_path / "model.onnx").write_bytes(models.convolution())
    values.tofile(tmp_path / "input.bin")
    paths = [str(tmp_path / name) for name in ("model.onnx", "input.bin", "output.bin")]
    result = run(client, soft_folder, *paths, *([str(threads)] if threads else []))
    assert result.returncode == 0, result.stderr
    # The client destroys each context twice on purpose.
    log = result.stderr.splitlines()
    assert len(log) == threads + 1
    assert all(line.endswith("is not alive") for line in log)
    assert result.stdout.splitlines()[1:] == [
        "input x dims 1 16 16 3 fmt 1 type 1 size 1536 zp 0 scale 1",
        "output y dims 1 8 16 16 fmt 0 type 1 size 4096 zp 0 scale 1",
    ]
    with anynpu.Model(models.convolution()) as model:
        model.run(values)
        expected = model.output_f32(0)
    found = np.fromfile(tmp_path / "output.bin", np.float32).reshape(expected.shape)
    np.testing.assert_array_equal(found, expected)


def test_a_program_without_its_configuration(
    client: Path, soft_folder: Path, tmp_path: Path
) -> None:
    """A library that was copied away from its folder says so instead of crashing."""
    (tmp_path / "librknnrt.so").write_bytes((soft_folder / "librknnrt.so").read_bytes())
    (tmp_path / "model.onnx").write_bytes(models.add_one((1, 1)))
    (tmp_path / "input.bin").write_bytes(bytes(4))
    paths = [str(tmp_path / name) for name in ("model.onnx", "input.bin", "output.bin")]
    result = run(client, tmp_path, *paths)
    assert result.returncode == 1
    assert "run `anynpu soft lib`" in result.stderr
