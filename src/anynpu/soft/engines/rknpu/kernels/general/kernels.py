"""The kernels of native/npu_general.c."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ......native import steps
from ......native.forms import load_kernels


@cache
def library() -> ctypes.CDLL | None:
    """The kernels; None where they, or what runs them, can't be built."""
    return load_kernels("npu_general") if steps.is_available() else None


def kernel(name: str) -> Any:
    """A kernel; callers have looked whether there is a library."""
    loaded = library()
    assert loaded is not None, "plans for kernels are only made where there are some"
    return getattr(loaded, f"anynpu_npu_general_{name}")
