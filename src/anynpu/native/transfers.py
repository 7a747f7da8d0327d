"""Steps of a program that convert a request's arrays to a worker's memory, and back.

The C functions `anynpu_send`, `anynpu_receive` and `anynpu_each` of native/kernels.c; where they
aren't built, the same in Python behind C callbacks.
"""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..structures import Structure
from . import kernels, numpy_kernels
from .memory import array_at

_POINTERS = ctypes.POINTER(ctypes.c_void_p)


class Transfer(Structure):
    """One array of a request's: how it is converted, where it is, and how many elements it has."""

    _fields_ = [
        ("conversion", ctypes.c_uint64),
        ("affine", kernels.Affine),
        ("array", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class Functions:
    """Addresses, for steps.

    `send` and `receive` take (transfers, addresses of memory, how many); `each` takes (a function
    of a handle and a number, handles, how many, the number).
    """

    send: int
    receive: int
    each: int


@cache
def functions() -> Functions:
    """The functions' addresses, which stay valid."""
    if kernels.is_built():
        library = kernels.functions()
        return Functions(
            *(
                _address(getattr(library, name))
                for name in ("anynpu_send", "anynpu_receive", "anynpu_each")
            )
        )
    return Functions(*(_address(callback) for callback in _callbacks()))


@cache
def _callbacks() -> tuple[Any, ...]:
    transfer = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.POINTER(Transfer), _POINTERS, ctypes.c_size_t
    )
    each = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, _POINTERS, ctypes.c_size_t, ctypes.c_int32
    )
    return transfer(_send), transfer(_receive), each(_each)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _send(transfers: Any, memories: Any, count: int) -> int:
    pairs = zip(transfers[:count], memories[:count], strict=True)
    return _convert_all((transfer, transfer.array, memory) for transfer, memory in pairs)


def _receive(transfers: Any, memories: Any, count: int) -> int:
    pairs = zip(transfers[:count], memories[:count], strict=True)
    return _convert_all((transfer, memory, transfer.array) for transfer, memory in pairs)


def _convert_all(moves: Iterable[tuple[Any, int, int]]) -> int:
    """C is above: an exception would be taken for success there."""
    try:
        for transfer, source, target in moves:
            _convert(transfer, source, target)
    except Exception:
        traceback.print_exc()
        return -1
    return 0


def _each(function: int, handles: Any, count: int, argument: int) -> int:
    call: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(
        function
    )
    return next((code for handle in handles[:count] if (code := call(handle, argument))), 0)


def _convert(transfer: Any, source: int, target: int) -> None:
    """What anynpu_convert does, with NumPy."""
    from_dtype, to_dtype = kernels.CONVERSIONS[transfer.conversion]
    values = array_at(source, from_dtype, transfer.count)
    result = array_at(target, to_dtype, transfer.count)
    affine = transfer.affine
    if from_dtype.kind in "iu" and to_dtype.kind == "f":
        numpy_kernels.dequantize(values, affine.scale, int(affine.zero_point), result)
    elif from_dtype.kind == "f" and to_dtype.kind in "iu":
        numpy_kernels.quantize(values, affine.scale, int(affine.zero_point), result)
    else:
        numpy_kernels.convert(values, result)
