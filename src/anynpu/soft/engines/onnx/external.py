"""Tensors of an ONNX model whose data lie in files of their own: put into the model.

A file that is named must lie in the folder of the model itself, or below; where the model is a
link, as in the cache of a model hub, that is the folder of the link or of what it leads to. Nothing
else is opened: no absolute path, none through `..`, no link that leads elsewhere, nothing but
regular files. A model that was given as bytes has no folder. Neither onnx nor ONNX Runtime ever
sees a name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from onnx.onnx_ml_pb2 import ModelProto, TensorProto

from ....errors import ModelError
from .form import all_tensors, size_of

_MOST_BYTES = 2**31 - 1
"""What a model may have as a message of protobuf."""

_LONGEST_NUMBER = 18


def take_in(model: ModelProto, path: Path | None) -> None:
    """Replace every reference to a file beside the model, which lies at `path`, by what is there.

    Raises `ModelError` that names the tensor where the model has no path, and where the file may
    not be read, isn't there, or is too short.
    """
    with _Files(path) as files:
        left = _MOST_BYTES
        for tensor in external_tensors(model):
            size = size_of(tensor)
            left -= size
            if left < 0:
                raise ModelError(f"the model's tensors have more than {_MOST_BYTES} bytes")
            data = files.read(tensor, size)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = data


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All tensors of a model, however deep, whose data are elsewhere."""
    for tensor in all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            yield tensor


class _Files:
    """The files beside a model, each opened once."""

    def __init__(self, model: Path | None) -> None:
        self._folder = model.absolute().parent if model is not None else None
        self._roots = [] if model is None else [model.parent.resolve(), model.resolve().parent]
        self._files: dict[str, int] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            os.close(file)

    def read(self, tensor: TensorProto, size: int) -> bytes:
        """The bytes of a tensor."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        what = f"tensor {tensor.name!r}, whose data are in {location!r}"
        if self._folder is None:
            raise ModelError(
                f"{what}, is in a model without a folder: give the path of its ONNX file, or put "
                f"the data into the model (onnx.load, then onnx.save)"
            )
        offset, length = (_number(what, entries, key) for key in ("offset", "length"))
        if length not in (None, size):
            raise ModelError(f"{what}, takes {size} bytes by its shape, not {length}")
        return self._bytes(what, location, offset or 0, size)

    def _bytes(self, what: str, location: str, offset: int, size: int) -> bytes:
        file = self._files.get(location)
        if file is None:
            file = self._files[location] = self._open(what, location)
        there = os.fstat(file).st_size
        if offset + size > there:
            raise ModelError(f"{what}, is {size} bytes at {offset} of {there}")
        parts = []
        while size:
            part = os.pread(file, size, offset)
            if not part:
                raise ModelError(f"{what}: the file has become shorter")
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def _open(self, what: str, location: str) -> int:
        path = PurePosixPath(location)
        if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in location:
            raise ModelError(f"{what}, may only name a file in the model's own folder")
        assert self._folder is not None, "callers look whether there is one"
        try:
            real = (self._folder / path).resolve()
            self._check(what, real, os.lstat(real).st_mode)
            file = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, RuntimeError) as error:
            raise ModelError(f"{what}, can't be read: {error}") from None
        try:
            # What was opened, whoever changed the folder meanwhile.
            opened = Path(os.readlink(f"/proc/self/fd/{file}"))
            self._check(what, opened, os.fstat(file).st_mode)
        except BaseException:
            os.close(file)
            raise
        return file

    def _check(self, what: str, real: Path, mode: int) -> None:
        if not any(real.is_relative_to(root) for root in self._roots):
            raise ModelError(f"{what}, leads out of the model's own folder, to {real}")
        if not stat.S_ISREG(mode):
            raise ModelError(f"{what}, is not a file")


def _number(what: str, entries: dict[str, str], key: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_NUMBER:
        raise ModelError(f"{what}, has the {key} {text[:40]!r}")
    return int(text)
