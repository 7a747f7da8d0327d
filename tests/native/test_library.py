"""Where builds of the C helpers are kept."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from anynpu.native import compiler, library


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and no build that came with the installation or that a variable names."""
    monkeypatch.delenv(library.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setenv("ANYNPU_CACHE", str(tmp_path))
    monkeypatch.setattr(library, "package_path", [])
    return tmp_path / "native"


def test_a_build_is_made_once(cache: Path) -> None:
    assert library.load("steps") is not None
    (first,) = cache.glob("*.so")
    made = first.stat().st_mtime_ns
    assert library.load("steps") is not None
    assert [file.stat().st_mtime_ns for file in cache.glob("*.so")] == [made]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("SOABI", "cpython-311-arm-linux-gnueabihf"), ("SOABI", "cpython-311-x86_64-linux-musl")],
)
def test_processes_of_two_kinds_share_no_build(
    cache: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """A home folder may be that of two machines, or of a 32-bit and a 64-bit Python."""
    library.load("steps")
    monkeypatch.setattr(sysconfig, "get_config_var", {variable: value}.get)
    library.load("steps")
    assert len(list(cache.glob("*.so"))) == 2


def test_the_width_and_the_compiler_tell_builds_apart(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.load("steps")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "maxsize", 2**31 - 1)
        library.load("steps")
    monkeypatch.setenv("CC", "cc -g")
    library.load("steps")
    assert len(list(cache.glob("*.so"))) == 3


@pytest.mark.parametrize("changed", ["flags.txt", "cpu.h", "steps.c"])
def test_a_changed_header_or_flag_is_another_build(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: str
) -> None:
    """In the cache as well as beside the build that came with the installation."""
    sources = tmp_path / "source"
    shutil.copytree(compiler.SOURCES, sources)
    monkeypatch.setattr(compiler, "SOURCES", sources)
    monkeypatch.setattr(compiler, "FLAGS_FILE", sources / "flags.txt")
    compiler.flags.cache_clear()
    installed = tmp_path / "lib"
    installed.mkdir()
    digests = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sources.iterdir()
        if file.is_file()
    ]
    (installed / library.DIGESTS).write_text("".join(digests))
    assert library.is_of_these_sources(installed, "steps")
    assert library.load("steps") is not None
    with (sources / changed).open("a") as file:
        file.write("-g\n" if changed == "flags.txt" else "/* changed */\n")
    compiler.flags.cache_clear()
    assert not library.is_of_these_sources(installed, "steps")
    assert library.load("steps") is not None
    assert len(list(cache.glob("*.so"))) == 2
    compiler.flags.cache_clear()


def test_cmake_has_no_flags_of_its_own() -> None:
    """Both ways to compile read one file."""
    lists = compiler.SOURCES.resolve().parent / "CMakeLists.txt"
    assert "file(STRINGS native/flags.txt" in lists.read_text()
    assert not re.findall(r"^[^#]*\s-(?:f|O|W(?!l,)|std)\S+", lists.read_text(), re.M)
