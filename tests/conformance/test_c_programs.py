"""C programs of ours, compiled against the generated header, on the soft NPU's libraries."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import anynpu
from anynpu import soc
from anynpu.rknn import header
from anynpu.soft.cabi.build import library_folder

from .. import models

PROGRAMS = Path(__file__).with_name("programs")
NORMALISED = {"anynpu.mean": '{"x": [20, 30, 40]}', "anynpu.std": '{"x": [2, 2, 2]}'}
Runner = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, c_compiler: str) -> Callable[..., Path]:
    """A function that compiles a program, linked as a user links: to a library by its name."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "rknn_api.h").write_text(header.text())

    def compile_program(name: str, libraries: Path, library: str, *options: str) -> Path:
        program = folder / f"{name}-{library}"
        source = PROGRAMS / f"{name}.c"
        warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
        files = ["-I", str(folder), "-o", str(program), str(source)]
        link = ["-L", str(libraries), f"-l{library}", "-lpthread"]
        subprocess.run([c_compiler, *warnings, *options, *files, *link], check=True)
        return program

    return compile_program


def run(
    program: Path, libraries: Path, *arguments: object, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *map(str, arguments)],
        env={"LD_LIBRARY_PATH": str(libraries), "PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def succeed(
    program: Path, libraries: Path, *arguments: object, **environment: str
) -> tuple[list[str], list[str]]:
    """The lines on the standard output and in the log of a program that has to end well."""
    result = run(program, libraries, *arguments, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines(), result.stderr.splitlines()


@pytest.mark.parametrize("threads", [0, 8])
def test_the_general_api(
    compiled: Callable[..., Path], soft_folder: Path, tmp_path: Path, threads: int
) -> None:
    values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
    model, source, output = (tmp_path / name for name in ("model.onnx", "in.bin", "out.bin"))
    model.write_bytes(models.convolution())
    interleaved(values).tofile(source)
    program = compiled("general", soft_folder, "rknnrt")
    arguments = [threads] if threads else []
    printed, log = succeed(program, soft_folder, model, source, output, *arguments)
    # The program destroys each context twice on purpose.
    assert len(log) == 2 * (threads + 1)
    assert sum(line.endswith("is not alive") for line in log) == threads + 1
    assert sum(line.endswith("answer this with SIGSEGV") for line in log) == threads + 1
    assert printed[1:] == [
        "input x dims 1 16 16 3 fmt 1 type 1 size 1536 zp 0 scale 1",
        "output y dims 1 8 16 16 fmt 0 type 1 size 4096 zp 0 scale 1",
    ]
    np.testing.assert_array_equal(np.fromfile(output, np.float32), by_python(model, values))


def test_a_link_stands_for_the_library(
    compiled: Callable[..., Path], soft_folder: Path, tmp_path: Path
) -> None:
    """Programs that open /usr/lib/librknnrt.so by that name are given a link there."""
    values = np.ones((1, 3, 16, 16), np.float32)
    model, source, output = (tmp_path / name for name in ("model.onnx", "in.bin", "out.bin"))
    model.write_bytes(models.convolution())
    values.tofile(source)
    linked = tmp_path / "lib"
    linked.mkdir()
    (linked / "librknnrt.so").symlink_to(soft_folder / "librknnrt.so")
    succeed(compiled("general", soft_folder, "rknnrt"), linked, model, source, output)
    np.testing.assert_array_equal(np.fromfile(output, np.float32), by_python(model, values))


def interleaved(images: np.ndarray) -> np.ndarray:
    """Images as programs have to give them: (N, C, H, W) to (N, H, W, C)."""
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1))


def by_python(model: Path, value: np.ndarray) -> np.ndarray:
    """The first output as `Model` gives it, flat."""
    with anynpu.Model(model) as opened:
        opened.run(value)
        return opened.output_f32(0).ravel()


