"""What is kept between processes: who may read it, damage, several at once, limits, the command."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anynpu
from anynpu.cli import main
from anynpu.native import cache, library
from anynpu.session import model_store
from anynpu.soft.cabi.build import library_folder

from .. import models


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in a folder of its own, named by the variable, with nothing prebuilt."""
    monkeypatch.setenv("ANYNPU_CACHE", str(tmp_path))
    monkeypatch.setattr(library, "_built_before", lambda name: None)
    return tmp_path


def test_a_shared_cache_may_be_read_by_others(shared: Path) -> None:
    assert library.load("door") is not None
    (file,) = (shared / "native").glob("*.so")
    assert file.stat().st_mode & 0o777 == 0o644
    assert (shared / "native").stat().st_mode & 0o055 == 0o055
    folder = library_folder()
    assert folder.stat().st_mode & 0o055 == 0o055
    assert all(file.stat().st_mode & 0o044 == 0o044 for file in folder.iterdir())


def test_one_in_the_home_is_the_user_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANYNPU_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "anynpu").mkdir(0o755)
    folder = cache.made_folder("native")
    assert folder == tmp_path / "anynpu" / "native"
    assert (tmp_path / "anynpu").stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", ["cut off", "changed", "empty"])
def test_a_damaged_library_is_built_again(shared: Path, damage: str) -> None:
    source = shared / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    made = []

    def make(file: Path) -> None:
        made.append(file)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", file, source], check=True)

    file = cache.kept("native", "one.so", make)
    content = file.read_bytes()
    changed = content[:200] + b"\0\0\0\0" + content[204:]
    file.unlink()
    file.write_bytes({"cut off": content[:5000], "changed": changed, "empty": b""}[damage])
    assert cache.kept("native", "one.so", make) == file
    assert len(made) == 2
    assert ctypes.CDLL(str(file)).one() == 1
    cache.kept("native", "one.so", make)
    assert len(made) == 2


def test_a_damaged_soft_library_is_made_again(shared: Path) -> None:
    folder = library_folder()
    file = folder / "librknnrt.so"
    content = file.read_bytes()
    file.write_bytes(content[:4096])
    assert library_folder() == folder
    assert cache.is_whole(file)
    (folder / "anynpu_soft_boot.py").unlink()
    assert library_folder() == folder
    assert (folder / "anynpu_soft_boot.py").is_file()


def test_eight_first_users_compile_once(shared: Path) -> None:
    compiler = shared / "cc"
    compiler.write_text(f'#!/bin/sh\necho >> {shared}/compiled\nexec cc "$@"\n')
    compiler.chmod(0o755)
    text = "from anynpu.native import library; library._built_before = lambda name: None; "
    text += "assert library.load('steps') is not None"
    processes = [
        subprocess.Popen([sys.executable, "-c", text], env={**os.environ, "CC": str(compiler)})
        for _ in range(8)
    ]
    assert [process.wait(120) for process in processes] == [0] * 8
    assert (shared / "compiled").read_text() == "\n"


def test_kept_models_are_bounded(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_store, "MOST_KEPT", 1000)
    kept = [model_store.keep(bytes([number]) * 300) for number in range(10)]
    files = [file for file in (shared / "models").iterdir() if file.name != ".lock"]
    assert sum(file.stat().st_size for file in files) <= 1000
    assert model_store.find(kept[-1]) == b"\x09" * 300
    with pytest.raises(anynpu.ModelError, match="aren't on this machine"):
        model_store.find(kept[0])
    large = model_store.keep(b"x" * 5000)
    assert model_store.find(large) == b"x" * 5000


def test_a_damaged_kept_model_is_refused(shared: Path) -> None:
    with anynpu.InferenceSession(models.add_one()) as session:
        data = pickle.dumps(session)
    (file,) = (f for f in (shared / "models").iterdir() if f.name != ".lock")
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    with pytest.raises(anynpu.ModelError, match="copy the model to"):
        pickle.loads(data)


def test_the_command(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library.load("steps")
    assert main(["cache"]) == 0
    assert str(shared) in capsys.readouterr().out
    assert cache.size_of("native") > 0
    other = shared / "notes.txt"
    other.write_text("not ours")
    assert main(["cache", "--clear"]) == 0
    assert cache.size_of("native") == 0
    assert other.is_file()


def test_a_full_disk_or_one_that_can_t_be_written(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy does the work then, after a warning; nothing half written is left."""

    def fail(source: Path, output: Path) -> None:
        output.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(library, "compile_shared", fail)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert library.load("steps") is None
    assert [file.name for file in (shared / "native").iterdir()] == [".lock"]


def test_a_buffer_s_descriptor_can_t_shrink() -> None:
    """A client that got it by rknn_create_mem can't take the mapping away."""
    with anynpu.Model(models.add_one((1, 3, 4, 5)), library="soft") as model:
        model.run(np.zeros((1, 4, 5, 3), np.uint8))
        context = model._device._context  # type: ignore[attr-defined]
        memory = context.create_memory(8192)
        with pytest.raises(PermissionError):
            os.ftruncate(memory.fd, 0)
        assert os.fstat(memory.fd).st_size >= 8192
