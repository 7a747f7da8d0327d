"""A network by the zero-copy API: tensors live in memory that the NPU reads and writes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from ...errors import OptionError, TensorError
from ...native import transfers
from ...native.pump import MAX_STEPS, Slot, Step
from ...rknn.abi import Query
from ...rknn.context import Context
from ...rknn.device_tensor import DeviceTensor, input_tensor, output_tensor
from ...tensor import DType, Layout, TensorInfo
from ..base import Request
from .contexts import WorkerContexts
from .network import RknnNetwork
from .options import RknnOptions
from .zero_copy_request import INPUTS, OUTPUTS, ZeroCopyRequest

Dtypes = tuple[DType, ...]


class ZeroCopyNetwork(RknnNetwork):
    """Layouts and element types are converted here, on the threads that submit and deliver.

    Each worker has memory of its own, bound once. A job copies its inputs there, runs, and copies
    the raw outputs out. A variant is a choice of the inputs' dtypes in memory.
    """

    def __init__(self, contexts: WorkerContexts, options: RknnOptions) -> None:
        super().__init__(contexts, options)
        first = contexts.all[0]
        if any(first.dynamic_shapes()):
            raise OptionError("output_layout 'native' needs a model with one set of input shapes")
        self._variants: dict[Dtypes, int] = {}
        self._workers = [_WorkerTensors(context, self._input_dtypes) for context in contexts.all]
        self.native_outputs = [tensor.info for tensor in self._workers[0].outputs]
        self.logical_outputs = first.logical_outputs()
        if options.output_layout == "native":
            self.outputs = tuple(self.native_outputs)

    @cached_property
    def _input_dtypes(self) -> list[Dtypes]:
        """For each input the element types that its memory may have."""
        return [self._dtypes(info) for info in self.runtime_inputs]

    def _dtypes(self, info: TensorInfo) -> Dtypes:
        if not info.is_real:
            return (info.dtype,)
        if self.contexts.has_general_api:
            return (DType.FLOAT32, DType.UINT8)
        return (DType.UINT8,) if info.layout is Layout.NHWC else (info.dtype,)

    def dtype_for(self, index: int, given: np.dtype[np.generic]) -> DType:
        """What an array of that dtype becomes in the memory of an input.

        Raises `TensorError` for what this chip's runtime doesn't convert.
        """
        known = self._input_dtypes[index]
        if given == np.uint8 and DType.UINT8 in known:
            return DType.UINT8
        if known == (DType.UINT8,):
            info = self.runtime_inputs[index]
            raise TensorError(
                f"input {info.name!r} is an image, and this chip's runtime normalises images of "
                f"uint8 only; found {given}"
            )
        return known[0]

    def staging_shape(self, index: int, dtype: DType) -> tuple[int, ...]:
        """The shape of an input's memory, with the pixels that pad rows."""
        tensor = self._workers[0].inputs[index][dtype]
        return tensor.memory_shape

    def variant(self, dtypes: Dtypes) -> int:
        """The number of a choice of dtypes, one for each input."""
        # Two threads may number one choice twice, which costs a program more.
        return self._variants.setdefault(dtypes, len(self._variants))

    def steps(self, worker: int, variant: int) -> Sequence[Step]:
        dtypes = next(key for key, number in self._variants.items() if number == variant)
        context, tensors = self.contexts.all[worker], self._workers[worker]
        handle = context.handle
        steps = []
        for index, dtype in enumerate(dtypes):
            pointer, attr = tensors.inputs[index][dtype].addresses
            step = self.call("rknn_set_io_mem", handle, pointer, attr)
            steps.append(replace(step, is_entry=True))
        steps.append(tensors.copy_in)
        steps.append(self.call("rknn_run", handle, 0))
        steps.append(tensors.copy_out)
        if len(steps) > MAX_STEPS:
            raise OptionError(f"output_layout 'native' takes at most {MAX_STEPS - 3} inputs")
        return steps

    def new_request(self) -> Request:
        return ZeroCopyRequest(self)

    def close(self) -> None:
        self._workers.clear()
        super().close()


class _WorkerTensors:
    """A worker's tensors, and the steps that copy to and from them."""

    def __init__(self, context: Context, input_dtypes: Sequence[Dtypes]) -> None:
        self.inputs = [
            _input_tensors(context, info, dtypes)
            for info, dtypes in zip(context.image_inputs(), input_dtypes, strict=True)
        ]
        self.outputs = [
            output_tensor(context, context.attribute(Query.NATIVE_OUTPUT_ATTR, index))
            for index in range(len(context.outputs))
        ]
        for tensor in self.outputs:
            tensor.bind(context)
        # An input's memory is the same for each dtype.
        self._input_places = _addresses([next(iter(each.values())) for each in self.inputs])
        self._output_places = _addresses(self.outputs)
        functions = transfers.functions()
        self.copy_in = _copy("copy inputs", functions.send, self._input_places, INPUTS)
        self.copy_out = _copy("copy outputs", functions.receive, self._output_places, OUTPUTS)


def _input_tensors(context: Context, info: TensorInfo, dtypes: Dtypes) -> dict[DType, DeviceTensor]:
    """An input as each dtype, in one memory."""
    tensors: dict[DType, DeviceTensor] = {}
    # The largest comes first, so its memory is enough for the others.
    for dtype in sorted(dtypes, key=lambda each: -each.bits):
        memory = next(iter(tensors.values())).memory if tensors else None
        tensors[dtype] = input_tensor(context, info, dtype, memory)
    return tensors


def _addresses(tensors: Sequence[DeviceTensor]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(tensors))(*(tensor.memory.address for tensor in tensors))


def _copy(name: str, function: int, places: ctypes.Array[ctypes.c_void_p], slot: int) -> Step:
    """A step that copies between a job's arrays and memory; who runs it keeps `places`."""
    return Step(name, function, (Slot(slot), ctypes.addressof(places), len(places)))
