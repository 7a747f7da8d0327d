"""libawnn: a network with its buffers, and outputs as floats.

A call that fails says so in the log and returns NULL, or nothing: the API has no codes. Unlike the
original these functions print no times, and convert every format as its quantisation says.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ...viplite.abi import Status
from ...viplite.formats import decode, size_of
from ..cabi.memory_views import readable
from ..device_memory import DeviceMemory
from ..engines import Port
from ..engines.nbg.twin import described
from ..handles import Table, borrow
from .buffers import Buffer
from .creation import open_file
from .driver import needs_driver, table
from .failure import Failure, invalid, require
from .lifecycle import vip_destroy, vip_init
from .networks import Network
from .preparation import prepare
from .run import check_ready, compute


class AwnnContext:
    """A prepared network; `floats` are the outputs as the last run left them."""

    def __init__(self, network: Network) -> None:
        self.network = network
        prepare(network)
        self.inputs = tuple(self._buffers(network.ports.inputs, network.inputs))
        self.outputs = tuple(self._buffers(network.ports.outputs, network.outputs))
        self.floats = tuple(np.zeros(p.shape, np.float32) for p in network.ports.outputs)
        self.pointers = (ctypes.c_void_p * len(self.floats))(
            *(array.ctypes.data for array in self.floats)
        )

    @staticmethod
    def _buffers(ports: tuple[Port, ...], bound: dict[int, Buffer]) -> list[Buffer]:
        for index, port in enumerate(ports):
            size = size_of(port.shape, port.dtype)
            # Both sides see the same bytes: the original flushes on the program's behalf.
            bound[index] = Buffer(DeviceMemory.allocate(size, cacheable=False), size)
        return [bound[index] for index in range(len(ports))]

    def run(self) -> None:
        """Compute, and convert the outputs."""
        with borrow(self.network, _destroyed):
            check_ready(self.network)
            compute(self.network, None)
            for port, buffer, target in zip(
                self.network.ports.outputs, self.outputs, self.floats, strict=True
            ):
                decode(buffer.view(port.dtype, port.shape), described(port), target)

    def close(self) -> None:
        self.network.close()
        for buffer in (*self.inputs, *self.outputs):
            buffer.close()


def _destroyed() -> Failure:
    return invalid("the awnn context was destroyed meanwhile")


_CONTEXTS: Table[AwnnContext] = table(Table, "awnn context")


def awnn_init() -> None:
    """Begin to use the driver."""
    vip_init()


def awnn_uninit() -> None:
    """Give the driver back."""
    vip_destroy()


@needs_driver
def awnn_create(nbg: bytes | None) -> int:
    """A prepared network from a file, with its buffers."""
    require(nbg, "nbg")
    assert nbg is not None, "it was required"
    return _CONTEXTS.add(AwnnContext(Network(open_file(Path(os.fsdecode(nbg))))))


@needs_driver
def awnn_destroy(context: int | None) -> None:
    """Free a network and its buffers."""
    _CONTEXTS.remove(context).close()


@needs_driver
def awnn_set_input_buffers(context: int | None, input_buffers: Any) -> None:
    """Copy the raw inputs, one pointer for each, as long as the tensors are."""
    found = _CONTEXTS.find(context)
    require(input_buffers, "input_buffers")
    addresses = [input_buffers[index] for index in range(len(found.inputs))]
    for address in addresses:
        require(address, "input buffer")
    with borrow(found.network, _destroyed):
        for address, buffer in zip(addresses, found.inputs, strict=True):
            source = np.frombuffer(readable(address, buffer.size), np.uint8)
            np.copyto(buffer.memory.host[: buffer.size], source)


@needs_driver
def awnn_run(context: int | None) -> None:
    """Compute, and convert the outputs to floats."""
    _CONTEXTS.find(context).run()


@needs_driver
def awnn_get_output_buffers(context: int | None) -> int:
    """Pointers to the outputs as floats; the same ones for the network's life."""
    return ctypes.addressof(_CONTEXTS.find(context).pointers)


@needs_driver
def awnn_get_output_buffer(context: int | None, i: int) -> int | None:
    """An output as the device has it, quantised."""
    outputs = _CONTEXTS.find(context).outputs
    return outputs[i].memory.address if 0 <= i < len(outputs) else None


@needs_driver
def awnn_dump_io(context: int | None, path: bytes | None) -> None:
    """Write `path.input_N.txt`, a byte a line, and `path.output_N.txt`, a float a line."""
    found = _CONTEXTS.find(context)
    require(path, "path")
    assert path is not None, "it was required"
    start = os.fsdecode(path)
    with borrow(found.network, _destroyed):
        for number, buffer in enumerate(found.inputs):
            raw = buffer.memory.host[: buffer.size].tolist()
            _write(f"{start}.input_{number}.txt", map(str, raw))
        for number, array in enumerate(found.floats):
            _write(f"{start}.output_{number}.txt", (f"{v:f}" for v in array.ravel().tolist()))


def _write(path: str, lines: Iterable[str]) -> None:
    try:
        with open(path, "w") as file:
            file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise Failure(Status.IO, f"{path} can't be written: {error}") from error
