"""A model in several contexts: what the two ways to run it share."""

from __future__ import annotations

import threading
from dataclasses import replace

from ...errors import AnynpuError, ModelError
from ...native.pump import Slot, Step
from ...rknn.context import Context
from ...rknn.library import RknnLibrary
from ...rknn.model_file import read_frame
from ...tensor import DType, Layout, TensorInfo
from ..base import Binding, DeviceBuffer, Network, Request
from .binding import RknnBinding, allocate
from .contexts import WorkerContexts
from .options import RknnOptions


class RknnNetwork(Network):
    """A `.rknn` model, or an ONNX file on the soft NPU, in a context for each worker.

    Only the pump's workers use the contexts once requests run; the queries that depend on shapes
    use one of their own. `runtime_inputs` are as the runtime describes them, images as NHWC.
    """

    library: RknnLibrary

    def __init__(self, contexts: WorkerContexts, options: RknnOptions) -> None:
        self.options = options
        self.contexts = contexts
        first = contexts.all[0]
        self.library = first.library
        self.worker_cores = contexts.cores
        self.runtime_inputs = first.image_inputs()
        self.inputs = tuple(self._shown(info, info.shape) for info in self.runtime_inputs)
        self.outputs = tuple(self._shown_output(info) for info in first.logical_outputs())
        self._metadata = self._read_metadata()
        self._lock = threading.Lock()

    @property
    def bound_inputs(self) -> tuple[TensorInfo, ...]:
        with self._lock:
            describer = self._describer
            is_native = self.options.zero_copy_layout == "native"
            return describer.native_inputs() if is_native else describer.nhwc_inputs()

    @property
    def bound_outputs(self) -> tuple[TensorInfo, ...]:
        with self._lock:
            describer = self._describer
            is_native = self.options.zero_copy_layout == "native"
            return describer.native_outputs() if is_native else describer.nhwc_outputs()

    # ---------------------------------------------------------------------------------- shapes

    @property
    def _describer(self) -> Context:
        """A context that no worker uses, for the queries that depend on shapes."""
        return self.contexts.unused()

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

    def call(self, name: str, *arguments: int | Slot) -> Step:
        """A step that calls a function of the runtime."""
        return Step(name, self.library.address_of(name), arguments)

    def error(self, request: Request, step: Step, code: int) -> AnynpuError:
        return self.failure(request, step, code)

    def failure(self, request: Request, step: Step, code: int, detail: str = "") -> AnynpuError:
        """The exception for a request whose step returned a code."""
        return self.library.error_for(step.name, code, detail, request.span)

    # ------------------------------------------------------------------------------------ rest

    def metadata(self) -> dict[str, str]:
        return dict(self._metadata)

    def _read_metadata(self) -> dict[str, str]:
        first = self.contexts.all[0]
        api, driver = first.sdk_version()
        metadata = {
            "rknn_custom_string": first.custom_string(),
            "rknn_api_version": api,
            "rknn_driver_version": driver,
            "library": self.library.path,
        }
        try:
            frame = read_frame(self.contexts.model)
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
        return RknnBinding(self.contexts.another)

    def close(self) -> None:
        self.contexts.close()
