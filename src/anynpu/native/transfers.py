"""Steps of a program that convert a request's arrays to a worker's memory, and back.

The C functions `anynpu_send`, `anynpu_receive` and `anynpu_each` of native/kernels.c; where they
aren't built, the same in Python behind C callbacks.
"""

from __future__ import annotations

import ctypes
import enum
import math
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..structures import Structure
from . import kernels, numpy_kernels
from .memory import array_at

_POINTERS = ctypes.POINTER(ctypes.c_void_p)


class TransferKind(enum.IntEnum):
    """What lies in memory: elements in the array's order, channel blocks, or pixels of planes."""

    AS_ELEMENTS = 0
    AS_BLOCKS = 1
    AS_PIXELS = 2


class Transfer(Structure):
    """One array of a request's: how it is converted, where it is, and how many elements it has.

    `how` is the address of the `Blocks` or of the `Image` that a kind other than elements needs.
    """

    _fields_ = [
        ("conversion", ctypes.c_uint64),
        ("affine", kernels.Affine),
        ("array", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("kind", ctypes.c_uint64),
        ("how", ctypes.c_uint64),
    ]


_LARGEST_COPY = 4
_C = TypeVar("_C", bound="Conversion")


@dataclass(frozen=True)
class Conversion:
    """How a transfer converts one tensor: the number of a kernel, its scale and zero point.

    `count` elements one by one, or as `how` says, which this keeps.
    """

    number: int
    count: int
    scale: float = 1.0
    zero_point: int = 0
    kind: TransferKind = TransferKind.AS_ELEMENTS
    how: kernels.Blocks | kernels.Image | None = None

    @classmethod
    def copy(cls: type[_C], dtype: np.dtype[Any], count: int) -> _C:
        """Elements as they are; those of 8 bytes are two of 4."""
        size = dtype.itemsize
        pieces = max(size // _LARGEST_COPY, 1)
        unit = np.dtype(f"u{size // pieces}")
        number = kernels.conversion(unit, unit)
        assert number is not None, "there is a copy for 1, 2 and 4 bytes"
        return cls(number, count * pieces)

    @classmethod
    def blocks(
        cls, number: int, shape: tuple[int, ...], memory: tuple[int, ...], affine: kernels.Affine
    ) -> Conversion:
        """An array (N, C, H, W) to or from channel blocks, whose pixels may be padded."""
        n, channels, h, w = shape
        _, c1, rows, columns, c2 = memory
        how = kernels.Blocks(n, channels, c1, h * w, c2, rows * columns, number, affine)
        return cls(number, 0, kind=TransferKind.AS_BLOCKS, how=how)

    @classmethod
    def pixels(cls, shape: tuple[int, ...], row: int, size: int) -> Conversion:
        """An array (N, C, H, W) of elements of `size` bytes to pixels, `row` of them in a row."""
        how = kernels.Image(*shape, row, size)
        return cls(0, 0, kind=TransferKind.AS_PIXELS, how=how)

    def describe(self, transfer: Transfer) -> None:
        """Write it to a step's C structure, whose owner keeps this."""
        transfer.conversion, transfer.count = self.number, self.count
        transfer.affine.scale, transfer.affine.zero_point = self.scale, self.zero_point
        transfer.kind = self.kind
        transfer.how = 0 if self.how is None else ctypes.addressof(self.how)


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
    return _move_all(_to_memory, pairs)


def _receive(transfers: Any, memories: Any, count: int) -> int:
    pairs = zip(transfers[:count], memories[:count], strict=True)
    return _move_all(_from_memory, pairs)


def _move_all(move: Callable[[Any, int], None], pairs: Iterable[tuple[Any, int]]) -> int:
    """C is above: an exception would be taken for success there."""
    try:
        for transfer, memory in pairs:
            move(transfer, memory)
    except Exception:
        traceback.print_exc()
        return -1
    return 0


def _each(function: int, handles: Any, count: int, argument: int) -> int:
    call: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(
        function
    )
    return next((code for handle in handles[:count] if (code := call(handle, argument))), 0)


def _to_memory(transfer: Any, memory: int) -> None:
    kind = TransferKind(transfer.kind)
    if kind is TransferKind.AS_BLOCKS:
        blocks = kernels.Blocks.from_address(transfer.how)
        source, to_dtype = kernels.CONVERSIONS[blocks.conversion]
        planes = array_at(transfer.array, source, math.prod(_planes(blocks)))
        converted = np.empty(_planes(blocks), to_dtype)
        _convert(source, to_dtype, blocks.affine, planes, converted.reshape(-1))
        numpy_kernels.pack(converted, _blocks_at(memory, to_dtype, blocks))
    elif kind is TransferKind.AS_PIXELS:
        _interleave(kernels.Image.from_address(transfer.how), transfer.array, memory)
    else:
        _elements(transfer, transfer.array, memory)


def _from_memory(transfer: Any, memory: int) -> None:
    kind = TransferKind(transfer.kind)
    if kind is TransferKind.AS_BLOCKS:
        blocks = kernels.Blocks.from_address(transfer.how)
        source, to_dtype = kernels.CONVERSIONS[blocks.conversion]
        planes = np.empty(_planes(blocks), source)
        numpy_kernels.unpack(_blocks_at(memory, source, blocks), planes)
        result = array_at(transfer.array, to_dtype, planes.size)
        _convert(source, to_dtype, blocks.affine, planes.reshape(-1), result)
    elif kind is TransferKind.AS_ELEMENTS:
        _elements(transfer, memory, transfer.array)
    else:
        raise ValueError("pixels aren't received")


def _elements(transfer: Any, source: int, target: int) -> None:
    """What anynpu_convert does, with NumPy."""
    from_dtype, to_dtype = kernels.CONVERSIONS[transfer.conversion]
    values = array_at(source, from_dtype, transfer.count)
    result = array_at(target, to_dtype, transfer.count)
    _convert(from_dtype, to_dtype, transfer.affine, values, result)


def _planes(blocks: kernels.Blocks) -> tuple[int, int, int, int]:
    return blocks.batch, blocks.channels, 1, blocks.pixels


def _blocks_at(address: int, dtype: np.dtype[Any], blocks: kernels.Blocks) -> NDArray[Any]:
    shape = (blocks.batch, blocks.blocks, 1, blocks.surface, blocks.block)
    return array_at(address, dtype, math.prod(shape)).reshape(shape)[:, :, :, : blocks.pixels]


def _interleave(image: kernels.Image, source: int, target: int) -> None:
    n, c, h, w = image.batch, image.channels, image.height, image.width
    dtype = np.dtype(f"u{image.size}")
    planes = array_at(source, dtype, n * c * h * w).reshape(n, c, h, w)
    rows = array_at(target, dtype, n * h * image.row * c).reshape(n, h, image.row, c)
    numpy_kernels.copy_channels_last(planes.transpose(0, 2, 3, 1), rows[:, :, :w])


def _convert(
    source: np.dtype[Any],
    target: np.dtype[Any],
    affine: kernels.Affine,
    values: NDArray[Any],
    result: NDArray[Any],
) -> None:
    if source.kind in "iu" and target.kind == "f":
        numpy_kernels.dequantize(values, affine.scale, int(affine.zero_point), result)
    elif source.kind == "f" and target.kind in "iu":
        numpy_kernels.quantize(values, affine.scale, int(affine.zero_point), result)
    else:
        numpy_kernels.convert(values, result)
