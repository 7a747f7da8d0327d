"""The C kernels as functions on arrays, with NumPy in their place where they aren't built."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .library import load

_FLOAT, _HALF = np.dtype(np.float32), np.dtype(np.float16)
_SMALLEST = 512
"""Elements; below that the call costs more than the conversion."""


def convert(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy values to an array of the same shape and another dtype, as `np.copyto` does.

    Between float16 and float32 it is a C kernel where both arrays are contiguous: NumPy takes
    some five nanoseconds an element.
    """
    kernel = _kernel(source.dtype, target.dtype)
    is_plain = source.flags.c_contiguous and target.flags.c_contiguous
    if kernel is None or not is_plain or source.size < _SMALLEST or source.shape != target.shape:
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(target, source, casting="unsafe")
        return
    kernel(source.ctypes.data, target.ctypes.data, source.size)


def _kernel(source: np.dtype[Any], target: np.dtype[Any]) -> Any:
    if source == _FLOAT and target == _HALF:
        return _functions().get("anynpu_float_to_half")
    if source == _HALF and target == _FLOAT:
        return _functions().get("anynpu_half_to_float")
    return None


@cache
def _functions() -> dict[str, Any]:
    library = load("kernels", ("-O3",))
    if library is None:
        return {}
    functions = {}
    for name in ("anynpu_float_to_half", "anynpu_half_to_float"):
        function = getattr(library, name)
        function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        function.restype = None
        functions[name] = function
    return functions
