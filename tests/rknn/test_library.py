"""Finding and loading a runtime library."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

import anynpu
from anynpu.rknn import library
from anynpu.rknn.library import RknnLibrary, load

OLD_RUNTIME = "int rknn_init(void) { return -3; }\nint rknn_destroy(void) { return 0; }\n"


@pytest.fixture
def old_runtime(tmp_path: Path, c_compiler: str) -> Path:
    """A stand-in for an old vendor's library: it has two functions, and no device."""
    source, output = tmp_path / "old.c", tmp_path / "librknnrt.so"
    source.write_text(OLD_RUNTIME)
    subprocess.run([c_compiler, "-shared", "-fPIC", "-o", output, source], check=True)
    return output


def test_soft_by_name() -> None:
    assert load("soft").is_soft
    assert load("soft") is load()


def test_a_loaded_library_is_taken_as_it_is() -> None:
    assert load(load("soft")) is load("soft")


def test_an_explicit_path_beats_the_environment(
    old_runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_DEVICE", "auto")
    monkeypatch.setenv("ANYNPU_RKNN_LIBRARY", "/nowhere/librknnrt.so")
    found = load(old_runtime)
    assert (found.path, found.is_soft) == (str(old_runtime), False)


def test_the_environment_names_a_library(
    old_runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYNPU_RKNN_LIBRARY", str(old_runtime))
    for device in ("auto", "board"):
        monkeypatch.setenv("ANYNPU_DEVICE", device)
        assert load().path == str(old_runtime)
    monkeypatch.setenv("ANYNPU_DEVICE", "soft")
    assert load().is_soft


def test_a_named_library_that_does_not_load_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_DEVICE", "auto")
    monkeypatch.setenv("ANYNPU_RKNN_LIBRARY", "/nowhere/librknnrt.so")
    with pytest.raises(anynpu.LibraryNotFoundError, match="ANYNPU_RKNN_LIBRARY") as caught:
        load()
    assert caught.value.attempts[0][0] == "/nowhere/librknnrt.so"
    with pytest.raises(anynpu.LibraryNotFoundError, match=r"/elsewhere\.so"):
        load("/elsewhere.so")


def test_the_usual_folders_are_searched(old_runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_DEVICE", "board")
    monkeypatch.setattr(library, "_FOLDERS", (old_runtime.parent / "empty", old_runtime.parent))
    assert load().path == str(old_runtime)


def test_a_board_without_a_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANYNPU_DEVICE", "board")
    (tmp_path / "librknnrt.so").write_text("not a library")
    monkeypatch.setattr(library, "_FOLDERS", (tmp_path,))
    with pytest.raises(anynpu.LibraryNotFoundError) as caught:
        load()
    assert isinstance(caught.value, OSError)
    tried = [what for what, _ in caught.value.attempts]
    assert tried == [
        "librknnrt.so",
        "librknnmrt.so",
        str(tmp_path / "librknnrt.so"),
        str(tmp_path / "librknnmrt.so"),
    ]
    assert "invalid ELF header" in str(caught.value) or "too short" in str(caught.value)


def test_the_soft_library_is_no_board(soft_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_FOLDERS", (soft_folder,))
    monkeypatch.setenv("ANYNPU_DEVICE", "auto")
    assert load().is_soft
    monkeypatch.setenv("ANYNPU_DEVICE", "board")
    with pytest.raises(anynpu.LibraryNotFoundError, match="soft NPU"):
        load()
    monkeypatch.setenv("ANYNPU_RKNN_LIBRARY", "soft")
    with pytest.raises(anynpu.LibraryNotFoundError):
        load()


def test_an_unknown_device_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_DEVICE", "gpu")
    with pytest.raises(anynpu.OptionError, match="auto, board, soft"):
        load()


def test_missing_functions_raise_when_they_are_used(old_runtime: Path) -> None:
    found = load(old_runtime)
    assert found.has("rknn_init")
    assert not found.has("rknn_mem_sync")
    with pytest.raises(
        anynpu.MissingFunctionError, match=r"rknn_mem_sync; it comes with version 1\.6\.0"
    ):
        found.rknn_mem_sync(0, None, 1)
    with pytest.raises(AttributeError, match="no function 'rknn_fly'"):
        _ = found.rknn_fly


def test_a_runtime_without_a_device(old_runtime: Path, tmp_path: Path) -> None:
    with pytest.raises(anynpu.DeviceError, match="RKNN_ERR_DEVICE_UNAVAILABLE") as caught:
        anynpu.Model(b"model", library=old_runtime)
    assert (caught.value.call, caught.value.code) == ("rknn_init", -3)
    assert isinstance(caught.value, RuntimeError)


def test_falling_back_warns_once_a_process() -> None:
    program = (
        "import warnings; warnings.simplefilter('always')\n"
        "from anynpu.rknn.library import load\n"
        "load(); load(); load()\n"
    )
    environment = {"PATH": "/usr/bin:/bin"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr.count("SoftNpuWarning") == 1
    assert "simulation" in result.stderr


def test_functions_that_are_not_built_are_not_exported(npu: RknnLibrary, soft_folder: Path) -> None:
    from anynpu.rknn.abi import FUNCTIONS
    from anynpu.soft.rknn import IMPLEMENTED

    shared = ctypes.CDLL(str(soft_folder / "librknnrt.so"))
    for name in FUNCTIONS:
        assert npu.has(name) == hasattr(shared, name) == (name in IMPLEMENTED)
