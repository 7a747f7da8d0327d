"""One request's arrays, and how each is converted on its way to a worker's buffers and back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...native import kernels
from ...native.memory import address_of
from ...native.pump import RequestRecord
from ...native.transfers import Transfer
from ...tensor import TensorInfo
from ...viplite import formats
from ..base import Request
from .conversion import Conversion

if TYPE_CHECKING:
    from .network import VipliteNetwork

INPUTS, OUTPUTS = 0, 1
"""The request's slots: the transfers of the inputs and those of the outputs."""


class VipliteRequest(Request):
    """The C structures stay; arrays of inputs are kept for the next request of the same dtypes."""

    def __init__(self, network: VipliteNetwork) -> None:
        self.record = RequestRecord()
        self._network = network
        self._inputs = (Transfer * len(network.inputs))()
        self._outputs = (Transfer * len(network.outputs))()
        self.record.slots[INPUTS] = ctypes.addressof(self._inputs)
        self.record.slots[OUTPUTS] = ctypes.addressof(self._outputs)
        self._given: list[NDArray[Any] | None] = [None] * len(network.inputs)
        self._own: dict[tuple[int, str, tuple[int, ...]], NDArray[Any]] = {}
        self._results: list[NDArray[Any]] = []
        self._described: list[Conversion | None] = [None] * len(network.inputs)
        for transfer, plan in zip(self._outputs, network.result_plans, strict=True):
            plan.conversion.describe(transfer)

    def fill(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> None:
        network = self._network
        for index, (info, array) in enumerate(zip(network.memory_inputs, arrays, strict=True)):
            planes = array
            if network.inputs[index].layout is not info.layout:
                planes = array.transpose(0, 3, 1, 2)
            conversion = network.conversion(index, planes.dtype)
            if conversion is None:
                planes = self._encoded(index, info, planes)
                conversion = network.conversion(index, planes.dtype, is_stored=True)
                assert conversion is not None, "what is stored can be copied"
            elif copy or not planes.flags.c_contiguous:
                planes = self._copied(index, planes)
            self._given[index] = planes
            transfer = self._inputs[index]
            if conversion is not self._described[index]:
                # An interrupt in the middle leaves nothing that is taken for done.
                self._described[index] = None
                conversion.describe(transfer)
                self._described[index] = conversion
            transfer.array = address_of(planes)
        results = self._results = [np.empty(p.shape, p.dtype) for p in network.result_plans]
        for transfer, result in zip(self._outputs, results, strict=True):
            transfer.array = address_of(result)

    def take_results(self) -> list[NDArray[Any]]:
        results, self._results = self._results, []
        return [
            plan.finish(result)
            for plan, result in zip(self._network.result_plans, results, strict=True)
        ]

    def clear(self) -> None:
        self._given = [None] * len(self._given)
        self._results = []

    def _encoded(self, index: int, info: TensorInfo, array: NDArray[Any]) -> NDArray[Any]:
        """The array as memory has it, where no kernel converts on the way."""
        stored = formats.stored_shape(info.shape, info.dtype)
        own = self._own_array(index, stored, formats.stored_dtype(info.dtype))
        formats.encode(array, info, own)
        return own

    def _copied(self, index: int, array: NDArray[Any]) -> NDArray[Any]:
        own = self._own_array(index, array.shape, array.dtype)
        pixels = array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
        if array.flags.c_contiguous:
            kernels.copy(array, own)
        elif array.ndim == 4 and pixels.flags.c_contiguous:
            # Pixels are one block of channels: the kernel for blocks makes planes of them.
            kernels.unpack(pixels[:, None], own)
        else:
            np.copyto(own, array)
        return own

    def _own_array(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        key = (index, dtype.str, shape)
        if key not in self._own:
            self._own[key] = np.empty(shape, dtype)
        return self._own[key]
