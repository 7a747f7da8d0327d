"""Load a C helper: the build that came with the installation, else one made now, else none.

``$ANYNPU_NATIVE`` names a folder of builds to take instead, which nothing is compared with; those
of `make sanitize` are instrumented.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from . import __path__ as package_path
from .compiler import build_identity, compile_shared, sources

ENVIRONMENT_VARIABLE = "ANYNPU_NATIVE"

DIGESTS = "sources.sha256"
"""The file beside an installation's builds that says which sources they are of."""


def load(name: str) -> ctypes.CDLL | None:
    """The library built from the C file of that name.

    Without a build and without a compiler it is None, after a warning: NumPy then does the work.
    """
    try:
        return ctypes.CDLL(str(_built_before(name) or _build(name)))
    except OSError as error:
        warnings.warn(
            f"anynpu works without its C {name}, more slowly: {error}",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


def named_folder() -> Path | None:
    """The folder that ``$ANYNPU_NATIVE`` names, if it names one."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(named) if named else None


def built_folders() -> Iterator[Path]:
    """Where there may be builds already: the folder that was named, else the installation's."""
    named = named_folder()
    if named is not None:
        yield named
        return
    for parent in package_path:
        yield Path(parent) / "lib"


def _built_before(name: str) -> Path | None:
    """The installation's build, if it is of this very source; or the one that was named."""
    named = named_folder()
    if named is not None:
        return named / f"libanynpu_{name}.so"
    for folder in built_folders():
        if is_of_these_sources(folder, name):
            return folder / f"libanynpu_{name}.so"
    return None


def is_of_these_sources(folder: Path, name: str) -> bool:
    """Whether what lies in a folder was built from this very C file, these headers, these flags."""
    built_of = _digests(folder / DIGESTS)
    import hashlib

    return all(
        built_of.get(source.name) == hashlib.sha256(source.read_bytes()).hexdigest()
        for source in sources(name)
    )


def _digests(file: Path) -> dict[str, str]:
    """Digests by file name, as sha256sum writes them; none where there is no such file."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _build(name: str) -> Path:
    import hashlib

    from .cache import kept

    texts = b"\0".join(source.read_bytes() for source in sources(name))
    digest = hashlib.sha256(texts + build_identity().encode()).hexdigest()[:16]
    return kept(
        "native",
        f"libanynpu_{name}-{digest}.so",
        lambda output: compile_shared(sources(name)[0], output),
    )
