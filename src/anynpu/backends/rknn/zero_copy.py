"""A `.rknn` model for `Model`: inputs and outputs in memory that the NPU reads and writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError, StateError
from ...memory_size import MemorySize
from ...perf import LayerTable, parse_perf_detail
from ...rknn.abi import Query
from ...rknn.context import Context
from ...rknn.custom_ops import CustomOp
from ...rknn.device_tensor import (
    DeviceTensor,
    input_tensor_of,
    output_tensor,
    real_values,
)
from ...rknn.input_forms import InputForm, input_forms, store
from ...rknn.normalization import Normalization, read_normalizations
from ...tensor import Layout, TensorInfo
from ..base import ModelSource, Shapes, ZeroCopyModel
from .contexts import has_general_api

Opener = Callable[[], Context]


class RknnZeroCopyModel(ZeroCopyModel):
    """A context whose outputs have their memory from the beginning, inputs by the first array.

    A context serves pictures as bytes or as real values: where both come, there are two, which
    write to the same outputs. `open_context` makes one that has the model's weights of its own.
    """

    def __init__(
        self,
        context: Context,
        custom_ops: Sequence[CustomOp],
        model: ModelSource,
        open_context: Opener,
        *,
        is_timed: bool,
        has_bytes: bool | None = None,
    ) -> None:
        self._model, self._open_context = model, open_context
        self._custom_ops = tuple(custom_ops)
        self._converts = has_general_api(context.library, model)
        self._has_bytes = has_bytes
        self._is_timed, self._has_run = is_timed, False
        self._shapes: Shapes | None = None
        self.library = context.library
        self._context = context
        self._places: dict[bool, _Places] = {}
        self._first: _Places | None = None
        try:
            context.register_custom_ops(self._custom_ops)
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        context = self._context
        self._describe(context.image_inputs(), context.logical_outputs())
        if sets := self.dynamic_shapes():
            # librknnrt 1.5.2 ends the process where memory is set before the shapes are.
            listed = list(zip(*sets, strict=True))
            default = tuple(info.shape for info in self.inputs)
            self.set_shapes(default if default in listed else listed[0])
        else:
            self._bind_outputs()

    def _describe(self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def _bind_outputs(self) -> None:
        """Give every output its memory; inputs get theirs with the first array of a form."""
        query = Query.NATIVE_OUTPUT_ATTR
        if self._shapes is not None:
            query = Query.CURRENT_NATIVE_OUTPUT_ATTR
        self._outputs = [
            output_tensor(self._context, self._context.attribute(query, info.index))
            for info in self.outputs
        ]
        self.raw_outputs = tuple(tensor.info for tensor in self._outputs)
        self._first = self._last = _Places(self._context, self._outputs)
        if self._has_bytes is not None:
            self._places[self._has_bytes] = self._first

    def write(self, arrays: Sequence[NDArray[Any]]) -> None:
        wanted = input_forms(
            self.inputs, [array.dtype for array in arrays], converts=self._converts
        )
        self._last = self._places_for(wanted.has_bytes)
        for info, form, array in zip(self.inputs, wanted.forms, arrays, strict=True):
            target = self._last.input(info, form)
            if info.layout is Layout.NHWC and target.ndim == 4:
                target = target[:, :, : info.shape[2]]
            known = self._normalizations[info.index] if form.is_native else None
            store(array, info, form, target, known)

    @cached_property
    def _normalizations(self) -> tuple[Normalization | None, ...]:
        return read_normalizations(self._model, [info.name for info in self.inputs])

    def _places_for(self, has_bytes: bool) -> _Places:
        """Where pictures go that are bytes, or that aren't."""
        if not self._places and self._first is not None:
            self._places[has_bytes] = self._first
            self._has_bytes = has_bytes
        elif has_bytes not in self._places:
            self._places[has_bytes] = self._another()
        return self._places[has_bytes]

    def _another(self) -> _Places:
        """A context that was given nothing yet, which writes to the outputs that are there."""
        context = self._open_context()
        try:
            context.register_custom_ops(self._custom_ops)
            if self._shapes is not None:
                context.set_input_shapes(self._shapes)
            return _Places(context, [tensor.imported_by(context) for tensor in self._outputs])
        except BaseException:
            context.close()
            raise

    def run(self, timeout_ms: int) -> None:
        self._has_run = True
        self._last.context.run(timeout_ms=timeout_ms)

    def raw(self, index: int) -> NDArray[Any]:
        return self._outputs[index].array

    def real(self, index: int) -> NDArray[np.float32]:
        return real_values(self.raw(index), self.raw_outputs[index], self.outputs[index].shape)

    def dup(self) -> RknnZeroCopyModel:
        return RknnZeroCopyModel(
            self._context.dup(),
            self._custom_ops,
            self._model,
            self._open_context,
            is_timed=self._is_timed,
            has_bytes=self._has_bytes,
        )

    def dynamic_shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        return self._context.dynamic_shapes() if self._converts else ()

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        self._close_others()
        self._context.set_input_shapes(shapes)
        self._shapes = tuple(tuple(shape) for shape in shapes)
        self._describe(self._context.current_inputs(), self._context.current_outputs())
        self._bind_outputs()

    def memory(self) -> MemorySize:
        return MemorySize(**dataclasses.asdict(self._context.memory_size()))

    def perf(self) -> LayerTable:
        if not self._is_timed:
            raise ModelError(
                "perf: the layers weren't timed; open the model with profile=True, which was False"
            )
        if not self._has_run:
            raise StateError("perf: there are no times before a run: call run first")
        return parse_perf_detail(self._last.context.perf_detail())

    def run_microseconds(self) -> int:
        return self._last.context.run_duration()

    def close(self) -> None:
        self._close_others()
        self._outputs = []
        if self._first is not None:
            self._first.close()
        self._context.close()

    def _close_others(self) -> None:
        for places in self._places.values():
            if places is not self._first:
                places.close()
        self._places.clear()


class _Places:
    """A context's memory: of the outputs, and of the inputs in each form that was given."""

    def __init__(self, context: Context, outputs: Sequence[DeviceTensor]) -> None:
        self.context = context
        self._inputs: dict[tuple[int, InputForm], DeviceTensor] = {}
        self._bound: dict[int, InputForm] = {}
        for tensor in outputs:
            tensor.bind(context)

    def input(self, info: TensorInfo, form: InputForm) -> NDArray[Any]:
        """The memory of an input in a form, which the next run reads."""
        key = (info.index, form)
        if key not in self._inputs:
            self._inputs[key] = input_tensor_of(self.context, info, form)
        if self._bound.get(info.index) != form:
            self._inputs[key].bind(self.context)
            self._bound[info.index] = form
        return self._inputs[key].array

    def close(self) -> None:
        """Free the memory and the context; twice does nothing."""
        self._inputs.clear()
        self.context.close()
