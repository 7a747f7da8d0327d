"""`Model`: one network, one thread."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import feeds
from .errors import TensorError
from .lifetime import Closeable
from .rknn.abi import TensorFormat
from .rknn.context import Context
from .rknn.library import RknnLibrary
from .tensor import DType, Layout, TensorInfo


class Model(Closeable):
    """A network on the NPU: load it, run it, read its outputs.

    `model` is a path or the file's bytes; `library` a runtime library's path, ``"soft"`` for the
    soft NPU, or None for the search described in `anynpu.rknn.library`.

        with anynpu.Model("model.rknn") as model:
            model.run(image)                  # uint8 RGB, NHWC
            scores = model.output_f32(0)

    One thread at a time may use a model. Raises `ModelError` for a file that can't be read,
    `LibraryError` where no library can be loaded, `CallError` for failed calls.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        library: str | os.PathLike[str] | RknnLibrary | None = None,
    ) -> None:
        self._context = Context(model, library=library)
        self._raw: list[NDArray[Any]] | None = None
        self._float: list[NDArray[np.float32]] | None = None
        self._raw_is_current = self._float_is_current = False

    @classmethod
    def load(
        cls,
        model: str | os.PathLike[str] | bytes,
        *,
        library: str | os.PathLike[str] | RknnLibrary | None = None,
    ) -> Model:
        """The same as the constructor."""
        return cls(model, library=library)

    @property
    def input_attrs(self) -> tuple[TensorInfo, ...]:
        """The inputs in the model's order (RKNN_QUERY_INPUT_ATTR); images are NHWC."""
        return self._context.inputs

    @property
    def output_attrs(self) -> tuple[TensorInfo, ...]:
        """The outputs in the model's order (RKNN_QUERY_OUTPUT_ATTR); images are NCHW."""
        return self._context.outputs

    @property
    def library(self) -> RknnLibrary:
        """The runtime library that the model runs on."""
        return self._context.library

    def run(self, *inputs: ArrayLike | bytes) -> None:
        """Compute the outputs from one array for each input, which is copied.

        An image input takes NHWC or NCHW arrays, told apart by their shape (NHWC where both
        fit), also without the batch axis; or the bytes of a uint8 NHWC image. Values are real
        ones: the runtime applies the model's normalisation and quantises. Dtypes are float32,
        float16, (u)int8, (u)int16, (u)int32, int64 and bool; others are cast where that is safe.
        Raises `TensorError` for an array that doesn't fit.
        """
        infos = self._context.inputs
        if len(inputs) != len(infos):
            raise TensorError(
                f"the model has {len(infos)} inputs {[info.name for info in infos]}; "
                f"{len(inputs)} were given"
            )
        arrays, formats = [], []
        for value, info in zip(inputs, infos, strict=True):
            array, fmt = _arrange(value, info)
            arrays.append(np.ascontiguousarray(array))
            formats.append(fmt)
        self._raw_is_current = self._float_is_current = False
        self._context.set_inputs(arrays, formats)
        self._context.run()

    def output_raw(self, index: int) -> NDArray[Any]:
        """An output as the device holds it: the dtype, shape and layout of `output_attrs[index]`.

        The array is the model's own buffer: the next `run` makes it stale, and the next
        `output_raw` after that overwrites it.
        """
        if self._raw is None:
            self._raw = [np.empty(info.shape, info.dtype.numpy) for info in self.output_attrs]
        if not self._raw_is_current:
            self._context.get_outputs(self._raw, as_float=False)
            self._raw_is_current = True
        return self._raw[index]

    def output_f32(self, index: int) -> NDArray[np.float32]:
        """An output as real values: a new float32 array of the shape of `output_attrs[index]`."""
        if self._float is None:
            self._float = [np.empty(info.shape, np.float32) for info in self.output_attrs]
        if not self._float_is_current:
            self._context.get_outputs(self._float, as_float=True)
            self._float_is_current = True
        result: NDArray[np.float32] = self._float[index].copy()
        return result

    def close(self) -> None:
        """Free the network; closing twice does nothing. Arrays from `output_raw` stay valid."""
        self._context.close()


def _arrange(value: ArrayLike | bytes, info: TensorInfo) -> tuple[NDArray[Any], TensorFormat]:
    """An input's array and its format, told from its shape."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _from_bytes(value, info), TensorFormat[info.layout.name]
    array = feeds.as_array(value, info)
    if info.layout is not Layout.NHWC:
        feeds.check_shape(array, info.shape, info)
        return array, TensorFormat[info.layout.name]
    n, h, w, c = info.shape
    shape = (1, *array.shape) if array.ndim == 3 and n == 1 else array.shape
    if shape == (n, h, w, c):
        return array, TensorFormat.NHWC
    if shape == (n, c, h, w):
        return array, TensorFormat.NCHW
    raise TensorError(
        f"input {info.name!r} takes the shape {(n, h, w, c)} (NHWC) or {(n, c, h, w)} (NCHW); "
        f"found {array.shape}"
    )


def _from_bytes(value: bytes | bytearray | memoryview, info: TensorInfo) -> NDArray[np.uint8]:
    array = np.frombuffer(value, DType.UINT8.numpy)
    if array.size != np.prod(info.shape):
        raise TensorError(
            f"input {info.name!r} takes {np.prod(info.shape)} bytes, one for each element of "
            f"{info.shape}; found {array.size}"
        )
    return array.reshape(info.shape)
