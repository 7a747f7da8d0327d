"""A `.rknn` file's frame: a header, a body, and a JSON summary of the graph after it.

All integers are little endian: 64 bytes of header (magic ``RKNN``, container version, length of the
body; 24 bytes in version 1), the body, a length, the summary. The layout is known from files that
the vendor's toolkit writes. What the body holds is the matter of whoever runs it.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelError
from .onnx_metadata import read_metadata

MAGIC = b"RKNN"
HEADER = struct.Struct("<4sIQQ40x")
VERSION = 6
_FIRST_VERSION = 1
_FIRST_HEADER_SIZE = 24
_LENGTH = struct.Struct("<Q")
_LONGEST_SUMMARY = 1 << 28
_ONNX_TARGET = "anynpu.soc"

Read = Callable[[int, int], bytes]
"""Bytes from an offset on, so many where they are there."""


@dataclass(frozen=True)
class Frame:
    """Where the parts are, and the summary.

    `version` is the container's; the body has `body_size` bytes from `body_offset` on.
    """

    version: int
    body_offset: int
    body_size: int
    summary: dict[str, Any]

    @property
    def target(self) -> str:
        """The chip that the file is for, as the summary names it."""
        platforms = self.summary.get("target_platform")
        if isinstance(platforms, list) and platforms:
            return str(platforms[0])
        return "an unnamed chip"

    @property
    def toolkit(self) -> str:
        """What wrote the file."""
        return str(self.summary.get("version", ""))


def read_frame(model: str | os.PathLike[str] | bytes | memoryview) -> Frame:
    """The frame of a file or of its bytes; the body is not read.

    Raises `ModelError` with the offset of what is wrong, OSError for an unreadable path.
    """
    if isinstance(model, bytes | memoryview):
        return _read(lambda offset, size: bytes(model[offset : offset + size]), len(model))
    with open(model, "rb") as file:

        def read(offset: int, size: int) -> bytes:
            file.seek(offset)
            return file.read(size)

        return _read(read, os.fstat(file.fileno()).st_size)


def target_of(model: str | os.PathLike[str] | bytes) -> str:
    """The chip that a `.rknn` file, or an ONNX file with the soft NPU's metadata, is for.

    Raises `ModelError` for other files, OSError for an unreadable path.
    """
    if _begin(model) == MAGIC:
        return read_frame(model).target
    data = model if isinstance(model, bytes) else Path(model).read_bytes()
    try:
        return read_metadata(data)[_ONNX_TARGET]
    except (ValueError, LookupError) as error:
        raise ModelError(f"the file names no chip: {error}") from None


def _begin(model: str | os.PathLike[str] | bytes) -> bytes:
    if isinstance(model, bytes):
        return model[: len(MAGIC)]
    with open(model, "rb") as file:
        return file.read(len(MAGIC))


def write_frame(body: bytes, summary: dict[str, Any]) -> bytes:
    """A file round a body."""
    text = json.dumps(summary).encode()
    header = HEADER.pack(MAGIC, 0, VERSION, len(body))
    return b"".join((header, body, _LENGTH.pack(len(text)), text))


def _read(read: Read, size: int) -> Frame:
    if size < HEADER.size:
        raise ModelError(f"a .rknn file has a {HEADER.size}-byte header; this is {size} bytes")
    magic, _, version, body_size = HEADER.unpack(read(0, HEADER.size))
    if magic != MAGIC:
        raise ModelError(f"not a .rknn file: it begins with {magic!r}, not {MAGIC!r}")
    begin = _FIRST_HEADER_SIZE if version == _FIRST_VERSION else HEADER.size
    if begin + body_size > size:
        raise ModelError(
            f"truncated .rknn file: offset 16 announces a body of {body_size} bytes, "
            f"{size - begin} are there"
        )
    return Frame(version, begin, body_size, _read_summary(read, begin + body_size, size))


def _read_summary(read: Read, offset: int, file_size: int) -> dict[str, Any]:
    if offset + _LENGTH.size > file_size:
        raise ModelError(f"truncated .rknn file: no summary at offset {offset}")
    (size,) = _LENGTH.unpack(read(offset, _LENGTH.size))
    start = offset + _LENGTH.size
    if start + size > file_size or size > _LONGEST_SUMMARY:
        raise ModelError(
            f"truncated .rknn file: offset {offset} announces a summary of {size} bytes, "
            f"{file_size - start} are there"
        )
    try:
        summary = json.loads(read(start, size))
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"the .rknn file's summary at offset {start} is not JSON: {error}"
        ) from None
    if not isinstance(summary, dict):
        raise ModelError(f"the .rknn file's summary at offset {start} is not a JSON object")
    return summary
