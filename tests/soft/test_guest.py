"""A C program that loads the soft NPU: its signals, its environment, its threads, its end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from anynpu import soc
from anynpu.rknn import header
from anynpu.soft.cabi.build import library_folder

from .. import models
from .viplite.client import relu

PROGRAMS = Path(__file__).parent / "programs"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("guest")
    (made / "rknn_api.h").write_text(header.text())
    (made / "model.onnx").write_bytes(models.add_one((1, 3, 4, 5)))
    (made / "slow.onnx").write_bytes(models.repeated_convolution(size=96, filters=32, layers=6))
    (made / "model.nb").write_bytes(relu("t527"))
    return made


@pytest.fixture(scope="module")
def guest(folder: Path, soft_folder: Path, c_compiler: str) -> Path:
    """The program guest.c, linked with the soft NPU."""
    program = folder / "guest"
    command = [c_compiler, "-Wall", "-Werror", f"-I{folder}", "-o", str(program)]
    command += [
        str(PROGRAMS / "guest.c"),
        f"-L{soft_folder}",
        "-lrknnrt",
        "-lpthread",
        "-Wl,--allow-shlib-undefined",
    ]
    subprocess.run(command, check=True)
    return program


@pytest.fixture
def run(guest: Path, folder: Path, soft_folder: Path) -> Run:
    """A function that runs a way of guest.c with a model."""

    def go(way: str, model: str = "model.onnx", **environment: str) -> object:
        return subprocess.run(
            [guest, folder / model, way],
            env={**os.environ, "LD_LIBRARY_PATH": str(soft_folder), **environment},
            check=False,
            capture_output=True,
            text=True,
            timeout=200,
        )

    return go  # type: ignore[return-value]


@pytest.mark.parametrize("way", ["signals", "environment", "small stacks"])
def test_what_is_the_program_s_stays_so(run: Run, way: str) -> None:
    result = run(way)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_the_program_s_environment_is_not_python_s(run: Run, tmp_path: Path) -> None:
    """PYTHONHOME, PYTHONPATH, sitecustomize and the user's site never reach the interpreter."""
    for name in ("sitecustomize", "usercustomize", "json", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('from the program')\n")
    result = run(
        "signals",
        PYTHONHOME="/nowhere",
        PYTHONPATH=str(tmp_path),
        PYTHONUSERBASE=str(tmp_path),
        PYTHONSTARTUP=str(tmp_path / "json.py"),
        PYTHONFAULTHANDLER="1",
        LC_ALL="C",
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_ctrl_c_ends_the_program(guest: Path, folder: Path, soft_folder: Path) -> None:
    process = subprocess.Popen(
        [guest, folder / "model.onnx", "for ever"],
        env={**os.environ, "LD_LIBRARY_PATH": str(soft_folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, errors) == (-signal.SIGINT, "")


@pytest.mark.parametrize("model", ["model.onnx", "slow.onnx"])
def test_leaving_while_other_threads_are_in_calls(run: Run, model: str) -> None:
    """They are waited for, and no call begins any more: nothing is taken apart under a call."""
    for _ in range(2):
        result = run("exit", model)
        assert (result.returncode, result.stderr) == (7, "")


@pytest.mark.parametrize("way", ["fork after", "fork while", "fork during", "fork before"])
def test_forks(run: Run, way: str) -> None:
    """A child of a program that has called gets an error from its calls; it never hangs."""
    result = run(way)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("soc_of_both", [False, True])
def test_two_vendors_libraries(
    folder: Path, soft_folder: Path, c_compiler: str, soc_of_both: bool
) -> None:
    """First calls at once from two threads: one interpreter, and a chip for each library."""
    program = folder / "two_vendors"
    source = PROGRAMS / "two_vendors.c"
    subprocess.run([c_compiler, "-o", program, source, "-ldl", "-lpthread"], check=True)
    rockchip = library_folder(soc.find("rk3588")) if soc_of_both else soft_folder
    allwinner = library_folder(soc.find_vip("t527"))
    command = [program, rockchip / "librknnrt.so", folder / "model.onnx"]
    command += [allwinner / "libVIPlite.so", folder / "model.nb"]
    for _ in range(2):
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=200)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_libraries_are_never_unloaded(soft_folder: Path) -> None:
    text = subprocess.run(
        ["readelf", "-d", soft_folder / "librknnrt.so"], check=True, capture_output=True, text=True
    ).stdout
    assert "NODELETE" in text
