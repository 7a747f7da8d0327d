"""A Python process that isn't ours loads the soft NPU's library with ctypes."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .. import models

PROGRAM = """
import ctypes, sys, threading
library = ctypes.CDLL(sys.argv[1])
codes = []
def work():
    context = ctypes.c_uint64()
    codes.append(library.rknn_init(ctypes.byref(context), sys.argv[2].encode(), 0, 0, None))
    if codes[-1] == 0:
        codes.append(library.rknn_destroy(context))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(set(codes)), "numpy" in sys.modules, sorted(n for n in dir() if "anynpu" in n.lower()))
"""


def interpreters() -> dict[tuple[int, int], str]:
    """Other Python interpreters on this machine, by version."""
    candidates = [shutil.which(f"python3.{minor}") for minor in range(8, 16)]
    candidates += glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python"))
    found: dict[tuple[int, int], str] = {}
    for candidate in filter(None, candidates):
        query = [candidate, "-c", "import sys; print(*sys.version_info[:2])"]
        result = subprocess.run(query, capture_output=True, text=True, check=False)
        if result.returncode == 0 and result.stdout.startswith("3 "):
            major, minor = map(int, result.stdout.split())
            found.setdefault((major, minor), candidate)
    return found


def run(python: str, library: Path, model: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-I", "-c", PROGRAM, library, model],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.onnx"
    file.write_bytes(models.add_one())
    return file


def test_the_same_version_joins(soft_folder: Path, model: Path) -> None:
    """The environment's base interpreter has none of our packages until the library adds them."""
    python = Path(sys.base_prefix, "bin", "python{}.{}".format(*sys.version_info[:2]))
    result = run(str(python), soft_folder / "librknnrt.so", model)
    assert (result.returncode, result.stdout, result.stderr) == (0, "[0] True []\n", "")


def test_leaving_python_with_calls_in_flight(soft_folder: Path, tmp_path: Path) -> None:
    """Threads that still compute when the interpreter ends neither crash it nor hang it."""
    file = tmp_path / "model.onnx"
    file.write_bytes(models.convolution(size=128, filters=64))
    program = """
import ctypes, sys, threading, time
library = ctypes.CDLL(sys.argv[1])
library.rknn_run.argtypes = (ctypes.c_uint64, ctypes.c_void_p)
values = (ctypes.c_float * (3 * 128 * 128))()
class Input(ctypes.Structure):
    _fields_ = [("index", ctypes.c_uint32), ("buf", ctypes.c_void_p), ("size", ctypes.c_uint32),
                ("pass_through", ctypes.c_uint8), ("type", ctypes.c_int), ("fmt", ctypes.c_int)]
runs = 0
def work():
    global runs
    context = ctypes.c_uint64()
    assert library.rknn_init(ctypes.byref(context), sys.argv[2].encode(), 0, 0, None) == 0
    given = Input(0, ctypes.addressof(values), ctypes.sizeof(values), 0, 0, 1)
    assert library.rknn_inputs_set(context, 1, ctypes.byref(given)) == 0
    while library.rknn_run(context, None) == 0:
        runs += 1
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
while runs < 5:
    time.sleep(0.01)
print("leaving")
"""
    python = Path(sys.base_prefix, "bin", "python{}.{}".format(*sys.version_info[:2]))
    for _ in range(3):
        result = subprocess.run(
            [python, "-I", "-c", program, soft_folder / "librknnrt.so", file],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (result.returncode, result.stdout, result.stderr) == (0, "leaving\n", "")


def test_another_version_is_refused_with_the_reason(soft_folder: Path, model: Path) -> None:
    others = {v: p for v, p in interpreters().items() if v != sys.version_info[:2]}
    if not others:
        pytest.skip("there is no other version of Python on this machine")
    for version, python in others.items():
        result = run(python, soft_folder / "librknnrt.so", model)
        assert (result.returncode, result.stdout) == (0, "[-3] False []\n"), result.stderr
        assert "set up for Python {}.{}".format(*sys.version_info[:2]) in result.stderr
        assert "the process runs Python {}.{}".format(*version) in result.stderr
        assert result.stderr.count("did not start") == 1


def test_an_environment_that_is_gone(soft_folder: Path, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(soft_folder, folder)
    boot = folder / "anynpu_soft_boot.py"
    lines = boot.read_text().splitlines()
    lines = ["FOLDERS = ['/gone']" if line.startswith("FOLDERS") else line for line in lines]
    boot.write_text("\n".join(lines))
    python = Path(sys.base_prefix, "bin", "python{}.{}".format(*sys.version_info[:2]))
    result = run(str(python), folder / "librknnrt.so", model)
    assert (result.returncode, result.stdout) == (0, "[-3] False []\n")
    assert "No module named 'anynpu'" in result.stderr
    assert "still installed in one of ['/gone']" in result.stderr


def test_our_own_process_may_load_the_library_too(soft_folder: Path) -> None:
    """`anynpu soft run -- python script.py`: the loader finds the shared library first."""
    program = (
        "import anynpu, numpy\n"
        "session = anynpu.InferenceSession(MODEL)\n"
        "print(session.get_modelmeta().custom_metadata_map['library'])\n"
        "print(session.run(None, numpy.zeros((1, 2)))[0])\n"
    ).replace("MODEL", repr(models.add_one((1, 2))))
    environment = os.environ | {"LD_LIBRARY_PATH": str(soft_folder), "ANYNPU_DEVICE": "auto"}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "librknnrt.so\n[[1. 1.]]\n"
