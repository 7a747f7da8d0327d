"""One request's buffers, for the zero-copy API."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import nc1hwc2_to_nchw
from ...native import kernels
from ...native.memory import address_of
from ...native.pump import RequestRecord
from ...native.transfers import Transfer
from ...rknn import host_types
from ...rknn.device_tensor import blocks_of, dequantized, real_values
from ...rknn.input_forms import InputForm, store
from ...tensor import DType, Layout, TensorInfo
from ..base import Request

if TYPE_CHECKING:
    from .zero_copy_network import ZeroCopyNetwork

INPUTS, OUTPUTS = 0, 1
"""The request's slots: arrays of transfers, one for each input and for each output."""

_BYTES = np.dtype(np.uint8)
_COPY = kernels.conversion(_BYTES, _BYTES)


class ZeroCopyRequest(Request):
    """Inputs are converted to arrays that lie as the device's memory does; so are the outputs'.

    The arrays are kept for the next request, except for outputs that nobody converts.
    """

    def __init__(self, network: ZeroCopyNetwork) -> None:
        self.record = RequestRecord()
        self._network = network
        self._inputs = (Transfer * len(network.inputs))()
        self._outputs = (Transfer * len(network.outputs))()
        self.record.slots[INPUTS] = ctypes.addressof(self._inputs)
        self.record.slots[OUTPUTS] = ctypes.addressof(self._outputs)
        self._staged: dict[tuple[int, InputForm], NDArray[Any]] = {}
        self._given: list[NDArray[Any]] = []
        self._raw: list[NDArray[Any]] = []

    def fill(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> None:
        self._given = []
        forms = self._network.forms_for(tuple([array.dtype for array in arrays]))
        for index, (form, array) in enumerate(zip(forms.forms, arrays, strict=True)):
            self._fill_input(index, form, array, copy)
        self.variant = self._network.variant(forms)
        if not self._raw:
            self._raw = [
                np.empty(info.shape, info.dtype.numpy) for info in self._network.native_outputs
            ]
            for index, raw in enumerate(self._raw):
                _point(self._outputs[index], raw)

    def take_results(self) -> list[NDArray[Any]]:
        network, options = self._network, self._network.options
        is_raw = options.output_dtype == "model"
        if options.output_layout == "native" and is_raw:
            raws, self._raw = self._raw, []
            shapes = [info.shape for info in network.logical_outputs]
            return [_shown(raw, shape) for raw, shape in zip(raws, shapes, strict=True)]
        infos = zip(network.native_outputs, network.logical_outputs, strict=True)
        return [
            self._result(raw, native, info, is_raw=is_raw or not info.is_real)
            for raw, (native, info) in zip(self._raw, infos, strict=True)
        ]

    def clear(self) -> None:
        self._given = []

    def _result(
        self, raw: NDArray[Any], native: TensorInfo, info: TensorInfo, *, is_raw: bool
    ) -> NDArray[Any]:
        values: NDArray[Any]
        layout = self._network.options.output_layout
        if layout == "native":
            values = raw.copy() if is_raw else dequantized(raw, native)
            return _shown(values, info.shape)
        if not is_raw:
            values = real_values(raw, native, info.shape)
        elif native.layout is Layout.NC1HWC2:
            values = nc1hwc2_to_nchw(blocks_of(raw, info.shape), info.shape[1])
        else:
            values = raw.copy()
        if info.layout is Layout.NCHW and layout == "nhwc":
            values = values.transpose(0, 2, 3, 1)
        return values

    def _fill_input(self, index: int, form: InputForm, array: NDArray[Any], copy: bool) -> None:
        network = self._network
        info = network.runtime_inputs[index]
        is_image = info.layout is Layout.NHWC
        if is_image and network.inputs[index].layout is Layout.NCHW:
            array = array.transpose(0, 2, 3, 1)
        shape = network.staging_shape(index, form)
        if not copy and not form.is_native and _lies_as(array, shape, form.dtype, info):
            self._given.append(array)
            _point(self._inputs[index], array)
            return
        staged = self._staged.get((index, form))
        if staged is None:
            # Zeros, since the pixels that pad rows are the device's to see too.
            staged = self._staged[index, form] = np.zeros(shape, form.dtype.numpy)
        _point(self._inputs[index], staged)
        target = staged[:, :, : info.shape[2]] if is_image and staged.ndim == 4 else staged
        normalization = network.normalizations[index] if form.is_native else None
        store(array, info, form, target, normalization)


def _shown(values: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Channel blocks with the height and width of an image of (N, C, H, W); others as they are."""
    return blocks_of(values, shape) if values.ndim == 5 else values


def _point(transfer: Transfer, array: NDArray[Any]) -> None:
    """Let a transfer copy an array's bytes as they are."""
    transfer.conversion, transfer.array, transfer.count = _COPY, address_of(array), array.nbytes


def _lies_as(array: NDArray[Any], shape: tuple[int, ...], dtype: DType, info: TensorInfo) -> bool:
    """Whether an array's bytes are what an input's memory holds."""
    is_same = array.flags.c_contiguous and array.shape == shape and array.dtype == dtype.numpy
    return is_same and host_types.limits(info) is None
