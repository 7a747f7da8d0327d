"""What a server says of itself and of its models, in the protocol's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._version import __version__
from ..session.node import NodeArg
from . import tensors
from .models import VERSION, Models

NAME = "anynpu"
_EXTENSIONS = ("binary_tensor_data", "system_shared_memory", "model_repository")


def server(*, has_shared_memory: bool, has_admin: bool) -> dict[str, Any]:
    """The server's name, version and extensions."""
    left_out = set()
    if not has_shared_memory:
        left_out.add("system_shared_memory")
    if not has_admin:
        left_out.add("model_repository")
    extensions = [each for each in _EXTENSIONS if each not in left_out]
    return {"name": NAME, "version": __version__, "extensions": extensions}


def model(models: Models, name: str, version: str = "") -> dict[str, Any]:
    """A model's tensors; a size that differs between shapes that it takes is -1."""
    with models.lease(name, version) as opened:
        return {
            "name": name,
            "versions": [VERSION],
            "platform": opened.platform,
            "inputs": [_tensor(arg) for arg in opened.inputs],
            "outputs": [_tensor(arg) for arg in opened.outputs],
        }


def index(models: Models, *, only_ready: bool) -> list[dict[str, str]]:
    """The models and their states."""
    return [
        {
            "name": name,
            "version": VERSION,
            "state": served.state,
            "reason": "" if served.current is not None else served.reason,
        }
        for name, served in models.served.items()
        if served.current is not None or not only_ready
    ]


def _tensor(arg: NodeArg) -> dict[str, Any]:
    return {
        "name": arg.name,
        "datatype": tensors.datatype_of(arg.dtype.numpy),
        "shape": _shape(arg.shapes or (tuple(arg.shape),)),
    }


def _shape(shapes: Sequence[tuple[Any, ...]]) -> list[int]:
    first = shapes[0]
    return [
        size
        if isinstance(size, int) and all(len(s) == len(first) and s[axis] == size for s in shapes)
        else -1
        for axis, size in enumerate(first)
    ]
