"""What is wrong with a `.rknn` file before a runtime gets it: of some faults it says nothing.

librknnrt 1.5.2 takes a file whose weights were removed without a word, and on a board the reason
for a refusal is on the standard error stream only.
"""

from __future__ import annotations

import os
import struct
from importlib.util import find_spec
from pathlib import Path

from .. import soc as socs
from ..errors import ModelError, OptionError
from ..file_kinds import ModelSource, name_of, read_head
from . import file_tables
from .library import RknnLibrary
from .model_file import HEADER, MAGIC, target_of

_ENCRYPTED = b"CYPTRKNN"
_FORMATS = ("flatbuffers", "bson")
_SOFT = ("onnxruntime", "onnx")
"""The packages of the extras that the soft NPU runs files by: compiled ones, and ONNX."""


def check_rknn(model: ModelSource, library: RknnLibrary, *, has_weights_from: bool = False) -> None:
    """Raise `ModelError` for a model that the library won't run, or would run wrongly.

    `has_weights_from` says that another model brings the weights. What isn't recognised is the
    library's own to judge.
    """
    head, name = read_head(model), name_of(model)
    if head.startswith(_ENCRYPTED):
        _check_encrypted(name, library)
    elif not head.startswith(MAGIC):
        _check_foreign(head, name, library)
    else:
        _check_length(head, _size_of(model), name)
        if not library.is_soft:
            _check_for_board(head, name)
            _check_chip(model, name)
        if not has_weights_from and _lacks_weights(model):
            raise ModelError(
                f"{name} was exported without its weights (remove_weight=True), and none were "
                f"given: pass the session that has them, use_weight_from=session (share_with= for "
                f"a Context), or export the model with its weights"
            )


def check_packages(model: ModelSource) -> None:
    """Raise `ModelError` where packages are missing that the soft NPU needs for such a file."""
    head, name = read_head(model), name_of(model)
    is_compiled = head.startswith(MAGIC) and not file_tables.is_soft(head)
    extra, packages = ("formats", _FORMATS) if is_compiled else ("soft", _SOFT)
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ModelError(
            f"{name} can't be run here: the soft NPU needs {', '.join(packages)} for it; missing "
            f"are {', '.join(missing)}: pip install 'anynpu[{extra}]'"
        )


def _check_encrypted(name: str, library: RknnLibrary) -> None:
    if library.is_soft:
        raise ModelError(
            f"{name} is encrypted (export_encrypted_rknn_model); the soft NPU takes plain .rknn "
            f"files only: export it with export_rknn, or run it on a board"
        )


def _check_foreign(head: bytes, name: str, library: RknnLibrary) -> None:
    """Bytes that begin as no `.rknn` file does: the soft NPU takes ONNX files too."""
    if library.is_soft:
        return
    if head[:1] == b"\x08":
        raise ModelError(
            f"{name} is an ONNX file; {library.path} takes compiled .rknn files: convert it with "
            f"rknn-toolkit2, or run it on the soft NPU (library='soft', ANYNPU_DEVICE=soft)"
        )


def _check_length(head: bytes, size: int, name: str) -> None:
    if len(head) < HEADER.size:
        raise ModelError(
            f"{name} is a .rknn file cut off after {size} bytes, within its header of "
            f"{HEADER.size}: copy or download it again"
        )
    _, _, _, body = HEADER.unpack_from(head)
    if HEADER.size + body > size:
        raise ModelError(
            f"{name} is a .rknn file cut off: its header announces {HEADER.size + body} bytes and "
            f"more, {size} are there; copy or download it again"
        )


def _check_for_board(head: bytes, name: str) -> None:
    if file_tables.is_soft(head):
        raise ModelError(
            f"{name} was made for the soft NPU (anynpu build): a board takes what rknn-toolkit2 "
            f"compiled; convert the ONNX file with it, or choose library='soft'"
        )


def _check_chip(model: ModelSource, name: str) -> None:
    """Whether a board's chip, as its device tree has it, is the one that the file is for."""
    here = socs.detect()
    try:
        there = socs.find(target_of(model))
    except (ModelError, OptionError):
        return
    if here is not None and not here.runs_models_of(there):
        raise ModelError(
            f"{name} is compiled for {there.name}, this board has {here.name}: convert the model "
            f"again with target_platform='{here.name}'"
        )


def _size_of(model: ModelSource) -> int:
    return len(model) if isinstance(model, bytes) else os.stat(model).st_size


def _lacks_weights(model: ModelSource) -> bool:
    """Whether a file of one set of shapes has places for weights and nothing in them."""
    data = model if isinstance(model, bytes) else file_tables.mapped(Path(model))
    try:
        if file_tables.is_soft(data) or file_tables.is_small(data):
            return False
        tables = file_tables.of_file(data)
        root = file_tables.root(tables)
        if len(file_tables.elements(tables, root, file_tables.GRAPHS)) > 1:
            return False  # several sets of shapes, which share the weights of the first
        sections = file_tables.elements(tables, root, file_tables.SECTIONS)[1:]
        return any(file_tables.vector(tables, each, 0)[1] == 0 for each in sections)
    except (ValueError, LookupError, struct.error):
        return False
