"""One job's C structures and buffers, for the general API."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ... import feeds
from ...native import kernels
from ...native.memory import address_of
from ...native.pump import Job
from ...rknn import abi
from ...tensor import Layout, TensorInfo
from ..base import Request

if TYPE_CHECKING:
    from .general import GeneralNetwork

INPUTS, OUTPUTS = 0, 1
"""The job's slots: the arrays of `rknn_input` and of `rknn_output`."""

_TYPES = {dtype.numpy: abi.TensorType[dtype.name] for dtype in feeds.FEEDABLE}
_NOTHING = np.empty(0)
_FORMATS = {layout: abi.TensorFormat[layout.name] for layout in Layout}


class RknnRequest(Request):
    """The structures stay; arrays of inputs are kept for the next job of the same shapes."""

    def __init__(self, network: GeneralNetwork) -> None:
        self.job = Job()
        self._network = network
        self._inputs = (abi.Input * len(network.inputs))()
        self._outputs = (abi.Output * len(network.outputs))()
        self.job.slots[INPUTS] = ctypes.addressof(self._inputs)
        self.job.slots[OUTPUTS] = ctypes.addressof(self._outputs)
        self._given: list[NDArray[Any]] = [_NOTHING] * len(network.inputs)
        self._own: list[NDArray[Any] | None] = [None] * len(network.inputs)
        self._results: list[NDArray[Any]] = []
        for index, struct in enumerate(self._inputs):
            struct.index = index
        for index, output in enumerate(self._outputs):
            output.index, output.is_prealloc = index, 1
            output.want_float = network.options.output_dtype == "float32"

    def fill(self, arrays: Sequence[NDArray[Any]], *, copy: bool) -> None:
        network = self._network
        if len(network.shape_sets) > 1:
            self.variant = network.shape_sets.index(tuple(array.shape for array in arrays))
        for index, array in enumerate(arrays):
            info = network.inputs[index]
            is_image = info.layout is Layout.NCHW
            interleaves = is_image and not (network.takes_planes and array.flags.c_contiguous)
            self._pass(index, info, self._arrange(index, array, interleaves, copy), interleaves)
        self._prepare_results()

    def interleave(self) -> None:
        """Give images as NHWC instead, after the runtime refused them as NCHW."""
        for index, info in enumerate(self._network.inputs):
            if self._inputs[index].fmt == abi.TensorFormat.NCHW and info.layout is Layout.NCHW:
                planes = self._given[index]
                self._own[index] = None
                self._pass(index, info, self._arrange(index, planes, True, False), True)

    @property
    def has_planes(self) -> bool:
        """Whether an image is given as NCHW."""
        return any(
            struct.fmt == abi.TensorFormat.NCHW and info.layout is Layout.NCHW
            for struct, info in zip(self._inputs, self._network.inputs, strict=True)
        )

    def take_results(self) -> list[NDArray[Any]]:
        results, self._results = self._results, []
        if self._network.options.output_layout != "nhwc":
            return results
        infos = self._network.outputs_of(self.variant)
        return [
            array.transpose(0, 2, 3, 1) if info.layout is Layout.NCHW else array
            for array, info in zip(results, infos, strict=True)
        ]

    def clear(self) -> None:
        self._given = [_NOTHING] * len(self._given)
        self._results = []

    def describe(self) -> str:
        """The inputs and what was given for them, for an error's message."""
        return "\n".join(
            f"input {info}; given {array.dtype} {'x'.join(map(str, array.shape))} as "
            f"{abi.TensorFormat(struct.fmt).name}"
            for info, array, struct in zip(
                self._network.runtime_inputs, self._given, self._inputs, strict=True
            )
        )

    def _arrange(
        self, index: int, array: NDArray[Any], interleaves: bool, copy: bool
    ) -> NDArray[Any]:
        """The array as it goes to the runtime: itself where that may be, else in our own memory."""
        if interleaves:
            pixels: NDArray[Any] = array.transpose(0, 2, 3, 1)
            if pixels.flags.c_contiguous and not copy:
                return pixels
            own = self._own_array(index, pixels.shape, pixels.dtype)
            kernels.copy_channels_last(pixels, own)
            return own
        if array.flags.c_contiguous and not copy:
            return array
        own = self._own_array(index, array.shape, array.dtype)
        kernels.copy(array, own)
        return own

    def _own_array(self, index: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        own = self._own[index]
        if own is None or own.shape != shape or own.dtype != dtype:
            own = self._own[index] = np.empty(shape, dtype)
        return own

    def _pass(
        self, index: int, info: TensorInfo, array: NDArray[Any], is_interleaved: bool
    ) -> None:
        self._given[index] = array
        struct = self._inputs[index]
        struct.buf = address_of(array)
        struct.size = array.nbytes
        struct.type = _TYPES[array.dtype]
        struct.fmt = abi.TensorFormat.NHWC if is_interleaved else _FORMATS[info.layout]

    def _prepare_results(self) -> None:
        shapes = self._network.result_shapes(self.variant)
        results = self._results = [np.empty(shape, dtype) for shape, dtype in shapes]
        for struct, array in zip(self._outputs, results, strict=True):
            struct.buf = address_of(array)
            struct.size = array.nbytes
