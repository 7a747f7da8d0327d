"""One request's C structures and buffers, for the general API."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...native import kernels
from ...native.arrangements import Arrangement
from ...native.memory import address_of
from ...native.pump import RequestRecord
from ...rknn import abi
from ...tensor import Layout
from ..base import Request
from .request_input import RequestInput

if TYPE_CHECKING:
    from .general import GeneralNetwork

INPUTS, OUTPUTS, ARRANGEMENTS = 0, 1, 2
"""The request's slots: the arrays of `rknn_input`, of `rknn_output` and of `Arrangement`."""


class RknnRequest(Request):
    """The structures stay; so do arrays of inputs, for the next request of the same shapes."""

    def __init__(self, network: GeneralNetwork) -> None:
        self.record = RequestRecord()
        self._network = network
        inputs = (abi.Input * len(network.inputs))()
        arrangements = (Arrangement * len(network.inputs))()
        self._outputs = (abi.Output * len(network.outputs))()
        self.record.slots[INPUTS] = ctypes.addressof(inputs)
        self.record.slots[OUTPUTS] = ctypes.addressof(self._outputs)
        self.record.slots[ARRANGEMENTS] = ctypes.addressof(arrangements)
        self._inputs = [
            RequestInput(struct, arrangement, info, shown)
            for struct, arrangement, info, shown in zip(
                inputs, arrangements, network.runtime_inputs, network.inputs, strict=True
            )
        ]
        self._given: list[np.dtype[Any]] = []
        self._has_bytes = False
        self._results: list[NDArray[Any]] = []
        for index, struct in enumerate(inputs):
            struct.index = index
        for index, output in enumerate(self._outputs):
            output.index, output.is_prealloc = index, 1

    def fill(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> None:
        given = [array.dtype for array in arrays]
        if given != self._given:
            self._expect(given)
        self.variant = self._network.variant(arrays, has_bytes=self._has_bytes)
        for entry, array in zip(self._inputs, arrays, strict=True):
            entry.fill(array, copy=copy)
        self._prepare_results()

    def take_results(self) -> list[NDArray[Any]]:
        results, self._results = self._results, []
        wanted = self._network.results_of(self.variant)
        arrays = [
            array if array.dtype == result.dtype else _whole_numbers(array, result.dtype)
            for array, result in zip(results, wanted, strict=True)
        ]
        if self._network.options.output_layout != "nhwc":
            return arrays
        infos = self._network.outputs_of(self.variant)
        return [
            array.transpose(0, 2, 3, 1) if info.layout is Layout.NCHW else array
            for array, info in zip(arrays, infos, strict=True)
        ]

    def clear(self) -> None:
        for entry in self._inputs:
            entry.clear()
        self._results = []

    def describe(self) -> str:
        """The inputs and what was given for them, for an error's message."""
        return "\n".join(map(str, self._inputs))

    def _expect(self, given: list[np.dtype[Any]]) -> None:
        """Get ready for arrays of some dtypes."""
        types = self._network.input_types(tuple(given))
        self._given = []  # an interrupt in the middle leaves nothing that is taken for done
        for entry, dtype in zip(self._inputs, types.dtypes, strict=True):
            entry.give_as(dtype)
        self._given, self._has_bytes = given, types.has_bytes

    def _prepare_results(self) -> None:
        wanted = self._network.results_of(self.variant)
        results = self._results = [np.empty(each.shape, each.written) for each in wanted]
        for struct, array, result in zip(self._outputs, results, wanted, strict=True):
            struct.want_float = result.is_float
            struct.buf = address_of(array)
            struct.size = array.nbytes


def _whole_numbers(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """What the runtime gave as float32 in its own dtype."""
    whole = np.empty(values.shape, dtype)
    kernels.convert(values, whole)
    return whole
