"""A step of a program that makes a request's arrays what its runtime takes.

The C function `anynpu_arrange` of native/kernels.c; where it isn't built, the same in Python
behind a C callback.
"""

from __future__ import annotations

import ctypes
import enum
import traceback
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..structures import Structure
from . import kernels, numpy_kernels
from .memory import address_of, array_at


class Kind(enum.IntEnum):
    """What becomes of an array: planes become pixels, or floats are brought into low..high."""

    AS_IT_IS = 0
    INTERLEAVED = 1
    LIMITED = 2


class Arrangement(Structure):
    """One array of a request's, and what is made of it where.

    The owner keeps both arrays until the request is done.
    """

    _fields_ = [
        ("kind", ctypes.c_uint64),
        ("source", ctypes.c_uint64),
        ("target", ctypes.c_uint64),
        ("image", kernels.Image),
        ("count", ctypes.c_uint64),
        ("low", ctypes.c_float),
        ("high", ctypes.c_float),
    ]

    def interleave(self, planes: NDArray[Any], pixels: NDArray[Any] | None) -> None:
        """Make pixels, (N, H, W, C), of planes, (N, C, H, W); both are C-contiguous.

        None is the array of the last time: its shape is said already, which takes most of the time.
        """
        self.kind = Kind.INTERLEAVED
        self.source = address_of(planes)
        if pixels is not None:
            n, h, w, c = pixels.shape
            self.image = kernels.Image(n, c, h, w, w, pixels.itemsize)
            self.target = address_of(pixels)

    def limit(
        self, values: NDArray[np.float32], limited: NDArray[np.float32], low: float, high: float
    ) -> None:
        """Bring float32 values between two limits; NaN stays. The arrays may be the same."""
        self.kind = Kind.LIMITED
        self.count, self.low, self.high = values.size, low, high
        self.source, self.target = address_of(values), address_of(limited)


@cache
def function() -> int:
    """The address of the step's function, which takes (arrangements, how many)."""
    found: Any = kernels.functions().anynpu_arrange if kernels.is_built() else _callback()
    return ctypes.cast(found, ctypes.c_void_p).value or 0


@cache
def _callback() -> Any:
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(Arrangement), ctypes.c_size_t)
    return prototype(_arrange)


def _arrange(arrangements: Any, count: int) -> int:
    """C is above: an exception would be taken for success there."""
    try:
        for how in arrangements[:count]:
            if how.kind == Kind.INTERLEAVED:
                _interleave(how)
            elif how.kind == Kind.LIMITED:
                values, limited = (_floats_at(each, how.count) for each in (how.source, how.target))
                np.clip(values, np.float32(how.low), np.float32(how.high), out=limited)
    except Exception:
        traceback.print_exc()
        return -1
    return 0


def _interleave(how: Any) -> None:
    image = how.image
    n, c, h, w = image.batch, image.channels, image.height, image.width
    dtype = np.dtype(f"u{image.size}")
    planes = array_at(how.source, dtype, n * c * h * w).reshape(n, c, h, w)
    pixels = array_at(how.target, dtype, n * c * h * w).reshape(n, h, w, c)
    numpy_kernels.copy_channels_last(planes.transpose(0, 2, 3, 1), pixels)


def _floats_at(address: int, count: int) -> NDArray[Any]:
    return array_at(address, np.dtype(np.float32), count)
