"""What runs a model below `RKNNLite`, with the names of rknn-toolkit-lite2's own module.

Programs use it to ask for tensors' attributes, and to make calls of the C API themselves with
`lib` and `context`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import feeds
from ..errors import CallError, MissingFunctionError, TensorError
from ..rknn import abi, host_types
from ..rknn.abi import CoreMask, ErrorCode, InitFlag, Query, TensorFormat
from ..rknn.context import Context
from ..rknn.library import RknnLibrary
from ..tensor import Layout, TensorInfo

RKNNInput = abi.Input
RKNNOutput = abi.Output
RKNNTensorAttr = abi.TensorAttr
RKNNInputOutputNum = abi.InputOutputNum


class RKNNRuntime:
    """A model in the runtime. One thread at a time.

    Raises `CallError` for failed calls, `TensorError` for inputs that don't fit.
    """

    def __init__(self, model: bytes, core_mask: int = CoreMask.AUTO) -> None:
        self._model, self._core_mask = model, core_mask
        self._first = self._current = self._open()
        # No context takes pictures of bytes and others in turn.
        self._serving: dict[bool, Context] = {}
        self._shapes: dict[Context, tuple[tuple[int, ...], ...]] = {}
        self._sets = self._first.dynamic_shapes()

    @property
    def lib(self) -> RknnLibrary:
        """The runtime library: each function of the C API is an attribute."""
        return self._first.library

    @property
    def context(self) -> int:
        """The `rknn_context` that has the last inputs; it may be another one after `set_inputs`."""
        return self._current.handle

    @property
    def is_dynamic_shape(self) -> bool:
        """Whether the model has several sets of input shapes."""
        return bool(self._sets)

    def get_in_out_num(self) -> tuple[int, int]:
        """How many inputs and how many outputs there are."""
        return len(self._first.inputs), len(self._first.outputs)

    def get_tensor_attr(self, index: int, is_output: bool = False) -> abi.TensorAttr:
        """The C structure that describes an input or an output."""
        query = Query.OUTPUT_ATTR if is_output else Query.INPUT_ATTR
        return self._current.attribute(query, index)

    def sdk_version(self) -> tuple[str, str]:
        """The versions of the runtime and of the driver."""
        return self._first.sdk_version()

    def set_inputs(
        self,
        inputs: Sequence[Any],
        data_type: Any = None,
        data_format: str | Sequence[str] | None = None,
        inputs_pass_through: Sequence[int] | None = None,
    ) -> None:
        """Give the model an array for each input; `RKNNLite.inference` says which fit.

        `data_type` does nothing: an array has its own.
        """
        infos = self._first.inputs
        formats = _each(data_format, len(infos), "data_format")
        passes = bool(inputs_pass_through) and any(inputs_pass_through or ())
        arrays = [
            _as_given(value, fmt, info)
            for value, fmt, info in zip(_checked(inputs, infos), formats, infos, strict=True)
        ]
        if not passes:
            _check_shapes(arrays, infos, self._sets)
            types = host_types.input_types(infos, [array.dtype for array in arrays])
            arrays = [
                _typed(array, dtype, info)
                for array, dtype, info in zip(arrays, types.dtypes, infos, strict=True)
            ]
            self._current = self._context_for(has_bytes=types.has_bytes)
        self._choose_shapes(arrays)
        context = self._current
        layouts = [TensorFormat[info.layout.name] for info in context.inputs]
        context.set_inputs(arrays, layouts, pass_through=passes)

    def run(self, get_frame_id: bool = False) -> None:
        """Compute the outputs; `get_frame_id` does nothing."""
        self._current.run()

    def get_outputs(self, get_frame_id: bool = False) -> list[NDArray[Any]]:
        """The outputs of the last run as new float32 arrays."""
        context = self._current
        found = context.current_outputs() if self._sets else context.outputs
        outputs = [np.empty(info.shape, np.float32) for info in found]
        context.get_outputs(outputs, as_float=True)
        return list(outputs)

    def release(self) -> None:
        """Free the model."""
        for context in {self._first, *self._serving.values()}:
            context.close()
        self._serving.clear()
        self._shapes.clear()

    def _open(self) -> Context:
        context = Context(self._model, flags=InitFlag.PRIOR_MEDIUM)
        try:
            _set_core_mask(context, self._core_mask)
        except BaseException:
            context.close()
            raise
        return context

    def _context_for(self, *, has_bytes: bool) -> Context:
        """A context for pictures of bytes, or for others."""
        if has_bytes not in self._serving:
            self._serving[has_bytes] = self._open() if self._serving else self._first
        return self._serving[has_bytes]

    def _choose_shapes(self, arrays: Sequence[NDArray[Any]]) -> None:
        context = self._current
        shapes = tuple(array.shape for array in arrays)
        if self._sets and shapes != self._shapes.get(context):
            context.set_input_shapes(shapes)
            self._shapes[context] = shapes


def _set_core_mask(context: Context, core_mask: int) -> None:
    """Chips of one core refuse every mask, and need none."""
    try:
        context.set_core_mask(CoreMask(core_mask))
    except MissingFunctionError:
        return
    except CallError as error:
        if error.code != ErrorCode.TARGET_PLATFORM_UNMATCH:
            raise


def _each(value: Any, count: int, name: str) -> list[Any]:
    if value is None or isinstance(value, str):
        return [value] * count
    if len(value) != count:
        raise TensorError(f"{name} has {len(value)} entries for {count} inputs")
    return list(value)


def _checked(inputs: Any, infos: Sequence[TensorInfo]) -> list[NDArray[Any]]:
    values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if len(values) != len(infos):
        raise TensorError(f"the model has {len(infos)} inputs, {len(values)} were given")
    return [np.asarray(value) for value in values]


def _as_given(array: NDArray[Any], fmt: str | None, info: TensorInfo) -> NDArray[Any]:
    """An input as the runtime takes it."""
    if fmt is not None and fmt.lower() not in ("nhwc", "nchw"):
        raise TensorError(f"data_format is {fmt!r}; it may be nhwc, nchw")
    if array.ndim != len(info.shape):
        raise TensorError(
            f"input {info.name!r} has {len(info.shape)} dimensions {info.shape}; found "
            f"{array.shape}{_without_batch(array, info)}"
        )
    if fmt is not None and fmt.lower() == "nchw" and info.layout is Layout.NHWC:
        array = array.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(feeds.as_array(array, info))


def _without_batch(array: NDArray[Any], info: TensorInfo) -> str:
    """What to do about an image that lacks the first axis alone."""
    is_one = info.shape[:1] == (1,) and array.ndim == len(info.shape) - 1
    return ": pass np.expand_dims(image, 0)" if is_one else ""


def _check_shapes(
    arrays: Sequence[NDArray[Any]],
    infos: Sequence[TensorInfo],
    listed: Sequence[Sequence[tuple[int, ...]]],
) -> None:
    """Raise `TensorError` unless the arrays have shapes that the model takes."""
    sets = list(zip(*listed, strict=True)) or [tuple(info.shape for info in infos)]
    found = tuple(array.shape for array in arrays)
    if found in sets:
        return
    for index, info in enumerate(infos):
        shapes = list(dict.fromkeys(shapes[index] for shapes in sets))
        shape = found[index]
        if shape not in shapes:
            turned = len(shape) == 4 and (shape[0], *shape[2:], shape[1]) in shapes
            raise TensorError(
                f"input {info.name!r} takes the shape {' or '.join(map(str, shapes))}; found "
                f"{shape}" + (": pass data_format='nchw'" if turned else ": resize the image")
            )
    raise TensorError(f"the inputs take the shapes {sets}; found {found}: give one set of these")


def _typed(array: NDArray[Any], dtype: np.dtype[Any], info: TensorInfo) -> NDArray[Any]:
    """The array as the runtime takes it: in a type that it converts from, within the range."""
    given: NDArray[Any] = array.view(dtype) if array.dtype == np.bool_ else array.astype(dtype)
    limits = host_types.limits(info)
    return given if limits is None else np.clip(given, *(np.float32(each) for each in limits))
