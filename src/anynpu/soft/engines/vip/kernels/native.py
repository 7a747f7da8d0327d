"""native/vip.c as functions: structures declared once, in the order of the C file."""

from __future__ import annotations

import ctypes
from functools import cache

from .....native import steps
from .....native.forms import load_kernels
from .....structures import Structure

_INTEGER, _REAL, _POINTER = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
KERNELS, PIXELS = 4, 8
"""Kernels that are computed together, and pixels of a vector."""

SHORT_SUM, LONG_SUM, PRODUCT = 1, 2, 3


class Planes(Structure):
    """Rows of pixels in memory."""

    _fields_ = [
        ("base", _POINTER),
        ("offset", _INTEGER),
        ("plane", _INTEGER),
        ("row", _INTEGER),
        ("group", _INTEGER),
        ("end", _INTEGER),
        ("size", _INTEGER),
    ]


class Convolution(Structure):
    """Sums of products, and what makes bytes of them."""

    _fields_ = [
        ("source", Planes),
        ("target", Planes),
        ("second", Planes),
        *(
            (name, _INTEGER)
            for name in (
                "channels", "height", "width", "border", "flip", "top", "left", "kernel_height",
                "kernel_width", "stride", "out_channels", "out_height", "out_width", "pool_size",
                "pool_stride", "pool_top", "pool_left", "final_height", "final_width",
                "is_depthwise",
            )
        ),
        ("weights", _POINTER),
        ("taps", _POINTER),
        ("tap_count", _INTEGER),
        ("bias", _POINTER),
        ("scale", _POINTER),
        ("negative", _POINTER),
        ("low", _REAL),
        ("high", _REAL),
        ("addition", _INTEGER),
        ("second_scale", _REAL),
        ("constant", _REAL),
        *(
            (name, _INTEGER)
            for name in (
                "zero_point", "output_flip", "shuffles_depth", "rows", "row_blocks",
                "kernel_blocks", "packed_rows", "packed_width",
            )
        ),
    ]  # fmt: skip


class Move(Structure):
    """Bytes from places to places."""

    _fields_ = [
        ("source", _POINTER),
        ("target", _POINTER),
        ("from_", _POINTER),
        ("to", _POINTER),
        ("table", _POINTER),
        ("border", _INTEGER),
        ("item", _INTEGER),
        ("count", _INTEGER),
        ("unit", _INTEGER),
    ]


_STRUCTURES = (Convolution, Move, Planes)


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, None where there is no build of them or of what runs them."""
    loaded = load_kernels("vip")
    if loaded is None or not steps.is_available():
        return None
    loaded.anynpu_vip_sizes.restype = ctypes.c_int64
    for number, structure in enumerate(_STRUCTURES):
        size = loaded.anynpu_vip_sizes(ctypes.c_int64(number))
        assert size == ctypes.sizeof(structure), f"{structure.__name__} isn't as C has it"
    return loaded


def address(name: str) -> int:
    """Where a kernel is."""
    loaded = library()
    assert loaded is not None, "the kernels are there"
    found = ctypes.cast(getattr(loaded, name), _POINTER).value
    assert found is not None, "a function has an address"
    return found
