"""What a file is that was given for a model and is none: told by its first bytes.

A vendor's library says no more than that such a file is invalid, and some end the process over an
empty one; so it is looked at before.
"""

from __future__ import annotations

import errno
import os
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .errors import ArgumentTypeError, ModelError

ModelSource = str | os.PathLike[str] | bytes

HEAD = 4096
"""How many of a file's first bytes are looked at."""

_CONVERT = "convert it with the chip's toolkit (rknn-toolkit2 writes .rknn, acuity .nb files)"
_EXPORT = f"export it as ONNX, then {_CONVERT}"
_UNPACK = "unpack it, and give the model that is inside"
_FETCH = "fetch the file again"


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is told, what it is called, and what to do instead."""

    is_it: Callable[[bytes], bool]
    what: str
    advice: str


def _begins(*starts: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(starts)


def _is_html(head: bytes) -> bool:
    return head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html"))


def _is_pytorch(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") and b"data.pkl" in head


def _is_safetensors(head: bytes) -> bool:
    return head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 28


def _is_text(head: bytes) -> bool:
    """Whether it reads as text: of a length at which that is no accident."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        text = head[: error.start].decode() if error.start > len(head) - 4 else ""
    allowed = set(string.whitespace)
    return len(text) > _SHORTEST_TEXT and all(c.isprintable() or c in allowed for c in text)


_SHORTEST_TEXT = 8

_KINDS = (
    Kind(
        _begins(b"version https://git-lfs.github.com/spec/"),
        "a Git LFS pointer: a text in the place of the file, which wasn't downloaded",
        "fetch the file itself with `git lfs pull`",
    ),
    Kind(_is_html, "an HTML page, as a failed download leaves", f"{_FETCH}: open the link first"),
    Kind(lambda head: head[4:8] == b"TFL3", "a TensorFlow Lite model", _CONVERT),
    Kind(_is_pytorch, "a PyTorch model", _EXPORT),
    Kind(_begins(b"\x80\x02\x8a", b"\x80\x02}", b"\x80\x04\x95"), "a PyTorch pickle", _EXPORT),
    Kind(_begins(b"\x89HDF\r\n\x1a\n"), "a Keras model (HDF5)", _EXPORT),
    Kind(_is_safetensors, "weights in the safetensors format, without a graph", _EXPORT),
    Kind(_begins(b"GGUF"), "a language model in the GGUF format", "NPUs take other formats"),
    Kind(_begins(b"PK\x03\x04"), "a ZIP archive", _UNPACK),
    Kind(
        _begins(b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh", b"(\xb5/\xfd", b"7z\xbc\xaf\x27\x1c"),
        "a compressed file",
        _UNPACK,
    ),
    Kind(lambda head: head[257:262] == b"ustar", "a TAR archive", _UNPACK),
    Kind(_begins(b"\x7fELF"), "a program or a library", "give the model, and the library apart"),
    Kind(_begins(b"\x89PNG", b"\xff\xd8\xff"), "a picture", "give the model first"),
    Kind(_begins(b"RKNX"), "a model for RKNPU3, which anynpu can't run", "convert it for RKNPU2"),
    Kind(_is_text, "a text", "give the model's own file"),
)


def check_model(model: ModelSource) -> None:
    """Raise where a model can't be one: what it is, and what to do.

    `ArgumentTypeError` for what is no path and no bytes, `ModelError` for files of other kinds and
    empty ones, FileNotFoundError, IsADirectoryError and PermissionError for paths.
    """
    head = read_head(model)
    name = name_of(model)
    if not head:
        raise ModelError(f"{name} is empty: a model has bytes, 0 were found; {_FETCH}")
    for kind in _KINDS:
        if kind.is_it(head):
            raise ModelError(f"{name} is {kind.what}: no model for an NPU; {kind.advice}")


def read_head(model: ModelSource) -> bytes:
    """A model's first bytes; raises as `check_model` does where there is nothing to read."""
    if isinstance(model, bytes):
        return model[:HEAD]
    if not isinstance(model, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"a model is a path (str or os.PathLike) or the file's bytes; found {model!r} of type "
            f"{type(model).__name__}"
        )
    path = Path(model)
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, _not_there(path), str(path)) from None
    except IsADirectoryError:
        advice = _inside(path, "name one in it")
        message = f"a model is a file, this is a folder{advice}"
        raise IsADirectoryError(errno.EISDIR, message, str(path)) from None
    except PermissionError:
        message = f"this user may not read the model; see `ls -l {path}`, and `chmod +r` it"
        raise PermissionError(errno.EACCES, message, str(path)) from None


def name_of(model: ModelSource) -> str:
    """How messages call a model."""
    return f"the model ({len(model)} bytes)" if isinstance(model, bytes) else os.fspath(model)


def _not_there(path: Path) -> str:
    where = "" if path.is_absolute() else f" in {Path.cwd()}"
    if not path.parent.is_dir():
        return f"there is no such model{where}, and no folder {path.parent}; check the path"
    return f"there is no such model{where}" + _inside(path.parent, "check the path", path.name)


def _inside(folder: Path, advice: str, wanted: str = "") -> str:
    """The models in a folder that may be meant."""
    try:
        names = sorted(f.name for f in folder.iterdir() if f.suffix in (".rknn", ".nb", ".onnx"))
    except OSError:
        names = []
    import difflib

    near = difflib.get_close_matches(wanted, names, 3, 0.5) if wanted else names[:5]
    return f"; {advice}" + (f": there is {', '.join(near)}" if near else "")
