"""The C kernels as functions on arrays, with NumPy in their place where they don't fit.

They take C-contiguous arrays in native byte order; `numpy_kernels` does the same for all others,
and where the kernels aren't built. Results don't depend on which of them did the work.
"""

from __future__ import annotations

import ctypes
import enum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..structures import Structure
from . import numpy_kernels
from .forms import load_kernels
from .memory import address_of

LARGEST_BLOCK = 32
MOST_LANES = 1024
_SMALLEST = 512
"""Elements; below that a call costs more than the work."""

_FLOAT, _HALF = np.dtype(np.float32), np.dtype(np.float16)
_QUANTIZED = [np.dtype(name) for name in ("int8", "uint8", "int16", "uint16")]
CONVERSIONS: tuple[tuple[np.dtype[Any], np.dtype[Any]], ...] = (
    *((np.dtype(f"u{size}"), np.dtype(f"u{size}")) for size in (1, 2, 4)),
    *((dtype, _FLOAT) for dtype in _QUANTIZED),
    (_HALF, _FLOAT),
    *((_FLOAT, dtype) for dtype in _QUANTIZED),
    (_FLOAT, _HALF),
)
"""From what to what each of native/kernels.c's conversions is, by its number; copies come first."""

CONVERSION_NAMES = tuple(f"{a}_TO_{b}".upper() for a, b in CONVERSIONS)
"""Those numbers' names in C."""

_NUMBERS = {pair: number for number, pair in enumerate(CONVERSIONS)}
_COPIES = {size: _NUMBERS[np.dtype(f"u{size}"), np.dtype(f"u{size}")] for size in (1, 2, 4)}
_IMAGE_SIZES = (1, 2, 4, 8)
_DEQUANTIZE = {dtype: _NUMBERS[dtype, _FLOAT] for dtype in _QUANTIZED}
_QUANTIZE = {dtype: _NUMBERS[_FLOAT, dtype] for dtype in _QUANTIZED}
_CONVERT = {pair: _NUMBERS[pair] for pair in ((_HALF, _FLOAT), (_FLOAT, _HALF))}


class Affine(Structure):
    """A quantisation, for a kernel."""

    _fields_ = [("scale", ctypes.c_float), ("zero_point", ctypes.c_float)]


