"""One job's buffers, for the zero-copy API."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...layouts import nc1hwc2_to_nchw
from ...native import kernels
from ...native.memory import address_of
from ...native.pump import Job
from ...native.transfers import Transfer
from ...rknn.device_tensor import dequantized, real_values
from ...tensor import DType, Layout, TensorInfo
from ..base import Request

if TYPE_CHECKING:
    from .zero_copy_network import ZeroCopyNetwork

INPUTS, OUTPUTS = 0, 1
"""The job's slots: arrays of transfers, one for each input and for each output."""

_BYTES = np.dtype(np.uint8)
_COPY = kernels.conversion(_BYTES, _BYTES)


class ZeroCopyRequest(Request):
    """Inputs are converted to arrays that lie as the device's memory does; so are the outputs'.

    The arrays are kept for the next job, except for outputs that nobody converts.
    """

    def __init__(self, network: ZeroCopyNetwork) -> None:
        self.job = Job()
        self._network = network
        self._inputs = (Transfer * len(network.inputs))()
        self._outputs = (Transfer * len(network.outputs))()
        self.job.slots[INPUTS] = ctypes.addressof(self._inputs)
        self.job.slots[OUTPUTS] = ctypes.addressof(self._outputs)
        self._staged: dict[tuple[int, DType], NDArray[Any]] = {}
        self._given: list[NDArray[Any]] = []
        self._raw: list[NDArray[Any]] = []

    def fill(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> None:
        dtypes = []
        self._given = []
        for index, array in enumerate(arrays):
            dtype = self._network.dtype_for(index, array.dtype)
            self._fill_input(index, dtype, array, copy)
            dtypes.append(dtype)
        self.variant = self._network.variant(tuple(dtypes))
        if not self._raw:
            self._raw = [
                np.empty(info.shape, info.dtype.numpy) for info in self._network.native_outputs
            ]
            for index, raw in enumerate(self._raw):
                _point(self._outputs[index], raw)

    def take_results(self) -> list[NDArray[Any]]:
        network, options = self._network, self._network.options
        raws = self._raw
        is_raw = options.output_dtype == "model"
        if options.output_layout != "native":
            return [
                self._logical(raw, native, info, is_raw=is_raw)
                for raw, native, info in zip(
                    raws, network.native_outputs, network.logical_outputs, strict=True
                )
            ]
        if is_raw:
            self._raw = []
            return raws
        return [
            dequantized(raw, native)
            for raw, native in zip(raws, network.native_outputs, strict=True)
        ]

    def clear(self) -> None:
        self._given = []

    def _logical(
        self, raw: NDArray[Any], native: TensorInfo, info: TensorInfo, *, is_raw: bool
    ) -> NDArray[Any]:
        values: NDArray[Any]
        if not is_raw:
            values = real_values(raw, native, info.shape)
        elif native.layout is Layout.NC1HWC2:
            values = nc1hwc2_to_nchw(raw, info.shape[1])
        else:
            values = raw.copy()
        if info.layout is Layout.NCHW and self._network.options.output_layout == "nhwc":
            values = values.transpose(0, 2, 3, 1)
        return values

    def _fill_input(self, index: int, dtype: DType, array: NDArray[Any], copy: bool) -> None:
        info = self._network.runtime_inputs[index]
        is_image = info.layout is Layout.NHWC
        if is_image and self._network.inputs[index].layout is Layout.NCHW:
            array = array.transpose(0, 2, 3, 1)
        shape = self._network.staging_shape(index, dtype)
        if not copy and _lies_as(array, shape, dtype):
            self._given.append(array)
            _point(self._inputs[index], array)
            return
        staged = self._staged.get((index, dtype))
        if staged is None:
            # Zeros, since the pixels that pad rows are the device's to see too.
            staged = self._staged[index, dtype] = np.zeros(shape, dtype.numpy)
        _point(self._inputs[index], staged)
        if is_image:
            kernels.copy_channels_last(array, staged[:, :, : info.shape[2]])
        elif info.quantization is not None and dtype is info.dtype:
            kernels.quantize(array, info.scale, info.zero_point, staged)
        else:
            kernels.convert(array, staged)


def _point(transfer: Transfer, array: NDArray[Any]) -> None:
    """Let a transfer copy an array's bytes as they are."""
    transfer.conversion, transfer.array, transfer.count = _COPY, address_of(array), array.nbytes


def _lies_as(array: NDArray[Any], shape: tuple[int, ...], dtype: DType) -> bool:
    return array.flags.c_contiguous and array.shape == shape and array.dtype == dtype.numpy
