"""The tensors that a context shows to custom operators: memory of the device, and structures."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ...rknn.abi import CustomOpTensor, ErrorCode
from ..device_memory import DeviceMemory
from ..engines import Port
from . import tensor_memory
from .attributes import model_order
from .contexts import Context
from .failure import Failure

_GUARD = np.frombuffer(b"\xa5\x5a\xc3\x3c" * 16, np.uint8)
"""What lies after a tensor's data, so that a callback that writes too far is found out."""


class CustomTensor:
    """A tensor that passes a custom operator: `array` is its data, `structure` what C gets."""

    def __init__(self, ctx: Context, port: Port) -> None:
        self._ctx = ctx
        self._port = port
        size = port.dtype.size_of(port.elements)
        try:
            self._memory = DeviceMemory.allocate(size + _GUARD.size, cacheable=False)
        except (OSError, ValueError, OverflowError, MemoryError) as error:
            raise Failure(
                ErrorCode.MALLOC_FAIL,
                f"no memory for tensor {port.name!r} of {size} bytes: {error}",
            ) from error
        data = self._memory.device
        self.array = data[:size].view(port.carrier).reshape(port.shape)
        self._guard = data[size:]
        self._guard[:] = _GUARD
        self.structure = CustomOpTensor()
        model_order(self.structure.attr, port)
        self.structure.mem = tensor_memory.lend(ctx, self._memory, size)

    def with_index(self, index: int) -> CustomOpTensor:
        """A copy of the structure for an operator's input or output of this index."""
        copied = CustomOpTensor.from_buffer_copy(self.structure)
        copied.attr.index = index
        return copied

    def check(self, who: str) -> None:
        """FAIL where a callback wrote past the data, or destroyed the memory."""
        if self._memory.closed:
            raise Failure(
                ErrorCode.FAIL, f"{who} destroyed the memory of tensor {self._port.name!r}"
            )
        if not np.array_equal(self._guard, _GUARD):
            self._guard[:] = _GUARD
            raise Failure(
                ErrorCode.FAIL,
                f"{who} wrote past the end of tensor {self._port.name!r}, which has the shape "
                f"{list(self._port.shape)} and {self.array.nbytes} bytes",
            )

    def close(self) -> None:
        tensor_memory.take_back(self.structure.mem)


class TensorStore:
    """The tensors of one context by their ports: operators that pass one on share it."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._tensors: dict[Port, CustomTensor] = {}

    def get(self, ports: Sequence[Port]) -> list[CustomTensor]:
        """The tensors of ports, made where they aren't there yet."""
        for port in ports:
            if port not in self._tensors:
                self._tensors[port] = CustomTensor(self._ctx, port)
        return [self._tensors[port] for port in ports]

    def keep_only(self, ports: set[Port]) -> None:
        """Free the others."""
        for port in set(self._tensors) - ports:
            self._tensors.pop(port).close()


def structures(tensors: Sequence[CustomTensor]) -> ctypes.Array[CustomOpTensor]:
    """The array that a callback gets."""
    copies = [tensor.with_index(index) for index, tensor in enumerate(tensors)]
    return (CustomOpTensor * len(copies))(*copies)