class Blocks(Structure):
    """How a kernel unpacks or packs channel blocks: N, C, C1, H * W and C2.

    Blocks lie `surface` pixels apart, H * W or more.
    """

    _fields_ = [
        ("batch", ctypes.c_uint64),
        ("channels", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("pixels", ctypes.c_uint64),
        ("block", ctypes.c_uint64),
        ("surface", ctypes.c_uint64),
        ("conversion", ctypes.c_uint64),
        ("affine", Affine),
    ]


class Image(Structure):
    """How a kernel turns planes into pixels, of `size` bytes: 1, 2, 4 or 8.

    `row` is where the next row of pixels begins, in pixels.
    """

    _fields_ = [
        ("batch", ctypes.c_uint64),
        ("channels", ctypes.c_uint64),
        ("height", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
        ("row", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
    ]


class PixelSource(enum.IntEnum):
    """What pixels are made of."""

    FLOATS = 0
    HALVES = 1
    BYTES = 2


class PixelTarget(enum.IntEnum):
    """What they become."""

    REALS = 0
    INTEGERS = 1


class Pixels(Structure):
    """How a kernel takes pixels in, (N, H, W, C) to (N, C, H, W).

    `row` and `image` count pixels to the next row and sample. Numbers are normalised with two
    constants a channel: x * first + second, or with `divides` (x - first) / second; bytes are
    looked up in `table`, (channels, 256).
    """

    _fields_ = [
        ("batch", ctypes.c_uint64),
        ("channels", ctypes.c_uint64),
        ("height", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
        ("row", ctypes.c_uint64),
        ("image", ctypes.c_uint64),
        ("source", ctypes.c_uint64),
        ("target", ctypes.c_uint64),
        ("divides", ctypes.c_uint64),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("table", ctypes.c_void_p),
    ]


class CellElement(enum.IntEnum):
    """What cells are made of."""

    INT8_CELLS = 0
    UINT8_CELLS = 1
    INT16_CELLS = 2
    UINT16_CELLS = 3


class Threshold(Structure):
    """Which cells a kernel looks for: those with `least` in any of some channels.

    Cells are (blocks, `cells`, `lanes`), channels `first` up to `last`. `least` is above the lowest
    value that the element has.
    """

    _fields_ = [
        ("cells", ctypes.c_uint64),
        ("lanes", ctypes.c_uint64),
        ("first", ctypes.c_uint64),
        ("last", ctypes.c_uint64),
        ("element", ctypes.c_uint64),
        ("least", ctypes.c_int64),
    ]


_CELL_ELEMENTS = {
    dtype: (element, int(np.iinfo(dtype).min))
    for dtype, element in zip(_QUANTIZED, CellElement, strict=True)
}
_PIXEL_SOURCES = {
    _FLOAT: PixelSource.FLOATS,
    _HALF: PixelSource.HALVES,
    np.dtype(np.uint8): PixelSource.BYTES,
}
_PIXEL_TARGETS = {_FLOAT: PixelTarget.REALS, np.dtype(np.int8): PixelTarget.INTEGERS}


def convert(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy values to an array of the same shape and another dtype, as `np.copyto` does."""
    number = _CONVERT.get((source.dtype, target.dtype))
    if number is None or source.shape != target.shape or not _fits(source, target):
        numpy_kernels.convert(source, target)
        return
    functions().anynpu_convert(number, None, address_of(source), address_of(target), source.size)


def dequantize(
    source: NDArray[Any], scale: float, zero_point: int, target: NDArray[np.float32]
) -> None:
    """Target = (source - zero point) * scale."""
    number = _DEQUANTIZE.get(source.dtype)
    if number is None or source.shape != target.shape or not _fits(source, target):
        numpy_kernels.dequantize(source, scale, zero_point, target)
        return
    how = Affine(scale, zero_point)
    functions().anynpu_convert(
        number, ctypes.addressof(how), address_of(source), address_of(target), source.size
    )


def quantize(source: NDArray[Any], scale: float, zero_point: int, target: NDArray[Any]) -> None:
    """Target = saturate(round(source / scale) + zero point); NaN becomes the lowest value."""
    is_float = source.dtype == _FLOAT and target.dtype in _QUANTIZE
    if not is_float or source.shape != target.shape or not _fits(source, target):
        numpy_kernels.quantize(source, scale, zero_point, target)
        return
    how = Affine(scale, zero_point)
    functions().anynpu_convert(
        _QUANTIZE[target.dtype],
        ctypes.addressof(how),
        address_of(source),
        address_of(target),
        source.size,
    )


def quantize_wrapping(
    source: NDArray[np.float32], scale: float, zero_point: int, target: NDArray[np.int8]
) -> None:
    """Target = the low eight bits of round((source + zero point * scale) * (1 / scale)).

    That one is limited to int32, and 0 for what is no number.
    """
    if source.shape != target.shape or not _fits(source, target):
        numpy_kernels.quantize_wrapping(source, scale, zero_point, target)
        return
    how = Affine(scale, zero_point)
    functions().anynpu_quantize_wrapping(
        ctypes.addressof(how), address_of(source), address_of(target), source.size
    )


def restore(
    source: NDArray[np.int8], scale: float, zero_point: int, target: NDArray[np.float32]
) -> None:
    """Target = source * scale - zero point * scale, each step rounded to float32."""
    if source.shape != target.shape or not _fits(source, target):
        numpy_kernels.restore(source, scale, zero_point, target)
        return
    how = Affine(scale, zero_point)
    functions().anynpu_restore(
        ctypes.addressof(how), address_of(source), address_of(target), source.size
    )


def take_pixels(
    source: NDArray[Any],
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    target: NDArray[Any],
    *,
    divides: bool,
) -> None:
    """(N, H, W, C) float32 or float16 to (N, C, H, W), normalised with constants of each channel.

    source * first + second, or (source - first) / second where it `divides`, each step rounded to
    float32. An int8 target gets it rounded, ties to even, and limited; no number is the highest.
    """
    how = _pixels(source, target)
    if how is None:
        numpy_kernels.take_pixels(source, first, second, target, divides=divides)
        return
    how.divides, how.first, how.second = divides, address_of(first), address_of(second)
    functions().anynpu_take_pixels(ctypes.addressof(how), address_of(source), address_of(target))


def look_up_pixels(source: NDArray[np.uint8], table: NDArray[Any], target: NDArray[Any]) -> None:
    """(N, H, W, C) bytes to (N, C, H, W) of the table's dtype; the table is (C, 256)."""
    how = _pixels(source, target)
    if how is None:
        numpy_kernels.look_up_pixels(source, table, target)
        return
    how.table = address_of(table)
    functions().anynpu_take_pixels(ctypes.addressof(how), address_of(source), address_of(target))


def unpack(
    blocks: NDArray[Any], target: NDArray[Any], scale: float | None = None, zero_point: int = 0
) -> None:
    """(N, C1, H, W, C2) to (N, C, H, W) in one pass, cast to the target's dtype.

    With a scale the target is float32 and gets (q - zero point) * scale.
    """
    number = (
        _conversion(blocks.dtype, target.dtype) if scale is None else _DEQUANTIZE.get(blocks.dtype)
    )
    surface = _surface(blocks)
    if number is None or surface is None or not _fits(target):
        _unpack_with_numpy(blocks, target, scale, zero_point)
        return
    n, c1, h, w, c2 = blocks.shape
    affine = Affine(scale or 1, zero_point)
    how = Blocks(n, target.shape[1], c1, h * w, c2, surface, number, affine)
    functions().anynpu_unpack(ctypes.addressof(how), address_of(blocks), address_of(target))


def pack(
    source: NDArray[Any], blocks: NDArray[Any], scale: float | None = None, zero_point: int = 0
) -> None:
    """(N, C, H, W) to (N, C1, H, W, C2) in one pass, cast to the target's dtype.

    With a scale float32 is quantised, as `quantize` does it. Channels that pad are zero.
    """
    number = (
        _conversion(source.dtype, blocks.dtype) if scale is None else _QUANTIZE.get(blocks.dtype)
    )
    surface = _surface(blocks)
    if number is None or surface is None or not _fits(source):
        _pack_with_numpy(source, blocks, scale, zero_point)
        return
    n, c1, h, w, c2 = blocks.shape
    affine = Affine(scale or 1, zero_point)
    how = Blocks(n, source.shape[1], c1, h * w, c2, surface, number, affine)
    functions().anynpu_pack(ctypes.addressof(how), address_of(source), address_of(blocks))


def copy_channels_last(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy (N, H, W, C) values of any strides, cast to the target's dtype.

    A kernel does it where the source is a transposed NCHW array and the target's rows lie at
    equal distances.
    """
    how = _image(source, target)
    if how is None:
        numpy_kernels.copy_channels_last(source, target)
        return
    functions().anynpu_to_channels_last(
        ctypes.addressof(how), address_of(source), address_of(target)
    )


def cells_reaching(values: NDArray[Any], first: int, last: int, least: Any) -> NDArray[np.intp]:
    """The cells, rising, of which any of the channels `first` up to `last` is `least` or more.

    Values are (blocks, cells, lanes): channel c is lane c % lanes of block c // lanes.
    """
    element, lowest = _CELL_ELEMENTS.get(values.dtype, (None, 0))
    lanes = values.shape[2]
    if element is None or least <= lowest or not 0 < lanes <= MOST_LANES or not _fits(values):
        return numpy_kernels.cells_reaching(values, first, last, least)
    how = Threshold(values.shape[1], lanes, first, last, element, int(least))
    found = np.empty(values.shape[1], np.int64)
    count = functions().anynpu_cells_reaching(
        ctypes.addressof(how), address_of(values), address_of(found)
    )
    return found[:count].astype(np.intp, copy=False)


def copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy between contiguous arrays of the same dtype and shape, without letting go of the GIL.

    NumPy lets go of it, and then waits for its turn behind threads that compute.
    """
    if is_built() and source.flags.c_contiguous and target.flags.c_contiguous:
        functions().anynpu_copy(address_of(target), address_of(source), source.nbytes)
    else:
        np.copyto(target, source)


def is_built() -> bool:
    """Whether there are C kernels."""
    return _library() is not None


def functions() -> ctypes.PyDLL:
    """The C functions, which keep the GIL: their work is short."""
    library = _library()
    assert library is not None, "callers look whether there is one"
    return library


def _fits(*arrays: NDArray[Any]) -> bool:
    return (
        arrays[0].size >= _SMALLEST
        and all(array.flags.c_contiguous and array.dtype.isnative for array in arrays)
        and is_built()
    )


def _surface(blocks: NDArray[Any]) -> int | None:
    """Pixels from one channel block to the next; None for blocks that the kernels don't take."""
    _, c1, _, w, c2 = blocks.shape
    size = blocks.itemsize
    surface, rest = divmod(blocks.strides[1], c2 * size)
    wanted = (c1 * surface * c2 * size, surface * c2 * size, w * c2 * size, c2 * size, size)
    # Where an axis has one element, its stride says nothing.
    is_regular = all(
        stride == other or count == 1
        for stride, other, count in zip(blocks.strides, wanted, blocks.shape, strict=True)
    )
    return surface if is_regular and not rest and c2 <= LARGEST_BLOCK else None


def _conversion(source: np.dtype[Any], target: np.dtype[Any]) -> int | None:
    """The number of the copy, where they are the same, or of the conversion."""
    if source == target:
        return _COPIES.get(source.itemsize)
    return _CONVERT.get((source, target))


def conversion(
    source: np.dtype[Any], target: np.dtype[Any], *, is_quantized: bool = False
) -> int | None:
    """The number by which a step of a program converts elements; None where no kernel does.

    With `is_quantized` whole numbers and float32 are turned into each other by a scale and a zero
    point, else values stay what they are.
    """
    if is_quantized and target == _FLOAT:
        return _DEQUANTIZE.get(source)
    if is_quantized and source == _FLOAT:
        return _QUANTIZE.get(target)
    return _conversion(source, target)


def _unpack_with_numpy(
    blocks: NDArray[Any], target: NDArray[Any], scale: float | None, zero_point: int
) -> None:
    if scale is None and blocks.dtype == target.dtype:
        numpy_kernels.unpack(blocks, target)
        return
    same = np.empty(target.shape, blocks.dtype)
    numpy_kernels.unpack(blocks, same)
    if scale is None:
        convert(same, target)
    else:
        dequantize(same, scale, zero_point, target)


def _pack_with_numpy(
    source: NDArray[Any], blocks: NDArray[Any], scale: float | None, zero_point: int
) -> None:
    if scale is not None or source.dtype != blocks.dtype:
        given, source = source, np.empty(source.shape, blocks.dtype)
        if scale is None:
            convert(given, source)
        else:
            quantize(given, scale, zero_point, source)
    numpy_kernels.pack(source, blocks)


def _image(source: NDArray[Any], target: NDArray[Any]) -> Image | None:
    n, h, w, c = source.shape
    size = source.itemsize
    is_planes = source.transpose(0, 3, 1, 2).flags.c_contiguous
    row, rest = divmod(target.strides[1], c * size)
    is_rows = target.strides == (h * row * c * size, row * c * size, c * size, size)
    if (
        not (is_planes and is_rows)
        or rest
        or source.dtype != target.dtype
        or size not in _IMAGE_SIZES
        or source.shape != target.shape
        or source.size < _SMALLEST
        or not is_built()
    ):
        return None
    return Image(n, c, h, w, row, size)


def _pixels(source: NDArray[Any], target: NDArray[Any]) -> Pixels | None:
    """How the kernel takes these pixels in; None where it can't."""
    n, h, w, c = source.shape
    size = source.itemsize
    row, rest = divmod(source.strides[1], c * size)
    image, more = divmod(source.strides[0], c * size)
    is_packed = source.strides[2:] == (c * size, size) and not rest and not more
    kinds = _PIXEL_SOURCES.get(source.dtype), _PIXEL_TARGETS.get(target.dtype)
    if None in kinds or not is_packed or source.size < _SMALLEST or not _fits(target):
        return None
    return Pixels(n, c, h, w, row, image, *kinds)


_POINTER = ctypes.c_void_p
_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "anynpu_convert": (ctypes.c_uint32, _POINTER, _POINTER, _POINTER, ctypes.c_size_t),
    "anynpu_unpack": (_POINTER, _POINTER, _POINTER),
    "anynpu_pack": (_POINTER, _POINTER, _POINTER),
    "anynpu_to_channels_last": (_POINTER, _POINTER, _POINTER),
    "anynpu_take_pixels": (_POINTER, _POINTER, _POINTER),
    "anynpu_quantize_wrapping": (_POINTER, _POINTER, _POINTER, ctypes.c_size_t),
    "anynpu_restore": (_POINTER, _POINTER, _POINTER, ctypes.c_size_t),
    "anynpu_cells_reaching": (_POINTER, _POINTER, _POINTER),
    "anynpu_copy": (_POINTER, _POINTER, ctypes.c_size_t),
    "anynpu_send": (_POINTER, _POINTER, ctypes.c_size_t),
    "anynpu_receive": (_POINTER, _POINTER, ctypes.c_size_t),
    "anynpu_arrange": (_POINTER, ctypes.c_size_t),
    "anynpu_each": (_POINTER, _POINTER, ctypes.c_size_t, ctypes.c_int32),
}


@cache
def _library() -> ctypes.PyDLL | None:
    loaded = load_kernels("kernels")
    if loaded is None:
        return None
    library = ctypes.PyDLL(loaded._name)
    for name, arguments in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_int32, arguments
    return library
