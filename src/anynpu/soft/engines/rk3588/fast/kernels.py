"""native/npu.c as functions: structures declared once, in the order of the C file."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from .....native.library import load

_INTEGER, _REAL, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class Features(ctypes.Structure):
    """int8 features in channel blocks; addresses are those of the first atom."""

    _fields_ = [
        ("base", _POINTER),
        ("odd", _POINTER),
        ("surface", _INTEGER),
        ("line", _INTEGER),
        ("pixel", _INTEGER),
        ("surfaces", _INTEGER),
        ("lanes", _INTEGER),
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("valid", _INTEGER),
    ]


class Window(ctypes.Structure):
    """What one output pixel sees."""

    _fields_ = [
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("stride_y", _INTEGER),
        ("stride_x", _INTEGER),
        ("dilation_y", _INTEGER),
        ("dilation_x", _INTEGER),
        ("top", _INTEGER),
        ("left", _INTEGER),
        ("out_height", _INTEGER),
        ("out_width", _INTEGER),
        ("padding", _INTEGER),
    ]


class Stage(ctypes.Structure):
    """One arithmetic stage; `add` and `multiply` are arrays of doubles, one a channel."""

    _fields_ = [
        ("add", _POINTER),
        ("multiply", _POINTER),
        ("positive", _REAL),
        ("negative", _REAL),
        ("lowest", _REAL),
        ("highest", _REAL),
        ("multiply_first", _INTEGER),
        ("only_negatives", _INTEGER),
    ]


class Table(ctypes.Structure):
    """The look-up tables, as doubles."""

    _fields_ = [
        ("negative", _POINTER),
        ("positive", _POINTER),
        ("negative_start", _REAL),
        ("positive_start", _REAL),
        ("positive_end", _REAL),
        ("negative_step", _REAL),
        ("positive_step", _REAL),
        ("negative_slope", _REAL),
        ("positive_slope", _REAL),
    ]


class Dpu(ctypes.Structure):
    """All stages between sums and int8."""

    _fields_ = [
        ("bs", Stage),
        ("bn", Stage),
        ("table", Table),
        ("operand", Features),
        ("operand_offset", _REAL),
        ("operand_scale", _REAL),
        ("product", _REAL),
        ("lowest", _REAL),
        ("highest", _REAL),
        ("scale", _REAL),
        ("offset", _REAL),
        ("has_bs", _INTEGER),
        ("has_bn", _INTEGER),
        ("has_table", _INTEGER),
        ("operation", _INTEGER),
        ("has_limits", _INTEGER),
        ("is_simple", _INTEGER),
        ("is_positive", _INTEGER),
    ]


class Writer(ctypes.Structure):
    """Where atoms go."""

    _fields_ = [
        ("base", _POINTER),
        ("line", _INTEGER),
        ("pixel", _INTEGER),
        ("surface", _INTEGER),
        ("group", _INTEGER),
        ("group_stride", _INTEGER),
        ("width", _INTEGER),
        ("channels", _INTEGER),
        ("lanes", _INTEGER),
        ("padding", _INTEGER),
    ]


_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "anynpu_npu_dense": (*(_POINTER,) * 5, *(_INTEGER,) * 4, _POINTER),
    "anynpu_npu_process": (*(_POINTER,) * 3, _INTEGER, _INTEGER),
    "anynpu_npu_depthwise": (*(_POINTER,) * 6, _INTEGER, _INTEGER),
    "anynpu_npu_pool": (*(_POINTER,) * 3, ctypes.c_int32, _INTEGER, _INTEGER),
}


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, which let go of the GIL; None where they can't be built."""
    loaded = load("npu", ("-O3", "-fno-trapping-math", "-fno-math-errno"))
    if loaded is None:
        return None
    for name, arguments in _PROTOTYPES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = None, arguments
    return loaded


def function(name: str) -> Any:
    """A kernel; callers have looked whether there is a library."""
    loaded = library()
    assert loaded is not None, "plans for kernels are only made where there are some"
    return getattr(loaded, name)
