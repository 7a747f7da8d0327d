"""An input or output in memory that the NPU reads or writes by itself."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StateError, TensorError
from ..layouts import dequantize_affine, dequantize_nc1hwc2, nc1hwc2_to_nchw
from ..native import kernels
from ..tensor import DType, Layout, TensorInfo
from . import abi
from .context import Context
from .input_forms import InputForm
from .memory import Memory
from .queries import tensor_info

_NO_FLAGS = abi.MemoryFlag.FLAGS_DEFAULT


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

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """The shape of `array` with the pixels that pad rows."""
        return padded_shape(self.info)

    @property
    def addresses(self) -> tuple[int, int]:
        """Of the `rknn_tensor_mem` and of the `rknn_tensor_attr`, which live as long as this."""
        return ctypes.addressof(self.memory.pointer.contents), ctypes.addressof(self.attr)

    def bind(self, context: Context) -> None:
        """Let the tensor live here: `rknn_set_io_mem`; the context keeps the memory."""
        context.set_io_memory(self.memory, self.attr)

    def imported_by(self, context: Context) -> DeviceTensor:
        """The same memory as another context's own; raises `StateError` where it can't be."""
        memory = self.memory
        if memory.fd < 0:
            raise StateError(
                f"{self.info}: the memory has no descriptor, by which another context could use it"
            )
        # The vendor's library wants the address of the descriptor's first byte.
        imported = context.memory_from_fd(
            memory.fd, memory.size, memory.offset, memory.address - memory.offset
        )
        return DeviceTensor(imported, self.attr, self.array)


def input_tensor(
    context: Context,
    info: TensorInfo,
    dtype: DType,
    memory: Memory | None = None,
    flags: abi.MemoryFlag = _NO_FLAGS,
) -> DeviceTensor:
    """An input that is given as `dtype`, in the layout of `info`; new memory where none is given.

    uint8 and float32 are real values, which the runtime normalises and quantises; the device's
    own dtype means values that it takes as they are.
    """
    attr = context.input_attribute(info)
    attr.type = abi.TensorType[dtype.name]
    attr.fmt = abi.TensorFormat[info.layout.name]
    attr.pass_through = 0
    return _tensor(context, attr, padded_shape(info), dtype, memory, flags)


def input_tensor_of(context: Context, info: TensorInfo, form: InputForm) -> DeviceTensor:
    """An input in a form, in new memory; a native one is in the NPU's own type and layout."""
    if not form.is_native:
        return input_tensor(context, info, form.dtype)
    attr = context.attribute(abi.Query.NATIVE_INPUT_ATTR, info.index)
    attr.pass_through = 1
    native = tensor_info(attr)
    return _tensor(context, attr, padded_shape(native), native.dtype, None, _NO_FLAGS)


def output_tensor(
    context: Context,
    attr: abi.TensorAttr,
    memory: Memory | None = None,
    flags: abi.MemoryFlag = _NO_FLAGS,
) -> DeviceTensor:
    """An output as `attr` describes it; new memory where none is given."""
    info = tensor_info(attr)
    return _tensor(context, attr, padded_shape(info), info.dtype, memory, flags)


def real_output_attribute(context: Context, index: int) -> abi.TensorAttr:
    """An output as float32 in the model's order: the runtime converts it on the processor."""
    attr = context.attribute(abi.Query.OUTPUT_ATTR, index)
    attr.type = abi.TensorType.FLOAT32
    attr.size = attr.size_with_stride = DType.FLOAT32.size_of(attr.n_elems)
    return attr


def real_values(
    raw: NDArray[Any], native: TensorInfo, shape: tuple[int, ...]
) -> NDArray[np.float32]:
    """What the device wrote as float32 in the model's order: a new array of that shape.

    `native` says how `raw` lies in memory.
    """
    if native.layout is not Layout.NC1HWC2:
        return dequantized(raw, native)
    blocks = blocks_of(raw, shape)
    if native.quantization is not None:
        return dequantize_nc1hwc2(blocks, shape[1], native.scale, native.zero_point)
    return nc1hwc2_to_nchw(blocks, shape[1], np.empty(shape, np.float32))


def blocks_of(raw: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Channel blocks with the rows of an image of (N, C, H, W): `raw` itself where it has them.

    Some lie in memory as one row, (N, C1, 1, pixels, C2), with pixels that pad it.
    """
    n, c1, rows, columns, c2 = raw.shape
    height, width = shape[2:]
    if (rows, columns) == (height, width):
        return raw
    if rows != 1 or columns < height * width:
        raise TensorError(
            f"an output of {shape} lies in memory as {raw.shape}, an order that anynpu doesn't know"
        )
    row = np.ascontiguousarray(raw[:, :, :, : height * width])
    return row.reshape(n, c1, height, width, c2)


def dequantized(raw: NDArray[Any], native: TensorInfo) -> NDArray[np.float32]:
    """What the device wrote as float32, as it lies in memory: a new array."""
    if native.quantization is not None:
        return dequantize_affine(raw, native.scale, native.zero_point)
    result = np.empty(raw.shape, np.float32)
    kernels.convert(raw, result)
    return result


def padded_shape(info: TensorInfo) -> tuple[int, ...]:
    """The shape of a tensor's memory, with the pixels that pad rows."""
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
