"""A model in several contexts, and the C calls that run a job in one of them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import AnynpuError, ModelError
from ...native.pump import Slot, Step
from ...rknn import abi
from ...rknn.model_file import read_frame
from ...rknn.queries import shape_attributes
from ...rknn.status import error_for
from ...tensor import DType, Layout, TensorInfo
from ..base import Binding, DeviceBuffer, ModelSource, Network, Request, Shapes
from .binding import RknnBinding, allocate
from .contexts import WorkerContexts
from .options import RknnOptions
from .request import INPUTS, OUTPUTS, RknnRequest


class RknnNetwork(Network):
    """A `.rknn` model, or an ONNX file on the soft NPU, in a context for each worker.

    A job sets inputs, runs and gets outputs: the general API. Only the pump's workers use the
    contexts once jobs run, and `describe` one of its own.
    """

    def __init__(
        self, model: ModelSource, options: RknnOptions, weights: RknnNetwork | None = None
    ) -> None:
        self.options = options
        self._weights = weights
        self._model = model
        donor = weights._contexts.all[0] if weights is not None else None
        self._contexts: WorkerContexts = WorkerContexts(model, options, donor)
        first = self._contexts.all[0]
        self.library = first.library
        self.worker_cores = self._contexts.cores
        self.takes_planes = options.layout == "original"
        self.runtime_inputs = first.inputs
        self.inputs = tuple(self._shown(info, info.shape) for info in first.inputs)
        self.outputs = tuple(self._shown_output(info) for info in first.outputs)
        self._shape_sets = self._read_shape_sets(first.dynamic_shapes())
        self._outputs: dict[int, tuple[TensorInfo, ...]] = {0: first.outputs}
        self._result_shapes: dict[int, list[tuple[tuple[int, ...], np.dtype[Any]]]] = {}
        self._metadata = self._read_metadata()
        self._lock = threading.Lock()

    # ---------------------------------------------------------------------------------- shapes

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

    @cached_property
    def _describer(self) -> Any:
        """A context that no worker uses, for the queries that depend on shapes."""
        return self._contexts.all[0].dup()

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

    def _shown(self, info: TensorInfo, shape: tuple[int, ...]) -> TensorInfo:
        """The runtime reports images as NHWC whatever the source model's order, which is NCHW."""
        if info.layout is not Layout.NHWC or not self.options.layout.startswith("original"):
            return replace(info, shape=shape)
        n, h, w, c = shape
        return replace(info, shape=(n, c, h, w), layout=Layout.NCHW)

    def _shown_output(self, info: TensorInfo) -> TensorInfo:
        if info.layout is not Layout.NCHW or self.options.output_layout != "nhwc":
            return info
        n, c, h, w = info.shape
        return replace(info, shape=(n, h, w, c), layout=Layout.NHWC)

    # ------------------------------------------------------------------------------------ jobs

    def steps(self, worker: int, variant: int) -> Sequence[Step]:
        handle = self._contexts.all[worker].handle
        inputs, outputs = len(self.inputs), len(self.outputs)
        steps = [
            self._step("rknn_inputs_set", handle, inputs, Slot(INPUTS)),
            self._step("rknn_run", handle, 0),
            self._step("rknn_outputs_get", handle, outputs, Slot(OUTPUTS), 0),
            self._step("rknn_outputs_release", handle, outputs, Slot(OUTPUTS)),
        ]
        if len(self._shape_sets) > 1:
            attrs = self._shape_attributes[variant]
            step = self._step("rknn_set_input_shapes", handle, inputs, ctypes.addressof(attrs))
            steps.insert(0, replace(step, is_entry=True))
        return steps

    def _step(self, call: str, *arguments: int | Slot) -> Step:
        address = ctypes.cast(getattr(self.library, call), ctypes.c_void_p).value
        assert address, "a bound function has an address"
        return Step(call, address, arguments)

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

    # ------------------------------------------------------------------------------------ rest

    def metadata(self) -> dict[str, str]:
        return dict(self._metadata)

    def _read_metadata(self) -> dict[str, str]:
        first = self._contexts.all[0]
        api, driver = first.sdk_version()
        metadata = {
            "rknn_custom_string": first.custom_string(),
            "rknn_api_version": api,
            "rknn_driver_version": driver,
            "library": self.library.path,
        }
        try:
            frame = read_frame(self._model)
        except (ModelError, OSError):
            return metadata
        return metadata | {"target_platform": frame.target, "producer": frame.toolkit}

    # ---------------------------------------------------------------------------------- buffers

    def allocate(
        self, kind: str, index: int, dtype: DType | None, flags: str | int | None
    ) -> DeviceBuffer:
        with self._lock:
            return allocate(
                self._describer, kind, index, dtype, self.options.zero_copy_layout, flags
            )

    def import_buffer(
        self, kind: str, index: int, dtype: DType | None, fd: int, size: int, offset: int
    ) -> DeviceBuffer:
        with self._lock:
            memory = self._describer.memory_from_fd(fd, size, offset)
            layout = self.options.zero_copy_layout
            return allocate(self._describer, kind, index, dtype, layout, None, memory)

    def new_binding(self) -> Binding:
        with self._lock:
            return RknnBinding(self._contexts.spare())

    def close(self) -> None:
        if "_describer" in self.__dict__:
            self._describer.close()
        self._contexts.close()
