"""What a network binary (`.nb`) says of itself at its beginning, read without a library."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from ..errors import ModelError
from .abi import Interface

MAGIC = b"VPMN"
_HEAD = struct.Struct("<4sII64s")
_NEW_LAYOUT = 0x20000


@dataclass(frozen=True)
class Frame:
    """The head of a file: the format's version, the NPU it is for, the network's name.

    The name is empty in files of version 2, which have it elsewhere.
    """

    version: int
    target: int
    name: str

    @property
    def npu_version(self) -> str:
        """How Allwinner's SDK calls the NPU, such as v2; empty for another vendor's."""
        known = (i.npu_version for i in Interface if i.target == self.target)
        return next(known, "")

    @property
    def chips(self) -> tuple[str, ...]:
        """The chips that have this NPU, as far as known."""
        return next((i.chips for i in Interface if i.target == self.target), ())


def read_frame(model: str | os.PathLike[str] | bytes) -> Frame:
    """The head of a file, given by its path or its bytes; raises `ModelError` for other files."""
    if isinstance(model, bytes):
        head = model[: _HEAD.size]
    else:
        with open(model, "rb") as file:
            head = file.read(_HEAD.size)
    if len(head) < _HEAD.size or not head.startswith(MAGIC):
        raise ModelError(f"this isn't a network binary: it begins with {head[:4]!r}, not {MAGIC!r}")
    _, version, target, name = _HEAD.unpack(head)
    is_new = version >= _NEW_LAYOUT
    text = "" if is_new else name.partition(b"\0")[0].decode("utf-8", "replace")
    return Frame(version, target, text)
