"""A network by the zero-copy API: tensors live in memory that the NPU reads and writes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import OptionError
from ...native import transfers
from ...native.pump import MAX_STEPS, Slot, Step
from ...rknn.abi import Query
from ...rknn.context import Context
from ...rknn.device_tensor import (
    DeviceTensor,
    input_tensor_of,
    output_tensor,
    padded_shape,
)
from ...rknn.input_forms import InputForm, InputForms, input_forms
from ...rknn.normalization import Normalization, read_normalizations
from ...tensor import Layout, TensorInfo
from ..base import Request
from .contexts import WorkerContexts
from .native_result import NativeResult
from .network import RknnNetwork
from .options import RknnOptions
from .zero_copy_request import INPUTS, OUTPUTS, ZeroCopyRequest


class ZeroCopyNetwork(RknnNetwork):
    """Layouts and element types are converted here, by the workers where a kernel does it.

    Each worker has memory of its own, bound once. A request's inputs are converted into it, it
    runs, and the outputs are converted into new arrays. A variant is a choice of the inputs' forms
    in memory.
    """

    def __init__(self, contexts: WorkerContexts, options: RknnOptions) -> None:
        super().__init__(contexts, options)
        first = contexts.all[0]
        if contexts.has_general_api and any(first.dynamic_shapes()):
            raise OptionError(
                f"output_layout 'native' needs a model with one set of input shapes; this one has "
                f"{len(first.dynamic_shapes()[0])}: leave the option out"
            )
        self._forms: dict[tuple[np.dtype[Any], ...], InputForms] = {}
        self._variants: dict[InputForms, int] = {}
        self._tensors: dict[tuple[int, bool], _WorkerTensors] = {}
        self.native_outputs = first.native_outputs()
        self._native_inputs = first.native_inputs()
        self._logical_outputs = first.logical_outputs()
        self.results = tuple(
            NativeResult.of(native, info, options.output_dtype, options.output_layout)
            for native, info in zip(self.native_outputs, self._logical_outputs, strict=True)
        )
        if options.output_layout == "native":
            self.outputs = tuple(map(_shown_native, self.native_outputs, self._logical_outputs))

    @property
    def logical_outputs(self) -> tuple[TensorInfo, ...]:
        return self._logical_outputs

    @cached_property
    def normalizations(self) -> tuple[Normalization | None, ...]:
        """What is done to the values of each input before they are quantised, where it is known."""
        names = [info.name for info in self.runtime_inputs]
        return read_normalizations(self.contexts.model, names)

    def forms_for(self, given: tuple[np.dtype[Any], ...]) -> InputForms:
        """What arrays of some dtypes become in memory."""
        if given not in self._forms:
            self._forms[given] = input_forms(
                self.runtime_inputs, given, converts=self.contexts.has_general_api
            )
        return self._forms[given]

    def staging_shape(self, index: int, form: InputForm) -> tuple[int, ...]:
        """The shape of an input's memory, with the pixels that pad rows."""
        infos = self._native_inputs if form.is_native else self.runtime_inputs
        return padded_shape(infos[index])

    def variant(self, forms: InputForms) -> int:
        """The number of a choice of forms."""
        # Two threads may number one choice twice, which costs a program more.
        return self._variants.setdefault(forms, len(self._variants))

    def steps(self, worker: int, variant: int) -> Sequence[Step]:
        forms = next(key for key, number in self._variants.items() if number == variant)
        context = self.contexts.serving(worker, has_bytes=forms.has_bytes)
        place = (worker, forms.has_bytes)
        if place not in self._tensors:
            self._tensors[place] = _WorkerTensors(context, self.runtime_inputs)
        tensors = self._tensors[place]
        steps = []
        for index, form in enumerate(forms.forms):
            pointer, attr = tensors.input(index, form).addresses
            step = self.call("rknn_set_io_mem", context.handle, pointer, attr)
            steps.append(replace(step, is_entry=True))
        steps.append(tensors.copy_in(forms))
        steps.append(self.call("rknn_run", context.handle, 0))
        steps.append(tensors.copy_out)
        if len(steps) > MAX_STEPS:
            raise OptionError(f"output_layout 'native' takes at most {MAX_STEPS - 3} inputs")
        return steps

    def new_request(self) -> Request:
        return ZeroCopyRequest(self)

    def close(self) -> None:
        self._tensors.clear()
        super().close()


def _shown_native(native: TensorInfo, logical: TensorInfo) -> TensorInfo:
    """Channel blocks with the image's height and width, where the NPU writes one padded row."""
    if native.layout is not Layout.NC1HWC2:
        return native
    n, c1, _, _, c2 = native.shape
    return replace(native, shape=(n, c1, *logical.shape[2:], c2))


class _WorkerTensors:
    """A worker's tensors in a context, and the steps that copy to and from them."""

    def __init__(self, context: Context, inputs: Sequence[TensorInfo]) -> None:
        self._context, self._infos = context, inputs
        self._inputs: dict[tuple[int, InputForm], DeviceTensor] = {}
        self._places: list[ctypes.Array[ctypes.c_void_p]] = []
        self._outputs = [
            output_tensor(context, context.attribute(Query.NATIVE_OUTPUT_ATTR, index))
            for index in range(len(context.outputs))
        ]
        for tensor in self._outputs:
            tensor.bind(context)
        receive = transfers.functions().receive
        self.copy_out = self._copy("copy outputs", receive, self._outputs, OUTPUTS)

    def input(self, index: int, form: InputForm) -> DeviceTensor:
        """An input as a form has it."""
        if (index, form) not in self._inputs:
            tensor = input_tensor_of(self._context, self._infos[index], form)
            # What pads rows and blocks is the device's to see too, and isn't written by requests.
            tensor.memory.array((tensor.memory.size,), np.uint8)[...] = 0
            self._inputs[index, form] = tensor
        return self._inputs[index, form]

    def copy_in(self, forms: InputForms) -> Step:
        """The step that copies a request's inputs to their memory."""
        tensors = [self.input(index, form) for index, form in enumerate(forms.forms)]
        return self._copy("copy inputs", transfers.functions().send, tensors, INPUTS)

    def _copy(self, name: str, function: int, tensors: Sequence[DeviceTensor], slot: int) -> Step:
        """A step that copies between a request's arrays and memory."""
        places = (ctypes.c_void_p * len(tensors))(*(tensor.memory.address for tensor in tensors))
        self._places.append(places)
        return Step(name, function, (Slot(slot), ctypes.addressof(places), len(places)))
