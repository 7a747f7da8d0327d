"""Tensors in memory that the NPU reads and writes by itself: the zero-copy API."""

from __future__ import annotations

from typing import Any

from ...errors import OptionError, StateError
from ...rknn.abi import MemoryFlag, Query, SyncMode
from ...rknn.context import Context
from ...rknn.device_tensor import (
    DeviceTensor,
    input_tensor,
    output_tensor,
    real_output_attribute,
)
from ...rknn.memory import Memory
from ...tensor import DType, Layout
from ..base import Binding, DeviceBuffer

_FLAGS = {
    "default": MemoryFlag.FLAGS_DEFAULT,
    "cacheable": MemoryFlag.CACHEABLE,
    "non_cacheable": MemoryFlag.NON_CACHEABLE,
    "try_sram": MemoryFlag.TRY_ALLOC_SRAM,
}


class RknnBuffer(DeviceBuffer):
    """A tensor in an `rknn_tensor_mem`."""

    def __init__(self, tensor: DeviceTensor) -> None:
        self.tensor = tensor
        self.array = tensor.array
        self.info = tensor.info

    def to_device(self) -> None:
        self.tensor.memory.sync(SyncMode.TO_DEVICE)

    def from_device(self) -> None:
        self.tensor.memory.sync(SyncMode.FROM_DEVICE)

    def describe(self) -> dict[str, Any]:
        memory, attr = self.tensor.memory, self.tensor.attr
        return {
            "size": memory.size,
            "fd": memory.fd,
            "offset": memory.offset,
            "virt_addr": memory.address,
            "attr_size": attr.size,
            "size_with_stride": attr.size_with_stride,
            "w_stride": attr.w_stride,
            "h_stride": attr.h_stride,
            "fmt": self.info.layout.value,
            "pass_through": attr.pass_through,
            "strides": self.array.strides,
        }


class RknnBinding(Binding):
    """A context of its own, since the vendor forbids to mix this API with the general one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._imported: dict[int, tuple[RknnBuffer, DeviceTensor]] = {}
        self._missing = {("input", info.name) for info in context.inputs}
        self._missing |= {("output", info.name) for info in context.outputs}

    def bind(self, kind: str, index: int, buffer: DeviceBuffer) -> None:
        assert isinstance(buffer, RknnBuffer)
        if id(buffer) not in self._imported:
            self._imported[id(buffer)] = (buffer, self._here(buffer.tensor))
        self._imported[id(buffer)][1].bind(self._context)
        infos = self._context.inputs if kind == "input" else self._context.outputs
        self._missing.discard((kind, infos[index].name))

    def run(self) -> None:
        if self._missing:
            names = sorted(f"{kind} {name!r}" for kind, name in self._missing)
            raise StateError(f"nothing is bound to {', '.join(names)}")
        self._context.run()

    def close(self) -> None:
        self._imported.clear()
        self._context.close()

    def _here(self, tensor: DeviceTensor) -> DeviceTensor:
        """The tensor's memory as this context's own."""
        memory = tensor.memory
        # The vendor's library wants the address of the descriptor's first byte.
        imported = self._context.memory_from_fd(
            memory.fd, memory.size, memory.offset, memory.address - memory.offset
        )
        return DeviceTensor(imported, tensor.attr, tensor.array)


def allocate(
    context: Context,
    kind: str,
    index: int,
    dtype: DType | None,
    layout: str,
    flags: str | int | None,
    memory: Memory | None = None,
) -> RknnBuffer:
    """A buffer for a tensor, in memory that is given or new.

    Without a dtype, or with the device's own, values are as the NPU has them, in NHWC or, with
    the layout ``"native"``, in channel blocks. Inputs may be uint8 or float32 instead, outputs
    float32 in the model's order, which the runtime converts. Raises `OptionError` for other dtypes.
    """
    kinds = _memory_flags(flags)
    if kind == "input":
        infos = context.inputs
        info = infos[index]
        if layout == "native":
            info = context.native_inputs()[index]
        elif info.layout is Layout.NC1HWC2:
            info = context.nhwc_inputs()[index]
        wanted = dtype or info.dtype
        _check(kind, wanted, (info.dtype, DType.UINT8, DType.FLOAT32))
        return RknnBuffer(input_tensor(context, info, wanted, memory, kinds))
    info = context.outputs[index]
    wanted = dtype or info.dtype
    _check(kind, wanted, (info.dtype, DType.FLOAT32))
    if wanted is not info.dtype:
        attr = real_output_attribute(context, index)
    else:
        attr = context.attribute(_output_query(info.layout, layout), index)
    return RknnBuffer(output_tensor(context, attr, memory, kinds))


def _output_query(layout: Layout, wanted: str) -> Query:
    if layout is Layout.UNDEFINED:
        return Query.OUTPUT_ATTR
    return Query.NATIVE_OUTPUT_ATTR if wanted == "native" else Query.NATIVE_NHWC_OUTPUT_ATTR


def _memory_flags(flags: str | int | None) -> MemoryFlag:
    if isinstance(flags, int):
        return MemoryFlag(flags)
    try:
        return _FLAGS[flags or "default"]
    except KeyError:
        raise OptionError(f"mem_flags is {flags!r}; it may be {', '.join(_FLAGS)}") from None


def _check(kind: str, dtype: DType, allowed: tuple[DType, ...]) -> None:
    if dtype not in allowed:
        names = ", ".join(dict.fromkeys(each.name.lower() for each in allowed))
        raise OptionError(f"this {kind} may be {names} in memory, not {dtype.name.lower()}")
