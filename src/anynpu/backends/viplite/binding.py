"""Tensors in memory that the NPU reads and writes by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import OptionError, StateError
from ...tensor import DType, TensorInfo
from ...viplite import formats
from ...viplite.buffer import Buffer
from ...viplite.library import VipliteLibrary
from ...viplite.network import Network
from ..base import Binding, DeviceBuffer

_CACHED = {"default": False, "cacheable": True, "non_cacheable": False}


class VipliteBuffer(DeviceBuffer):
    """A tensor in a `vip_buffer`.

    In another dtype than the device's, `array` is memory of the host's, and values are converted
    when they go to the device or come from it.
    """

    def __init__(self, buffer: Buffer, dtype: DType | None) -> None:
        info = buffer.info
        self.buffer = buffer
        self._stored = buffer.array()
        self._is_converted = dtype is not None and dtype is not info.dtype
        if dtype is None or not self._is_converted:
            self.array, self.info = self._stored, info
        else:
            self.array = np.zeros(info.shape, dtype.numpy)
            self.info = replace(info, dtype=dtype, quantization=None)

    def to_device(self) -> None:
        if self._is_converted:
            formats.encode(self.array, self.buffer.info, self._stored)
        self.buffer.flush()

    def from_device(self) -> None:
        self.buffer.invalidate()
        if self._is_converted:
            formats.decode(self._stored, self.buffer.info, self.array)

    def describe(self) -> dict[str, Any]:
        return {
            "size": self.buffer.size,
            "virt_addr": self.buffer.address,
            "attr_size": self.buffer.info.size,
            "fmt": self.info.layout.value,
            "is_converted": self._is_converted,
            "strides": self.array.strides,
        }


class VipliteBinding(Binding):
    """A prepared network of its own, whose buffers are set as they are bound."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._bound: dict[tuple[str, int], VipliteBuffer] = {}

    def bind(self, kind: str, index: int, buffer: DeviceBuffer) -> None:
        assert isinstance(buffer, VipliteBuffer)
        place = self._network.set_input if kind == "input" else self._network.set_output
        place(index, buffer.buffer)
        self._bound[kind, index] = buffer

    def run(self) -> None:
        self._check()
        for (kind, _), buffer in self._bound.items():
            if kind == "input":
                buffer.to_device()
        self._network.run()
        for (kind, _), buffer in self._bound.items():
            if kind == "output":
                buffer.from_device()

    def close(self) -> None:
        self._network.close()

    def _check(self) -> None:
        tensors = {("input", info.index): info.name for info in self._network.inputs}
        tensors |= {("output", info.index): info.name for info in self._network.outputs}
        names = [
            f"{place[0]} {name!r}" for place, name in tensors.items() if place not in self._bound
        ]
        if names:
            raise StateError(f"nothing is bound to {', '.join(names)}")


def allocate(
    kind: str,
    info: TensorInfo,
    dtype: DType | None,
    flags: str | int | None,
    library: VipliteLibrary,
) -> VipliteBuffer:
    """A buffer for a tensor, in new memory.

    Without a dtype, or with the device's own, values are as the NPU has them. Real values may be
    float32, those of inputs uint8 too. Raises `OptionError` for other dtypes.
    """
    _check_dtype(kind, info, dtype)
    word = flags or "default"
    if word not in _CACHED:
        raise OptionError(f"mem_flags is {flags!r}; it may be {', '.join(_CACHED)}")
    return VipliteBuffer(Buffer.allocate(info, cached=_CACHED[str(word)], library=library), dtype)


def import_buffer(
    kind: str,
    info: TensorInfo,
    dtype: DType | None,
    fd: int,
    size: int,
    offset: int,
    library: VipliteLibrary,
) -> VipliteBuffer:
    """A buffer in a DMA buffer's memory, from its first byte on."""
    _check_dtype(kind, info, dtype)
    if offset:
        raise OptionError(f"VIPLite takes a DMA buffer from its first byte on, not from {offset}")
    return VipliteBuffer(Buffer.from_fd(info, fd, size, library=library), dtype)


def _check_dtype(kind: str, info: TensorInfo, dtype: DType | None) -> None:
    allowed = (info.dtype, DType.FLOAT32, *((DType.UINT8,) if kind == "input" else ()))
    if dtype is not None and dtype not in allowed:
        names = ", ".join(dict.fromkeys(each.name.lower() for each in allowed))
        raise OptionError(
            f"{kind} {info.name!r} may be {names} in memory, not {dtype.name.lower()}"
        )
