"""Rockchip's NPUs, through the RKNN C API."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CallError
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
        # The runtime transposes NCHW by itself, but not for inputs that it normalises, and no
        # query says which those are.
        self._formats = [TensorFormat[info.layout.name] for info in self.inputs]

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
        try:
            self._context.set_inputs(self._arrange(arrays), self._formats)
        except CallError as error:
            if error.code != ErrorCode.FAIL or TensorFormat.NCHW not in self._formats:
                raise
            formats = {TensorFormat.NCHW: TensorFormat.NHWC}
            self._formats = [formats.get(fmt, fmt) for fmt in self._formats]
            self._context.set_inputs(self._arrange(arrays), self._formats)

    def _arrange(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        return [
            np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if fmt is TensorFormat.NHWC else array
            for array, fmt in zip(arrays, self._formats, strict=True)
        ]


def _as_source(info: TensorInfo) -> TensorInfo:
    """The runtime reports images as NHWC whatever the source model's order, which is NCHW."""
    if info.layout is not Layout.NHWC:
        return info
    n, h, w, c = info.shape
    return replace(info, shape=(n, c, h, w), layout=Layout.NCHW)
