"""Models that were given as bytes, kept by their digest so that a pickled session finds them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..backends import ModelSource
from ..errors import ModelError
from ..native.cache import cache_folder


@dataclass(frozen=True)
class Digest:
    """A model by what it contains."""

    sha256: str

    @property
    def path(self) -> Path:
        """Where the bytes are kept."""
        return cache_folder("models") / self.sha256


def keep(model: ModelSource) -> str | Digest:
    """What stands for a model in a pickle: its absolute path, or the digest of bytes, now kept."""
    if not isinstance(model, bytes):
        return os.path.abspath(os.fspath(model))
    digest = Digest(hashlib.sha256(model).hexdigest())
    if not digest.path.is_file():
        digest.path.parent.mkdir(parents=True, exist_ok=True)
        handle, work = tempfile.mkstemp(dir=digest.path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(model)
        os.replace(work, digest.path)
    return digest


def find(reference: Any) -> ModelSource:
    """The model that `keep` stood for; raises `ModelError` where its bytes aren't here."""
    if not isinstance(reference, Digest):
        return str(reference)
    try:
        return reference.path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"the session was made from bytes, which aren't on this machine: copy the model to "
            f"{reference.path}, or make the session from a path ({error})"
        ) from None
