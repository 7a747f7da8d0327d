"""A `.rknn` model for `Model`: inputs and outputs in memory that the NPU reads and writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...memory_size import MemorySize
from ...native import kernels
from ...perf import LayerTable, parse_perf_detail
from ...rknn.abi import Query
from ...rknn.context import Context
from ...rknn.custom_ops import CustomOp
from ...rknn.device_tensor import DeviceTensor, input_tensor, output_tensor, real_values
from ...tensor import DType, Layout, TensorInfo
from ..base import ZeroCopyModel


class RknnZeroCopyModel(ZeroCopyModel):
    """A context whose outputs have their memory from the beginning, inputs by the first array.

    Real values are given to the runtime as uint8 or float32, which normalises and quantises them.
    """

    def __init__(self, context: Context, custom_ops: Sequence[CustomOp]) -> None:
        self._context = context
        self._custom_ops = tuple(custom_ops)
        self.library = context.library
        try:
            context.register_custom_ops(self._custom_ops)
            self._bind(context.image_inputs(), context.logical_outputs(), dynamic=False)
        except BaseException:
            context.close()
            raise

    def _bind(
        self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], *, dynamic: bool
    ) -> None:
        """Give every output its memory; inputs get theirs with the first array of a dtype."""
        query = Query.CURRENT_NATIVE_OUTPUT_ATTR if dynamic else Query.NATIVE_OUTPUT_ATTR
        self._inputs = tuple(_Input(self._context, info) for info in inputs)
        self._outputs = tuple(_Output(self._context, info, query) for info in outputs)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.raw_outputs = tuple(tensor.native for tensor in self._outputs)

    def write(self, index: int, array: NDArray[Any]) -> None:
        self._inputs[index].write(array)

    def run(self, timeout_ms: int) -> None:
        self._context.run(timeout_ms=timeout_ms)

    def raw(self, index: int) -> NDArray[Any]:
        return self._outputs[index].raw

    def real(self, index: int) -> NDArray[np.float32]:
        return self._outputs[index].real()

    def dup(self) -> RknnZeroCopyModel:
        return RknnZeroCopyModel(self._context.dup(), self._custom_ops)

    def dynamic_shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        return self._context.dynamic_shapes()

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        context = self._context
        context.set_input_shapes(shapes)
        self._bind(context.current_inputs(), context.current_outputs(), dynamic=True)

    def memory(self) -> MemorySize:
        return MemorySize(**dataclasses.asdict(self._context.memory_size()))

    def perf(self) -> LayerTable:
        return parse_perf_detail(self._context.perf_detail())

    def run_microseconds(self) -> int:
        return self._context.run_duration()

    def close(self) -> None:
        self._inputs, self._outputs = (), ()
        self._context.close()


class _Output:
    """An output in memory that the NPU writes."""

    def __init__(self, context: Context, info: TensorInfo, query: Query) -> None:
        self.info = info
        tensor = output_tensor(context, context.attribute(query, info.index))
        tensor.bind(context)
        self.native = tensor.info
        self.raw: NDArray[Any] = tensor.array

    def real(self) -> NDArray[np.float32]:
        """The values as float32 in the model's order of axes."""
        return real_values(self.raw, self.native, self.info.shape)


class _Input:
    """An input in memory that the NPU reads, one for each dtype that was given."""

    def __init__(self, context: Context, info: TensorInfo) -> None:
        self.info = info
        self._context = context
        self._tensors: dict[DType, DeviceTensor] = {}
        self._bound: DType | None = None

    def write(self, array: NDArray[Any]) -> None:
        """Copy an array's values into the memory of its dtype."""
        dtype = self._dtype(array)
        if dtype is not self._bound:
            self._bind(dtype)
        target = self._tensors[dtype].array
        if self.info.layout is Layout.NHWC:
            kernels.copy_channels_last(array, target)
        else:
            np.copyto(target, array, casting="unsafe")

    def _dtype(self, array: NDArray[Any]) -> DType:
        """What the values are given as: the device's own dtype would mean quantised values."""
        if self.info.host_dtype is not DType.FLOAT32:
            return self.info.dtype
        return DType.UINT8 if array.dtype == np.uint8 else DType.FLOAT32

    def _bind(self, dtype: DType) -> None:
        if dtype not in self._tensors:
            self._tensors[dtype] = input_tensor(self._context, self.info, dtype)
        self._tensors[dtype].bind(self._context)
        self._bound = dtype
