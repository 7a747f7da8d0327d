"""One input of a request by the zero-copy API, in one form: from an array to what memory holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...native.memory import address_of
from ...native.transfers import Transfer
from ...rknn import host_types
from ...rknn.input_forms import InputForm, store
from ...tensor import Layout

if TYPE_CHECKING:
    from .zero_copy_network import ZeroCopyNetwork


class StagedInput:
    """It converts arrays into one of its own, which lies as the device's memory does.

    An array that lies so itself is passed on uncopied, where the caller keeps it. What depends on
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
        # Zeros, since the pixels that pad rows are the device's to see too.
        self._staged: NDArray[Any] = np.zeros(self._shape, self._dtype)
        self._address, self._bytes = address_of(self._staged), self._staged.nbytes
        is_padded = is_image and self._staged.ndim == 4
        self._target = self._staged[:, :, : info.shape[2]] if is_padded else self._staged

    def place(self, array: NDArray[Any], transfer: Transfer, *, copy: bool) -> NDArray[Any]:
        """Let a transfer take the values of an array; returns what has to be kept meanwhile."""
        if self._is_turned:
            array = array.transpose(0, 2, 3, 1)
        if not copy and self._is_passable and self._lies_as_memory(array):
            transfer.array, transfer.count = address_of(array), array.nbytes
            return array
        transfer.array, transfer.count = self._address, self._bytes
        store(array, self._info, self._form, self._target, self._normalization)
        return self._staged

    def _lies_as_memory(self, array: NDArray[Any]) -> bool:
        return (
            array.shape == self._shape and array.dtype == self._dtype and array.flags.c_contiguous
        )
