"""A network by the general API: a request sets inputs, runs and gets outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import AnynpuError
from ...native import arrangements
from ...native.pump import Slot, Step
from ...rknn import abi, host_types
from ...rknn.queries import shape_attributes
from ...tensor import TensorInfo
from ..base import Request, Shapes
from .contexts import WorkerContexts
from .network import RknnNetwork
from .options import RknnOptions
from .request import ARRANGEMENTS, INPUTS, OUTPUTS, RknnRequest

_FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Result:
    """The array that the runtime writes an output to.

    `is_float` says that it converts the values to float32; `dtype` is that of the array a person
    gets, which may be another.
    """

    shape: tuple[int, ...]
    is_float: bool
    written: np.dtype[Any]
    dtype: np.dtype[Any]


class GeneralNetwork(RknnNetwork):
    """The runtime converts element types and, for outputs, layouts, on the processor.

    A variant is a set of input shapes, and whether pictures are given as bytes: a context serves
    one or the other.
    """

    def __init__(self, contexts: WorkerContexts, options: RknnOptions) -> None:
        super().__init__(contexts, options)
        first = contexts.all[0]
        self._shape_sets = self._read_shape_sets(first.dynamic_shapes())
        self._outputs: dict[int, tuple[TensorInfo, ...]] = {0: first.outputs}
        self._results: dict[int, list[Result]] = {}
        self._input_types: dict[tuple[np.dtype[Any], ...], host_types.InputTypes] = {}

    @property
    def shape_sets(self) -> tuple[Shapes, ...]:
        return self._shape_sets

    def input_types(self, given: tuple[np.dtype[Any], ...]) -> host_types.InputTypes:
        """As which dtypes arrays of some dtypes are given to the runtime."""
        if given not in self._input_types:
            self._input_types[given] = host_types.input_types(self.runtime_inputs, given)
        return self._input_types[given]

    def variant(self, arrays: Sequence[NDArray[Any]], *, has_bytes: bool) -> int:
        """The number of the variant for some arrays."""
        if len(self._shape_sets) == 1:
            return int(has_bytes)
        shapes = tuple([array.shape for array in arrays])
        return 2 * self._shape_sets.index(shapes) + has_bytes

    def outputs_of(self, variant: int) -> tuple[TensorInfo, ...]:
        """The outputs under a variant's input shapes, as the runtime gives them."""
        number = variant // 2
        if number in self._outputs:
            return self._outputs[number]
        with self._lock:
            if number not in self._outputs:
                self._describer.set_input_shapes(self._runtime_shapes[number])
                self._outputs[number] = self._describer.current_outputs()
            return self._outputs[number]

    def results_of(self, variant: int) -> list[Result]:
        """The arrays that the runtime writes the outputs to."""
        if variant not in self._results:
            self._results[variant] = [self._result(info) for info in self.outputs_of(variant)]
        return self._results[variant]

    def _result(self, info: TensorInfo) -> Result:
        is_model = self.options.output_dtype == "model"
        is_whole = host_types.gives_whole_numbers(info, self._version)
        dtype = info.dtype.numpy if is_model else info.host_dtype.numpy
        is_float = not is_whole and not (is_model and info.is_real)
        return Result(info.shape, is_float, _FLOAT32 if is_float else dtype, dtype)

    @cached_property
    def _version(self) -> str:
        return self._metadata["rknn_api_version"]

    def _read_shape_sets(self, ranges: Sequence[Shapes]) -> tuple[Shapes, ...]:
        """What the session shows; `_runtime_shapes` has the same as the runtime takes them."""
        default: Shapes = tuple(info.shape for info in self.runtime_inputs)
        sets = list(zip(*ranges, strict=True)) or [default]
        # The first is the one that contexts begin with.
        sets.sort(key=lambda shapes: shapes != default)
        self._runtime_shapes: list[Shapes] = sets
        return tuple(
            tuple(
                self._shown(info, shape).shape
                for info, shape in zip(self.runtime_inputs, shapes, strict=True)
            )
            for shapes in sets
        )

    def steps(self, worker: int, variant: int) -> Sequence[Step]:
        number, has_bytes = divmod(variant, 2)
        handle = self.contexts.serving(worker, has_bytes=bool(has_bytes)).handle
        inputs, outputs = len(self.inputs), len(self.outputs)
        steps = [
            self.call("rknn_inputs_set", handle, inputs, Slot(INPUTS)),
            self.call("rknn_run", handle, 0),
            self.call("rknn_outputs_get", handle, outputs, Slot(OUTPUTS), 0),
            self.call("rknn_outputs_release", handle, outputs, Slot(OUTPUTS)),
        ]
        if any(map(self._may_be_arranged, range(inputs))):
            arrange = (Slot(ARRANGEMENTS), inputs)
            steps.insert(0, Step("anynpu_arrange", arrangements.function(), arrange))
        if len(self._shape_sets) > 1:
            attrs = self._shape_attributes[number]
            step = self.call("rknn_set_input_shapes", handle, inputs, ctypes.addressof(attrs))
            steps.insert(0, replace(step, is_entry=True))
        return steps

    def _may_be_arranged(self, index: int) -> bool:
        """Whether a request may bring an input in another form than the runtime takes."""
        info = self.runtime_inputs[index]
        is_turned = self.inputs[index].layout is not info.layout
        return host_types.limits(info) is not None or (is_turned and info.shape[3] > 1)

    @cached_property
    def _shape_attributes(self) -> list[ctypes.Array[abi.TensorAttr]]:
        """What rknn_set_input_shapes takes for each set of shapes."""
        return [shape_attributes(self.runtime_inputs, shapes) for shapes in self._runtime_shapes]

    def new_request(self) -> Request:
        return RknnRequest(self)

    def error(self, request: Request, step: Step, code: int) -> AnynpuError:
        assert isinstance(request, RknnRequest)
        detail = request.describe() if step.name == "rknn_inputs_set" else ""
        return self.failure(request, step, code, detail)
