"""One request's buffers, for the zero-copy API."""

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
from ...rknn.input_forms import InputForm
from ..base import Request
from .staged_input import StagedInput

if TYPE_CHECKING:
    from .zero_copy_network import ZeroCopyNetwork

INPUTS, OUTPUTS = 0, 1
"""The request's slots: arrays of transfers, one for each input and for each output."""

_BYTES = np.dtype(np.uint8)
_COPY = kernels.conversion(_BYTES, _BYTES)


class ZeroCopyRequest(Request):
    """Inputs are converted to arrays that lie as the device's memory does; so are the outputs'.

    The arrays are kept for the next request, except for outputs that aren't converted.
    """

    def __init__(self, network: ZeroCopyNetwork) -> None:
        self.record = RequestRecord()
        self._network = network
        self._inputs = (Transfer * len(network.inputs))()
        self._outputs = (Transfer * len(network.outputs))()
        for transfer in (*self._inputs, *self._outputs):
            transfer.conversion = _COPY
        self.record.slots[INPUTS] = ctypes.addressof(self._inputs)
        self.record.slots[OUTPUTS] = ctypes.addressof(self._outputs)
        self._staged: dict[tuple[int, InputForm], StagedInput] = {}
        self._dtypes: list[np.dtype[Any]] = []
        self._current: list[StagedInput] = []
        self._given: list[NDArray[Any]] = []
        self._raw: list[NDArray[Any] | None] = [None] * len(network.outputs)

    def fill(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> None:
        dtypes = [array.dtype for array in arrays]
        if dtypes != self._dtypes:
            self._expect(dtypes)
        self._given = [
            staged.place(array, transfer, copy=copy)
            for staged, array, transfer in zip(self._current, arrays, self._inputs, strict=True)
        ]
        for index, raw in enumerate(self._raw):
            if raw is None:
                self._raw[index] = self._new_raw(index)

    def take_results(self) -> list[NDArray[Any]]:
        results = []
        for index, (raw, result) in enumerate(zip(self._raw, self._network.results, strict=True)):
            assert raw is not None, "it was made before the run"
            results.append(result.from_raw(raw))
            if result.is_as_written:
                self._raw[index] = None
        return results

    def clear(self) -> None:
        self._given = []

    def _new_raw(self, index: int) -> NDArray[Any]:
        """An array for what the device writes, to which the output's bytes are copied."""
        info = self._network.native_outputs[index]
        raw: NDArray[Any] = np.empty(info.shape, info.dtype.numpy)
        transfer = self._outputs[index]
        transfer.array, transfer.count = address_of(raw), raw.nbytes
        return raw

    def _expect(self, dtypes: list[np.dtype[Any]]) -> None:
        """Get ready for arrays of some dtypes."""
        forms = self._network.forms_for(tuple(dtypes))
        self.variant = self._network.variant(forms)
        self._current = [self._staged_as(index, form) for index, form in enumerate(forms.forms)]
        self._dtypes = dtypes

    def _staged_as(self, index: int, form: InputForm) -> StagedInput:
        if (index, form) not in self._staged:
            self._staged[index, form] = StagedInput(self._network, index, form)
        return self._staged[index, form]
