"""native/npu_general.c as kernels: structures declared once, in the order of the C file."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ......native import steps
from ......native.library import load
from ......structures import Structure
from ..int8 import kernels as int8_kernels

_INTEGER, _POINTER = ctypes.c_int64, ctypes.c_void_p
_SINGLE, _DOUBLE = ctypes.c_float, ctypes.c_double

GROUP, BLOCK, ROWS, CHUNK = 16, 60, 6, 256
"""Channels and pixels at a time, and rows and columns of a matrix product."""


class Features(Structure):
    """Features in channel blocks; addresses are those of the first atom, strides are bytes."""

    _fields_ = [
        ("base", _POINTER),
        ("odd", _POINTER),
        ("surface", _INTEGER),
        ("line", _INTEGER),
        ("pixel", _INTEGER),
        ("lanes", _INTEGER),
        ("channels", _INTEGER),
        ("valid", _INTEGER),
        ("height", _INTEGER),
        ("width", _INTEGER),
        ("element", _INTEGER),
        ("conversion", _POINTER),
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
        ("inserted_y", _INTEGER),
        ("inserted_x", _INTEGER),
        ("out_height", _INTEGER),
        ("out_width", _INTEGER),
        ("padding", _SINGLE),
    ]


class Weights(Structure):
    """Kernels as the hardware streams them."""

    _fields_ = [
        ("base", _POINTER),
        ("element", _INTEGER),
        ("kernels", _INTEGER),
        ("channels", _INTEGER),
        ("kernel_group", _INTEGER),
        ("channel_group", _INTEGER),
        ("offsets", _POINTER),
        ("row", _INTEGER),
    ]


class Operand(Structure):
    """A number a channel: an array of whole groups, or in memory."""

    _fields_ = [
        ("values", _POINTER),
        ("stored", _POINTER),
        ("group", _INTEGER),
        ("stride", _INTEGER),
        ("element", _INTEGER),
        ("channels", _INTEGER),
    ]


class Stage(Structure):
    """One arithmetic stage."""

    _fields_ = [
        ("add", Operand),
        ("multiply", Operand),
        ("lowest", _DOUBLE),
        ("highest", _DOUBLE),
        ("positive", _DOUBLE),
        ("negative", _DOUBLE),
        ("subtracts", _INTEGER),
        ("multiply_first", _INTEGER),
        ("only_negatives", _INTEGER),
    ]


class Table(Structure):
    """Both look-up tables, one behind the other."""

    _fields_ = [
        ("entries", _POINTER),
        ("start", _DOUBLE * 2),
        ("end", _DOUBLE),
        ("step", _DOUBLE * 2),
        ("slope", _DOUBLE * 2),
    ]


class Dpu(Structure):
    """All stages between sums and what is stored."""

    _fields_ = [
        ("bs", Stage),
        ("bn", Stage),
        ("table", Table),
        ("operand", Features),
        ("number", _DOUBLE),
        ("operand_offset", _DOUBLE),
        ("operand_scale", _DOUBLE),
        ("product", _DOUBLE),
        ("lowest", _DOUBLE),
        ("highest", _DOUBLE),
        ("factor", _DOUBLE),
        ("addend", _DOUBLE),
        ("scale", _DOUBLE),
        ("offset", _DOUBLE),
        ("output_away", _INTEGER),
        ("operand_away", _INTEGER),
        ("is_integer", _INTEGER),
        ("average", _INTEGER),
        ("has_bs", _INTEGER),
        ("has_bn", _INTEGER),
        ("has_table", _INTEGER),
        ("operation", _INTEGER),
        ("has_operand", _INTEGER),
        ("has_limits", _INTEGER),
        ("element", _INTEGER),
    ]


Writer = int8_kernels.Writer


class Dense(Structure):
    """A convolution as rows times weights; `rows` where a step of their own gathers them."""

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("weights", Weights),
        ("rows", _POINTER),
        ("tile", _INTEGER),
        ("depth", _INTEGER),
        ("fused", _INTEGER),
        ("truncate", _DOUBLE),
        ("truncate_up", _INTEGER),
    ]


class Depthwise(Structure):
    """A convolution channel by channel, or a pooling."""

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("window", Window),
        ("weights", Weights),
        ("method", _INTEGER),
        ("fused", _INTEGER),
        ("by_rows", _INTEGER),
        ("truncate", _DOUBLE),
        ("truncate_up", _INTEGER),
    ]


class Process(Structure):
    """Features through the stages."""

    _fields_ = [
        ("dpu", Dpu),
        ("writer", Writer),
        ("features", Features),
        ("by_groups", _INTEGER),
    ]


class Reduction(Structure):
    """The greatest channel of each pixel, or with the sign -1 the least."""

    _fields_ = [
        ("dpu", Dpu),
        ("features", Features),
        ("sign", _INTEGER),
        ("target", _POINTER),
        ("pixels", _INTEGER),
        ("filled", _INTEGER),
    ]


ONE_A_RESULT, ONE_A_PIXEL = 1, 2
"""What the second operand is, if it isn't a number."""

PRODUCTS, SUMS, GREATEST, LEAST = range(4)
"""What a depthwise convolution or a pooling does with what a window sees."""


@cache
def library() -> ctypes.CDLL | None:
    """The kernels; None where they, or what runs them, can't be built."""
    if not steps.is_available():
        return None
    options = ("-O3", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno")
    return load("npu_general", options)


def kernel(name: str) -> Any:
    """A kernel; callers have looked whether there is a library."""
    loaded = library()
    assert loaded is not None, "plans for kernels are only made where there are some"
    return getattr(loaded, f"anynpu_npu_general_{name}")
