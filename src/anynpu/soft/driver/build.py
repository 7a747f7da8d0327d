"""Build the libraries that are loaded into a program, for its architecture."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...errors import LibraryError
from ...native.cache import cache_folder
from ...native.compiler import FLAGS, SOURCES
from .architecture import Architecture

_WARNINGS = ("-Wall", "-Wextra")


def driver_sources() -> list[Path]:
    """The C files of the library that stands in for the kernel's driver."""
    return sorted((SOURCES / "driver").glob("*.c"))


def driver(architecture: Architecture) -> Path:
    """That library."""
    headers = sorted((SOURCES / "driver").glob("*.h"))
    sources = [*driver_sources(), *headers]
    return _built("libanynpu_driver.so", architecture, sources, ("-lpthread",))


def uclibc(architecture: Architecture) -> Path:
    """A folder with uClibc's library by its name, for vendors' libraries that are linked to it."""
    name = "libc.so.0"
    options = (f"-Wl,-soname,{name}", "-lm")
    return _built(name, architecture, [SOURCES / "uclibc.c"], options).parent


def _built(
    name: str, architecture: Architecture, sources: Sequence[Path], options: Sequence[str]
) -> Path:
    """The library of that name, built where it isn't there yet.

    Raises `LibraryError` without a compiler for the architecture, and with the compiler's words.
    """
    compiler = architecture.compiler()
    texts = b"\0".join(source.read_bytes() for source in sources)
    identity = repr((architecture.name, compiler, options, FLAGS)).encode() + texts
    digest = hashlib.sha256(identity).hexdigest()[:16]
    folder = cache_folder("driver") / f"{architecture.name}-{digest}"
    if not (folder / name).is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            _compile(
                compiler, [file for file in sources if file.suffix == ".c"], work / name, options
            )
            work.chmod(0o755)
            _move(work, folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder / name


def _move(work: Path, folder: Path) -> None:
    try:
        os.rename(work, folder)
    except OSError:
        # Another process may have been quicker, which is as good.
        if not folder.is_dir():
            raise


def _compile(
    compiler: list[str], sources: Sequence[Path], output: Path, options: Sequence[str]
) -> None:
    import subprocess

    command = [*compiler, *FLAGS, *_WARNINGS, "-o", str(output), *map(str, sources), *options]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        raise LibraryError(f"{shlex.join(command)} failed:\n{result.stderr.strip()}")
