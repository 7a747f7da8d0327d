"""One input of a request by the zero-copy API, in one form: from an array to what memory holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...native import kernels
from ...native.memory import address_of
from ...native.transfers import Conversion, Transfer
from ...rknn import host_types
from ...rknn.input_forms import InputForm, store
from ...tensor import Layout, TensorInfo

if TYPE_CHECKING:
    from .zero_copy_network import ZeroCopyNetwork

_FLOAT, _BYTE = np.dtype(np.float32), np.dtype(np.uint8)


class StagedInput:
    """The worker's step converts an array into memory, where a kernel does that in one pass.

    Other arrays are converted here, into one that lies as memory does and is kept. What depends on
    the network and the form alone is found out once.
    """

    def __init__(self, network: ZeroCopyNetwork, index: int, form: InputForm) -> None:
        self._info = info = network.runtime_inputs[index]
        self._form = form
        is_image = info.layout is Layout.NHWC
        self._is_turned = is_image and network.inputs[index].layout is Layout.NCHW
        self._normalization = network.normalizations[index] if form.is_native else None
        self._shape, self._dtype = network.staging_shape(index, form), form.dtype.numpy
        self._is_passable = not form.is_native and host_types.limits(info) is None
        size = int(np.prod(self._shape)) * self._dtype.itemsize
        self._as_it_lies = Conversion.copy(_BYTE, size)
        self._direct_dtype = _FLOAT if form.is_native else self._dtype
        self._direct = self._packing(info) if form.is_native else self._interleaving(info)
        self._staged: NDArray[Any] | None = None
        self._held: NDArray[Any] | None = None

    def place(self, array: NDArray[Any], transfer: Transfer, *, copy: bool) -> NDArray[Any]:
        """Let a transfer take the values of an array; returns what has to be kept meanwhile."""
        is_contiguous = array.flags.c_contiguous
        if self._direct is not None and is_contiguous and array.dtype == self._direct_dtype:
            taken = self._held_copy(array) if copy else array
            self._direct.describe(transfer)
        else:
            pixels = array.transpose(0, 2, 3, 1) if self._is_turned else array
            if not copy and self._is_passable and self._lies_as_memory(pixels):
                taken = pixels
            else:
                taken = self._converted(pixels)
            self._as_it_lies.describe(transfer)
        transfer.array = address_of(taken)
        return taken

    def _interleaving(self, info: TensorInfo) -> Conversion | None:
        """From planes to the pixels that memory holds."""
        if not self._is_turned or len(self._shape) != 4:
            return None
        n, h, w, c = info.shape
        return Conversion.pixels((n, c, h, w), self._shape[2], self._dtype.itemsize)

    def _packing(self, info: TensorInfo) -> Conversion | None:
        """From planes of real values to the NPU's own channel blocks; None where more is done."""
        number = kernels.conversion(_FLOAT, self._dtype, is_quantized=info.quantization is not None)
        if number is None or not self._is_turned or len(self._shape) != 5:
            return None
        if host_types.is_picture(info):
            return None
        n, h, w, c = info.shape
        batch, _, rows, columns, block = self._shape
        if (batch, rows, columns) != (n, h, w) or block > kernels.LARGEST_BLOCK:
            return None
        is_quantized = info.quantization is not None
        affine = kernels.Affine(*((info.scale, info.zero_point) if is_quantized else (1.0, 0)))
        return Conversion.blocks(number, (n, c, h, w), self._shape, affine)

    def _held_copy(self, array: NDArray[Any]) -> NDArray[Any]:
        if self._held is None:
            self._held = np.empty(array.shape, array.dtype)
        kernels.copy(array, self._held)
        return self._held

    def _converted(self, pixels: NDArray[Any]) -> NDArray[Any]:
        staged = self._staged
        if staged is None:
            # Zeros, since the pixels that pad rows are the device's to see too.
            staged = self._staged = np.zeros(self._shape, self._dtype)
        is_padded = self._info.layout is Layout.NHWC and staged.ndim == 4
        target = staged[:, :, : self._info.shape[2]] if is_padded else staged
        store(pixels, self._info, self._form, target, self._normalization)
        return staged

    def _lies_as_memory(self, array: NDArray[Any]) -> bool:
        return (
            array.shape == self._shape and array.dtype == self._dtype and array.flags.c_contiguous
        )
