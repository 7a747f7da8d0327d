"""Models that were given as bytes, kept by their digest so that a pickled session finds them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..backends import ModelSource, is_remote
from ..errors import ModelError
from ..native.cache import cache_folder, content_of, is_whole, kept, locked

MOST_KEPT = 2**30
"""Bytes of models; the one that is kept last may be larger."""
_NAME_LENGTH = 64


@dataclass(frozen=True)
class Digest:
    """A model by what it contains."""

    sha256: str

    @property
    def path(self) -> Path:
        """Where the bytes are kept."""
        return cache_folder("models") / self.sha256


def keep(model: ModelSource) -> str | Digest:
    """What stands for a model in a pickle: its absolute path, or the digest of bytes, now kept.

    Addresses stand for themselves.
    """
    if isinstance(model, str) and is_remote(model):
        return model
    if not isinstance(model, bytes):
        return os.path.abspath(os.fspath(model))
    import hashlib

    digest = Digest(hashlib.sha256(model).hexdigest())
    kept("models", digest.sha256, lambda file: _write(file, model))
    _make_room(digest.path)
    return digest


def _write(file: Path, model: bytes) -> None:
    file.write_bytes(model)


def _make_room(newest: Path) -> None:
    """Remove the models that were kept or found longest ago, down to what may be kept."""
    os.utime(newest)
    with locked(newest.parent):
        files = [file for file in newest.parent.iterdir() if len(file.name) == _NAME_LENGTH]
        files.sort(key=lambda file: file.stat().st_mtime)
        size = sum(file.stat().st_size for file in files)
        for file in files:
            if size <= MOST_KEPT or file == newest:
                break
            size -= file.stat().st_size
            file.unlink()


def find(reference: Any) -> ModelSource:
    """The model that `keep` stood for; raises `ModelError` where its bytes aren't here."""
    if not isinstance(reference, Digest):
        return str(reference)
    try:
        if not is_whole(reference.path):
            raise FileNotFoundError(f"there is no whole {reference.path}")
        model = content_of(reference.path)
        with contextlib.suppress(PermissionError):
            os.utime(reference.path)
        return model
    except OSError as error:
        raise ModelError(
            f"the session was made from bytes, which aren't on this machine: copy the model to "
            f"{reference.path}, or make the session from a path ({error})"
        ) from None
