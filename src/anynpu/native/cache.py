"""Where what is built at run time is kept.

In the user's home nobody else may read it; a folder that ``$ANYNPU_CACHE`` names may be shared, and
everybody may read what is in it. What is kept ends with its own digest, so that a damaged file, and
one whose writing was cut off, is known before it is used.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

ENVIRONMENT_VARIABLE = "ANYNPU_CACHE"
CONTENTS = {
    "native": "the C helpers that were compiled here",
    "soft": "the soft NPU's libraries for programs in other languages",
    "driver": "the kernel driver's libraries for boards' programs",
    "models": "models that pickled sessions name by their digest",
}
"""The cache's folders, and what is in them."""

_DIGEST_SIZE = 32
_LOCK = ".lock"
_OWN, _SHARED, _READABLE = 0o700, 0o777, 0o644


def _digest(content: bytes) -> bytes:
    # Most of an import's time, and only needed where something is kept.
    import hashlib

    return hashlib.sha256(content).digest()


def cache_root() -> Path:
    """``$ANYNPU_CACHE``, else ``anynpu`` in ``$XDG_CACHE_HOME``, else in ~/.cache."""
    if named := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "anynpu"


def cache_folder(name: str) -> Path:
    """One of the cache's folders, which may not be there."""
    return cache_root() / name


def made_folder(name: str) -> Path:
    """One of the cache's folders, made where it isn't there; raises OSError."""
    folder = cache_folder(name)
    if os.environ.get(ENVIRONMENT_VARIABLE):
        folder.mkdir(_SHARED, parents=True, exist_ok=True)
        return folder
    root = folder.parent
    root.mkdir(_OWN, parents=True, exist_ok=True)
    if root.stat().st_mode & 0o077:
        with contextlib.suppress(PermissionError):
            root.chmod(_OWN)
    folder.mkdir(_OWN, exist_ok=True)
    return folder


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one thread of one process at a time work on a folder; raises OSError."""
    import fcntl

    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def seal(file: Path) -> None:
    """Let a file that is to be kept end with its digest; loaders of ELF files don't look there."""
    digest = _digest(file.read_bytes())
    with file.open("ab") as end:
        end.write(digest)


def is_whole(file: Path) -> bool:
    """Whether a file is there and is what it was when it was sealed."""
    try:
        content = file.read_bytes()
    except OSError:
        return False
    return _digest(content[:-_DIGEST_SIZE]) == content[-_DIGEST_SIZE:]


def content_of(file: Path) -> bytes:
    """What a sealed file had before it was sealed."""
    return file.read_bytes()[:-_DIGEST_SIZE]


def kept(folder: str, name: str, make: Callable[[Path], None]) -> Path:
    """A file of the cache, which `make` writes where it isn't there or is damaged.

    Whoever needs it at the same time waits. Raises what `make` raises, and OSError.
    """
    target = cache_folder(folder) / name
    if is_whole(target):
        return target
    with locked(made_folder(folder)):
        if not is_whole(target):
            _write(target, make)
    return target


def _write(target: Path, make: Callable[[Path], None]) -> None:
    """Written aside and moved, so that nobody sees half of it."""
    import tempfile

    handle, work = tempfile.mkstemp(suffix=target.suffix, dir=target.parent)
    os.close(handle)
    try:
        make(Path(work))
        seal(Path(work))
        os.chmod(work, _READABLE)
        os.replace(work, target)
    finally:
        Path(work).unlink(missing_ok=True)


def size_of(name: str) -> int:
    """The bytes that one of the cache's folders takes."""
    files = cache_folder(name).rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


def clear() -> None:
    """Remove what is kept; programs that use some of it go on."""
    import shutil

    for name in CONTENTS:
        shutil.rmtree(cache_folder(name), ignore_errors=True)