@pytest.mark.parametrize(
    ("chip", "blocks"),
    [
        ("rk3588", "2 4 13 16"),
        ("rk3576", "2 4 13 16"),
        ("rk3566", "1 4 13 8"),
        ("rv1106", "1 4 13 16"),
    ],
)
def test_zero_copy(compiled: Callable[..., Path], tmp_path: Path, chip: str, blocks: str) -> None:
    small = chip == "rv1106"
    libraries = library_folder(soc.find(chip))
    # 13 is no multiple of any chip's width alignment: rows have padding.
    pixels = np.random.default_rng(0).integers(0, 255, (1, 4, 13, 3)).astype(np.uint8)
    metadata = {"anynpu.soc": chip, **NORMALISED}
    model, source, output = (tmp_path / name for name in ("model.rknn", "in.bin", "out.bin"))
    model.write_bytes(models.quantized((1, 3, 4, 13), scale=0.7, metadata=metadata))
    pixels.tofile(source)
    options = ["-DSMALL_RUNTIME"] if small else []
    library = "rknnmrt" if small else "rknnrt"
    program = compiled("zero_copy", libraries, library, *options)
    printed, log = succeed(program, libraries, model, source, output)
    assert log == []
    assert "native input x dims 1 4 13 3 fmt 1" in printed[0]
    assert f"native output y dims 1 {blocks} fmt 2 type 2" in printed[1]
    np.testing.assert_array_equal(np.fromfile(output, np.float32), by_python(model, pixels))


def test_dynamic_shapes(compiled: Callable[..., Path], soft_folder: Path, tmp_path: Path) -> None:
    sizes = [(8, 8), (12, 16), (16, 8)]
    model, output = tmp_path / "model.rknn", tmp_path / "out.bin"
    model.write_bytes(models.dynamic(sizes))
    program = compiled("dynamic_shapes", soft_folder, "rknnrt")
    printed, log = succeed(program, soft_folder, model, output)
    assert log == []
    assert printed[0] == "x has 3 shapes"
    expected = []
    with anynpu.Model(model) as opened:
        for h, w in reversed(sizes):
            opened.set_shapes((1, h, w, 3))
            opened.run(np.arange(h * w * 3).astype(np.uint8).reshape(1, h, w, 3))
            expected.append(opened.output_f32(0).ravel())
    np.testing.assert_array_equal(np.fromfile(output, np.float32), np.concatenate(expected))


@pytest.mark.parametrize("clock", ["host", "model"])
def test_many_contexts(
    compiled: Callable[..., Path], soft_folder: Path, tmp_path: Path, clock: str
) -> None:
    values = np.random.default_rng(0).normal(0, 1, (1, 3, 16, 16)).astype(np.float32)
    model, source, output = (tmp_path / name for name in ("model.onnx", "in.bin", "out.bin"))
    model.write_bytes(models.deep())
    interleaved(values).tofile(source)
    program = compiled("many_contexts", soft_folder, "rknnrt")
    _, log = succeed(program, soft_folder, model, source, output, ANYNPU_SOFT_CLOCK=clock)
    assert log == []
    np.testing.assert_array_equal(np.fromfile(output, np.float32), by_python(model, values))


def test_custom_operators(compiled: Callable[..., Path], soft_folder: Path, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(-9, 9, (1, 3, 4, 5)).astype(np.float32)
    model, source, output = (tmp_path / name for name in ("model.onnx", "in.bin", "out.bin"))
    model.write_bytes(
        models.save(
            [
                helper.make_node("cstScale", ["x"], ["a"], "first", domain="tests", factor=-2.5),
                helper.make_node("Abs", ["a"], ["y"], domain="tests"),
            ],
            [("x", models.FLOAT, values.shape)],
            [("y", models.FLOAT, values.shape)],
        )
    )
    interleaved(values).tofile(source)
    program = compiled("custom_op", soft_folder, "rknnrt")
    printed, log = succeed(program, soft_folder, model, source, output)
    assert log == []
    assert printed == ["init first factor -2.5", "destroy after 2 runs"]
    np.testing.assert_array_equal(np.fromfile(output, np.float32), np.abs(values * -2.5).ravel())


def test_a_program_without_its_configuration(
    compiled: Callable[..., Path], soft_folder: Path, tmp_path: Path
) -> None:
    """A library that was copied away from its folder says so instead of crashing."""
    (tmp_path / "librknnrt.so").write_bytes((soft_folder / "librknnrt.so").read_bytes())
    model, source, output = (tmp_path / name for name in ("model.onnx", "in.bin", "out.bin"))
    model.write_bytes(models.add_one((1, 1)))
    source.write_bytes(bytes(4))
    program = compiled("general", soft_folder, "rknnrt")
    result = run(program, tmp_path, model, source, output)
    assert result.returncode == 1
    assert "run `anynpu soft lib`" in result.stderr


def test_matrix_products(compiled: Callable[..., Path], soft_folder: Path) -> None:
    program = compiled("matmul", soft_folder, "rknnrt")
    printed, log = succeed(program, soft_folder)
    assert len(printed) == 3 * 3 * 2
    # The program misuses each product three times on purpose; one would end it on a board.
    assert len(log) == 4 * len(printed)
