"""Tensors in a compiled graph's internal memory, in the layout that the file gives them.

Channels come in blocks (N, C1, H, W, C2); surfaces of several blocks begin at multiples of four
pixels (13 x 13 pixels take 172), but for the graph's inputs, which the first tasks read without
gaps. Pictures of 1 to 4 channels have one block without lanes that pad it; their rows are filled up
to whole atoms a channel. On a board the graph's first task puts the padding value there, which no
task reads as a pixel: here it is 0, and that task is left out. Samples of a batch follow one
another, those of pictures where a board has them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ModelError
from ....native import kernels
from ...formats.rknn.model import Tensor, TensorKind, TensorLayout

_SURFACE_PIXELS = 4
_IMAGE_CHANNELS = 4


class TensorBuffer:
    """One tensor's place in an internal memory, bound once.

    `memory` is a one-dimensional uint8 array, which is shared, not copied. One thread at a time.
    Raises `ModelError` for a tensor that doesn't lie in it, or has elements NumPy doesn't have.
    """

    def __init__(self, memory: NDArray[np.uint8], tensor: Tensor) -> None:
        self.tensor = tensor
        self._memory = memory
        dtype = element_dtype(tensor)
        shape, strides = _geometry(tensor, dtype.itemsize)
        # The outermost stride counts what pads the last surface too.
        end = tensor.offset + shape[0] * strides[0]
        if end > memory.size or 0 in shape:
            raise ModelError(
                f"tensor {tensor.name!r} {shape} ends at byte {end} of an internal memory of "
                f"{memory.size} bytes"
            )
        self.array: NDArray[Any] = np.ndarray(shape, dtype, memory, tensor.offset, strides)
        self._is_blocked = _is_blocked(tensor, shape)
        self._channels = math.prod(tensor.shape) // math.prod(
            np.take(shape, (0, 2, 3)) if self._is_blocked else shape
        )
        self._surfaces = self._padded_surfaces()
        self._together = self._samples_together()
        self._rows: NDArray[Any] | None = None

    def read(self, out: NDArray[Any]) -> None:
        """Copy the tensor to an array of its logical shape, cast to that one's dtype."""
        if self._is_blocked:
            self._unpack(out.reshape(self._image_shape))
        else:
            kernels.convert(self.array, out.reshape(self.array.shape))

    def write(self, values: NDArray[Any]) -> None:
        """Copy values of the logical shape in, cast to the tensor's dtype; padding becomes 0."""
        if self._is_blocked:
            self._pack(values.reshape(self._image_shape))
        else:
            kernels.convert(values.reshape(self.array.shape), self.array)

    @property
    def _image_shape(self) -> tuple[int, int, int, int]:
        n, _, h, w, _ = self.array.shape
        return n, self._channels, h, w

    def _unpack(self, image: NDArray[Any]) -> None:
        if self._surfaces is None:
            for first, last in self._together:
                kernels.unpack(self.array[first:last], image[first:last])
            return
        rows = self._rows_of(image)
        for first, last in self._together:
            kernels.unpack(self._surfaces[first:last], rows[first:last])
        np.copyto(image, self._filled(rows, image).reshape(image.shape))

    def _pack(self, image: NDArray[Any]) -> None:
        if self._surfaces is None:
            for first, last in self._together:
                kernels.pack(image[first:last], self.array[first:last])
            return
        rows = self._rows_of(image)
        filled = self._filled(rows, image)
        filled[...] = image.reshape(filled.shape)
        rows[..., filled.shape[-1] :] = 0
        for first, last in self._together:
            kernels.pack(rows[first:last], self._surfaces[first:last])

    def _padded_surfaces(self) -> NDArray[Any] | None:
        """The blocks with the pixels that pad them; those of a sample follow each other.

        (N, C1, 1, S, C2) where surfaces are padded, (N, 1, H, S, C2) where rows are; None where
        nothing is.
        """
        if not self._is_blocked:
            return None
        n, c1, h, w, c2 = self.array.shape
        sample, surface, row, pixel, itemsize = self.array.strides
        lines = (h, row // pixel) if self.tensor.row else (1, surface // pixel)
        if math.prod(lines) == h * w:
            return None
        surfaces: NDArray[Any] = np.ndarray(
            (n, c1, *lines, c2),
            self.array.dtype,
            self._memory,
            self.tensor.offset,
            (sample, surface, lines[1] * pixel, pixel, itemsize),
        )
        return surfaces

    def _samples_together(self) -> list[tuple[int, int]]:
        """The samples that are moved in one call: all, or each by itself where they lie apart."""
        samples = self.array.shape[0]
        held = self.array if self._surfaces is None else self._surfaces
        if held.flags.c_contiguous:
            return [(0, samples)]
        return [(number, number + 1) for number in range(samples)]

    def _rows_of(self, image: NDArray[Any]) -> NDArray[Any]:
        """Lines like the surfaces', of an image's dtype, kept for the next time."""
        assert self._surfaces is not None, "there are surfaces where rows are wanted"
        if self._rows is None or self._rows.dtype != image.dtype:
            n, channels, _, _ = image.shape
            self._rows = np.empty((n, channels, *self._surfaces.shape[2:4]), image.dtype)
        return self._rows

    def _filled(self, rows: NDArray[Any], image: NDArray[Any]) -> NDArray[Any]:
        """The part of such lines that holds pixels, (N, C, 1, H * W) or (N, C, H, W)."""
        h, w = image.shape[2:]
        return rows[..., :w] if self.tensor.row else rows[..., : h * w]


def real_values(memory: NDArray[np.uint8], tensor: Tensor) -> NDArray[np.float32]:
    """A tensor's values in a memory as real ones, of its logical shape: a new array."""
    buffer = TensorBuffer(memory, tensor)
    stored = np.empty(tensor.shape, buffer.array.dtype)
    buffer.read(stored)
    values = stored.astype(np.float32)
    if tensor.scale:
        values -= np.float32(tensor.zero_point[0] if tensor.zero_point else 0)
        values *= np.float32(tensor.scale[0])
    return values


def held_bytes(tensor: Tensor) -> int:
    """The bytes of internal memory that a tensor takes, with what fills up rows and surfaces.

    Raises `ModelError` as `TensorBuffer` does.
    """
    shape, strides = _geometry(tensor, element_dtype(tensor).itemsize)
    return shape[0] * strides[0]


def element_dtype(tensor: Tensor) -> np.dtype[Any]:
    """NumPy's dtype for a tensor's elements; `ModelError` where it has none."""
    dtype = tensor.element.dtype
    if dtype is None or dtype.numpy_name is None:
        raise ModelError(f"tensor {tensor.name!r} has elements of type {tensor.element.name}")
    held: np.dtype[Any] = dtype.numpy
    return held


def _is_blocked(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    return tensor.layout is TensorLayout.BLOCKED and len(shape) == 5


def _geometry(tensor: Tensor, itemsize: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape in memory and the strides in bytes."""
    shape = tensor.native_shape or (1,)
    if not _is_blocked(tensor, shape):
        if math.prod(shape) != math.prod(tensor.shape):
            raise ModelError(
                f"tensor {tensor.name!r} of shape {tensor.shape} lies in memory as {shape}"
            )
        return shape, _contiguous(shape, itemsize)
    n, c1, h, w, c2 = shape
    channels, rest = divmod(math.prod(tensor.shape), max(1, n * h * w))
    if rest or not 0 < channels <= c1 * c2:
        raise ModelError(
            f"tensor {tensor.name!r} of shape {tensor.shape} lies in memory as {shape}"
        )
    pixel = c2 * itemsize
    row = max(tensor.row, w * pixel)
    is_aligned = n * c1 > 1 and h * w > 1 and tensor.kind is not TensorKind.INPUT
    surface = _round_up(h * w, _SURFACE_PIXELS) * pixel if is_aligned else h * row
    # The shape in the file may count blocks without any channel.
    blocks = -(-channels // c2)
    sample = blocks * surface
    if tensor.kind is TensorKind.INPUT and channels == c2 <= _IMAGE_CHANNELS:
        # The tasks look for each sample where a board has it, after rows that are padded.
        sample = max(sample, tensor.size // max(1, n))
    return (n, blocks, h, w, c2), (sample, surface, row, pixel, itemsize)


def _contiguous(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape)))


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
