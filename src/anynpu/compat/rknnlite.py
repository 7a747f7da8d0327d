"""The interface of rknn-toolkit-lite2 (2.5), for its scripts.

    from anynpu.compat.rknnlite import RKNNLite

Methods return the same codes: 0, or -1 and None for failures, whose reason is on the standard error
stream. It runs wherever anynpu does, without a device tree, a certain folder or a container's
privileges.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import feeds
from ..errors import AnynpuError, CallError, MissingFunctionError, TensorError
from ..file_kinds import check_model
from ..rknn import host_types
from ..rknn.abi import CoreMask, ErrorCode, InitFlag, TensorFormat
from ..rknn.context import Context
from ..rknn.model_file import read_frame
from ..soc import SOCS
from ..tensor import Layout, TensorInfo

__all__ = ["RKNNLite"]

_T = TypeVar("_T")
_OK, _FAILED = 0, -1


def _answers(failure: Any) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """A method whose exceptions are written to the standard error stream, and give `failure`."""

    def decorate(method: Callable[..., _T]) -> Callable[..., _T]:
        @wraps(method)
        def call(self: RKNNLite, *arguments: Any, **named: Any) -> Any:
            try:
                return method(self, *arguments, **named)
            except (AnynpuError, OSError, ValueError, TypeError) as error:
                self._report(method.__name__, error)
                return failure

        return call

    return decorate


class RKNNLite:
    """One model. One thread at a time.

    `verbose` adds tracebacks to what failures write, `verbose_file` is where they are written to
    as well.
    """

    NPU_CORE_AUTO = 0
    NPU_CORE_0 = 1
    NPU_CORE_1 = 2
    NPU_CORE_2 = 4
    NPU_CORE_0_1 = 3
    NPU_CORE_0_1_2 = 7
    NPU_CORE_ALL = 0xFFFF

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        self.verbose = verbose
        self.verbose_file = verbose_file
        self.rknn_data: bytes | None = None
        self._context: Context | None = None
        self._core_mask = self.NPU_CORE_AUTO
        self._serving: dict[bool, Context] = {}
        self._shapes: dict[Context, tuple[tuple[int, ...], ...]] = {}

    @_answers(_FAILED)
    def load_rknn(self, path: str | os.PathLike[str], key_path: str | None = None) -> int:
        """Read a model file; 0, or -1. Encrypted models (`key_path`) can't be read here."""
        if key_path is not None:
            raise ValueError("models that need a key aren't supported")
        check_model(path)
        self.rknn_data = Path(path).read_bytes()
        return _OK

    @_answers(_FAILED)
    def init_runtime(
        self,
        target: str | None = None,
        device_id: str | None = None,
        async_mode: bool = False,
        core_mask: int = NPU_CORE_AUTO,
        **more: Any,
    ) -> int:
        """Load the model into the runtime; 0, or -1.

        `target` and `device_id` are for boards at a cable, which neither package supports;
        `async_mode` does nothing in either.
        """
        if self.rknn_data is None:
            raise ValueError("load_rknn comes first")
        if target is not None or device_id is not None:
            raise ValueError("the model runs on this machine: leave target and device_id out")
        self.release(keeps_model=True)
        self._core_mask = core_mask
        self._context = self._open(self.rknn_data)
        return _OK

    @_answers(None)
    def inference(
        self,
        inputs: Sequence[Any],
        data_type: Any = None,
        data_format: str | Sequence[str] | None = None,
        inputs_pass_through: Sequence[int] | None = None,
        get_frame_id: bool = False,
        reuse_outputs: bool = False,
    ) -> list[NDArray[Any]] | None:
        """The outputs as float32 arrays, new at each call; None for a failure.

        That an array hasn't the shape of its input, or is of another order of axes, is one.
        Images are NHWC, with `data_format` ``"nchw"`` (or a list with one for each input) NCHW. A
        model of several shapes takes any of them. `inputs_pass_through` has 1 for inputs that go
        to the device as they are. `data_type`, `get_frame_id` and `reuse_outputs` do nothing.
        """
        context = self._open_context()
        infos = context.inputs
        formats = _each(data_format, len(infos), "data_format")
        passes = bool(inputs_pass_through) and any(inputs_pass_through or ())
        arrays = [
            _as_given(value, fmt, info)
            for value, fmt, info in zip(_checked(inputs, infos), formats, infos, strict=True)
        ]
        if not passes:
            _check_shapes(arrays, infos, context.dynamic_shapes())
            types = host_types.input_types(infos, [array.dtype for array in arrays])
            arrays = [
                _typed(array, dtype, info)
                for array, dtype, info in zip(arrays, types.dtypes, infos, strict=True)
            ]
            context = self._context_for(has_bytes=types.has_bytes)
        self._choose_shapes(context, arrays)
        layouts = [TensorFormat[info.layout.name] for info in context.inputs]
        context.set_inputs(arrays, layouts, pass_through=passes)
        context.run()
        found = context.current_outputs() if context.dynamic_shapes() else context.outputs
        outputs = [np.empty(info.shape, np.float32) for info in found]
        context.get_outputs(outputs, as_float=True)
        return list(outputs)

    @_answers(None)
    def get_sdk_version(self) -> str | None:
        """The versions of the runtime and the driver, in the original's words."""
        api, driver = self._open_context().sdk_version()
        rule = "=" * 46
        return f"\n{rule}\nRKNN VERSION:\n  API: {api}\n  DRV: rknn_driver: {driver}\n{rule}\n"

    @_answers(None)
    def list_support_target_platform(
        self, rknn_model: str | os.PathLike[str] | None = None
    ) -> dict[str, list[str]] | None:
        """The chips that a model file, or the one that was loaded, is for."""
        source = rknn_model if rknn_model is not None else self.rknn_data
        if source is None:
            raise ValueError("name a model, or load one first")
        target = read_frame(source).target
        return {
            "support_target_platform": [target] if target in SOCS else [],
            "filled_target_platform": [target],
        }

    def release(self, *, keeps_model: bool = False) -> None:
        """Free the runtime; twice does nothing."""
        for context in (*self._serving.values(), *([self._context] if self._context else [])):
            context.close()
        self._context = None
        self._serving.clear()
        self._shapes.clear()
        if not keeps_model:
            self.rknn_data = None

    def _open_context(self) -> Context:
        if self._context is None:
            raise ValueError("init_runtime comes first")
        return self._context

    def _open(self, model: bytes) -> Context:
        context = Context(model, flags=InitFlag.PRIOR_MEDIUM)
        try:
            _set_core_mask(context, self._core_mask)
        except BaseException:
            context.close()
            raise
        return context

    def _context_for(self, *, has_bytes: bool) -> Context:
        """A context for pictures of bytes, or for others: none takes both in turn."""
        if has_bytes not in self._serving:
            assert self.rknn_data is not None, "there is a context"
            is_first = not self._serving
            context = self._open_context() if is_first else self._open(self.rknn_data)
            self._serving[has_bytes] = context
        return self._serving[has_bytes]

    def _choose_shapes(self, context: Context, arrays: Sequence[NDArray[Any]]) -> None:
        shapes = tuple(array.shape for array in arrays)
        if shapes != self._shapes.get(context) and context.dynamic_shapes():
            context.set_input_shapes(shapes)
            self._shapes[context] = shapes

    def _report(self, method: str, error: Exception) -> None:
        text = f"E RKNNLite.{method}: {error}"
        if self.verbose:
            text += "\n" + "".join(traceback.format_exception(error)).rstrip()
        print(text, file=sys.stderr)
        if self.verbose_file:
            with open(self.verbose_file, "a", encoding="utf-8") as file:
                file.write(text + "\n")


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
            f"{array.shape}"
        )
    if fmt is not None and fmt.lower() == "nchw" and info.layout is Layout.NHWC:
        array = array.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(feeds.as_array(array, info))


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
