"""Read a `.nb` file of any known version."""

from __future__ import annotations

from ....errors import ModelError
from .model import Nbg
from .v1 import MAGIC, is_version, read_v1
from .v2 import read_v2
from .view import View


def is_nbg(data: bytes) -> bool:
    """Whether the bytes begin as a `.nb` file does."""
    return data[: len(MAGIC)] == MAGIC


def read(data: bytes) -> Nbg:
    """Parse a file; raises `ModelError` with the offset of what is wrong."""
    view = View(data)
    if not is_nbg(data):
        raise ModelError(f"not a .nb file: it begins with {data[:4]!r}, not {MAGIC!r}")
    (version,) = view.unpack("<I", 4, "the version")
    if version >> 16 == 2:
        return read_v2(view, version)
    if not is_version(version):
        raise ModelError(f"the .nb file has the version {version:#x} at offset 4, which is unknown")
    return read_v1(view, version)
