"""Build the libraries that are loaded into a program, for its architecture."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

from ...errors import LibraryError
from ...native.cache import kept
from ...native.compiler import SOURCES, flags
from .architecture import Architecture


def driver_sources() -> list[Path]:
    """The C files of the library that stands in for the kernel's driver."""
    return sorted((SOURCES / "driver").glob("*.c"))


def driver(architecture: Architecture) -> Path:
    """That library."""
    headers = sorted((SOURCES / "driver").glob("*.h"))
    return _built("driver", architecture, driver_sources(), headers, ("-lpthread",))


def uclibc(architecture: Architecture) -> Path:
    """A library by uClibc's name, libc.so.0, for vendors' libraries that are linked to that."""
    options = ("-Wl,-soname,libc.so.0", "-lm")
    return _built("uclibc", architecture, [SOURCES / "uclibc.c"], [], options)


def _built(
    name: str,
    architecture: Architecture,
    sources: Sequence[Path],
    headers: Sequence[Path],
    options: Sequence[str],
) -> Path:
    """The library, built where it isn't there yet.

    Raises `LibraryError` without a compiler for the architecture, and with the compiler's words.
    """
    compiler = architecture.compiler()
    texts = b"\0".join(source.read_bytes() for source in (*sources, *headers))
    identity = repr((architecture.name, compiler, options, flags())).encode() + texts
    digest = hashlib.sha256(identity).hexdigest()[:16]
    return kept(
        "driver",
        f"libanynpu_{name}-{architecture.name}-{digest}.so",
        lambda output: _compile(compiler, sources, output, options),
    )


def _compile(
    compiler: list[str], sources: Sequence[Path], output: Path, options: Sequence[str]
) -> None:
    import subprocess

    command = [*compiler, *flags(), "-o", str(output), *map(str, sources), *options]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        raise LibraryError(f"{shlex.join(command)} failed:\n{result.stderr.strip()}")
