"""C programs of ours against VIPLite's and libawnn's generated headers, on the soft NPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anynpu import soc
from anynpu.soft.cabi.build import library_folder
from anynpu.viplite import header
from anynpu.viplite.abi import Interface

from ..soft.viplite.client import relu

PROGRAMS = Path(__file__).with_name("programs") / "viplite"
LINKED = {
    Interface.V85X: ("v853", ("VIPlite", "VIPuser"), 0x10300),
    Interface.V1_13: ("t527", ("VIPlite", "VIPuser"), 0x10D00),
    Interface.V2_0: ("a733", ("NBGlinker", "VIPhal"), 0x20003),
}
VALUES = np.arange(100, 160).astype(np.uint8)
RECTIFIED = np.maximum(VALUES, 125)
Compile = Callable[[str, Interface], tuple[Path, Path]]


@pytest.fixture(scope="module")
def compiled(
    tmp_path_factory: pytest.TempPathFactory, c_compiler: str, _own_cache: None
) -> Compile:
    """A function that compiles a program for an interface; (program, the libraries' folder)."""
    work = tmp_path_factory.mktemp("viplite")

    def compile_program(name: str, interface: Interface) -> tuple[Path, Path]:
        chip, libraries, _ = LINKED[interface]
        headers = work / interface.label
        headers.mkdir(exist_ok=True)
        (headers / "vip_lite.h").write_text(header.text(interface))
        (headers / "awnn_lib.h").write_text(header.awnn_text())
        folder, program = library_folder(soc.find_vip(chip)), headers / name
        linked = ["awnn_viplite"] if name == "awnn" else libraries
        subprocess.run(
            [
                c_compiler, "-std=c11", "-Wall", "-Wextra", "-Werror",
                *(["-DOLD_FORMS"] if interface is Interface.V85X else []),
                "-I", str(headers), "-o", str(program), str(PROGRAMS / f"{name}.c"),
                "-L", str(folder), *(f"-l{library}" for library in linked), "-lpthread",
            ],
            check=True,
        )  # fmt: skip
        return program, folder

    return compile_program


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """(model, input, output)."""
    source = tmp_path / "in.bin"
    VALUES.tofile(source)
    return tmp_path / "net.nb", source, tmp_path / "out.bin"


def run(program: Path, folder: Path, *arguments: object) -> tuple[list[str], str]:
    """The lines on the standard output, and the log, of a program that has to end well."""
    result = subprocess.run(
        [program, *map(str, arguments)],
        env={"LD_LIBRARY_PATH": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines(), result.stderr


@pytest.mark.parametrize("interface", Interface)
def test_one_network(
    compiled: Compile, files: tuple[Path, Path, Path], interface: Interface
) -> None:
    program, folder = compiled("general", interface)
    chip, _, version = LINKED[interface]
    model, source, output = files
    model.write_bytes(relu(chip))
    printed, log = run(program, folder, model, source, output)
    assert printed[0] == f"version {version:#x}"
    assert printed[1:3] == [
        "input x sizes 5 4 3 1 format 2 quantisation 2",
        "output y sizes 5 4 3 1 format 2 quantisation 2",
    ]
    assert "internal error" not in log
    expected = np.tile(RECTIFIED, 2)
    np.testing.assert_array_equal(np.fromfile(output, np.uint8), expected)


@pytest.mark.parametrize("interface", Interface)
def test_many_threads(
    compiled: Compile, files: tuple[Path, Path, Path], interface: Interface
) -> None:
    program, folder = compiled("threads", interface)
    model, source, output = files
    model.write_bytes(relu(LINKED[interface][0]))
    _, log = run(program, folder, model, source, output, 8)
    assert "internal error" not in log
    np.testing.assert_array_equal(np.fromfile(output, np.uint8), np.tile(RECTIFIED, 8))


def test_awnn(compiled: Compile, files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    program, folder = compiled("awnn", Interface.V1_13)
    model, source, output = files
    model.write_bytes(relu("t527"))
    printed, log = run(program, folder, model, source, output, 60, tmp_path / "dump")
    assert printed == []
    assert "/none.nb can't be read" in log
    np.testing.assert_array_equal(np.fromfile(output, np.float32), (RECTIFIED - 125.0) * 0.5)
    assert (tmp_path / "dump.input_0.txt").read_text().split() == [str(v) for v in VALUES]
    assert len((tmp_path / "dump.output_0.txt").read_text().split()) == 60


def test_the_command_finds_the_libraries(compiled: Compile, files: tuple[Path, Path, Path]) -> None:
    program, _ = compiled("general", Interface.V2_0)
    model, source, output = files
    model.write_bytes(relu("t736"))
    command = [sys.executable, "-m", "anynpu.cli", "soft", "run", "--soc", "t736", "--"]
    result = subprocess.run(
        [*command, program, model, source, output],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_a_network_for_another_chip(compiled: Compile, files: tuple[Path, Path, Path]) -> None:
    program, folder = compiled("general", Interface.V2_0)
    model, source, output = files
    model.write_bytes(relu("t527"))
    result = subprocess.run(
        [program, model, source, output],
        env={"LD_LIBRARY_PATH": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert result.returncode == 1
    assert "is for NPU 0x10000016 (t527, mr527, ai985), this is a733" in result.stderr
