"""A network by the general API: a job sets inputs, runs and gets outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import AnynpuError
from ...native.pump import Slot, Step
from ...rknn import abi
from ...rknn.queries import shape_attributes
from ...rknn.status import error_for
from ...tensor import TensorInfo
from ..base import Request, Shapes
from .contexts import WorkerContexts
from .network import RknnNetwork
from .options import RknnOptions
from .request import INPUTS, OUTPUTS, RknnRequest


class GeneralNetwork(RknnNetwork):
    """The runtime converts layouts and element types, on the processor."""

    def __init__(self, contexts: WorkerContexts, options: RknnOptions) -> None:
        super().__init__(contexts, options)
        first = contexts.all[0]
        self.takes_planes = options.layout == "original"
        self._shape_sets = self._read_shape_sets(first.dynamic_shapes())
        self._outputs: dict[int, tuple[TensorInfo, ...]] = {0: first.outputs}
        self._result_shapes: dict[int, list[tuple[tuple[int, ...], np.dtype[Any]]]] = {}

    @property
    def shape_sets(self) -> tuple[Shapes, ...]:
        return self._shape_sets

    def outputs_of(self, variant: int) -> tuple[TensorInfo, ...]:
        """The outputs under a set of input shapes, as the runtime gives them."""
        if variant in self._outputs:
            return self._outputs[variant]
        with self._lock:
            if variant not in self._outputs:
                self._describer.set_input_shapes(self._runtime_shapes[variant])
                self._outputs[variant] = self._describer.current_outputs()
            return self._outputs[variant]

    def result_shapes(self, variant: int) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of the array that the runtime writes each output to."""
        if variant not in self._result_shapes:
            is_float = self.options.output_dtype == "float32"
            self._result_shapes[variant] = [
                (info.shape, np.dtype(np.float32) if is_float else info.dtype.numpy)
                for info in self.outputs_of(variant)
            ]
        return self._result_shapes[variant]

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
        handle = self.contexts.all[worker].handle
        inputs, outputs = len(self.inputs), len(self.outputs)
        steps = [
            self.call("rknn_inputs_set", handle, inputs, Slot(INPUTS)),
            self.call("rknn_run", handle, 0),
            self.call("rknn_outputs_get", handle, outputs, Slot(OUTPUTS), 0),
            self.call("rknn_outputs_release", handle, outputs, Slot(OUTPUTS)),
        ]
        if len(self._shape_sets) > 1:
            attrs = self._shape_attributes[variant]
            step = self.call("rknn_set_input_shapes", handle, inputs, ctypes.addressof(attrs))
            steps.insert(0, replace(step, is_entry=True))
        return steps

    @cached_property
    def _shape_attributes(self) -> list[ctypes.Array[abi.TensorAttr]]:
        """What rknn_set_input_shapes takes for each variant."""
        return [shape_attributes(self.runtime_inputs, shapes) for shapes in self._runtime_shapes]

    def new_request(self) -> Request:
        return RknnRequest(self)

    def error(self, request: Request, step: Step, code: int) -> AnynpuError:
        assert isinstance(request, RknnRequest)
        detail = request.describe() if step.name == "rknn_inputs_set" else ""
        return error_for(step.name, code, detail)

    def repair(self, request: Request, step: Step, code: int) -> bool:
        """Pass images on as NHWC from now on, where the runtime refuses to transpose them.

        It doesn't for inputs that it normalises, and no query says which those are.
        """
        assert isinstance(request, RknnRequest)
        refused = step.name == "rknn_inputs_set" and code == abi.ErrorCode.FAIL
        if not refused or not request.has_planes:
            return False
        self.takes_planes = False
        request.interleave()
        return True
