"""One request's buffers, for the zero-copy API."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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


class ZeroCopyRequest(Request):
    """The worker's steps convert arrays to the device's memory, and from there to new arrays."""

    def __init__(self, network: ZeroCopyNetwork) -> None:
        self.record = RequestRecord()
        self._network = network
        self._inputs = (Transfer * len(network.inputs))()
        self._outputs = (Transfer * len(network.outputs))()
        for transfer, result in zip(self._outputs, network.results, strict=True):
            result.conversion.describe(transfer)
        self.record.slots[INPUTS] = ctypes.addressof(self._inputs)
        self.record.slots[OUTPUTS] = ctypes.addressof(self._outputs)
        self._staged: dict[tuple[int, InputForm], StagedInput] = {}
        self._dtypes: list[np.dtype[Any]] = []
        self._current: list[StagedInput] = []
        self._given: list[NDArray[Any]] = []
        self._results: list[NDArray[Any]] = []

    def fill(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> None:
        dtypes = [array.dtype for array in arrays]
        if dtypes != self._dtypes:
            self._expect(dtypes)
        self._given = [
            staged.place(array, transfer, copy=copy)
            for staged, array, transfer in zip(self._current, arrays, self._inputs, strict=True)
        ]
        self._results = [result.new_array() for result in self._network.results]
        for transfer, array in zip(self._outputs, self._results, strict=True):
            transfer.array = address_of(array)

    def take_results(self) -> list[NDArray[Any]]:
        arrays, self._results = self._results, []
        return [
            result.finish(array)
            for result, array in zip(self._network.results, arrays, strict=True)
        ]

    def clear(self) -> None:
        self._given, self._results = [], []

    def _expect(self, dtypes: list[np.dtype[Any]]) -> None:
        """Get ready for arrays of some dtypes."""
        forms = self._network.forms_for(tuple(dtypes))
        self._dtypes = []  # an interrupt in the middle leaves nothing that is taken for done
        self.variant = self._network.variant(forms)
        self._current = [self._staged_as(index, form) for index, form in enumerate(forms.forms)]
        self._dtypes = dtypes

    def _staged_as(self, index: int, form: InputForm) -> StagedInput:
        if (index, form) not in self._staged:
            self._staged[index, form] = StagedInput(self._network, index, form)
        return self._staged[index, form]
