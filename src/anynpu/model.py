"""`Model`: one network, one thread, zero copy."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import backends, feeds
from .errors import ClosedError, StateError, TensorError, TensorIndexError
from .input_watch import InputWatch
from .lifetime import Closeable
from .memory_size import MemorySize
from .perf import LayerTable
from .rknn.custom_ops import CustomOp
from .runtime_library import RuntimeLibrary
from .tensor import Layout, TensorInfo


class Model(Closeable):
    """A network on the NPU: load it, run it, read its outputs.

    `model` is a path or the file's bytes, a `.rknn` or a `.nb`; `library` a runtime library's
    path, ``"soft"`` for the soft NPU, or None for the search described in
    `anynpu.runtime_library`. `profile` lets `perf` time the layers, which slows runs down on a
    board, and which VIPLite can't do. `twin` is the ONNX file that a `.nb` was made from, by which
    the soft NPU computes it; a board doesn't need it. `custom_ops` compute nodes that Rockchip's
    runtime has no operator for.

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
        library: str | os.PathLike[str] | RuntimeLibrary | None = None,
        profile: bool = False,
        twin: str | os.PathLike[str] | None = None,
        custom_ops: Sequence[CustomOp] = (),
    ) -> None:
        path = None if twin is None else os.fspath(twin)
        backend = backends.choose(model)
        opened = backend.open_zero_copy(
            model, library, profile=profile, twin=path, custom_ops=custom_ops
        )
        names = [info.name for info in opened.inputs]
        self._open(opened, InputWatch(opened.inputs, partial(backend.normalizations, model, names)))

    @classmethod
    def load(
        cls,
        model: str | os.PathLike[str] | bytes,
        *,
        library: str | os.PathLike[str] | RuntimeLibrary | None = None,
        profile: bool = False,
        twin: str | os.PathLike[str] | None = None,
        custom_ops: Sequence[CustomOp] = (),
    ) -> Model:
        """The same as the constructor."""
        return cls(model, library=library, profile=profile, twin=twin, custom_ops=custom_ops)

    def _open(self, opened: backends.ZeroCopyModel, watch: InputWatch) -> None:
        self._device = opened
        self._watch = watch
        self._has_run = self._is_closed = False

    @property
    def input_attrs(self) -> tuple[TensorInfo, ...]:
        """The inputs in the model's order. Images are NHWC for a `.rknn`, NCHW for a `.nb`."""
        return self._device.inputs

    @property
    def normalizations(self) -> Sequence[Any]:
        """What the model does to each input's values before it quantises them: mean and deviation.

        None for an input of which that isn't known. It is read from the model's file.
        """
        return self._watch.normalizations()

    @property
    def output_attrs(self) -> tuple[TensorInfo, ...]:
        """The outputs as the NPU writes them: what `output_raw` returns.

        Images are NC1HWC2 for a `.rknn`, NCHW for a `.nb`.
        """
        return self._device.raw_outputs

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The outputs' shapes in the model's own order: what `output_f32` returns."""
        return tuple(info.shape for info in self._device.outputs)

    @property
    def library(self) -> RuntimeLibrary:
        """The runtime library that the model runs on."""
        return self._device.library

    def run(self, *inputs: ArrayLike | bytes, timeout_ms: int = 0) -> None:
        """Compute the outputs from one array for each input, which is copied.

        An image input takes NHWC or NCHW arrays, told apart by their shape (where both fit it is
        that of `input_attrs`), also without the batch axis; or the bytes of a uint8 NHWC image.

        For a `.rknn` values are real ones: the runtime applies the model's normalisation and
        quantises. uint8 goes to the NPU as it is, other numbers as float32, for inputs of whole
        numbers as their own dtype. For a `.nb`, whose interface knows no normalisation, an array
        of the input's own dtype holds the quantised values that the NPU reads, as pictures do for
        a uint8 input; other dtypes hold real values, which are quantised here.

        Raises `TensorError` for an array that doesn't fit, `CallTimeoutError` when a `timeout_ms`
        passes. A `.nb` has one for all runs: another one prepares the network anew.
        """
        self._check_open()
        infos = self._device.inputs
        if len(inputs) != len(infos):
            raise TensorError(
                f"the model has {len(infos)} inputs {[i.name for i in infos]}; "
                f"{len(inputs)} were given: pass one array for each, run(a, b)"
            )
        arrays = [_arrange(value, info) for info, value in zip(infos, inputs, strict=True)]
        self._watch.look(arrays, stacklevel=2)
        self._device.write(arrays)
        self._has_run = False
        self._device.run(timeout_ms)
        self._has_run = True

    def output_raw(self, index: int) -> NDArray[Any]:
        """An output as the device holds it: the dtype, shape and layout of `output_attrs[index]`.

        The array is the NPU's own buffer, not a copy: the next `run` overwrites it. It stays valid
        after `close`.
        """
        return self._device.raw(self._output(index))

    def output_f32(self, index: int) -> NDArray[np.float32]:
        """An output as real values in the model's own order (images NCHW): a new float32 array."""
        return self._device.real(self._output(index))

    def _output(self, index: int) -> int:
        """The number of an output that there is."""
        self._check_open()
        names = [info.name for info in self._device.outputs]
        try:
            number = operator.index(index)
        except TypeError:
            given: object = index
            hint = f"; {given!r} is output {names.index(str(given))}" if given in names else ""
            raise TensorError(
                f"an output is named by its number, 0 to {len(names) - 1}; found {index!r}{hint}"
            ) from None
        if not -len(names) <= number < len(names):
            raise TensorIndexError(
                f"there is no output {number}; the model has {len(names)}, numbered from 0: {names}"
            )
        if not self._has_run:
            raise StateError("there are no outputs before a run that succeeded: call run first")
        return number % len(names)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this model is closed: use it before close(), or open another Model")

    def dup(self) -> Model:
        """A model of its own on the same weights, for another thread.

        Raises `CallError` for a `.rknn` of several input shapes, which runtimes don't duplicate.
        """
        self._check_open()
        duplicate: Model = type(self).__new__(type(self))
        duplicate._open(self._device.dup(), self._watch)
        return duplicate

    def dynamic_shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each input the shapes that `set_shapes` takes (images NHWC); empty if fixed."""
        return self._device.dynamic_shapes()

    def set_shapes(self, *shapes: Sequence[int]) -> None:
        """Take up other input shapes, one for each input (images NHWC), from the model's list.

        Raises `TensorError` for shapes that aren't in it.
        """
        self._device.set_shapes(shapes)
        self._has_run = False

    def memory(self) -> MemorySize:
        """What the model takes on the device, in bytes."""
        return self._device.memory()

    def perf(self) -> LayerTable:
        """The layers of the last run and their times; the model was made with ``profile=True``.

        Raises `ModelError` without that and where the runtime's table can't be read, `StateError`
        before a run.
        """
        self._check_open()
        return self._device.perf()

    def run_microseconds(self) -> int:
        """What the last run took, inputs and outputs aside."""
        return self._device.run_microseconds()

    def close(self) -> None:
        """Free the network; closing twice does nothing. Arrays from `output_raw` stay valid."""
        self._is_closed = True
        self._device.close()


_IMAGES = (Layout.NHWC, Layout.NCHW)
_TO_PLANES, _TO_PIXELS = (0, 3, 1, 2), (0, 2, 3, 1)


def _arrange(value: ArrayLike | bytes, info: TensorInfo) -> NDArray[Any]:
    """An input's values in the order of its `TensorInfo`; a view where that is possible."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _from_bytes(value, info)
    array = feeds.as_array(value, info)
    if info.layout not in _IMAGES:
        feeds.check_shape(array, info.shape, info)
        return array
    if array.ndim == 3 and info.shape[0] == 1:
        array = array[None]
    if array.shape == info.shape:
        return array
    other, turn = _other_order(info)
    if array.shape == other:
        return np.transpose(array, turn)
    shapes = {info.layout: info.shape}
    shapes[Layout.NCHW if info.layout is Layout.NHWC else Layout.NHWC] = other
    raise TensorError(
        f"input {info.name!r} takes the shape {shapes[Layout.NHWC]} (NHWC) or "
        f"{shapes[Layout.NCHW]} (NCHW); found {array.shape}: resize the image, or check its axes"
    )


def _other_order(info: TensorInfo) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(an image's shape in the order of axes that isn't its own, the axes to turn it by)."""
    n, d1, d2, d3 = info.shape
    if info.layout is Layout.NHWC:
        return (n, d3, d1, d2), _TO_PIXELS
    return (n, d2, d3, d1), _TO_PLANES


def _from_bytes(value: bytes | bytearray | memoryview, info: TensorInfo) -> NDArray[Any]:
    """Elements of uint8 in the order of their `TensorInfo`; those of images come as NHWC."""
    array = np.frombuffer(value, np.uint8)
    is_turned = info.layout is Layout.NCHW
    shape = _other_order(info)[0] if is_turned else info.shape
    if array.size != np.prod(shape):
        raise TensorError(
            f"input {info.name!r} takes {np.prod(shape)} bytes, one for each element of {shape}; "
            f"found {array.size}: give a whole uint8 image, or an array"
        )
    pixels: NDArray[Any] = array.reshape(shape)
    return np.transpose(pixels, _TO_PLANES) if is_turned else pixels
