"""A network in several copies, and the C calls that run a request on one of them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import AnynpuError, ModelError, StateError
from ...native.pump import Slot, Step
from ...native.transfers import functions
from ...tensor import DType, Layout, TensorInfo
from ...viplite import abi
from ...viplite.library import VipliteLibrary
from ...viplite.model_file import read_frame
from ..base import Binding, DeviceBuffer, ModelSource, Network, Request, Shapes
from .binding import VipliteBinding, allocate, import_buffer
from .conversion import Conversion, ResultPlan
from .options import VipliteOptions
from .request import INPUTS, OUTPUTS, VipliteRequest
from .workers import Workers


class VipliteNetwork(Network):
    """A `.nb` model, in a network with buffers of its own for each worker.

    A request's arrays are converted into the worker's buffers, it runs, and the outputs are
    converted into new arrays. Only the pump's workers use the networks once requests run.
    """

    library: VipliteLibrary

    def __init__(
        self, model: ModelSource, options: VipliteOptions, weights: VipliteNetwork | None = None
    ) -> None:
        self.options = options
        self._weights = weights
        self._model = model
        donor = weights._workers.networks[0] if weights is not None else None
        self._workers: Workers = Workers(model, options, donor)
        first = self._workers.networks[0]
        self.library = first.library
        self.worker_cores = self._workers.devices
        self.memory_inputs = first.inputs
        self.memory_outputs = first.outputs
        self.inputs = tuple(_shown(info, options.layout) for info in first.inputs)
        self.outputs = tuple(_shown(info, options.output_layout) for info in first.outputs)
        self._shape_sets: tuple[Shapes, ...] = (tuple(info.shape for info in self.inputs),)
        self.result_plans = [
            ResultPlan.of(
                info,
                is_float=options.output_dtype == "float32" and info.is_real,
                is_interleaved=info.layout is not shown.layout,
            )
            for info, shown in zip(first.outputs, self.outputs, strict=True)
        ]
        self._conversions: dict[tuple[int, np.dtype[Any], bool], Conversion | None] = {}
        self._lock = threading.Lock()

    @property
    def shape_sets(self) -> tuple[Shapes, ...]:
        return self._shape_sets

    # ------------------------------------------------------------------------------------ requests

    def steps(self, worker: int, variant: int) -> Sequence[Step]:
        here = self._workers.all[worker]
        helpers = functions()
        inputs, outputs = len(self.inputs), len(self.outputs)
        flush = self.library.address_of("vip_flush_buffer")
        handles_in, handles_out = _address(here.input_handles), _address(here.output_handles)
        memory_in, memory_out = _address(here.input_memories), _address(here.output_memories)
        operation = abi.BufferOperation
        run = self.library.address_of("vip_run_network")
        return [
            Step("anynpu_send", helpers.send, (Slot(INPUTS), memory_in, inputs)),
            Step("vip_flush_buffer", helpers.each, (flush, handles_in, inputs, operation.FLUSH)),
            Step("vip_run_network", run, (here.network.handle.value,)),
            Step(
                "vip_flush_buffer",
                helpers.each,
                (flush, handles_out, outputs, operation.INVALIDATE),
            ),
            Step("anynpu_receive", helpers.receive, (Slot(OUTPUTS), memory_out, outputs)),
        ]

    def new_request(self) -> Request:
        return VipliteRequest(self)

    def conversion(
        self, index: int, dtype: np.dtype[Any], *, is_stored: bool = False
    ) -> Conversion | None:
        """How an input's array of a dtype goes to memory, None where no kernel converts it.

        With `is_stored` the array holds what memory gets.
        """
        key = (index, dtype, is_stored)
        try:
            return self._conversions[key]
        except KeyError:
            pass
        info = self.memory_inputs[index]
        found = Conversion.stored(info) if is_stored else Conversion.to_memory(dtype, info)
        self._conversions[key] = found
        return found

    def error(self, request: Request, step: Step, code: int) -> AnynpuError:
        if not step.name.startswith("vip_"):
            return StateError(f"{step.name} couldn't convert the tensors' values ({code})")
        return self.library.error_for(step.name, code, span=request.span)

    # ------------------------------------------------------------------------------------ rest

    def metadata(self) -> dict[str, str]:
        first = self._workers.networks[0]
        metadata = {
            "network_name": first.name,
            "viplite_version": self.library.version_text,
            "library": self.library.path,
        }
        try:
            frame = read_frame(self._model)
        except (ModelError, OSError):
            return metadata
        return metadata | {
            "target_platform": f"{frame.target:#x}",
            "npu_version": frame.npu_version,
        }

    # ---------------------------------------------------------------------------------- buffers

    def allocate(
        self, kind: str, index: int, dtype: DType | None, flags: str | int | None
    ) -> DeviceBuffer:
        return allocate(kind, self._tensor(kind, index), dtype, flags, self.library)

    def import_buffer(
        self, kind: str, index: int, dtype: DType | None, fd: int, size: int, offset: int
    ) -> DeviceBuffer:
        return import_buffer(kind, self._tensor(kind, index), dtype, fd, size, offset, self.library)

    def new_binding(self) -> Binding:
        with self._lock:
            device = self.worker_cores[0]
            return VipliteBinding(self._workers.prepared(self._workers.another(), device))

    def _tensor(self, kind: str, index: int) -> TensorInfo:
        return (self.memory_inputs if kind == "input" else self.memory_outputs)[index]

    def close(self) -> None:
        self._workers.close()


def _shown(info: TensorInfo, layout: str) -> TensorInfo:
    """The tensor as the session shows it: memory has images as planes."""
    if layout != "nhwc" or info.layout is not Layout.NCHW:
        return info
    n, c, h, w = info.shape
    return replace(info, shape=(n, h, w, c), layout=Layout.NHWC)


def _address(array: ctypes.Array[ctypes.c_void_p]) -> int:
    return ctypes.addressof(array)
