"""An input or output in memory that the NPU reads or writes by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..errors import TensorError
from ..tensor import DType, Layout, TensorInfo
from . import abi
from .context import Context
from .memory import Memory
from .queries import tensor_info


@dataclass(frozen=True)
class DeviceTensor:
    """`array` shows the values in `memory`, without the pixels that pad rows; `attr` is for C."""

    memory: Memory
    attr: abi.TensorAttr
    array: NDArray[Any]

    @property
    def info(self) -> TensorInfo:
        """The tensor as it lies in the memory."""
        return tensor_info(self.attr)

    def bind(self, context: Context) -> None:
        """Let the tensor live here: `rknn_set_io_mem`; the context keeps the memory."""
        context.set_io_memory(self.memory, self.attr)


def input_tensor(
    context: Context,
    info: TensorInfo,
    dtype: DType,
    memory: Memory | None = None,
    flags: abi.MemoryFlag = abi.MemoryFlag.FLAGS_DEFAULT,
) -> DeviceTensor:
    """An input that is given as `dtype`, in the layout of `info`; new memory where none is given.

    uint8 and float32 are real values, which the runtime normalises and quantises; the device's
    own dtype means values that it takes as they are.
    """
    attr = context.input_attribute(info)
    attr.type = abi.TensorType[dtype.name]
    attr.fmt = abi.TensorFormat[info.layout.name]
    attr.pass_through = 0
    return _tensor(context, attr, _padded_shape(info), dtype, memory, flags)


def output_tensor(
    context: Context,
    attr: abi.TensorAttr,
    memory: Memory | None = None,
    flags: abi.MemoryFlag = abi.MemoryFlag.FLAGS_DEFAULT,
) -> DeviceTensor:
    """An output as `attr` describes it; new memory where none is given."""
    info = tensor_info(attr)
    return _tensor(context, attr, _padded_shape(info), info.dtype, memory, flags)


def real_output_attribute(context: Context, index: int) -> abi.TensorAttr:
    """An output as float32 in the model's order: the runtime converts it on the processor."""
    attr = context.attribute(abi.Query.OUTPUT_ATTR, index)
    attr.type = abi.TensorType.FLOAT32
    attr.size = attr.size_with_stride = DType.FLOAT32.size_of(attr.n_elems)
    return attr


def _padded_shape(info: TensorInfo) -> tuple[int, ...]:
    if info.layout is not Layout.NHWC:
        return info.shape
    n, h, w, c = info.shape
    return n, h, max(w, info.width_stride), c


def _tensor(
    context: Context,
    attr: abi.TensorAttr,
    shape: tuple[int, ...],
    dtype: DType,
    memory: Memory | None,
    flags: abi.MemoryFlag,
) -> DeviceTensor:
    needed = max(dtype.size_of(math.prod(shape)), attr.size_with_stride if not memory else 0)
    if memory is None:
        memory = context.create_memory(needed, flags)
    elif memory.size < needed:
        raise TensorError(
            f"{tensor_info(attr)} takes {needed} bytes of memory; there are {memory.size}"
        )
    array = memory.array(shape, dtype.numpy)
    if attr.fmt == abi.TensorFormat.NHWC:
        array = array[:, :, : attr.dims[2]]
    return DeviceTensor(memory, attr, array)
