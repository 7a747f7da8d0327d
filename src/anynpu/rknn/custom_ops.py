"""Plugins with custom operators: shared libraries that export `get_rknn_custom_op`."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..errors import LibraryError
from . import abi
from .context import Context
from .status import check

_ENTRY = "get_rknn_custom_op"
_FOLDERS = (Path("/usr/lib/rknpu/op_plugins"), Path("/vendor/lib64"), Path("/vendor/lib"))
_PATTERN = "librkcst_*.so"


def register(contexts: Sequence[Context], paths: Sequence[str], default_path: bool) -> None:
    """Load plugins and make their operators known to every context: `rknn_register_custom_ops`.

    `default_path` adds those in the vendor's folder; one of them that can't be loaded is skipped
    with a warning. Raises `LibraryError` for a plugin in `paths` that can't be loaded, and for two
    with the same operator.
    """
    operators = [_load(os.path.abspath(path)) for path in paths]
    operators += _load_default() if default_path else []
    if not operators:
        return
    _check_names(operators)
    # The vendor's library keeps those of one call only.
    array = (abi.CustomOp * len(operators))(*(pointer.contents for pointer in operators))
    for context in contexts:
        code = context.library.rknn_register_custom_ops(context.handle, array, len(array))
        check("rknn_register_custom_ops", code)


def _load_default() -> list[ctypes._Pointer[abi.CustomOp]]:
    operators = []
    for folder in _FOLDERS:
        for path in sorted(folder.glob(_PATTERN)):
            try:
                operators.append(_load(str(path)))
            except LibraryError as error:
                warnings.warn(f"{error}", UserWarning, stacklevel=4)
    return operators


@cache
def _load(path: str) -> ctypes._Pointer[abi.CustomOp]:
    """The plugin's operator, whose library stays loaded."""
    try:
        library = ctypes.CDLL(path)
        entry = getattr(library, _ENTRY)
    except (OSError, AttributeError) as error:
        raise LibraryError(f"{path} is no plugin with a custom operator: {error}") from None
    entry.restype = ctypes.POINTER(abi.CustomOp)
    operator: ctypes._Pointer[abi.CustomOp] = entry()
    if not operator:
        raise LibraryError(f"{path}: {_ENTRY} returned NULL")
    return operator


def _check_names(operators: Sequence[ctypes._Pointer[abi.CustomOp]]) -> None:
    seen = set()
    for pointer in operators:
        operator = pointer.contents
        key = (operator.op_type, operator.version, operator.target)
        if key in seen:
            raise LibraryError(f"two plugins have the operator {operator.op_type.decode()!r}")
        seen.add(key)
