"""Load a C helper: the build that came with the installation, else one made now, else none."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence
from pathlib import Path

from . import __path__ as package_path
from .cache import kept
from .compiler import SOURCES, compile_shared


def load(name: str, options: Sequence[str] = ()) -> ctypes.CDLL | None:
    """The library built from the C file of that name.

    Without a build and without a compiler it is None, after a warning: NumPy then does the work.
    """
    try:
        return ctypes.CDLL(str(_built_before(name) or _build(name, options)))
    except OSError as error:
        warnings.warn(
            f"anynpu works without its C {name}, more slowly: {error}",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


def _built_before(name: str) -> Path | None:
    """The installation's build, if it is of this very source."""
    source = (SOURCES / f"{name}.c").read_bytes()
    for parent in package_path:
        folder = Path(parent) / "lib"
        copy = folder / f"{name}.c"
        if copy.is_file() and copy.read_bytes() == source:
            return folder / f"libanynpu_{name}.so"
    return None


def _build(name: str, options: Sequence[str]) -> Path:
    import hashlib

    source = SOURCES / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes() + repr(options).encode()).hexdigest()[:16]
    return kept(
        "native",
        f"libanynpu_{name}-{digest}.so",
        lambda output: compile_shared(source, output, options),
    )
