"""A `.nb` model for `Model`: inputs and outputs in memory that the NPU reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import StateError, TensorError
from ...memory_size import MemorySize
from ...native import kernels
from ...perf import LayerTable
from ...tensor import Layout, TensorInfo
from ...viplite import formats
from ...viplite.network import Network
from ..base import ModelSource, ZeroCopyModel


class VipliteZeroCopyModel(ZeroCopyModel):
    """A prepared network with buffers for all its tensors."""

    @classmethod
    def open(cls, model: ModelSource, library: Any, twin: str | None) -> VipliteZeroCopyModel:
        """Load a model; `library` is what `anynpu.viplite.library.load` takes."""
        return cls(Network(model, library=library, twin=twin))

    def __init__(self, network: Network) -> None:
        self._network = network
        self.library = network.library
        self.inputs = network.inputs
        self.outputs = self.raw_outputs = network.outputs
        self._timeout = 0
        try:
            network.prepare()
            self._inputs = [network.new_input(index) for index in range(len(self.inputs))]
            self._outputs = [network.new_output(index) for index in range(len(self.outputs))]
        except BaseException:
            network.close()
            raise

    def write(self, arrays: Sequence[NDArray[Any]]) -> None:
        for buffer, array in zip(self._inputs, arrays, strict=True):
            _write(array, buffer.info, buffer.array())
            buffer.flush()

    def run(self, timeout_ms: int) -> None:
        if timeout_ms != self._timeout:
            self._prepare_with(timeout_ms)
        self._network.run()
        for buffer in self._outputs:
            buffer.invalidate()

    def raw(self, index: int) -> NDArray[Any]:
        return self._outputs[index].array()

    def real(self, index: int) -> NDArray[np.float32]:
        info = self.outputs[index]
        result = np.empty(info.shape, np.float32)
        formats.decode(self._outputs[index].array(), info, result)
        return result

    def dup(self) -> VipliteZeroCopyModel:
        return VipliteZeroCopyModel(self._network.dup())

    def set_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        fixed = [info.shape for info in self.inputs]
        if [tuple(shape) for shape in shapes] != fixed:
            raise TensorError(f"a .nb has fixed shapes, {fixed}; asked for {list(shapes)}")

    def memory(self) -> MemorySize:
        return MemorySize(internal=self._network.memory_pool_size)

    def perf(self) -> LayerTable:
        raise StateError(
            "VIPLite doesn't time layers; run_microseconds tells what the whole run took"
        )

    def run_microseconds(self) -> int:
        return self._network.run_time().microseconds

    def close(self) -> None:
        self._inputs, self._outputs = [], []
        self._network.close()

    def _prepare_with(self, timeout_ms: int) -> None:
        """Properties hold from the next preparation on, and buffers are set after it."""
        network = self._network
        network.finish()
        network.set_timeout(timeout_ms)
        network.prepare()
        self._timeout = timeout_ms
        for index, buffer in enumerate(self._inputs):
            network.set_input(index, buffer)
        for index, buffer in enumerate(self._outputs):
            network.set_output(index, buffer)


def _write(array: NDArray[Any], info: TensorInfo, target: NDArray[Any]) -> None:
    """Values to memory; pixels become planes in the pass that copies them."""
    if array.dtype == target.dtype and info.layout is Layout.NCHW:
        pixels = array.transpose(0, 2, 3, 1)
        if pixels.flags.c_contiguous and not array.flags.c_contiguous:
            # Pixels are one block of channels: the kernel for blocks makes planes of them.
            kernels.unpack(pixels[:, None], target)
            return
    formats.encode(array, info, target)
