"""native/npu.c as functions: structures declared once, in the order of the C file."""

from __future__ import annotations

import ctypes
from enum import IntFlag
from functools import cache
from typing import Any

from ......native import steps
from ......native.library import load
from ......structures import Structure

_INTEGER, _REAL, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


class Features(Structure):
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
        ("readable", _INTEGER),
    ]


class Window(Structure):
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


class Stage(Structure):
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


class Table(Structure):
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


class Follow(IntFlag):
    """What follows a bias and a factor: enum follow in native/npu.c."""

    NOTHING = 0
    SPLIT = 1
    LEAK = 2
    SECOND = 4
    ADDITION = 8
    INDEX = 16


class Dpu(Structure):
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
        ("output_away", _INTEGER),
        ("operand_away", _INTEGER),
        ("has_bs", _INTEGER),
        ("has_bn", _INTEGER),
        ("has_table", _INTEGER),
        ("operation", _INTEGER),
        ("has_limits", _INTEGER),
        ("is_positive", _INTEGER),
        ("is_linear", _INTEGER),
        ("follow", _INTEGER),
        ("results", _POINTER),
        ("first_result", _INTEGER),
        ("count_results", _INTEGER),
    ]


class Writer(Structure):
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


class Dense(Structure):
    """A convolution as rows times weights."""

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("weights", _POINTER),
        ("offsets", _POINTER),
        ("rows", _POINTER),
        ("channels", _INTEGER),
        ("is_packed", _INTEGER),
        ("depth", _INTEGER),
        ("stride", _INTEGER),
        ("tile", _INTEGER),
        ("pixels", _INTEGER),
        ("truncate", _INTEGER),
        ("truncate_up", _INTEGER),
    ]


class Depthwise(Structure):
    """A convolution channel by channel; weights are float32 (surfaces, places, lanes)."""

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("weights", _POINTER),
        ("band", _INTEGER),
        ("truncate", _INTEGER),
        ("truncate_up", _INTEGER),
    ]


class Process(Structure):
    """Features through the stages."""

    _fields_ = [("dpu", Dpu), ("writer", Writer), ("features", Features)]


class Remap(Structure):
    """Features through a function of one value, as a table of 256."""

    _fields_ = [("writer", Writer), ("features", Features), ("values", _POINTER)]


class Pool(Structure):
    """The greatest value of each window, or with the sign -1 the least."""

    _fields_ = [
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("sign", _INTEGER),
    ]


class Move(Structure):
    """Atoms to other places; strides of surfaces, rows and pixels."""

    _fields_ = [
        ("source", _POINTER),
        ("target", _POINTER),
        ("rows", _INTEGER),
        ("pixels", _INTEGER),
        ("source_strides", _INTEGER * 3),
        ("target_strides", _INTEGER * 3),
        ("atom", _INTEGER),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The kernels; None where they, or what runs them, can't be built."""
    if not steps.is_available():
        return None
    return load("npu", ("-O3", "-fno-trapping-math", "-fno-math-errno"))


def kernel(name: str) -> Any:
    """A kernel; callers have looked whether there is a library."""
    loaded = library()
    assert loaded is not None, "plans for kernels are only made where there are some"
    return getattr(loaded, f"anynpu_npu_{name}")
