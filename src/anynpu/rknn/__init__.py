"""Rockchip's NPUs: the RKNN C API as Python objects.

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context import Context
    from .custom_ops import CustomOp, custom_op
    from .custom_ops_python import CustomOpNode, UseBuiltin

__all__ = ["Context", "CustomOp", "CustomOpNode", "UseBuiltin", "custom_op"]

_HOMES = {
    "context": ("Context",),
    "custom_ops": ("CustomOp", "custom_op"),
    "custom_ops_python": ("CustomOpNode", "UseBuiltin"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
