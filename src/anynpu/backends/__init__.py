"""One vendor's way to run a model, or a remote one; the choice is by a file's first bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from ..file_kinds import check_model, read_head
from .addresses import as_source, is_remote
from .base import Backend, Binding, DeviceBuffer, ModelSource, Network, Request, ZeroCopyModel

__all__ = [
    "Backend",
    "Binding",
    "DeviceBuffer",
    "ModelSource",
    "Network",
    "Request",
    "ZeroCopyModel",
    "as_source",
    "choose",
    "is_remote",
    "on_this_machine",
    "providers",
]

_PACKAGES = ("rknn", "viplite")
"""Each has a `BACKEND`, and is imported when a model may be for it."""
_REMOTE = "remote"
"""The one for addresses."""


def providers() -> dict[str, Backend]:
    """Every backend under each of its execution providers' names."""
    found = on_this_machine()
    return found | dict.fromkeys(_backend(_REMOTE).names, _backend(_REMOTE))


def on_this_machine() -> dict[str, Backend]:
    """Those of `providers` that run models on an NPU of this machine's."""
    return {name: backend for backend in _backends() for name in backend.names}


def choose(model: ModelSource) -> Backend:
    """The backend for a model, by its first bytes; an ONNX file goes to the first one.

    What `is_remote` goes to the one for addresses. Raises `ModelError` for formats that no backend
    runs, OSError for an unreadable path, `ArgumentTypeError` for what is neither a path nor bytes.
    """
    if is_remote(model):
        return _backend(_REMOTE)
    check_model(model)
    head = read_head(model)
    fitting = (backend for backend in _backends() if head.startswith(backend.magic))
    return next(fitting, None) or next(_backends())


def _backends() -> Iterator[Backend]:
    return map(_backend, _PACKAGES)


@cache
def _backend(package: str) -> Backend:
    backend: Backend = import_module(f".{package}", __name__).BACKEND
    return backend
