"""The RKNN C API as Python objects. Names are loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context import Context
    from .custom_ops import CustomOp, custom_op
    from .custom_ops_python import CustomOpNode, UseBuiltin
    from .matmul import Matmul

__all__ = ["Context", "CustomOp", "CustomOpNode", "Matmul", "UseBuiltin", "custom_op"]

_HOMES = {
    "Context": "context",
    "CustomOp": "custom_ops",
    "CustomOpNode": "custom_ops_python",
    "Matmul": "matmul",
    "UseBuiltin": "custom_ops_python",
    "custom_op": "custom_ops",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
