"""Other packages' interfaces on anynpu: existing scripts run with one changed import, or with none.

    import anynpu.compat
    anynpu.compat.install("rknnlite")

    from rknnlite.api import RKNNLite           # anynpu's from now on

Or without a line of code, for a program as it is:

    PYTHONPATH=$(python -m anynpu.compat rknnlite) python program.py
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from ..errors import OptionError, StateError

__all__ = ["install"]

_PACKAGES: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "rknnlite": {
        "rknnlite.api": ("rknnlite", ("RKNNLite",)),
        "rknnlite.api.rknn_lite": ("rknnlite", ("RKNNLite",)),
        "rknnlite.api.rknn_log": ("rknnlite_log", ("RKNNLog",)),
        "rknnlite.api.rknn_runtime": (
            "rknnlite_runtime",
            ("RKNNInput", "RKNNInputOutputNum", "RKNNOutput", "RKNNRuntime", "RKNNTensorAttr"),
        ),
    },
    "ztu_somemodelruntime_ez_rknn_async": {
        "ztu_somemodelruntime_ez_rknn_async": ("ez_rknn_async", ()),
    },
}
"""For each package its modules: the one here that stands in, and its names, () for all."""


def install(package: str) -> None:
    """Let a package's name stand for anynpu in this process: ``rknnlite`` or EZ RKNN Async's.

    A package of that name that is installed isn't imported then. Twice does nothing. Raises
    `OptionError` for a package that anynpu has no interface of, `StateError` where the original
    has been imported already.
    """
    if package not in _PACKAGES:
        raise OptionError(f"anynpu can stand in for {', '.join(_PACKAGES)}; found {package!r}")
    present = sys.modules.get(package)
    if getattr(present, "__anynpu__", False):
        return
    if present is not None and not _is_being_imported(present):
        raise StateError(
            f"{package} has been imported from {present.__file__}: call install before that"
        )
    if package not in _PACKAGES[package]:
        _add(package, ModuleType(package, f"anynpu in the place of {package}."))
    for name, (source, names) in _PACKAGES[package].items():
        origin = importlib.import_module(f".{source}", __name__)
        module = ModuleType(name, origin.__doc__)
        for each in names or origin.__all__:
            setattr(module, each, getattr(origin, each))
        _add(name, module)


def _is_being_imported(module: ModuleType) -> bool:
    """Whether it is the folder's own, which calls `install` while it is imported."""
    return getattr(module.__spec__, "_initializing", False)


def _add(name: str, module: ModuleType) -> None:
    module.__path__ = []
    module.__anynpu__ = True  # type: ignore[attr-defined]
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
