"""`Model`: one network, one thread, zero copy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import feeds
from .errors import ClosedError, StateError, TensorError
from .lifetime import Closeable
from .native import kernels
from .perf import LayerTable, parse_perf_detail
from .rknn.abi import InitFlag, Query
from .rknn.context import Context, MemorySize
from .rknn.custom_ops import CustomOp
from .rknn.device_tensor import DeviceTensor, input_tensor, output_tensor, real_values
from .rknn.library import RknnLibrary
from .tensor import DType, Layout, TensorInfo


class Model(Closeable):
    """A network on the NPU: load it, run it, read its outputs.

    `model` is a path or the file's bytes; `library` a runtime library's path, ``"soft"`` for the
    soft NPU, or None for the search described in `anynpu.rknn.library`. `profile` lets `perf`
    time the layers, which slows runs down on a board. `custom_ops` compute nodes that the runtime
    has no operator for.

        with anynpu.Model("model.rknn") as model:
            model.run(image)                  # uint8 RGB, NHWC
            scores = model.output_f32(0)

    Inputs and outputs live in memory that the NPU reads and writes by itself: a uint8 picture is
    copied once, row by row, and not converted; raw outputs are not copied at all.

    One thread at a time may use a model. Raises `ModelError` for a file that can't be read,
    `LibraryError` where no library can be loaded, `CallError` for failed calls.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        library: str | os.PathLike[str] | RknnLibrary | None = None,
        profile: bool = False,
        custom_ops: Sequence[CustomOp] = (),
    ) -> None:
        flags = InitFlag.COLLECT_PERF_MASK if profile else InitFlag.PRIOR_HIGH
        self._open(Context(model, library=library, flags=flags), custom_ops)

    @classmethod
    def load(
        cls,
        model: str | os.PathLike[str] | bytes,
        *,
        library: str | os.PathLike[str] | RknnLibrary | None = None,
        profile: bool = False,
        custom_ops: Sequence[CustomOp] = (),
    ) -> Model:
        """The same as the constructor."""
        return cls(model, library=library, profile=profile, custom_ops=custom_ops)

    def _open(self, context: Context, custom_ops: Sequence[CustomOp]) -> None:
        self._context = context
        self._custom_ops = tuple(custom_ops)
        try:
            context.register_custom_ops(self._custom_ops)
            self._bind(context.image_inputs(), context.logical_outputs(), dynamic=False)
        except BaseException:
            context.close()
            raise

    def _bind(
        self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], *, dynamic: bool
    ) -> None:
        """Give every output its memory; inputs get theirs with the first array of a dtype."""
        query = Query.CURRENT_NATIVE_OUTPUT_ATTR if dynamic else Query.NATIVE_OUTPUT_ATTR
        self._inputs = tuple(_Input(self._context, info) for info in inputs)
        self._outputs = tuple(_Output(self._context, info, query) for info in outputs)
        self._input_infos = tuple(inputs)
        self._output_infos = tuple(outputs)
        self._native_infos = tuple(tensor.native for tensor in self._outputs)
        self._has_run = self._is_closed = False

    @property
    def input_attrs(self) -> tuple[TensorInfo, ...]:
        """The inputs in the model's order; images are NHWC."""
        return self._input_infos

    @property
    def output_attrs(self) -> tuple[TensorInfo, ...]:
        """The outputs as the NPU writes them: what `output_raw` returns. Images are NC1HWC2."""
        return self._native_infos

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The outputs' shapes in the model's own order: what `output_f32` returns."""
        return tuple(info.shape for info in self._output_infos)

    @property
    def library(self) -> RknnLibrary:
        """The runtime library that the model runs on."""
        return self._context.library

    def run(self, *inputs: ArrayLike | bytes, timeout_ms: int = 0) -> None:
        """Compute the outputs from one array for each input, which is copied.

        An image input takes NHWC or NCHW arrays, told apart by their shape (NHWC where both
        fit), also without the batch axis; or the bytes of a uint8 NHWC image. Values are real
        ones: the runtime applies the model's normalisation and quantises. uint8 goes to the NPU
        as it is, other numbers as float32, for inputs of whole numbers as their own dtype.

        Raises `TensorError` for an array that doesn't fit, `CallTimeoutError` when a `timeout_ms`
        passes.
        """
        self._check_open()
        if len(inputs) != len(self._inputs):
            raise TensorError(
                f"the model has {len(self._inputs)} inputs {[i.name for i in self._input_infos]}; "
                f"{len(inputs)} were given"
            )
        for tensor, value in zip(self._inputs, inputs, strict=True):
            tensor.write(value)
        self._has_run = False
        self._context.run(timeout_ms=timeout_ms)
        self._has_run = True

    def output_raw(self, index: int) -> NDArray[Any]:
        """An output as the device holds it: the dtype, shape and layout of `output_attrs[index]`.

        The array is the NPU's own buffer, not a copy: the next `run` overwrites it. It stays valid
        after `close`.
        """
        return self._output(index).raw

    def output_f32(self, index: int) -> NDArray[np.float32]:
        """An output as real values in the model's own order (images NCHW): a new float32 array."""
        return self._output(index).real()

    def _output(self, index: int) -> _Output:
        self._check_open()
        output = self._outputs[index]
        if not self._has_run:
            raise StateError("there are no outputs before a run that succeeded")
        return output

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this model is closed")

    def dup(self) -> Model:
        """A model of its own on the same weights, for another thread: `rknn_dup_context`.

        Raises `CallError` for a model of several input shapes, which runtimes don't duplicate.
        """
        duplicate: Model = type(self).__new__(type(self))
        duplicate._open(self._context.dup(), self._custom_ops)
        return duplicate

    def dynamic_shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each input the shapes that `set_shapes` takes (images NHWC); empty if fixed."""
        return self._context.dynamic_shapes()

    def set_shapes(self, *shapes: Sequence[int]) -> None:
        """Take up other input shapes, one for each input (images NHWC), from the model's list.

        Raises `TensorError` for shapes that aren't in it.
        """
        context = self._context
        context.set_input_shapes(shapes)
        self._bind(context.current_inputs(), context.current_outputs(), dynamic=True)

    def memory(self) -> MemorySize:
        """What the model takes on the device, in bytes."""
        return self._context.memory_size()

    def perf(self) -> LayerTable:
        """The layers of the last run and their times; the model was made with ``profile=True``."""
        return parse_perf_detail(self._context.perf_detail())

    def run_microseconds(self) -> int:
        """What the last run took, inputs and outputs aside."""
        return self._context.run_duration()

    def close(self) -> None:
        """Free the network; closing twice does nothing. Arrays from `output_raw` stay valid."""
        self._is_closed = True
        self._inputs, self._outputs = (), ()
        self._context.close()


class _Output:
    """An output in memory that the NPU writes."""

    def __init__(self, context: Context, info: TensorInfo, query: Query) -> None:
        self.info = info
        tensor = output_tensor(context, context.attribute(query, info.index))
        tensor.bind(context)
        self.native = tensor.info
        self.raw: NDArray[Any] = tensor.array

    def real(self) -> NDArray[np.float32]:
        """The values as float32 in the model's order of axes."""
        return real_values(self.raw, self.native, self.info.shape)


