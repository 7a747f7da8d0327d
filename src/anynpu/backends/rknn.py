"""Rockchip's NPUs, through the RKNN C API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CallError
from ..native import kernels
from ..rknn.abi import ErrorCode, TensorFormat
from ..rknn.context import Context
from ..tensor import Layout, TensorInfo
from .base import Backend, Worker


class RknnBackend(Backend):
    """Opens `.rknn` files, and ONNX files where the library is the soft NPU."""

    names = ("RKNPU2ExecutionProvider", "RKNNExecutionProvider")
    magic = b"RKNN"
    option_names = ("library",)

    def open(self, model: str | os.PathLike[str] | bytes, options: Mapping[str, Any]) -> Worker:
        return RknnWorker(Context(model, library=options.get("library")))


class RknnWorker(Worker):
    """A context with the shapes of the source model: images go in and come out as NCHW."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.inputs = tuple(_as_source(info) for info in context.inputs)
        self.outputs = context.outputs
        self._takes_nchw = True

    def run(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        self._set_inputs(arrays)
        self._context.run()
        outputs = [np.empty(info.shape, np.float32) for info in self.outputs]
        self._context.get_outputs(outputs, as_float=True)
        return list(outputs)

    def metadata(self) -> dict[str, str]:
        api, driver = self._context.sdk_version()
        return {
            "rknn_custom_string": self._context.custom_string(),
            "rknn_api_version": api,
            "rknn_driver_version": driver,
            "library": self._context.library.path,
        }

    def close(self) -> None:
        self._context.close()

    def _set_inputs(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Pass images as they lie in memory where the runtime takes that.

        It transposes NCHW by itself, but not for inputs that it normalises, and no query says
        which those are; pictures (uint8) mostly are.
        """
        try:
            self._context.set_inputs(*self._arrange(arrays))
        except CallError as error:
            if error.code != ErrorCode.FAIL or not self._takes_nchw:
                raise
            self._takes_nchw = False
            self._context.set_inputs(*self._arrange(arrays))

    def _arrange(
        self, arrays: Sequence[NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], list[TensorFormat]]:
        arranged, formats = [], []
        for array, info in zip(arrays, self.inputs, strict=True):
            is_picture = array.dtype == np.uint8 or not array.flags.c_contiguous
            if info.layout is Layout.NCHW and (is_picture or not self._takes_nchw):
                arranged.append(_packed(array.transpose(0, 2, 3, 1)))
                formats.append(TensorFormat.NHWC)
            else:
                arranged.append(np.ascontiguousarray(array))
                formats.append(TensorFormat[info.layout.name])
        return arranged, formats


def _packed(nhwc: NDArray[Any]) -> NDArray[Any]:
    """The same values, contiguous; the array itself where it is."""
    if nhwc.flags.c_contiguous:
        return nhwc
    packed = np.empty(nhwc.shape, nhwc.dtype)
    kernels.copy_channels_last(nhwc, packed)
    return packed


def _as_source(info: TensorInfo) -> TensorInfo:
    """The runtime reports images as NHWC whatever the source model's order, which is NCHW."""
    if info.layout is not Layout.NHWC:
        return info
    n, h, w, c = info.shape
    return replace(info, shape=(n, c, h, w), layout=Layout.NCHW)
