"""Tensors in memory that the NPU reads and writes by itself: the zero-copy API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import OptionError, StateError
from ...rknn import host_types
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
    """Contexts of its own, since the vendor forbids to mix this API with the general one.

    A context takes a picture as bytes or as real values; where a binding changes from one to the
    other there is one for each. `new_context` makes one that was given nothing yet.
    """

    def __init__(self, new_context: Callable[[], Context]) -> None:
        self._new_context = new_context
        first = new_context()
        self._inputs, self._outputs = first.image_inputs(), first.outputs
        self._all = [_BoundContext(first)]
        self._current = self._all[0]
        self._buffers: dict[tuple[str, int], RknnBuffer] = {}

    def bind(self, kind: str, index: int, buffer: DeviceBuffer) -> None:
        assert isinstance(buffer, RknnBuffer)
        self._buffers[kind, index] = buffer
        self._current = self._serving(self._kinds())
        for place, bound in self._buffers.items():
            self._current.bind(place, bound)

    def _kinds(self) -> dict[int, bool]:
        """Of each picture that is bound, whether it is bytes."""
        return {
            index: buffer.info.dtype is DType.UINT8
            for (kind, index), buffer in self._buffers.items()
            if kind == "input" and host_types.is_picture(self._inputs[index])
        }

    def _serving(self, kinds: Mapping[int, bool]) -> _BoundContext:
        for context in (self._current, *self._all):
            if context.takes(kinds):
                context.kinds |= kinds
                return context
        self._all.append(_BoundContext(self._new_context()))
        self._all[-1].kinds |= kinds
        return self._all[-1]

    def run(self) -> None:
        wanted = {("input", index): info for index, info in enumerate(self._inputs)}
        wanted |= {("output", index): info for index, info in enumerate(self._outputs)}
        missing = [
            f"{kind} {info.name!r}"
            for (kind, index), info in wanted.items()
            if (kind, index) not in self._buffers
        ]
        if missing:
            raise StateError(
                f"nothing is bound to {', '.join(missing)}: call bind_cpu_input, or "
                f"bind_ortvalue_input, before the run"
            )
        self._current.context.run()

    def close(self) -> None:
        for context in self._all:
            context.close()


class _BoundContext:
    """A context and what is bound in it; `kinds` says which pictures it takes as bytes."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.kinds: dict[int, bool] = {}
        self._imported: dict[int, tuple[RknnBuffer, DeviceTensor]] = {}
        self._bound: dict[tuple[str, int], RknnBuffer] = {}

    def takes(self, kinds: Mapping[int, bool]) -> bool:
        """Whether it may be given pictures of some kinds."""
        return all(self.kinds.get(index, is_bytes) == is_bytes for index, is_bytes in kinds.items())

    def bind(self, place: tuple[str, int], buffer: RknnBuffer) -> None:
        """Let a tensor live in a buffer, whose memory becomes this context's own."""
        if self._bound.get(place) is buffer:
            return
        if id(buffer) not in self._imported:
            self._imported[id(buffer)] = (buffer, buffer.tensor.imported_by(self.context))
        self._imported[id(buffer)][1].bind(self.context)
        self._bound[place] = buffer

    def close(self) -> None:
        """Free the context; twice does nothing."""
        self._imported.clear()
        self._bound.clear()
        self.context.close()


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
        raise OptionError(
            f"this {kind} may be {names} in memory; asked for {dtype.name.lower()}: take one of "
            f"these"
        )