class _Input:
    """An input in memory that the NPU reads, one for each dtype that was given."""

    def __init__(self, context: Context, info: TensorInfo) -> None:
        self.info = info
        self._context = context
        self._tensors: dict[DType, DeviceTensor] = {}
        self._bound: DType | None = None

    def write(self, value: ArrayLike | bytes) -> None:
        """Copy an array's or a picture's values into the memory of its dtype."""
        array = _arrange(value, self.info)
        dtype = self._dtype(array)
        if dtype is not self._bound:
            self._bind(dtype)
        target = self._tensors[dtype].array
        if self.info.layout is Layout.NHWC:
            kernels.copy_channels_last(array, target)
        else:
            np.copyto(target, array, casting="unsafe")

    def _dtype(self, array: NDArray[Any]) -> DType:
        """What the values are given as: the device's own dtype would mean quantised values."""
        if feeds.host_dtype(self.info) is not DType.FLOAT32:
            return self.info.dtype
        return DType.UINT8 if array.dtype == np.uint8 else DType.FLOAT32

    def _bind(self, dtype: DType) -> None:
        if dtype not in self._tensors:
            self._tensors[dtype] = input_tensor(self._context, self.info, dtype)
        self._tensors[dtype].bind(self._context)
        self._bound = dtype


def _arrange(value: ArrayLike | bytes, info: TensorInfo) -> NDArray[Any]:
    """An input's values in the order of its `TensorInfo`; a view where that is possible."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _from_bytes(value, info)
    array = feeds.as_array(value, info)
    if info.layout is not Layout.NHWC:
        feeds.check_shape(array, info.shape, info)
        return array
    n, h, w, c = info.shape
    if array.ndim == 3 and n == 1:
        array = array[None]
    if array.shape == (n, h, w, c):
        return array
    if array.shape == (n, c, h, w):
        nhwc: NDArray[Any] = array.transpose(0, 2, 3, 1)
        return nhwc
    raise TensorError(
        f"input {info.name!r} takes the shape {(n, h, w, c)} (NHWC) or {(n, c, h, w)} (NCHW); "
        f"found {array.shape}"
    )


def _from_bytes(value: bytes | bytearray | memoryview, info: TensorInfo) -> NDArray[Any]:
    array = np.frombuffer(value, np.uint8)
    if array.size != np.prod(info.shape):
        raise TensorError(
            f"input {info.name!r} takes {np.prod(info.shape)} bytes, one for each element of "
            f"{info.shape}; found {array.size}"
        )
    shaped: NDArray[Any] = array.reshape(info.shape)
    return shaped
